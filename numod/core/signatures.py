"""PyTorch's signatures of public functions and Tensor methods, for `inspect.signature` and for keyword arguments.

The table `signatures.txt` has one overload per line and is written by `tests/signature_table.py`. It is read when a
signature is first needed: neither importing numod nor positional calls read it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache, lru_cache
from inspect import Parameter, Signature, unwrap
from pathlib import Path
from types import CodeType, FunctionType

from .. import dtypes, formats
from .function_code import originals

_ALIASES = {  # NumPy's names, which PyTorch accepts too, and a Python keyword
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other", "from": "from_",
}  # fmt: skip
_STARRED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Documented:
    """The `__wrapped__` of a public function, which makes `inspect.signature(function)` PyTorch's.

    `paths`: the function's names in the table, such as "Tensor.add".
    """

    __slots__ = "paths", "_function"

    def __init__(self, paths: tuple[str, ...], function: FunctionType) -> None:
        self.paths, self._function = paths, function

    @property
    def __signature__(self) -> Signature:
        return shown(self.paths) or defined(self.__wrapped__)

    @property
    def __wrapped__(self) -> Callable:
        """The wrapped function, for tools that look for the source.

        A function that wraps nothing has a copy here, since a function must not wrap itself.
        """
        inside = self._function
        return inside if vars(inside).get("__wrapped__") is not self else _copied(originals.get(inside, inside))


def _copied(function: FunctionType) -> FunctionType:
    result = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__, result.__annotations__ = function.__kwdefaults__, function.__annotations__
    return result


def document(homes: dict[str, object]) -> None:
    """Attach the table's signatures to the public functions of namespaces, by section of the table."""
    inner = []
    for section, home in homes.items():
        for name, function in vars(home).items():
            if isinstance(function, FunctionType) and name[0] != "_":
                wrapped = function.__dict__.get("__wrapped__")
                if type(wrapped) is Documented:
                    wrapped.paths += (section + name,)
                else:
                    function.__wrapped__ = documented = Documented((section + name,), wrapped or function)
                    inner.append((wrapped, documented))
    while inner:  # wrapped functions, which may resolve keywords too, unless they are public themselves
        function, outer = inner.pop()
        if (
            isinstance(function, FunctionType)
            and type(wrapped := function.__dict__.get("__wrapped__")) is not Documented
        ):
            function.__wrapped__ = documented = Documented(outer.paths, wrapped or function)
            inner.append((wrapped, documented))


# ---- the table


@cache
def _lines() -> dict[str, list[str]]:
    """The table's lines by path."""
    lines_by_path: dict[str, list[str]] = {}
    section = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:-1] + "." if line != "[]" else ""
        elif line and not line.startswith("#"):
            lines_by_path.setdefault(section + line[: line.index("(")], []).append(line)
    return lines_by_path


@cache
def overloads(*paths: str) -> tuple[Signature, ...]:
    """The signatures of a public function with these names, the documented one first. Annotations are strings.

    Empty if the table does not list it.
    """
    return tuple([_parsed(line) for path in paths for line in _listed(path)])


def _listed(path: str) -> list[str]:
    """The lines of a name, or of the closest name if PyTorch has none, as for `Tensor.celu_` or `linalg.tensordot`."""
    lines, name = _lines(), path.rpartition(".")[2]
    relatives = path, path.removesuffix("_"), name, name.removesuffix("_"), "special." + name.removesuffix("_")
    return next((lines[relative] for relative in relatives if relative in lines), [])


def names() -> tuple[str, ...]:
    """All paths in the table."""
    return tuple(_lines())


def _parsed(line: str) -> Signature:
    (node,) = ast.parse(f"def {line}: ...").body
    args, parameters = node.args, []
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    parameters += [_parameter(arg, Parameter.POSITIONAL_OR_KEYWORD, value) for arg, value in zip(args.args, defaults)]
    parameters += [_parameter(args.vararg, Parameter.VAR_POSITIONAL)] if args.vararg else []
    parameters += [
        _parameter(kwonlyarg, Parameter.KEYWORD_ONLY, value)
        for kwonlyarg, value in zip(args.kwonlyargs, args.kw_defaults)
    ]
    parameters += [_parameter(args.kwarg, Parameter.VAR_KEYWORD)] if args.kwarg else []
    return Signature(parameters, return_annotation=ast.unparse(node.returns))


def _parameter(arg: ast.arg, kind: object, default: ast.expr | None = None) -> Parameter:
    annotation = ast.unparse(arg.annotation) if arg.annotation else Parameter.empty
    return Parameter(
        arg.arg, kind, default=Parameter.empty if default is None else _value(default), annotation=annotation
    )


