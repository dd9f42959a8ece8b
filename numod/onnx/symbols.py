"""The captured program with its dynamic sizes as expressions, which become arithmetic on shapes in an ONNX graph.

`numod.export` holds a program for all sizes as a template, in which a number that follows from the sizes is a
polynomial of them. Here such a number is a `Size`; all others stay ints.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..dtypes import dtype as DType
from ..export import polynomial
from ..export.polynomial import Terms
from ..export.program import ExportedProgram
from ..export.sizes import POLYNOMIAL, RATIO, REPEAT
from ..graph.ir.program import EMPTY, Check, Program, Step, Value


class Size:
    """A size that depends on the dynamic dimensions: a polynomial of them, never a constant."""

    __slots__ = ("terms",)

    def __init__(self, terms: Terms) -> None:
        self.terms = terms

    def __add__(self, other: int | Size) -> int | Size:
        return _simplified([*self.terms, *_terms(other, len(self.terms[0][1]))])

    def __mul__(self, other: int | Size) -> int | Size:
        return _simplified(
            [
                (a * b, tuple([p + q for p, q in zip(powers, others)]))
                for a, powers in self.terms
                for b, others in _terms(other, len(self.terms[0][1]))
            ]
        )

    def __neg__(self) -> int | Size:
        return self * -1

    def __sub__(self, other: int | Size) -> int | Size:
        return self + other * -1

    def __rsub__(self, other: int) -> int | Size:
        return self * -1 + other

    __radd__, __rmul__ = __add__, __mul__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Size) and sorted(self.terms) == sorted(other.terms)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.terms)))

    def __repr__(self) -> str:
        return polynomial.text(self.terms, [f"s{k}" for k in range(len(self.terms[0][1]))])


Extent = int | Size


@dataclass
class Ratio:
    """A float divided by a size, such as the factor of a mean."""

    numerator: float
    size: Size


@dataclass
class Repeated:
    """A list of equal items, as many as a size says."""

    item: Any
    count: Size


@dataclass
class Call:
    """A step of the program. `number` counts the steps of the recording, for the names of modules."""

    op: Any
    inputs: tuple
    attributes: tuple
    results: tuple[Value, ...]
    in_place: bool
    location: str
    number: int


class SymbolicProgram:
    """A captured program whose shapes and attributes may have `Size`s.

    `shapes` and `dtypes` are those of the values, `symbols` the names of the dynamic dimensions. A `Check` stays as it
    is: it says which data the program was recorded for.
    """

    def __init__(self, exported: ExportedProgram) -> None:
        dynamic = exported.dynamic
        self.symbols: list[str] = [] if dynamic is None else dynamic.names
        self.program: Program = exported.program
        if dynamic is not None:
            self.program = dynamic.program(tuple([_typical(symbol) for symbol in dynamic.symbols]))
        self.inputs, self.held, self.outputs = self.program.inputs, self.program.held, self.program.outputs
        self.input_names, self.names = exported.input_names, exported.names
        self.dtypes: dict[Value, DType] = {value: shape.dtype for value, shape in self.program.layouts.items()}
        self.shapes: dict[Value, tuple[Extent, ...]] = {
            value: tuple(shape.shape) for value, shape in self.program.layouts.items()
        }
        self.strides = {value: tuple(shape.strides) for value, shape in self.program.layouts.items()}
        template = None if dynamic is None else dynamic.template
        if template is not None:
            self._read_layouts(template["layouts"])
        self.steps: list[Call | Check] = self._steps(None if template is None else template["steps"])

    def _read_layouts(self, rows: list) -> None:
        for number, _, shape, strides in rows:
            value = Value(number)
            self.shapes[value] = tuple(_decoded({"tuple": shape}, self.program.layouts[value].shape))
            self.strides[value] = tuple(_decoded({"tuple": strides}, self.program.layouts[value].strides))

    def _steps(self, template: list | None) -> list[Call | Check]:
        """The steps, with attributes from the template. Checks that a loaded program has more than it are left out."""
        steps: list[Call | Check] = []
        rows = iter(template or ())
        row = next(rows, None)
        for step in self.program.steps:
            if template is not None and (row is None or not _is_row_of(row, step)):
                continue
            if isinstance(step, Check):
                steps.append(step)
            else:
                inputs, attributes = step.inputs, step.attributes
                if row is not None:
                    inputs = _decoded({"tuple": row["inputs"]}, inputs)
                    attributes = _decoded({"tuple": row["parameters"]}, attributes)
                steps.append(Call(step.op, inputs, attributes, step.results, step.in_place, step.location, len(steps)))
            row = next(rows, None)
        return steps


def is_empty(call: Call) -> bool:
    """Whether a step only reserves memory."""
    return call.op is EMPTY


def product(sizes: Sequence[Extent]) -> Extent:
    """The product of sizes."""
    total: Extent = 1
    for size in sizes:
        total = total * size if isinstance(size, int) or not isinstance(total, int) else size * total
    return total


def _is_row_of(row: dict, step: Step | Check) -> bool:
    """Whether a row of the template describes a step."""
    if isinstance(step, Check):
        return row.get("check") == step.value.number
    return row.get("results") == [result.number for result in step.results]


def _typical(symbol: Any) -> int:
    """A size of a dynamic dimension at which a program has its general form."""
    typical = max(symbol.low, 3)
    return typical if symbol.high is None else min(typical, symbol.high)


def _terms(number: Extent, symbols: int) -> Terms:
    return number.terms if isinstance(number, Size) else polynomial.constant(number, symbols)


def _simplified(terms: Sequence[tuple[int, tuple[int, ...]]]) -> Extent:
    """The sum of terms: an int where it is constant."""
    totals: dict[tuple[int, ...], int] = {}
    for coefficient, powers in terms:
        totals[powers] = totals.get(powers, 0) + coefficient
    remaining = tuple([(coefficient, powers) for powers, coefficient in totals.items() if coefficient])
    if all(not any(powers) for _, powers in remaining):
        return sum(coefficient for coefficient, _ in remaining)
    return Size(remaining)


def _decoded(node: Any, concrete: Any) -> Any:
    """A part of the template; `concrete` is the same part of a program for certain sizes, whose constants it has."""
    if type(node) is not dict:
        return concrete
    ((kind, content), *_) = node.items()
    if kind == POLYNOMIAL:
        return _simplified([(coefficient, tuple(powers)) for coefficient, powers in content])
    if kind == RATIO:
        return Ratio(float(content[0]), _decoded({POLYNOMIAL: content[1]}, None))
    if kind in ("tuple", "list", "Size") and type(content) is dict:  # a list as long as a size says
        template, terms = content[REPEAT]
        item, count = _decoded(template, concrete[0] if concrete else None), _decoded({POLYNOMIAL: terms}, None)
        return Repeated(item, count) if isinstance(count, Size) else (item,) * count
    if kind in ("tuple", "list", "Size"):
        return tuple([_decoded(part, value) for part, value in zip(content, concrete, strict=True)])
    return concrete
