"""The table of operators: which function computes an operator of a version of its domain.

    @operator("Softmax", since=13)
    def softmax(x, *, axis: int = -1): ...

A function's positional parameters are the operator's inputs, its keyword parameters the attributes, with their types
and defaults. Inputs are tensors. Those listed in `host` are NumPy arrays, because Python reads their numbers (shapes,
axes); those in `state` are stored as buffers, not as parameters. `raw` operators take values of every kind. Keywords
that are no attributes: `outputs` is the number of outputs that the node names, `scope` the values of the graph around
the node.

`on_host` registers the NumPy version of an operator, for shape arithmetic: nodes whose inputs are all arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field

MICROSOFT = "com.microsoft"
NOT_ATTRIBUTES = {"outputs", "scope"}


@dataclass(frozen=True)
class Attribute:
    """An attribute's type, by the name of its annotation, and default; `inspect.Parameter.empty` if it has none."""

    kind: str
    default: object

    @property
    def required(self) -> bool:
        return self.default is inspect.Parameter.empty


@dataclass(frozen=True, eq=False)
class Operator:
    """A row of the table."""

    name: str
    since: int
    function: Callable
    inputs: tuple[str, ...]
    required: int
    variadic: bool
    raw: bool
    host: frozenset[int]
    state: frozenset[int]
    attributes: dict[str, Attribute] = field(repr=False)
    keywords: frozenset[str] = frozenset()

    def __reduce__(self) -> str | tuple:
        return _by_row, (self.function.__module__, self.function.__qualname__, self.name, self.since)


def _by_row(module: str, function: str, name: str, since: int) -> Operator:
    from . import opset  # noqa: F401  fills the table

    rows = [*INTERNAL, *(row for versions in OPERATORS.values() for row in versions)]
    return next(row for row in rows if (row.name, row.since, row.function.__module__) == (name, since, module))


OPERATORS: dict[tuple[str, str], list[Operator]] = {}
INTERNAL: list[Operator] = []  # operators of steps that are no node of a file
HOST: dict[str, Callable] = {}


def operator(
    names: str, since: int = 1, domain: str = "", host: str = "", state: str = "", raw: bool = False
) -> Callable[[Callable], Callable]:
    """A decorator that enters a function for each of the operators `names`, from version `since` of the domain on."""

    def enter(function: Callable) -> Callable:
        for name in names.split():
            row = _row(name, since, function, host.split(), state.split(), raw)
            OPERATORS.setdefault((domain, name), []).append(row)
        return function

    return enter


def _row(name: str, since: int, function: Callable, host: list[str], state: list[str], raw: bool) -> Operator:
    parameters = inspect.signature(function).parameters.values()
    positional = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    keyword = [parameter for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    inputs = tuple(entry.name for entry in positional)
    return Operator(
        name,
        since,
        function,
        inputs,
        sum(value.default is value.empty for value in positional),
        any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters),
        raw,
        frozenset(map(inputs.index, host)),
        frozenset(map(inputs.index, state)),
        {
            entry.name: Attribute(str(entry.annotation).removesuffix(" | None"), entry.default)
            for entry in keyword
            if entry.name not in NOT_ATTRIBUTES
        },
        frozenset(entry.name for entry in keyword) & NOT_ATTRIBUTES,
    )


def internal(name: str, function: Callable, raw: bool = False) -> Operator:
    """The row of a step that no file can name: `function` computes it."""
    INTERNAL.append(_row(name, 1, function, [], [], raw))
    return INTERNAL[-1]


def on_host(names: str) -> Callable[[Callable], Callable]:
    """A decorator that enters a function of arrays. It may return NotImplemented, for results too large for shapes."""

    def enter(function: Callable) -> Callable:
        HOST.update(dict.fromkeys(names.split(), function))
        return function

    return enter


def find(domain: str, name: str, version: int) -> Operator | None:
    """The row that computes the operator in that version of its domain, or None."""
    rows = [row for row in OPERATORS.get((domain, name), ()) if row.since <= version]
    return max(rows, key=lambda row: row.since, default=None)
