"""Docstrings of public objects: what the object's file says, and sections on arguments, shapes and errors.

Functions share parameters, so the texts of parameters lie once in the table `docstrings.txt`. A public object's
docstring is completed from it when it is first read: neither importing numod nor calls read the table. Each section of
the table names the objects that it is about; a later section takes precedence:

    [sum mean nn.functional.*_loss]
    Shape: one line about shapes
    Raises: one line about an error; there may be several
    Note: a formula or remark; there may be several
    keepdim: one line about a parameter
    Alias: the name in the example for which this object's name is written
    Example: a line of an example, such as ">>> torch.ones(2)", where the object's file has none
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from fnmatch import translate
from functools import cache
from pathlib import Path
from textwrap import fill
from types import FunctionType

from . import signatures

_PACKAGE = Path(__file__).parents[1]
_WIDTH = 100


class Docstring(str):
    """A docstring that is completed when a method of `str` reads it. The object itself holds the uncompleted text."""

    __slots__ = ("path", "owner", "_full")

    def __new__(cls, text: str, path: str, owner: object) -> Docstring:
        self = super().__new__(cls, text)
        self.path, self.owner, self._full = path, owner, None
        return self

    @property
    def full(self) -> str:
        """The completed text."""
        if self._full is None:
            self._full = complete(str.__str__(self), self.path, self.owner)
        return self._full

    def __reduce__(self) -> tuple:
        return str, (self.full,)

    def __radd__(self, other: str) -> str:
        return other + self.full


def _reading(method: Callable) -> Callable:
    def read(self: Docstring, *arguments: object, **kwargs: object) -> object:
        return method(self.full, *arguments, **kwargs)

    return read


for _name, _method in list(vars(str).items()):
    if callable(_method) and _name not in ("__new__", "__getattribute__", "maketrans"):
        setattr(Docstring, _name, _reading(_method))


def attach(names: dict[str, object], prefix: str) -> None:
    """Make the docstrings of a namespace's functions and classes complete ones. `prefix`: such as "nn."."""
    for name, value in names.items():
        if name[0] != "_" and (isinstance(value, FunctionType) or _is_own_class(value)):
            text = value.__dict__.get("__doc__") if isinstance(value, type) else value.__doc__
            if type(text) is str:
                value.__doc__ = Docstring(text, prefix + name, value)


def _is_own_class(value: object) -> bool:
    return isinstance(value, type) and value.__module__.startswith("numod")


# ---- composition


def complete(text: str, path: str, owner: object) -> str:
    """The docstring with its sections before the example."""
    text = inspect.cleandoc(text)
    head, title, example = text.partition("Example:\n")
    entries = lookup(path)
    parameters = _parameters(owner)
    sections = [head.rstrip()]
    if "Alias" in entries:
        (original,), name = entries["Alias"], path.rpartition(".")[2]
        sections.append(f"Alias of `{original}`.")
        example = example.replace(f"torch.{original}(", f"torch.{name}(")
    if entries.get("Note", ["-"])[-1] != "-":
        sections.append("\n".join([fill(line, _WIDTH, subsequent_indent=_indent(line)) for line in entries["Note"]]))
    if lines := [_argument(path, parameter, entries) for parameter in parameters if parameter.name in entries]:
        sections.append("\n".join(["Args:", *lines]))
    if entries.get("Shape", ["none"])[-1] != "none" and not re.search("^Shapes?:", head, re.MULTILINE):
        sections.append(fill(f"Shape: {entries['Shape'][-1]}", _WIDTH, subsequent_indent="    "))
    if "Raises" not in head and (errors := _errors(parameters, entries)):
        sections.append("\n".join(["Raises:", *errors]))
    if source := _source(owner):
        sections.append(f"Source: {source}")
    if title:
        sections.append(title + example)
    elif "Example" in entries:
        sections.append("\n".join(["Example:\n", *["    " + line for line in entries["Example"]]]))
    return "\n\n".join(sections) + "\n"


def _indent(line: str) -> str:
    """What continues a line: formulas stay indented."""
    return " " * (len(line) - len(line.lstrip()))


def _parameters(owner: object) -> list[inspect.Parameter]:
    try:
        signature = inspect.signature(owner)
    except (TypeError, ValueError):  # a class made in C
        return []
    return [parameter for parameter in signature.parameters.values() if parameter.name[0] != "_"]


