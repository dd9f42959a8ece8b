"""Writes `numod/core/signatures.txt`, the table of public signatures, from those that PyTorch documents.

Needs the installed torch:

    python tests/signature_table.py

Sources: the wheel's stubs for functions and Tensor methods made in C++, `inspect.signature` for those written in
Python, and docstrings with the operators' schemas for `special`, `linalg` and `fft`. A name is listed if numod has it.
Overloads that differ in types only share a line; those with named dimensions and the deprecated ones (a `self` that is
not a method's) are left out.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

import numod

TABLE = Path(numod.__file__).parent / "core" / "signatures.txt"
WHEEL = Path(torch.__file__).parent
SECTIONS = ("", "Tensor", "nn.functional", "special", "linalg", "fft")
HEAD = """# PyTorch 2.13's documented signatures of what numod has, one overload a line. Written by tests/signature_table.py; read by core/signatures.py.
"""
TYPES = {  # in the stubs, Python's functions and schemas -> here
    "_int": "int", "_bool": "bool", "_float": "float", "_complex": "complex", "_size": "Sequence[int]",
    "_dtype": "dtype", "_layout": "layout", "Tensor?": "Tensor | None", "_device": "device | str | int",
    "DeviceLikeType": "device | str | int", "SymInt": "int", "SymFloat": "float", "FileLike": "Any",
    "BroadcastingList1": "Sequence[int]", "BroadcastingList2": "Sequence[int]", "BroadcastingList3": "Sequence[int]",
    "_symsize": "Sequence[int]", "Optional": "Optional", "list": "Sequence[Any]", "Scalar": "Number",
    "ScalarType": "dtype", "IntLikeType": "int",
}  # fmt: skip
# which schemas number
OPTIONS = {
    "dtype": "dtype | None",
    "device": "device | str | int | None",
    "layout": "layout | None",
    "requires_grad": "bool",
}
OWN = (  # whose arguments are numod's own, or which take none by name
    "compile", "get_device_module", "load", "save", "set_autocast_enabled", "set_flush_denormal",
    "set_num_interop_threads", "set_num_threads",
)  # fmt: skip
KNOWN = {
    "Tensor", "Number", "int", "float", "bool", "complex", "str", "dtype", "device", "layout", "memory_format",
    "Generator", "Sequence", "Any", "None", "Callable", "object",
}  # fmt: skip


def simple(annotation: str) -> str:
    """A type in the table's few words; Any for what it has no word for."""
    if annotation in ("", "None"):
        return annotation
    text = re.sub(r"torch\.(?:types\.|_C\.|return_types\.)?", "", annotation.strip("'\""))
    text = re.sub(r"Optional\[(.*)\]$", r"\1 | None", text)
    text = re.sub(
        r"(?:Broadcasting)?List\d?\[(\w+)\]|list\[(\w+)\]|tuple\[(\w+), \.\.\.\]|Sequence\[(\w+) \| \w+\]",
        lambda match: f"Sequence[{next(filter(None, match.groups()))}]",
        text,
    )
    text = re.sub(r"[A-Za-z_]\w*", lambda match: TYPES.get(match[0], match[0]), text)
    parts = list(dict.fromkeys(text.split(" | ")))
    if "Number" in parts:
        parts = [part for part in parts if part not in ("complex", "int", "float", "bool")]
    if not set(re.findall(r"[A-Za-z_]\w*", text)) <= KNOWN or "[Sequence" in text:
        return "Any"
    return " | ".join(dict.fromkeys(parts))


def returned(annotation: str) -> str:
    """The type of a result: a named tuple of PyTorch's stays one by name."""
    match = re.search(r"return_types\.(\w+)", annotation or "")
    type_name = match and f"return_types.{match[1]}"
    text = re.sub(r"\bSelf\b", "Tensor", annotation or "")
    if re.fullmatch(r"tuple\[(Tensor, )*Tensor\]|tuple\[Tensor, \.\.\.\]", text):
        return text
    return type_name or simple(text) or "Any"


def default(value: str) -> str:
    """A default as text; names of PyTorch's constants without their module, and what is made by a call
    (`legacy_contiguous_format`) or left out as None.
    """
    text = value.replace("torch.", "")
    return "None" if text == "..." or "(" in text.replace("()", "").replace("(-2, -1)", "") else text


