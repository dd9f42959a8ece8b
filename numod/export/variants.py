"""Native code for many sizes: kernels are chosen for every size in the ranges of the dynamic dimensions.

Sizes whose plans call the same kernels form one variant. Each integer of its calls is a constant, a polynomial of the
sizes or, if it depends on choices such as the number of blocks, a column of a constant table with a row per size.
So results are those of a program for that size alone. Memory grows with the first dimension and is enough for every
size of the others.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..core.tensor import Tensor
from ..graph.backend import memory_plan
from ..graph.backend.link import _plain
from ..graph.backend.lower import Buffer, Call, Integer, Loaded, Number, Span, CheckCall
from ..graph.ir.program import Program
from ..graph.ir.repetition import key_of_call
from ..graph.passes.freezing import with_packed_bytes
from . import polynomial
from .between import optimised
from .link import MainLinker, Main, Stream
from .module import Planned, planned_as_it_is
from .sizes import Dynamic

MAX_SIZES = 1024  # for which a program is planned
_FITTED = 12  # sizes from which a polynomial is fitted; it is checked at all sizes
_NUMERATORS = (1.0, 2.0, -1.0, -2.0, 0.5, -0.5)


class Sized(int):
    """An integer that depends on the sizes. `text`: the expression. The integer's own value is meaningless."""

    text: str

    def __bool__(self) -> bool:
        return True

    def __str__(self) -> str:
        return self.text

    def __format__(self, form: str) -> str:
        return self.text

    def __add__(self, other: int) -> Sized:
        return sized(f"({self.text} + {other})")

    __radd__ = __add__

    def __sub__(self, other: int) -> Sized:
        return sized(f"({self.text} - {other})")

    def __rsub__(self, other: int) -> Sized:
        return sized(f"({other} - {self.text})")

    def __mul__(self, other: int) -> Sized:
        return sized(f"({self.text} * {other})")

    __rmul__ = __mul__


class SizedFloat(float):
    """A float that depends on the sizes."""

    text: str


def sized(text: str) -> Sized:
    """The integer with this expression."""
    size = Sized(1)
    size.text = text
    return size


def unbounded(dynamic: Dynamic | None) -> list[str]:
    """A line for each reason why native code cannot be planned for all sizes."""
    if dynamic is None:
        return []
    endless = [
        f"the dimension {symbol.name} has no maximum, which native code needs; pass Dim({symbol.name!r}, max=64)"
        for symbol in dynamic.symbols
        if symbol.high is None
    ]
    if endless:
        return endless
    count = prod(symbol.high - symbol.low + 1 for symbol in dynamic.symbols)
    ranges = ", ".join(f"{symbol.name} from {symbol.low} to {symbol.high}" for symbol in dynamic.symbols)
    too_many = f"there are {count} sizes ({ranges}), and native code is planned for each; at most {MAX_SIZES} can be"
    return dynamic.invalid_sizes() if count <= MAX_SIZES else [f"{too_many}: give a lower max="]


@dataclass(frozen=True)
class Variant:
    """Sizes whose plans call the same kernels. `plan`: the first size's, with integers that are valid for all sizes."""

    rows: list[int]  # in the table
    plan: Planned
    places: dict[Buffer, int]
    fixed: int  # bytes of local memory that do not depend on the sizes
    unit: int  # bytes per unit of the first dimension


