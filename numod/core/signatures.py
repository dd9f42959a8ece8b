"""PyTorch's signatures of the public functions and Tensor methods, by name: what `inspect.signature` shows, and how
calls by keyword find their arguments.

The table is `signatures.txt`, one overload a line, made by `tests/signature_table.py`. It is read when a signature is
first asked for: importing numod does not open it, and calls by position never need it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache, lru_cache
from inspect import Parameter, Signature, unwrap
from pathlib import Path
from types import FunctionType

from .. import dtypes, formats
from .recode import behind

_ALIASES = {  # NumPy's names, which PyTorch takes as well, and a keyword of Python's
    "axis": "dim", "keepdims": "keepdim", "x": "input", "a": "input", "x1": "input", "x2": "other", "from": "from_",
}  # fmt: skip
_STARRED = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


class Documented:
    """What a public function has as `__wrapped__`, so that `inspect.signature(function)` is PyTorch's.

    `paths`: its names in the table, as "Tensor.add".
    """

    __slots__ = "paths", "_function"

    def __init__(self, paths: tuple[str, ...], function: FunctionType) -> None:
        self.paths, self._function = paths, function

    @property
    def __signature__(self) -> Signature:
        return shown(self.paths) or own(self.__wrapped__)

    @property
    def __wrapped__(self) -> Callable:
        """What is inside, for what looks for the source: of a function that wraps nothing, one of the same code, since
        a function may not wrap itself.
        """
        inside = self._function
        return inside if vars(inside).get("__wrapped__") is not self else _copied(behind.get(inside, inside))


def _copied(function: FunctionType) -> FunctionType:
    result = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    result.__kwdefaults__, result.__annotations__ = function.__kwdefaults__, function.__annotations__
    return result


def document(homes: dict[str, object]) -> None:
    """Give the public functions of namespaces the table's signatures, by the sections' names."""
    inner = []
    for section, home in homes.items():
        for name, function in vars(home).items():
            if isinstance(function, FunctionType) and name[0] != "_":
                known = function.__dict__.get("__wrapped__")
                if type(known) is Documented:
                    known.paths += (section + name,)
                else:
                    function.__wrapped__ = found = Documented((section + name,), known or function)
                    inner.append((known, found))
    while inner:  # those inside, where a keyword may be looked up, unless they are public themselves
        function, outer = inner.pop()
        if isinstance(function, FunctionType) and type(known := function.__dict__.get("__wrapped__")) is not Documented:
            function.__wrapped__ = found = Documented(outer.paths, known or function)
            inner.append((known, found))


# ---- the table


@cache
def _lines() -> dict[str, list[str]]:
    """The table's lines by path."""
    found: dict[str, list[str]] = {}
    section = ""
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            section = line[1:-1] + "." if line != "[]" else ""
        elif line and not line.startswith("#"):
            found.setdefault(section + line[: line.index("(")], []).append(line)
    return found


@cache
def overloads(*paths: str) -> tuple[Signature, ...]:
    """The signatures of a public function with these names, the documented one first; annotations are texts.

    Empty for what the table does not list.
    """
    return tuple([_parsed(line) for path in paths for line in _listed(path)])


def _listed(path: str) -> list[str]:
    """The lines of a name; those of its nearest relative for one that PyTorch does not have, such as `Tensor.celu_` or
    `linalg.tensordot`.
    """
    lines, name = _lines(), path.rpartition(".")[2]
    relatives = path, path.removesuffix("_"), name, name.removesuffix("_"), "special." + name.removesuffix("_")
    return next((lines[relative] for relative in relatives if relative in lines), [])


def names() -> tuple[str, ...]:
    """All paths in the table."""
    return tuple(_lines())


