"""Programs with dynamic dimensions: templates whose numbers are expressions of the sizes.

The function is recorded at several sizes. Integers that differ between recordings must be polynomials of the sizes
(`polynomial`), floats must be a constant divided by a polynomial; nothing else may differ. A template filled in with
sizes is checked like a program that was read from a file.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from itertools import product, zip_longest
from threading import Lock
from typing import Any

from ..core.create.ranges import arange
from ..core.create.generator import Draw
from ..core.math.elementwise import allclose
from ..core.tensor import Tensor
from ..graph.capture.recorder import of_package
from ..graph.ir.program import Program, Step, Value
from ..graph.values.pytree import replace
from ..kernel.any_size import tables_by_steps
from ..ops.op import planning_for_all_sizes
from ..serialization.program import described, program_of
from . import polynomial
from .dimensions import Extent, Symbol
from .outputs import outputs_of
from .polynomial import Terms

POLYNOMIAL, RATIO, REPEAT = "polynomial", "ratio", "repeat"  # tags in a template
_NUMERATORS = (1.0, 2.0, -1.0, -2.0, 0.5, -0.5)
_SAMPLES = (2, 3, 5, 7, 11)  # sizes at which functions are recorded
_SYMBOL_DISTANCE = 37  # between the sizes of two symbols at general points
_MAX_RECORDED_SIZE = 1 << 20  # elements of an input that is too large to record with
_PROGRAMS = 64  # cached, for the most recent sizes
_MAX_TERMS, _MAX_COEFFICIENT, _MAX_REPEAT = 16, 1 << 62, 1 << 20


class GuardFailed(AssertionError, RuntimeError):
    """An input has a size for which the program was not exported."""


class Violation(RuntimeError):
    """A function does not treat a dimension as dynamic. `symbols`: the ones that may be at fault."""

    def __init__(self, symbols: Sequence[Symbol], reason: str) -> None:
        self.symbols = list(symbols)
        names = ", ".join(symbol.label if symbol.hint else symbol.name for symbol in symbols)
        fixes = "".join(f"\n  {symbol.name} = {symbol.size}" for symbol in symbols if not symbol.hint)
        hint = " If you're using Dim.DYNAMIC, replace it with either Dim.STATIC or Dim.AUTO."
        self.reason = reason
        super().__init__(
            f"Constraints violated ({names})!\n"
            f"  - You marked {names} as dynamic but your code specialized it to be a constant "
            f"({', '.join(str(symbol.size) for symbol in symbols)}): {reason}."
            + hint * any(symbol.hint for symbol in symbols)
            + (f"\nSuggested fixes:{fixes}" if fixes else "")
        )


class BeyondRange(Violation):
    """A function does something else for sizes above a bound."""

    def __init__(self, symbol: Symbol, bound: int, reason: str) -> None:
        super().__init__([symbol], reason)
        low = f", min={symbol.low}" if symbol.low > 1 else ""
        self.args = (
            f"Constraints violated ({symbol.name})!\n  - Not all values of {symbol.name} = {symbol.label} in the "
            f"specified range are treated alike: {reason}.\nSuggested fixes:\n"
            f"  {symbol.name} = Dim({symbol.name!r}{low}, max={bound})",
        )


class Unequal(RuntimeError):
    """Dimensions with different names must have the same size. `pairs`: those, with the one that each equals."""

    def __init__(self, pairs: Sequence[tuple[Symbol, Symbol]]) -> None:
        lines = [
            f"  - The values of {symbol.name} = {symbol.label} and {other.name} = {other.label} must always be equal."
            for symbol, other in pairs
        ]
        fixes = [f"  {symbol.name} = {other.name}" for symbol, other in pairs]
        names = ", ".join(symbol.name for symbol, _ in pairs)
        super().__init__("\n".join([f"Constraints violated ({names})!", *lines, "Suggested fixes:", *fixes]))


class Dynamic:
    """A program for all sizes of its symbols.

    `shapes`: each input's sizes as polynomials of the symbols. `template`: the program in its file format, with
    expressions in place of numbers. `tensors`: the held tensors, by their names in the template. `recorded`: whether
    this process recorded it; a file's may be invalid at some sizes.
    """

    def __init__(
        self,
        symbols: Sequence[Symbol],
        shapes: Sequence[Sequence[Terms]],
        template: Any,
        tensors: dict[str, Tensor],
        recorded: bool = True,
    ) -> None:
        self.recorded = recorded
        self.symbols, self.shapes = tuple(symbols), tuple([tuple(shape) for shape in shapes])
        self.template, self.tensors = template, tensors
        self._programs: dict[tuple[int, ...], Program] = {}
        self._lock = Lock()

    @property
    def names(self) -> list[str]:
        """The symbols' names."""
        return [symbol.name for symbol in self.symbols]

    def program(self, sizes: tuple[int, ...]) -> Program:
        """The program for these sizes. Raises ValueError if the template has none."""
        with self._lock:
            cached = self._programs.get(sizes)
            if cached is None:
                while len(self._programs) >= _PROGRAMS:
                    self._programs.pop(next(iter(self._programs)))
                cached = self._programs[sizes] = program_of(filled_in(self.template, sizes), self.tensors)
        return cached

    def points(self) -> list[tuple[int, ...]]:
        """All combinations of sizes, if all have a maximum."""
        return [*product(*[range(symbol.low, symbol.high + 1) for symbol in self.symbols])]

    def invalid_sizes(self) -> list[str]:
        """A line for the first size for which a file's program is not well-formed, if there is one."""
        for point in [] if self.recorded else self.points():
            try:
                self.program(point)
            except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
                sizes = ", ".join(f"{name} = {size}" for name, size in zip(self.names, point))
                return [f"with {sizes}, the program in the file is damaged: {problem}"]
        return []

    def sizes_of(self, shapes: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[int, ...]:
        """The symbols' sizes for inputs of these shapes. Raises GuardFailed, with the constraint, for a misfit."""
        sizes_by_number: dict[int, int] = {}
        pairs = [
            (size, terms, f"{name}.size()[{index}]")
            for shape, expected, name in zip(shapes, self.shapes, names)
            for index, (size, terms) in enumerate(zip(shape, expected, strict=False))
        ]
        for shape, expected, name in zip(shapes, self.shapes, names):
            if len(shape) != len(expected):
                raise GuardFailed(f"Guard failed: {name}.dim() == {len(expected)}, got {len(shape)}")
        for size, terms, label in pairs:
            number, factor, offset = _linear(terms) or (None, 1, 0)
            if number is not None and number not in sizes_by_number:
                sizes_by_number[number] = (size - offset) // factor
                self._check_range(self.symbols[number], sizes_by_number[number], size, label)
        sizes = tuple([sizes_by_number[number] for number in range(len(self.symbols))])
        for size, terms, label in pairs:
            if polynomial.value(terms, sizes) != size:
                wanted = polynomial.text(terms, self.names)
                values = "" if wanted.isdigit() else f" = {polynomial.value(terms, sizes)}"
                raise GuardFailed(f"Guard failed: {label} == {wanted}{values}, got {size}")
        return sizes

    def few_points(self) -> list[tuple[int, ...]]:
        """Sizes within the ranges: enough to fit a polynomial and check it, if the ranges are large enough."""
        highs = [symbol.high or symbol.low + max(_SAMPLES) for symbol in self.symbols]
        return [
            *product(*[sorted({*range(s.low, min(s.low + 4, high + 1)), high}) for s, high in zip(self.symbols, highs)])
        ]

    def mapped(self, transform: Callable[[Program], Program], points: Sequence[tuple[int, ...]] = ()) -> Dynamic:
        """The program for all sizes that `transform` makes of this one. Raises Violation if it depends on the size."""
        points = points or self.few_points()
        parts = [described(transform(self.program(point))) for point in points]
        template = Template([*self.symbols], points).of([fields for fields, _ in parts])
        return Dynamic(self.symbols, self.shapes, template, parts[0][1], self.recorded)

    def general_points(self) -> list[tuple[int, ...]]:
        """Sizes, possibly beyond the ranges, that suffice to fit polynomials; none is 1, which passes treat apart.

        Sizes of different symbols are never equal, since then equal steps of two sizes would become one.
        """
        count = 4 if len(self.symbols) == 1 else 3
        lows = [max(symbol.low, 2) for symbol in self.symbols]
        starts = [low + _SYMBOL_DISTANCE * k + (max(lows) if k else 0) for k, low in enumerate(lows)]
        return [*product(*[range(start, start + count) for start in starts])]

    def values_by_size(self, layouts: bool = True) -> set[Value]:
        """The results of steps that differ between sizes, in their numbers or, if `layouts`, in their layouts."""
        first, *others = [self.program(point) for point in self.general_points()]
        return {
            result
            for number, step in enumerate(first.steps)
            if isinstance(step, Step)
            for result in step.results
            for other in others
            if (layouts and first.layouts[result] is not other.layouts[result])
            or (step.inputs, step.attributes) != (other.steps[number].inputs, other.steps[number].attributes)
        }

    def shapes_of_outputs(self) -> list[list[Terms]]:
        """Each output's sizes as polynomials of the symbols. Raises Violation if a size is not a polynomial."""
        points = self.few_points()
        shapes = []
        for point in points:
            program = self.program(point)
            shapes.append([program.layouts[value].shape for value in outputs_of(program)])
        if len(points) == 1:  # a fit needs at least two
            points, shapes = points * 2, shapes * 2
        fitted = Template([*self.symbols], points)
        return [
            [terms_of(fitted._terms([*sizes]), len(self.symbols)) for sizes in zip(*across_points)]
            for across_points in zip(*shapes)
        ]

    def source(self, number: int) -> tuple[int, int, int, int]:
        """Where a symbol's size can be read: (index of the input, its dimension, factor, offset)."""
        for input, shape in enumerate(self.shapes):
            for index, terms in enumerate(shape):
                symbol, factor, offset = _linear(terms) or (None, 0, 0)
                if symbol == number:
                    return input, index, factor, offset
        raise ValueError(f"no input has the size {self.symbols[number].name}")

    def _check_range(self, symbol: Symbol, value: int, size: int, label: str) -> None:
        if value < symbol.low:
            raise GuardFailed(f"Guard failed: {symbol.low} <= {label}, got {size} ({symbol.name} = {value})")
        if symbol.high is not None and value > symbol.high:
            raise GuardFailed(f"Guard failed: {label} <= {symbol.high}, got {size} ({symbol.name} = {value})")


def _linear(terms: Terms) -> tuple[int, int, int] | None:
    """(the symbol's number, factor, offset) of a polynomial `factor * symbol + offset`; None for any other."""
    linear = [(factor, powers) for factor, powers in terms if sum(powers)]
    if len(linear) != 1 or sum(linear[0][1]) != 1 or not linear[0][0]:
        return None
    return linear[0][1].index(1), linear[0][0], sum(number for number, powers in terms if not sum(powers))


def filled_in(template: Any, sizes: Sequence[int]) -> Any:
    """A template with its expressions evaluated for these sizes."""
    if type(template) is list:
        return [filled_in(part, sizes) for part in template]
    if type(template) is not dict:
        return template
    if template.keys() == {POLYNOMIAL}:
        return polynomial.value(terms_of(template[POLYNOMIAL], len(sizes)), sizes)
    if template.keys() == {RATIO}:
        numerator, terms = template[RATIO]
        divisor = polynomial.value(terms_of(terms, len(sizes)), sizes)
        if not divisor:
            raise ValueError("a number is divided by a size of 0")
        return float(numerator) / divisor
    if template.keys() == {REPEAT}:
        part, terms = template[REPEAT]
        count = polynomial.value(terms_of(terms, len(sizes)), sizes)
        if not 0 <= count <= _MAX_REPEAT:
            raise ValueError(f"a list of {count} items")
        return [filled_in(part, sizes)] * count
    return {key: filled_in(part, sizes) for key, part in template.items()}


def terms_of(written: Any, symbols: int) -> Terms:
    """A polynomial read from a file. Raises ValueError for anything else."""
    fits = type(written) in (list, tuple) and len(written) <= _MAX_TERMS
    for term in written if fits else ():
        fits = fits and type(term) in (list, tuple) and len(term) == 2 and len(term[1]) == symbols
        fits = fits and type(term[0]) is int and abs(term[0]) <= _MAX_COEFFICIENT
        fits = fits and all(type(power) is int and 0 <= power <= polynomial.MAX_EXPONENT for power in term[1])
    if not fits:
        raise ValueError("a size is not a polynomial of the dynamic dimensions")
    return tuple([(coefficient, tuple(powers)) for coefficient, powers in written])


# ---- recording


def generalised(
    record: Callable[[list[Tensor]], Program],
    examples: list[Tensor],
    extents: Sequence[dict[int, Extent]],
) -> tuple[Dynamic, Program]:
    """(the program for all sizes, the program for the examples). `record` records the function for given inputs.

    Tables that follow from sizes are constants if these are fixed, else steps of the program. Raises Violation if the
    function does not treat a dimension as dynamic.
    """
    try:
        return _generalised(record, examples, extents)
    except Violation:
        token = tables_by_steps.set(True)
    try:
        return _generalised(record, examples, extents)
    finally:
        tables_by_steps.reset(token)


def _generalised(
    record: Callable[[list[Tensor]], Program],
    examples: list[Tensor],
    extents: Sequence[dict[int, Extent]],
) -> tuple[Dynamic, Program]:
    """As `generalised`."""
    symbols = list(dict.fromkeys(extent.symbol for by_dimension in extents for extent in by_dimension.values()))
    shapes = [_shape(example, by_dimension, symbols) for example, by_dimension in zip(examples, extents)]

    def at(point: tuple[int, ...]) -> tuple[Program, Any, dict[str, Tensor]]:
        inputs = [_resized(example, shape, point) for example, shape in zip(examples, shapes)]
        program = _recorded(record, inputs, symbols, point)
        return program, *described(program)

    points = _points(symbols, examples, shapes)
    recorded = {point: at(point) for point in points}
    further: dict[tuple[int, ...], tuple[Program, Any, dict[str, Tensor]]] = {}
    for point in _further_points(symbols, points):
        try:
            further[point] = at(point)
        except Violation:
            continue
    template, tensors = _fitted(symbols, recorded, further)
    recorded |= further
    result = Dynamic(symbols, shapes, template, tensors)
    _settle_ones(result, at, examples)
    example_sizes = tuple([symbol.size for symbol in symbols])
    return result, (recorded[example_sizes] if example_sizes in recorded else at(example_sizes))[0]


def _fitted(symbols: list[Symbol], recorded: dict, further: dict) -> tuple[Any, dict[str, Tensor]]:
    """(the template of recordings, their tensors). `further`: recordings beyond the ranges.

    A function may do something else beyond the ranges, if all sizes within them were recorded.
    """
    try:
        return _template(symbols, recorded | further)
    except Violation as violation:
        ranges = [range(max(symbol.low, 2), (symbol.high or 0) + 1) for symbol in symbols]
        if not further or not all(ranges) or not {*product(*ranges)} <= recorded.keys():
            bound = _bound(symbols, recorded | further)
            raise violation if bound is None else BeyondRange(symbols[0], bound, violation.reason) from None
    return _template(symbols, recorded)


def _bound(symbols: list[Symbol], recorded: dict) -> int | None:
    """The largest recorded size up to which the function does the same, if it does something else for larger ones."""
    (symbol,) = symbols if len(symbols) == 1 else (None,)
    sizes = [] if symbol is None or symbol.hint else sorted(size for (size,) in recorded)
    for high in reversed([size for size in sizes[:-1] if size >= symbol.size]):
        within = {point: recording for point, recording in recorded.items() if point[0] <= high}
        covered = {(size,) for size in range(max(symbol.low, 2), high + 1)} <= within.keys()
        try:
            if covered and _template(symbols, within):
                return high
        except Violation:
            continue
    return None


def _template(symbols: list[Symbol], recorded: dict) -> tuple[Any, dict[str, Tensor]]:
    """(the template of recordings, their tensors). Raises Violation if they do not have one."""
    if len(recorded) < 2:
        raise Violation(symbols, "it has one size only")
    first = next(iter(recorded))
    tensors = recorded[first][2]
    for point, (_, _, others) in recorded.items():
        _compare_tensors(tensors, others, recorded[first][1], _different(symbols, first, point))
    return Template(symbols, [*recorded]).of([fields for _, fields, _ in recorded.values()]), tensors


def _shape(example: Tensor, extents: dict[int, Extent], symbols: list[Symbol]) -> tuple[Terms, ...]:
    zero = (0,) * len(symbols)
    dims = []
    for index, size in enumerate(example.shape):
        extent = extents.get(index)
        if extent is None:
            dims.append(((size, zero),))
            continue
        powers = tuple([int(symbol is extent.symbol) for symbol in symbols])
        offset = ((extent.offset, zero),) if extent.offset else ()
        dims.append(((extent.factor, powers), *offset))
    return tuple(dims)


def _resized(example: Tensor, shape: Sequence[Terms], point: tuple[int, ...]) -> Tensor:
    """An input of another size. Its elements come from the example, since they may be indices or masks."""
    for index, terms in enumerate(shape):
        size = polynomial.value(terms, point)
        if size != example.shape[index]:
            example = example.index_select(index, arange(size) % max(example.shape[index], 1))
    return example


def _points(symbols: list[Symbol], examples: list[Tensor], shapes: list) -> list[tuple[int, ...]]:
    """Sizes at which to record: within the ranges; at most one point is large."""
    choices, last = [], []
    for symbol in symbols:
        low = max(symbol.low, 2)
        high = low + max(_SAMPLES) if symbol.high is None else symbol.high
        # samples beyond a large minimum as well: smaller ones would all be raised to it
        sizes = [size for size in (symbol.size, *_SAMPLES, low, low + 1, low + 3) if low <= size <= high]
        choices.append([*dict.fromkeys(sizes)][: 5 if len(symbols) == 1 else 3])
        last.append(symbol.high or max(low, *_SAMPLES))
    points, last = [*product(*choices)], tuple(last)
    elements = [_count(shape, last) for shape in shapes]
    return [*dict.fromkeys([*points, *([last] if sum(elements) <= _MAX_RECORDED_SIZE else [])])]


def _further_points(symbols: list[Symbol], points: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Sizes beyond the ranges, if the ranges have too few to fit a polynomial and check it."""
    if len(points) >= 4:
        return []
    most = [max((point[k] for point in points), default=1) for k in range(len(symbols))]
    return [tuple([size + more for size in most]) for more in range(1, 5 - len(points))]


def _count(shape: Sequence[Terms], point: tuple[int, ...]) -> int:
    elements = 1
    for terms in shape:
        elements *= polynomial.value(terms, point)
    return elements


def _different(symbols: list[Symbol], one: Sequence[int], other: Sequence[int]) -> list[Symbol]:
    return [symbol for symbol, a, b in zip(symbols, one, other) if a != b] or symbols


def _recorded(record: Callable, inputs: list[Tensor], symbols: list[Symbol], point: tuple[int, ...]) -> Program:
    example_sizes = [symbol.size for symbol in symbols]
    try:
        with planning_for_all_sizes():
            return record(inputs)
    except Exception as error:
        if [*point] == example_sizes:
            raise
        different = _different(symbols, example_sizes, point)
        sizes = ", ".join(f"{symbol.name} = {size}" for symbol, size in zip(symbols, point))
        raise Violation(different, f"with {sizes}, {_line(error)} raised {type(error).__name__}: {error}") from error


def _line(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not of_package(frame.filename)]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "the function"


def _compare_tensors(
    tensors: dict[str, Tensor], others: dict[str, Tensor], fields: dict, symbols: list[Symbol]
) -> None:
    """Raise Violation if recordings hold different tensors."""
    for name in [*tensors, *others]:
        one, other = tensors.get(name), others.get(name)
        if one is not None and other is not None and _equal(one, other):
            continue
        values = [number for number, storage, _ in fields["held"] if storage == name]
        where = next(
            (
                step["where"]
                for step in fields["steps"]
                if {"value": values[:1] and values[0]} in step.get("inputs", [])
            ),
            "",
        )
        raise Violation(symbols, f"{where or 'the function'} uses a tensor made outside of it that depends on the size")


def _equal(one: Tensor, other: Tensor) -> bool:
    return one._storage is other._storage or (
        one.shape == other.shape
        and one.dtype is other.dtype
        and one._storage.data.tobytes() == other._storage.data.tobytes()
    )


class Template:
    """Builds a template from recordings at several points."""

    def __init__(self, symbols: list[Symbol], points: list[tuple[int, ...]]) -> None:
        self.symbols, self.points, self.where = symbols, points, ""

    def of(self, recordings: list[Any]) -> Any:
        """The recordings' common structure, with expressions where numbers differ. Raises Violation."""
        first = recordings[0]
        if type(first) is dict and all(
            type(recording) is dict and recording.keys() == first.keys() for recording in recordings
        ):
            self.where = next((recording["where"] for recording in recordings if recording.get("where")), self.where)
            return {key: self.of([recording[key] for recording in recordings]) for key in first}
        if type(first) is list and all(
            type(recording) is list and len(recording) == len(first) for recording in recordings
        ):
            return [self.of([*parts]) for parts in zip(*recordings)]
        if all(
            type(recording) is list and recording and recording.count(recording[0]) == len(recording)
            for recording in recordings
        ):
            return {REPEAT: [self.of([recording[0] for recording in recordings]), self._terms([*map(len, recordings)])]}
        if all(type(recording) is type(first) and recording == first for recording in recordings):
            return first
        if all(type(recording) is int for recording in recordings):
            return {POLYNOMIAL: self._terms(recordings)}
        if all(type(recording) is float for recording in recordings):
            return self._float(recordings)
        if all(type(recording) is list for recording in recordings):
            self._note_first_difference(recordings)
        raise self._violation(recordings)

    def _note_first_difference(self, recordings: list[list]) -> None:
        """Keep the line of the first step in which lists of steps differ."""
        for steps in zip_longest(*recordings):
            steps = [step for step in steps if type(step) is dict and "where" in step]
            self.where = next((step["where"] for step in steps if step["where"]), self.where)
            if len(steps) < len(recordings) or len({str(step.get("op")) for step in steps}) > 1:
                return

    def _terms(self, numbers: list[int]) -> list:
        terms = polynomial.fit(self.points, numbers)
        if terms is None:
            raise self._violation(numbers)
        return [[coefficient, [*powers]] for coefficient, powers in terms]

    def _float(self, numbers: list[float]) -> dict:
        for numerator in _NUMERATORS:
            divisors = [round(numerator / number) if number else 0 for number in numbers]
            if all(divisor and numerator / divisor == number for divisor, number in zip(divisors, numbers)):
                return {RATIO: [numerator, self._terms(divisors)]}
        raise self._violation(numbers)

    def _violation(self, values: list[Any]) -> Violation:
        pairs = [*zip(self.points, values)]
        point, other = next(pair for pair in pairs if pair[1] != values[0])
        names = ", ".join(symbol.name for symbol in self.symbols)
        different = _different(self.symbols, self.points[0], point)
        shown = (
            f"{values[0]} and {other}"
            if all(isinstance(value, (int, float, str)) for value in (values[0], other))
            else "other steps"
        )
        return Violation(
            different,
            f"{self.where or 'the function'} does not follow the size: {names} = "
            f"{', '.join(map(str, self.points[0]))} and {', '.join(map(str, point))} give {shown}",
        )


def _settle_ones(dynamic: Dynamic, at: Callable, examples: list[Tensor]) -> None:
    """Let ranges begin at 2, as PyTorch does, for dimensions whose size 1 is special to the function (broadcasting)."""
    for number, symbol in enumerate(dynamic.symbols):
        symbol.low = max(symbol.low, 1)
        if symbol.low > 1:
            continue
        point = tuple(
            [1 if k == number else max(other_symbol.size, 2) for k, other_symbol in enumerate(dynamic.symbols)]
        )
        try:
            program, fields, _ = at(point)
            inputs = [_resized(example, shape, point) for example, shape in zip(examples, dynamic.shapes)]
            same = fields == filled_in(dynamic.template, point) or _same_results(
                program, dynamic.program(point), inputs
            )
        except (Violation, ValueError):
            same = False
        if not same:
            if symbol.size < 2:
                raise Violation([symbol], "it treats the size 1 differently from other sizes")
            symbol.low = 2


def _same_results(one: Program, other: Program, inputs: list[Tensor]) -> bool:
    """Whether two programs give the same results. They may differ in copies of tensors that have one row.

    False, without running them, for programs that write to held tensors or draw random numbers.
    """
    for step in (step for program in (one, other) for step in program.steps if isinstance(step, Step)):
        writes = step.in_place and any(result in one.held or result in other.held for result in step.results)
        if writes or any(isinstance(input, Draw) for input in step.inputs):
            return False
    leaves_of: list[list[Tensor]] = [[], []]
    for program, leaves in zip((one, other), leaves_of):
        results = program(*[input.clone() for input in inputs])
        replace(results, lambda leaf, leaves=leaves: leaves.append(leaf) if isinstance(leaf, Tensor) else None)
    return len(leaves_of[0]) == len(leaves_of[1]) and all(
        a.shape == b.shape and a.dtype is b.dtype and allclose(a, b, 1e-4, 1e-5, True) for a, b in zip(*leaves_of)
    )