def _value(node: ast.expr) -> object:
    """A default's value."""
    try:
        return eval(
            compile(ast.Expression(node), "<signature>", "eval"),
            {"__builtins__": {}, **vars(formats), "inf": float("inf")},
        )
    except NameError:
        return getattr(dtypes, ast.unparse(node), None)


def of(function: Callable) -> Signature | None:
    """The displayed signature of a public function."""
    wrapped = function.__dict__.get("__wrapped__")
    return wrapped.__signature__ if type(wrapped) is Documented else None


@cache
def shown(paths: tuple[str, ...]) -> Signature | None:
    """One signature for all overloads of a function, with names and defaults, as in documentation.

    Parameters that only some overloads have are optional.
    """
    # nn.functional has the documented form of a function that `torch` has too
    layers = tuple(path for path in paths if path.startswith("nn.functional."))
    signatures = (layers and overloads(*layers)) or overloads(*paths)
    if not signatures:
        return None
    widest = max(
        signatures,
        key=lambda signature: (
            any(parameter.kind is parameter.VAR_POSITIONAL for parameter in signature.parameters.values()),
            len(signature.parameters),
        ),
    )
    result, optional = [], False
    for signature in widest.parameters.values():
        signature = signature.replace(annotation=Parameter.empty)
        everywhere = all(signature.name in other.parameters or _is_first(other, signature) for other in signatures)
        if (
            signature.kind not in _STARRED
            and signature.default is signature.empty
            and (not everywhere or (optional and signature.kind is signature.POSITIONAL_OR_KEYWORD))
        ):
            signature = signature.replace(default=None)
        optional |= signature.default is not signature.empty
        result.append(signature)
    return Signature(result)


def _is_first(other: Signature, parameter: Parameter) -> bool:
    """Whether the parameter is the first one, which another overload calls `input`."""
    return parameter.default is parameter.empty and parameter.name in ("A", "x") and "input" in other.parameters


def defined_code(function: Callable) -> CodeType:
    """The code of a function's definition."""
    function = unwrap(function)
    return originals.get(function, function).__code__


# ---- calls by keyword


def rearranged(
    function: Callable, inside: Callable | None, arguments: tuple, kwargs: dict
) -> tuple[tuple, dict] | None:
    """The arguments of a call with PyTorch's keywords, made positional as far as the table allows.

    Then functions whose parameters have other names accept them. None if `inside` accepts the call as it is, so that
    its error has another cause, or if no overload does.
    """
    wrapped = function.__dict__.get("__wrapped__")
    if (
        type(wrapped) is not Documented
        or not kwargs
        or (inside is not None and _binds(inside, len(arguments), tuple(kwargs)))
    ):
        return None
    plan = _plan(wrapped.paths, len(arguments), tuple(kwargs))
    if plan is None or (inside is not None and not plan[0] and all(name == key for name, key in plan[1])):
        return None
    positional, keywords = plan
    return (*arguments, *[default if name is None else kwargs[name] for name, default in positional]), {
        name: kwargs[key] for name, key in keywords
    }


@lru_cache(maxsize=4096)
def _binds(function: Callable, count: int, names: tuple[str, ...]) -> bool:
    """Whether the innermost wrapped function accepts so many positional arguments and these keywords."""
    try:
        defined(function).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


@cache
def defined(function: Callable) -> Signature:
    """The signature of a function's definition, with numod's annotations."""
    function = unwrap(function)
    return Signature.from_callable(originals.get(function, function), follow_wrapped=False)


@lru_cache(maxsize=4096)
def _plan(paths: tuple[str, ...], count: int, names: tuple[str, ...]) -> tuple[list, list] | None:
    """How to rearrange a call: (keyword or None, default) for each further positional argument, and (name, keyword) for
    each remaining keyword.
    """
    for overload in overloads(*paths):
        parameters = overload.parameters
        keys = {name if name in parameters else _ALIASES.get(name, name): name for name in names}
        try:
            bound = overload.bind(*[None] * count, **keys).arguments
        except TypeError:
            continue
        positional = [
            parameter for parameter in parameters.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD
        ]
        last = max([k for k, candidate in enumerate(positional) if candidate.name in bound], default=-1)
        tail = [(keys.get(candidate.name), candidate.default) for candidate in positional[count : last + 1]]
        return tail, [(name, key) for name, key in keys.items() if parameters[name].kind is Parameter.KEYWORD_ONLY]
    return None