def _parsed(line: str) -> Signature:
    (node,) = ast.parse(f"def {line}: ...").body
    args, found = node.args, []
    defaults = [None] * (len(args.args) - len(args.defaults)) + args.defaults
    found += [_parameter(arg, Parameter.POSITIONAL_OR_KEYWORD, value) for arg, value in zip(args.args, defaults)]
    found += [_parameter(args.vararg, Parameter.VAR_POSITIONAL)] if args.vararg else []
    found += [
        _parameter(kwonlyarg, Parameter.KEYWORD_ONLY, value)
        for kwonlyarg, value in zip(args.kwonlyargs, args.kw_defaults)
    ]
    found += [_parameter(args.kwarg, Parameter.VAR_KEYWORD)] if args.kwarg else []
    return Signature(found, return_annotation=ast.unparse(node.returns))


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
    """The signature that a public function shows."""
    known = function.__dict__.get("__wrapped__")
    return known.__signature__ if type(known) is Documented else None


@cache
def shown(paths: tuple[str, ...]) -> Signature | None:
    """The one signature that stands for a function's overloads, as documentation shows it: names and defaults.

    What only some overloads have is optional.
    """
    # the documented form of what `torch` has under the same name
    layers = tuple(path for path in paths if path.startswith("nn.functional."))
    found = (layers and overloads(*layers)) or overloads(*paths)
    if not found:
        return None
    widest = max(
        found,
        key=lambda each: (
            any(one.kind is one.VAR_POSITIONAL for one in each.parameters.values()),
            len(each.parameters),
        ),
    )
    result, optional = [], False
    for each in widest.parameters.values():
        each = each.replace(annotation=Parameter.empty)
        everywhere = all(each.name in other.parameters or _is_first(other, each) for other in found)
        if (
            each.kind not in _STARRED
            and each.default is each.empty
            and (not everywhere or (optional and each.kind is each.POSITIONAL_OR_KEYWORD))
        ):
            each = each.replace(default=None)
        optional |= each.default is not each.empty
        result.append(each)
    return Signature(result)


def _is_first(other: Signature, parameter: Parameter) -> bool:
    """Whether this is the first parameter, under another name in another overload."""
    return parameter.default is parameter.empty and parameter.name in ("A", "x") and "input" in other.parameters


# ---- calls by keyword


def rearranged(
    function: Callable, inside: Callable | None, arguments: tuple, kwargs: dict
) -> tuple[tuple, dict] | None:
    """The arguments of a call by PyTorch's names, by place as far as the table allows, so that functions whose
    parameters have other names take them. None if `inside` takes the call as it is, whose error then is another, or no
    overload does.
    """
    known = function.__dict__.get("__wrapped__")
    if (
        type(known) is not Documented
        or not kwargs
        or (inside is not None and _binds(inside, len(arguments), tuple(kwargs)))
    ):
        return None
    plan = _plan(known.paths, len(arguments), tuple(kwargs))
    if plan is None or (inside is not None and not plan[0] and all(name == key for name, key in plan[1])):
        return None
    placed, named = plan
    return (*arguments, *[default if name is None else kwargs[name] for name, default in placed]), {
        name: kwargs[key] for name, key in named
    }


@lru_cache(maxsize=4096)
def _binds(function: Callable, count: int, names: tuple[str, ...]) -> bool:
    """Whether a Python function, by the parameters of what it wraps, takes so many arguments by place and these by
    name.
    """
    try:
        own(function).bind(*[None] * count, **dict.fromkeys(names))
    except TypeError:
        return False
    return True


@cache
def own(function: Callable) -> Signature:
    """A function's own parameters, with the types that numod gives them."""
    function = unwrap(function)
    return Signature.from_callable(behind.get(function, function), follow_wrapped=False)


@lru_cache(maxsize=4096)
def _plan(paths: tuple[str, ...], count: int, names: tuple[str, ...]) -> tuple[list, list] | None:
    """What follows the `count` arguments by place, each the keyword that gives it or None and the default; and the
    keywords that stay, (its name, as given).
    """
    for overload in overloads(*paths):
        parameters = overload.parameters
        keys = {name if name in parameters else _ALIASES.get(name, name): name for name in names}
        try:
            bound = overload.bind(*[None] * count, **keys).arguments
        except TypeError:
            continue
        placed = [parameter for parameter in parameters.values() if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        last = max([k for k, each in enumerate(placed) if each.name in bound], default=-1)
        tail = [(keys.get(each.name), each.default) for each in placed[count : last + 1]]
        return tail, [(name, key) for name, key in keys.items() if parameters[name].kind is Parameter.KEYWORD_ONLY]
    return None