class Variants:
    """The variants of a program, and the table that they read."""

    def __init__(
        self,
        dynamic: Dynamic,
        stream: tuple[int, int],
        alignment: int,
        packed: Sequence[Tensor] | None = None,
        vectors: bool = True,
    ) -> None:
        """`packed`: packed weights of bytes, if there are any; `vectors`: as in `with_packed_bytes`."""
        self.dynamic, self.points, self.alignment = dynamic, dynamic.points(), alignment
        self.names = [f"size{k}" for k in range(len(dynamic.symbols))]  # in the generated source
        self.known = {id(tensor._storage) for tensor in (*dynamic.tensors.values(), *(packed or ()))}
        self.columns: dict[tuple, int] = {}
        groups: dict[Hashable, list[tuple[int, Planned]]] = {}

        def program_for(point: tuple[int, ...]) -> Program:
            program = dynamic.program(point)
            if packed is None:
                return program
            return with_packed_bytes(program, packed, sizes_vary=True, vectors=vectors)[0]

        for row, program in enumerate(optimised(program_for, self.points)):
            plan = planned_as_it_is(program, stream, packed or ())
            groups.setdefault(self._key(plan), []).append((row, plan))
        self.variants = [self._merged(members) for members in groups.values()]
        if len(self.variants) > 1:  # a table column with each size's variant number
            self.choice = self._column({row: k for k, variant in enumerate(self.variants) for row in variant.rows})

    @property
    def fixed(self) -> int:
        """Bytes of local memory that do not depend on the sizes."""
        return max(variant.fixed for variant in self.variants)

    @property
    def unit(self) -> int:
        """Bytes of local memory for each unit of the first dimension."""
        return max(variant.unit for variant in self.variants)

    @property
    def table(self) -> tuple[int, ...]:
        """The constant array, column by column."""
        return tuple([number for column in self.columns for number in column])

    # ---- the structure of a plan

    def _key(self, plan: Planned) -> Hashable:
        """Equal for plans with the same kernels over the same buffers."""
        numbers: dict[Buffer, int] = {}

        def buffer_key(buffer: Buffer) -> Hashable:
            number = numbers.setdefault(buffer, len(numbers))
            if buffer.kind != "held":
                return buffer.kind, buffer.number, buffer.storage, number
            storage = buffer.tensor._storage
            if id(storage) in self.known:
                return id(storage)
            return "stream" if buffer is plan.stream else storage.data.tobytes()

        def argument_key(argument: Any) -> Hashable:
            if isinstance(argument, Span):
                return buffer_key(argument.buffer), argument.form
            if isinstance(argument, Loaded):
                return "loaded", buffer_key(argument.buffer)
            if isinstance(argument, (Number, Integer)):
                return argument.source, argument.index
            return type(argument) if type(argument) in (int, float) else repr(argument)

        calls = [
            ("test", buffer_key(call.span.buffer), repr(call.expected), call.location)
            if isinstance(call, CheckCall)
            else (key_of_call(call)[:4] if call.kernel else id(call), *map(argument_key, call.arguments))
            for call in plan.lowered.calls
        ]
        return tuple(calls), tuple(map(buffer_key, plan.outputs))

    # ---- merging

    def _merged(self, members: list[tuple[int, Planned]]) -> Variant:
        """One variant from several plans that differ only in numbers."""
        rows, plans = [row for row, _ in members], [plan for _, plan in members]
        first = plans[0]
        sizes: dict[Buffer, list[int]] = {}
        calls = []
        for parallel in zip(*[plan.lowered.calls for plan in plans]):
            if isinstance(parallel[0], CheckCall):
                spans = [call.span for call in parallel]
                calls.append(replace(parallel[0], span=self._span(rows, spans, sizes)))
            else:
                arguments = [self._argument(rows, same, sizes) for same in zip(*[call.arguments for call in parallel])]
                calls.append(replace(parallel[0], arguments=tuple(arguments)))
        for k, source in enumerate(first.lowered.sources):
            source.count = self._integer(rows, [plan.lowered.sources[k].count for plan in plans])
        lowered = replace(first.lowered, calls=calls)
        places, fixed, unit = self._places(lowered, rows, sizes)
        for buffer, counts in sizes.items():
            buffer.size = self._integer(rows, counts)
        return Variant(rows, replace(first, lowered=lowered), places, fixed, unit)

    def _argument(self, rows: list[int], same: tuple, sizes: dict) -> Any:
        if isinstance(same[0], Span):
            return self._span(rows, same, sizes)
        if isinstance(same[0], Loaded):
            loaded = Loaded(0.0)
            loaded.span = self._span(rows, [argument.span for argument in same], sizes)
            return loaded
        if type(same[0]) is int:
            return self._integer(rows, same)
        if type(same[0]) is float and len({repr(argument) for argument in same}) > 1:
            return self._float(rows, same)
        return same[0]

    def _span(self, rows: list[int], spans: Sequence[Span], sizes: dict) -> Span:
        sizes.setdefault(spans[0].buffer, [int(span.buffer.size) for span in spans])
        return replace(spans[0], offset=self._integer(rows, [span.offset for span in spans]))

    def _integer(self, rows: list[int], numbers: Sequence[int]) -> int:
        if len(set(numbers)) == 1:
            return int(numbers[0])
        points = [self.points[row] for row in rows]
        chosen = range(0, len(points), -(-len(points) // _FITTED))
        terms = polynomial.fit([points[k] for k in chosen], [numbers[k] for k in chosen])
        if terms is None or any(polynomial.value(terms, point) != n for point, n in zip(points, numbers)):
            return sized(f"table[{self._column(dict(zip(rows, numbers)))} + row]")
        return sized(f"({polynomial.text(terms, self.names)})")

    def _float(self, rows: list[int], numbers: Sequence[float]) -> float:
        for numerator in _NUMERATORS:
            divisors = [round(numerator / number) if number else 0 for number in numbers]
            if all(divisor and numerator / divisor == number for divisor, number in zip(divisors, numbers)):
                sized_float = SizedFloat(numbers[0])
                sized_float.text = f"({numerator!r} / {self._integer(rows, divisors)})"
                return sized_float
        raise RuntimeError(
            "aot_compile: a float depends on the sizes and is not a constant divided by a polynomial of them"
        )

    def _column(self, numbers: dict[int, int]) -> int:
        """Start of a table column with these numbers, given by row; its other rows are arbitrary."""
        for column, start in self.columns.items():
            if all(column[row] == number for row, number in numbers.items()):
                return start
        column = tuple([numbers.get(row, 0) for row in range(len(self.points))])
        return self.columns.setdefault(column, len(self.columns) * len(self.points))

    def _places(self, lowered: Any, rows: list[int], sizes: dict) -> tuple[dict[Buffer, int], int, int]:
        """(offsets of local buffers, fixed bytes, bytes per unit of the first dimension)."""
        units = {}
        for buffer in memory_plan.lifetimes(lowered):
            counts = sizes.get(buffer, [buffer.size])
            grows = len(set(counts)) > 1
            per_unit = max(-(-count // self.points[row][0]) for row, count in zip(rows, counts)) if grows else 0
            units[buffer] = per_unit, 0 if grows else counts[0]
        totals, offsets_of = [], []
        for kind in range(2):
            for buffer, both in units.items():
                buffer.size = both[kind]
            offsets, total = memory_plan.plan(lowered, alignment=self.alignment)
            offsets_of.append(offsets)
            totals.append(total)
        unit, fixed = totals
        places = {
            buffer: sized(f"({fixed} + {offsets_of[0][buffer]} * {self.names[0]})")
            if per_unit
            else offsets_of[1][buffer]
            for buffer, (per_unit, _) in units.items()
        }
        return places, fixed, unit

    # ---- text

    def main(self, names: dict[Buffer, str], offsets: Any, order: Sequence[str], apart: bool, packed: int) -> Main:
        """The function that selects and runs the variant for its size arguments. `packed`: see `main_function`."""
        linker = _Linker(apart, packed)
        lines = linker.constants(len(self.table)).splitlines()
        if self.columns:
            lines.append(f"    row = {self._row()}")
        for number, variant in enumerate(self.variants):
            several = len(self.variants) > 1
            lines += [f"    if table[{self.choice} + row] == {number}:"] if several else []
            body = linker.body(variant, names(variant.plan, variant.places), offsets(variant.plan))
            lines += ["    " + line for line in body] if several else body
        calls = [call for variant in self.variants for call in variant.plan.lowered.calls if isinstance(call, Call)]
        return linker.written(linker.whole(order, lines), order, self.table, [call.kernel for call in calls])

    def _row(self) -> str:
        text = "0"
        for symbol, name in zip(self.dynamic.symbols, self.names):
            text = f"({text}) * {symbol.high - symbol.low + 1} + {name} - {symbol.low}"
        return text


class _Linker(MainLinker):
    """Writes calls with expressions of the sizes."""

    def __init__(self, apart: bool, packed: int) -> None:
        super().__init__({}, {}, None, apart, packed)

    def body(self, variant: Variant, names: dict[Buffer, str], offsets: dict[Buffer, int]) -> list[str]:
        """The calls of a variant, unrolled: their integers differ too much for loops."""
        plan = variant.plan
        self.names, self.places = names, {**variant.places, **offsets}
        self.stream = None if plan.stream is None else Stream(offsets[plan.stream], plan.draws, plan.drawn)
        lines, tests = [], 0
        if self.stream is not None:
            lines.append(f"    stream = view_int64(weights + {self.stream.offset}, 2)")
        for call in plan.lowered.calls:
            if isinstance(call, CheckCall):
                tests += 1
                lines += self._test(call, tests)
            else:
                lines += self._call(call, [*map(self._argument, call.arguments)], "    ")
        return [*lines, *self._advance(), "    return 0"]

    def whole(self, order: Sequence[str], lines: Sequence[str]) -> str:
        """Source of the main function, preceded by the functions that it calls."""
        return self._text(order, "", lines)

    def _argument(self, argument: object) -> str:
        return argument.text if isinstance(argument, (Sized, SizedFloat)) else super()._argument(argument)

    def _size(self, number: int) -> str:
        return number.text if isinstance(number, Sized) else _plain(number)