def of_node(node: ast.FunctionDef) -> tuple[list[tuple], list[tuple], str]:
    """(positional parameters, keyword-only ones, result) of a stub's function, each (name with its star, type, default
    or None).
    """
    args = node.args
    first = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(first) - len(args.defaults)) + [ast.unparse(default) for default in args.defaults]

    def one(argument, value):
        return (
            argument.arg,
            simple(ast.unparse(argument.annotation)) if argument.annotation else "",
            value if value is None else default(value),
        )

    positional = [
        one(argument, value) for argument, value in zip(first, defaults) if argument.arg != "names" or value is None
    ]
    if args.vararg:
        positional.append(("*" + args.vararg.arg, *one(args.vararg, None)[1:]))
    keyword_only = [
        one(kwonlyarg, None if value is None else ast.unparse(value))
        for kwonlyarg, value in zip(args.kwonlyargs, args.kw_defaults)
        if kwonlyarg.arg != "names" or value is None
    ]
    if args.kwarg:
        keyword_only.append(("**" + args.kwarg.arg, "", None))
    return positional, keyword_only, returned(ast.unparse(node.returns) if node.returns else "")


def of_function(function: Callable) -> tuple[list[tuple], list[tuple], str]:
    """The same of a function written in Python."""
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body
    return of_node(node)


def of_documentation(section: str, name: str, function: Callable, operator: str) -> list[tuple]:
    """The same of the first lines of a docstring; types are those of the operator's schemas."""
    overloads = []
    schemas = torch._C._jit_get_schemas_for_operator(f"aten::{operator}")
    types = {}
    for schema in schemas:
        for k, argument in enumerate(schema.arguments):
            types.setdefault(
                "input" if argument.name == "self" else argument.name,
                simple(str(argument.real_type if hasattr(argument, "real_type") else argument.type)),
            )
            types.setdefault(k, simple(str(argument.real_type if hasattr(argument, "real_type") else argument.type)))
    types |= {"out": "Tensor | None"} | OPTIONS
    for line in (function.__doc__ or "").strip().splitlines():
        match = re.match(rf"(?:torch\.)?(?:\w+\.)?{name}(\(.*\))\s*->\s*(.*)", line.strip())
        if not match:
            break
        head = re.sub(r"=torch\.\w+", "=None", match[1])
        try:
            node = ast.parse(f"def f{head}: ...").body[0]
        except SyntaxError:
            break
        positional, keyword_only, _ = of_node(node)
        if section == "Tensor":
            positional = [("self", "", None), *positional]
        result = "Tensor" if match[2].startswith("Tensor") else "Any"
        typed = lambda parameter, k: (parameter[0], types.get(parameter[0]) or types.get(k) or "Any", parameter[2])  # noqa: E731
        overloads.append(
            (
                [typed(parameter, k) for k, parameter in enumerate(positional)],
                [typed(parameter, parameter[0]) for parameter in keyword_only],
                result,
            )
        )
    return overloads


def stubs() -> tuple[dict, dict]:
    """name -> nodes, of functions and of Tensor's methods."""
    functions: dict[str, list] = {}
    methods: dict[str, list] = {}
    trees = [
        ast.parse((WHEEL / "_C" / name).read_text()) for name in ("_VariableFunctions.pyi", "_nn.pyi", "__init__.pyi")
    ]
    for tree in trees:
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                functions.setdefault(node.name, []).append(node)
            elif isinstance(node, ast.ClassDef) and node.name in ("TensorBase", "_TensorBase"):
                for inner in node.body:
                    if isinstance(inner, ast.FunctionDef):
                        methods.setdefault(inner.name, []).append(inner)
    return functions, methods


def text(name: str, positional: list, keyword_only: list, result: str) -> str:
    """A line of the table."""

    def one(name, kind, value):
        return name + (f": {kind}" if kind else "") + ("" if value is None else f" = {value}" if kind else f"={value}")

    starred = any(parameter[0].startswith("*") for parameter in positional)
    star = ["*"] if keyword_only and not starred and not keyword_only[0][0].startswith("**") else []
    return (
        f"{name}({', '.join([*[one(*parameter) for parameter in positional], *star, *[one(*parameter) for parameter in keyword_only]])}) -> "
        f"{result}"
    )


def merged(overloads: list[tuple]) -> list[tuple]:
    """Overloads that differ in types only as one, which takes any of them."""
    groups_by_names: dict[tuple, list] = {}
    for positional, keyword_only, result in overloads:
        key = (
            tuple(parameter[0] for parameter in positional),
            tuple(parameter[0] for parameter in keyword_only),
            tuple(parameter[2] is None for parameter in (*positional, *keyword_only)),
        )
        groups_by_names.setdefault(key, []).append((positional, keyword_only, result))

    def union(kinds):
        return (
            "Any"
            if "Any" in kinds
            else " | ".join(dict.fromkeys(part for kind in kinds for part in kind.split(" | ") if part))
        )

    def joined(groups):
        return [(same[0][0], union([parameter[1] for parameter in same]), same[0][2]) for same in zip(*groups)]

    return [
        (
            joined([parameter[0] for parameter in group]),
            joined([parameter[1] for parameter in group]),
            union([parameter[2] for parameter in group]),
        )
        for group in groups_by_names.values()
    ]


