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
        lambda found: f"Sequence[{next(filter(None, found.groups()))}]",
        text,
    )
    text = re.sub(r"[A-Za-z_]\w*", lambda found: TYPES.get(found[0], found[0]), text)
    parts = list(dict.fromkeys(text.split(" | ")))
    if "Number" in parts:
        parts = [part for part in parts if part not in ("complex", "int", "float", "bool")]
    if not set(re.findall(r"[A-Za-z_]\w*", text)) <= KNOWN or "[Sequence" in text:
        return "Any"
    return " | ".join(dict.fromkeys(parts))


def returned(annotation: str) -> str:
    """The type of a result: a named tuple of PyTorch's stays one by name."""
    named = re.search(r"return_types\.(\w+)", annotation or "")
    found = named and f"return_types.{named[1]}"
    text = re.sub(r"\bSelf\b", "Tensor", annotation or "")
    if re.fullmatch(r"tuple\[(Tensor, )*Tensor\]|tuple\[Tensor, \.\.\.\]", text):
        return text
    return found or simple(text) or "Any"


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

    def one(each, value):
        return (
            each.arg,
            simple(ast.unparse(each.annotation)) if each.annotation else "",
            value if value is None else default(value),
        )

    positional = [one(each, value) for each, value in zip(first, defaults) if each.arg != "names" or value is None]
    if args.vararg:
        positional.append(("*" + args.vararg.arg, *one(args.vararg, None)[1:]))
    named = [
        one(kwonlyarg, None if value is None else ast.unparse(value))
        for kwonlyarg, value in zip(args.kwonlyargs, args.kw_defaults)
        if kwonlyarg.arg != "names" or value is None
    ]
    if args.kwarg:
        named.append(("**" + args.kwarg.arg, "", None))
    return positional, named, returned(ast.unparse(node.returns) if node.returns else "")


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
        found = re.match(rf"(?:torch\.)?(?:\w+\.)?{name}(\(.*\))\s*->\s*(.*)", line.strip())
        if not found:
            break
        head = re.sub(r"=torch\.\w+", "=None", found[1])
        try:
            node = ast.parse(f"def f{head}: ...").body[0]
        except SyntaxError:
            break
        positional, named, _ = of_node(node)
        if section == "Tensor":
            positional = [("self", "", None), *positional]
        result = "Tensor" if found[2].startswith("Tensor") else "Any"
        typed = lambda each, k: (each[0], types.get(each[0]) or types.get(k) or "Any", each[2])  # noqa: E731
        overloads.append(
            ([typed(each, k) for k, each in enumerate(positional)], [typed(each, each[0]) for each in named], result)
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


def text(name: str, positional: list, named: list, result: str) -> str:
    """A line of the table."""

    def one(name, kind, value):
        return name + (f": {kind}" if kind else "") + ("" if value is None else f" = {value}" if kind else f"={value}")

    starred = any(each[0].startswith("*") for each in positional)
    star = ["*"] if named and not starred and not named[0][0].startswith("**") else []
    return (
        f"{name}({', '.join([*[one(*each) for each in positional], *star, *[one(*each) for each in named]])}) -> "
        f"{result}"
    )


def merged(overloads: list[tuple]) -> list[tuple]:
    """Overloads that differ in types only as one, which takes any of them."""
    found: dict[tuple, list] = {}
    for positional, named, result in overloads:
        key = (
            tuple(each[0] for each in positional),
            tuple(each[0] for each in named),
            tuple(each[2] is None for each in (*positional, *named)),
        )
        found.setdefault(key, []).append((positional, named, result))

    def union(kinds):
        return (
            "Any"
            if "Any" in kinds
            else " | ".join(dict.fromkeys(part for kind in kinds for part in kind.split(" | ") if part))
        )

    joined = lambda groups: [(same[0][0], union([each[1] for each in same]), same[0][2]) for same in zip(*groups)]  # noqa: E731
    return [
        (joined([each[0] for each in group]), joined([each[1] for each in group]), union([each[2] for each in group]))
        for group in found.values()
    ]


def is_covered(one: tuple, others: list[tuple]) -> bool:
    """Whether another overload takes every call by name and place that this one takes."""
    for positional, named, _ in others:
        names, own = [each[0] for each in positional], [each[0] for each in one[0]]
        needed = {each[0] for each in (*positional, *named) if each[2] is None and not each[0].startswith("*")}
        given = {each[0] for each in (*one[0], *one[1]) if each[2] is None}
        if (
            names[: len(own)] == own
            and {each[0] for each in one[1]} <= {each[0] for each in (*named, *positional)}
            and needed <= given
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
    found = [of_node(node) for node in nodes]
    return found if any(is_listed(section, each) for each in found) else of_documentation(section, name, function, name)


def of_schemas(operator: str) -> list[tuple]:
    """The overloads by an operator's schemas; `out`, of which each of them has another form, may be left out."""
    found = []
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{operator}"):

        def one(each):
            return (
                "input" if each.name == "self" else each.name,
                OPTIONS.get(each.name) or simple(str(each.type)),
                repr(each.default_value) if each.has_default_value() else None,
            )

        written = [argument.name for argument in schema.arguments if argument.is_out]
        named = [one(argument) for argument in schema.arguments if argument.kwarg_only and not argument.is_out]
        positional = [one(argument) for argument in schema.arguments if not argument.kwarg_only]
        named += (
            [("out", "Tensor | None" if len(written) == 1 else "Sequence[Tensor] | None", "None")] if written else []
        )
        found.append(
            (
                positional,
                named,
                "Tensor" if len(schema.returns) == 1 else f"tuple[{', '.join(['Tensor'] * len(schema.returns))}]",
            )
        )
    return found


def is_listed(section: str, overload: tuple) -> bool:
    """Whether an overload is neither deprecated nor one of named dimensions."""
    positional, named, _ = overload
    if any("EllipsisType" in str(each[1]) or each[0] == "names" for each in (*positional, *named)):
        return False
    return section == "Tensor" or not any(each[0] == "self" for each in positional)


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
            found = [
                overload
                for overload in overloads(section, name, function, functions, methods)
                if is_listed(section, overload)
            ]
            found = merged(found)
            for each in list(found):
                if is_covered(each, [other for other in found if other is not each]):
                    found.remove(each)
            if not found:
                print("no signature known:", section, name)
            yield from (text(name, *each) for each in found)


if __name__ == "__main__":
    TABLE.write_text("\n".join(lines()) + "\n", encoding="utf-8")