def _argument(path: str, parameter: inspect.Parameter, entries: dict[str, list[str]]) -> str:
    """The line of a parameter: "name (type, default ...): text"."""
    stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    default = parameter.default
    facts = [_kind(path, parameter)]
    if default is not parameter.empty:
        facts.append("optional" if default is None else f"default {_shown(default)}")
    described = f" ({', '.join(filter(None, facts))})" if any(facts) else ""
    text = f"{stars}{parameter.name}{described}: {entries[parameter.name][-1]}"
    return fill(text, _WIDTH, initial_indent="    ", subsequent_indent="        ")


def _shown(default: object) -> str:
    return getattr(default, "__name__", None) or repr(default)


def _kind(path: str, parameter: inspect.Parameter) -> str:
    """The type of a parameter in words; empty if any object is accepted."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        listed = [signature.parameters.get(parameter.name) for signature in signatures.overloads(path)]
        annotation = next((other.annotation for other in listed if other is not None), "")
    kinds = [kind.strip() for kind in re.split(r"\|(?![^\[]*\])", str(annotation).strip("'"))]
    kinds = ["device" if kind == "Device" else "dtype" if kind == "DType" else kind for kind in kinds]
    if "device" in kinds:
        return "device"
    return " or ".join(kind for kind in kinds if kind not in ("None", "Any", "object", "", "<class 'object'>"))


def _errors(parameters: list[inspect.Parameter], entries: dict[str, list[str]]) -> list[str]:
    """The lines of errors: those of the object, then those of its parameters, each error once."""
    texts = [*entries.get("Raises", [])]
    for parameter in parameters:
        texts += entries.get(f"Raises {parameter.name}", [])[-1:]
    errors = [error for text in dict.fromkeys(texts) if text != "-" for error in re.split("; (?=[A-Z])", text)]
    return [fill(_error(text), _WIDTH, initial_indent="    ", subsequent_indent="        ") for text in errors]


def _error(text: str) -> str:
    """ "ValueError if ..." as "ValueError: if ...", which tools read."""
    return re.sub(r"^((?:\w+Error)(?:(?:, | or )\w+Error)*),? ", r"\1: ", text)


def _source(owner: object) -> str | None:
    """The file that defines an object, and its line if that is known without reading the file."""
    if isinstance(owner, type):
        file, line = getattr(sys.modules.get(owner.__module__), "__file__", None), None
    else:
        code = signatures.defined_code(owner)
        file, line = code.co_filename, code.co_firstlineno
    if file is None or not Path(file).is_relative_to(_PACKAGE):
        return None
    name = Path(file).relative_to(_PACKAGE.parent).as_posix()
    if name in ("numod/core/forms.py", "numod/core/methods.py"):  # made from a row of the table
        return "numod/ops/table.py"
    return name if line is None else f"{name}, line {line}"


# ---- the table


@cache
def _table() -> list[tuple[list[str], dict[str, list[str]]]]:
    """The table's sections: patterns, and the lines of each entry."""
    sections: list[tuple[list[str], dict[str, list[str]]]] = []
    for line in Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            sections.append((line[1 : line.rindex("]")].split(), {}))
        elif line and line[0] != "#":
            name, _, text = line.partition(": ")
            sections[-1][1].setdefault(name, []).append(text)
    return sections


def lookup(path: str) -> dict[str, list[str]]:
    """The entries of an object, those of later sections in place of earlier ones."""
    names = _names(path)
    exact, wildcards = _patterns()
    sections = {number for name in names for number in exact.get(name, ())}
    sections.update(number for match, number in wildcards if any(map(match, names)))
    entries: dict[str, list[str]] = {}
    for number in sorted(sections):
        entries.update(_table()[number][1])
    return entries


@cache
def _patterns() -> tuple[dict[str, list[int]], list[tuple[Callable[[str], object], int]]]:
    """The numbers of the sections that list a name; the test and the number of each section with wildcards."""
    exact: dict[str, list[int]] = {}
    wildcards: list[tuple[Callable[[str], object], int]] = []
    for number, (patterns, _) in enumerate(_table()):
        several = [pattern for pattern in patterns if "*" in pattern or "?" in pattern]
        for pattern in set(patterns).difference(several):
            exact.setdefault(pattern, []).append(number)
        if several:
            wildcards.append((re.compile("|".join(map(translate, several))).match, number))
    return exact, wildcards


def _names(path: str) -> list[str]:
    """The names under which the table may list an object: `x.add_` is described as `add` is."""
    if not path.startswith("Tensor."):
        return [path, path.removesuffix("_")] if path.endswith("_") else [path]
    name = path.removeprefix("Tensor.")
    return [path, name, name.removesuffix("_")]