def is_covered(one: tuple, others: list[tuple]) -> bool:
    """Whether another overload takes every call by name and place that this one takes."""
    for positional, keyword_only, _ in others:
        names, first_names = [parameter[0] for parameter in positional], [parameter[0] for parameter in one[0]]
        needed = {
            parameter[0]
            for parameter in (*positional, *keyword_only)
            if parameter[2] is None and not parameter[0].startswith("*")
        }
        required = {parameter[0] for parameter in (*one[0], *one[1]) if parameter[2] is None}
        if (
            names[: len(first_names)] == first_names
            and {parameter[0] for parameter in one[1]} <= {parameter[0] for parameter in (*keyword_only, *positional)}
            and needed <= required
        ):
            return True
    return False


def overloads(section: str, name: str, function: object, functions: dict, methods: dict) -> list[tuple]:
    """All overloads of a public function."""
    if section in ("special", "linalg", "fft"):
        return of_documentation(section, name, function, f"{section}_{name}") + of_schemas(f"{section}_{name}")
    if section == "nn.functional" and hasattr(torch.nn.functional, f"_{name}") and not inspect.isbuiltin(function):
        return [of_function(getattr(torch.nn.functional, f"_{name}"))]
    if section == "" and hasattr(torch.functional, f"_{name}_impl"):
        return [of_function(getattr(torch.functional, f"_{name}_impl"))]
    if name in ("requires_grad_", "einsum"):  # of which the stubs know less than the documentation
        return of_documentation(section, name, function, name)
    nodes = (methods if section == "Tensor" else functions).get(name, [])
    if inspect.isfunction(function) and not (
        nodes
        and any(
            parameter.kind is parameter.VAR_KEYWORD or parameter.name == "args"
            for parameter in inspect.signature(function).parameters.values()
        )
    ):
        return [of_function(function)]
    if section == "nn.functional":  # its stubs leave out defaults
        return of_documentation(section, name, function, name) or [of_node(node) for node in nodes]
    signatures = [of_node(node) for node in nodes]
    return (
        signatures
        if any(is_listed(section, signature) for signature in signatures)
        else of_documentation(section, name, function, name)
    )


def of_schemas(operator: str) -> list[tuple]:
    """The overloads by an operator's schemas; `out`, of which each of them has another form, may be left out."""
    overloads = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}"):

        def one(argument):
            return (
                "input" if argument.name == "self" else argument.name,
                OPTIONS.get(argument.name) or simple(str(argument.type)),
                repr(argument.default_value) if argument.has_default_value() else None,
            )

        written = [argument.name for argument in schema.arguments if argument.is_out]
        keyword_only = [one(argument) for argument in schema.arguments if argument.kwarg_only and not argument.is_out]
        positional = [one(argument) for argument in schema.arguments if not argument.kwarg_only]
        keyword_only += (
            [("out", "Tensor | None" if len(written) == 1 else "Sequence[Tensor] | None", "None")] if written else []
        )
        overloads.append(
            (
                positional,
                keyword_only,
                "Tensor" if len(schema.returns) == 1 else f"tuple[{', '.join(['Tensor'] * len(schema.returns))}]",
            )
        )
    return overloads


def is_listed(section: str, overload: tuple) -> bool:
    """Whether an overload is neither deprecated nor one of named dimensions."""
    positional, keyword_only, _ = overload
    if any(
        "EllipsisType" in str(parameter[1]) or parameter[0] == "names" for parameter in (*positional, *keyword_only)
    ):
        return False
    return section == "Tensor" or not any(parameter[0] == "self" for parameter in positional)


def lines() -> Iterator[str]:
    """The table."""
    yield HEAD
    functions, methods = stubs()
    for section in SECTIONS:
        theirs, ours = torch, numod
        for part in section.split(".") if section else ():
            theirs, ours = getattr(theirs, part), getattr(ours, part)
        yield f"\n[{section}]"
        for name in sorted(dir(theirs)):
            function = getattr(theirs, name)
            if (
                name.startswith("_")
                or name in OWN
                or not callable(function)
                or inspect.isclass(function)
                or not hasattr(ours, name)
                or inspect.isclass(getattr(ours, name))
            ):
                continue
            section_overloads = [
                overload
                for overload in overloads(section, name, function, functions, methods)
                if is_listed(section, overload)
            ]
            section_overloads = merged(section_overloads)
            for overload in list(section_overloads):
                if is_covered(overload, [other for other in section_overloads if other is not overload]):
                    section_overloads.remove(overload)
            if not section_overloads:
                print("no signature known:", section, name)
            yield from (text(name, *overload) for overload in section_overloads)


if __name__ == "__main__":
    TABLE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
