"""Programs for many sizes: what a program says is an expression of its dynamic dimensions.

The function is recorded at several sizes. Every integer in which the recordings differ must be a polynomial of the
sizes (`polynomial`), every float a number divided by one; nothing else may differ. A program for given sizes is made of
these expressions, and is checked like one that comes from a file.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from itertools import product, zip_longest
from threading import Lock
from typing import Any

from ..core.create.ranges import arange
from ..core.create.random import Draw
from ..core.math.elementwise import allclose
from ..core.tensor import Tensor
from ..graph.capture.recorder import of_package
from ..graph.ir.program import Program, Step
from ..graph.values.pytree import replace
from ..ops.attention.attention import for_all_sizes
from ..serialization.program import described, program_of
from . import polynomial
from .dimensions import Extent, Symbol
from .outputs import outputs_of
from .polynomial import Terms

POLYNOMIAL, RATIO, REPEAT = "polynomial", "ratio", "repeat"  # tags in a template
_NUMERATORS = (1.0, 2.0, -1.0, -2.0, 0.5, -0.5)
_SAMPLES = (2, 3, 5, 7, 11)  # sizes at which functions are recorded
_LARGE = 1 << 20  # elements of an input that is too large to record with
_PROGRAMS = 64  # for sizes that came last
_MAX_TERMS, _MAX_COEFFICIENT, _MAX_REPEAT = 16, 1 << 62, 1 << 20


class GuardFailed(AssertionError, RuntimeError):
    """An input has a size that the program was not exported for."""


class Violation(RuntimeError):
    """A function does not treat a dimension as dynamic. `symbols`: the ones that may be at fault."""

    def __init__(self, symbols: Sequence[Symbol], reason: str) -> None:
        self.symbols = list(symbols)
        names = ", ".join(symbol.name for symbol in symbols)
        fixes = "\n".join(f"  {symbol.name} = {symbol.size}" for symbol in symbols)
        super().__init__(
            f"Constraints violated ({names})!\n"
            f"  - You marked {names} as dynamic but your code specialized it to be a constant "
            f"({', '.join(str(symbol.size) for symbol in symbols)}): {reason}\nSuggested fixes:\n{fixes}"
        )


class Dynamic:
    """A program for all sizes of its symbols.

    `shapes`: of each input, the sizes as polynomials of the symbols. `template`: the program as a file has it, with
    expressions. `tensors`: those that it holds, by their names there.
    """

    def __init__(
        self,
        symbols: Sequence[Symbol],
        shapes: Sequence[Sequence[Terms]],
        template: Any,
        tensors: dict[str, Tensor],
    ) -> None:
        self.symbols, self.shapes = tuple(symbols), tuple([tuple(shape) for shape in shapes])
        self.template, self.tensors = template, tensors
        self._programs: dict[tuple[int, ...], Program] = {}
        self._lock = Lock()

    @property
    def names(self) -> list[str]:
        """The symbols' names."""
        return [symbol.name for symbol in self.symbols]

    def program(self, sizes: tuple[int, ...]) -> Program:
        """The program for these sizes. Raises ValueError where there is none."""
        with self._lock:
            found = self._programs.get(sizes)
            if found is None:
                while len(self._programs) >= _PROGRAMS:
                    self._programs.pop(next(iter(self._programs)))
                found = self._programs[sizes] = program_of(filled_in(self.template, sizes), self.tensors)
        return found

    def sizes_of(self, shapes: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[int, ...]:
        """The symbols' sizes in inputs of these shapes. Raises GuardFailed, with the constraint, where they do not
        fit.
        """
        found: dict[int, int] = {}
        pairs = [
            (size, terms, f"{name}.size()[{index}]")
            for shape, expected, name in zip(shapes, self.shapes, names)
            for index, (size, terms) in enumerate(zip(shape, expected, strict=False))
        ]
        for shape, expected, name in zip(shapes, self.shapes, names):
            if len(shape) != len(expected):
                raise GuardFailed(f"Guard failed: {name}.dim() == {len(expected)}, got {len(shape)}")
        for size, terms, place in pairs:
            number, factor, offset = _linear(terms) or (None, 1, 0)
            if number is not None and number not in found:
                found[number] = (size - offset) // factor
                self._check_range(self.symbols[number], found[number], size, place)
        sizes = tuple([found[number] for number in range(len(self.symbols))])
        for size, terms, place in pairs:
            if polynomial.value(terms, sizes) != size:
                wanted = polynomial.text(terms, self.names)
                values = "" if wanted.isdigit() else f" = {polynomial.value(terms, sizes)}"
                raise GuardFailed(f"Guard failed: {place} == {wanted}{values}, got {size}")
        return sizes

    def few_points(self) -> list[tuple[int, ...]]:
        """Sizes within the ranges that are enough for a fit which is checked, where the ranges have so many."""
        highs = [symbol.high or symbol.low + max(_SAMPLES) for symbol in self.symbols]
        return [
            *product(*[sorted({*range(s.low, min(s.low + 4, high + 1)), high}) for s, high in zip(self.symbols, highs)])
        ]

    def shapes_of_outputs(self) -> list[list[Terms]]:
        """Of each output, the sizes as polynomials of the symbols. Raises Violation where one is none."""
        points = self.few_points()
        found = []
        for point in points:
            program = self.program(point)
            found.append([program.layouts[value].shape for value in outputs_of(program)])
        if len(points) == 1:  # more are needed for a fit
            points, found = points * 2, found * 2
        made = Template([*self.symbols], points)
        return [[terms_of(made._terms([*sizes]), len(self.symbols)) for sizes in zip(*same)] for same in zip(*found)]

    def source(self, number: int) -> tuple[int, int, int, int]:
        """Where the size of a symbol can be read: (an input, a dimension of it, factor, offset)."""
        for input, shape in enumerate(self.shapes):
            for index, terms in enumerate(shape):
                symbol, factor, offset = _linear(terms) or (None, 0, 0)
                if symbol == number:
                    return input, index, factor, offset
        raise ValueError(f"no input has the size {self.symbols[number].name}")

    def _check_range(self, symbol: Symbol, found: int, size: int, place: str) -> None:
        if found < symbol.low:
            raise GuardFailed(f"Guard failed: {symbol.low} <= {place}, got {size} ({symbol.name} = {found})")
        if symbol.high is not None and found > symbol.high:
            raise GuardFailed(f"Guard failed: {place} <= {symbol.high}, got {size} ({symbol.name} = {found})")


def _linear(terms: Terms) -> tuple[int, int, int] | None:
    """(the number of a symbol, factor, offset) of a polynomial `factor * symbol + offset`; None for another one."""
    linear = [(factor, powers) for factor, powers in terms if sum(powers)]
    if len(linear) != 1 or sum(linear[0][1]) != 1 or not linear[0][0]:
        return None
    return linear[0][1].index(1), linear[0][0], sum(number for number, powers in terms if not sum(powers))


def filled_in(template: Any, sizes: Sequence[int]) -> Any:
    """A template with numbers instead of expressions."""
    if type(template) is list:
        return [filled_in(each, sizes) for each in template]
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
        each, terms = template[REPEAT]
        count = polynomial.value(terms_of(terms, len(sizes)), sizes)
        if not 0 <= count <= _MAX_REPEAT:
            raise ValueError(f"a list of {count} items")
        return [filled_in(each, sizes)] * count
    return {key: filled_in(each, sizes) for key, each in template.items()}


def terms_of(written: Any, symbols: int) -> Terms:
    """A polynomial that a file holds. Raises ValueError for anything else."""
    fits = type(written) in (list, tuple) and len(written) <= _MAX_TERMS
    for each in written if fits else ():
        fits = fits and type(each) in (list, tuple) and len(each) == 2 and len(each[1]) == symbols
        fits = fits and type(each[0]) is int and abs(each[0]) <= _MAX_COEFFICIENT
        fits = fits and all(type(power) is int and 0 <= power <= polynomial.MAX_EXPONENT for power in each[1])
    if not fits:
        raise ValueError("a size is no polynomial of the dynamic dimensions")
    return tuple([(coefficient, tuple(powers)) for coefficient, powers in written])


# ---- recording


def generalised(
    record: Callable[[list[Tensor]], Program],
    examples: list[Tensor],
    extents: Sequence[dict[int, Extent]],
) -> tuple[Dynamic, Program]:
    """(the program for all sizes, the program of the example). `record`: records the function with other inputs.

    Raises Violation where the function does not treat a dimension as dynamic.
    """
    symbols = list(dict.fromkeys(extent.symbol for each in extents for extent in each.values()))
    shapes = [_shape(example, each, symbols) for example, each in zip(examples, extents)]

    def at(point: tuple[int, ...]) -> tuple[Program, Any, dict[str, Tensor]]:
        given = [_resized(example, shape, point) for example, shape in zip(examples, shapes)]
        program = _recorded(record, given, symbols, point)
        return program, *described(program)

    points = _points(symbols, examples, shapes)
    recorded = {point: at(point) for point in points}
    for point in _further_points(symbols, points):
        try:
            recorded[point] = at(point)
        except Violation:
            continue
    if len(recorded) < 2:
        raise Violation(symbols, "it has one size only")
    first = next(iter(recorded))
    tensors = recorded[first][2]
    for point, (_, _, held) in recorded.items():
        _compare_tensors(tensors, held, recorded[first][1], _different(symbols, first, point))
    template = Template(symbols, [*recorded]).of([fields for _, fields, _ in recorded.values()])
    result = Dynamic(symbols, shapes, template, tensors)
    _settle_ones(result, at, examples)
    own = tuple([symbol.size for symbol in symbols])
    return result, (recorded[own] if own in recorded else at(own))[0]


def _shape(example: Tensor, extents: dict[int, Extent], symbols: list[Symbol]) -> tuple[Terms, ...]:
    zero = (0,) * len(symbols)
    found = []
    for index, size in enumerate(example.shape):
        extent = extents.get(index)
        if extent is None:
            found.append(((size, zero),))
            continue
        powers = tuple([int(symbol is extent.symbol) for symbol in symbols])
        offset = ((extent.offset, zero),) if extent.offset else ()
        found.append(((extent.factor, powers), *offset))
    return tuple(found)


def _resized(example: Tensor, shape: Sequence[Terms], point: tuple[int, ...]) -> Tensor:
    """An input of another size, with the example's elements: they may be indices or masks."""
    for index, terms in enumerate(shape):
        size = polynomial.value(terms, point)
        if size != example.shape[index]:
            example = example.index_select(index, arange(size) % max(example.shape[index], 1))
    return example


def _points(symbols: list[Symbol], examples: list[Tensor], shapes: list) -> list[tuple[int, ...]]:
    """Sizes at which to record: within the ranges, at most one of them large."""
    choices, last = [], []
    for symbol in symbols:
        low = max(symbol.low, 2)
        high = low + max(_SAMPLES) if symbol.high is None else symbol.high
        # samples beyond a large minimum as well, or sizes that differ could not be told apart
        sizes = [size for size in (symbol.size, *_SAMPLES, low, low + 1, low + 3) if low <= size <= high]
        choices.append([*dict.fromkeys(sizes)][: 5 if len(symbols) == 1 else 3])
        last.append(symbol.high or max(low, *_SAMPLES))
    points, last = [*product(*choices)], tuple(last)
    elements = [_count(shape, last) for shape in shapes]
    return [*dict.fromkeys([*points, *([last] if sum(elements) <= _LARGE else [])])]


def _further_points(symbols: list[Symbol], points: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Sizes beyond the ranges, where there are too few within for a fit that is checked."""
    if len(points) >= 4:
        return []
    most = [max((point[k] for point in points), default=1) for k in range(len(symbols))]
    return [tuple([size + more for size in most]) for more in range(1, 5 - len(points))]


def _count(shape: Sequence[Terms], point: tuple[int, ...]) -> int:
    found = 1
    for terms in shape:
        found *= polynomial.value(terms, point)
    return found


def _different(symbols: list[Symbol], one: Sequence[int], other: Sequence[int]) -> list[Symbol]:
    return [symbol for symbol, a, b in zip(symbols, one, other) if a != b] or symbols


def _recorded(record: Callable, given: list[Tensor], symbols: list[Symbol], point: tuple[int, ...]) -> Program:
    own = [symbol.size for symbol in symbols]
    token = for_all_sizes.set(True)
    try:
        return record(given)
    except Exception as error:
        if [*point] == own:
            raise
        different = _different(symbols, own, point)
        sizes = ", ".join(f"{symbol.name} = {size}" for symbol, size in zip(symbols, point))
        raise Violation(different, f"with {sizes}, {_line(error)} raised {type(error).__name__}: {error}") from error
    finally:
        for_all_sizes.reset(token)


def _line(error: Exception) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not of_package(frame.filename)]
    return f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "the function"


def _compare_tensors(
    tensors: dict[str, Tensor], others: dict[str, Tensor], fields: dict, symbols: list[Symbol]
) -> None:
    """Raise Violation where recordings hold different tensors."""
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
    """Makes a template of recordings at several points."""

    def __init__(self, symbols: list[Symbol], points: list[tuple[int, ...]]) -> None:
        self.symbols, self.points, self.where = symbols, points, ""

    def of(self, recordings: list[Any]) -> Any:
        """What the recordings have in common, with expressions where they differ. Raises Violation."""
        first = recordings[0]
        if type(first) is dict and all(type(each) is dict and each.keys() == first.keys() for each in recordings):
            self.where = next((each["where"] for each in recordings if each.get("where")), self.where)
            return {key: self.of([each[key] for each in recordings]) for key in first}
        if type(first) is list and all(type(each) is list and len(each) == len(first) for each in recordings):
            return [self.of([*parts]) for parts in zip(*recordings)]
        if all(type(each) is list and each and each.count(each[0]) == len(each) for each in recordings):
            return {REPEAT: [self.of([each[0] for each in recordings]), self._terms([*map(len, recordings)])]}
        if all(type(each) is type(first) and each == first for each in recordings):
            return first
        if all(type(each) is int for each in recordings):
            return {POLYNOMIAL: self._terms(recordings)}
        if all(type(each) is float for each in recordings):
            return self._float(recordings)
        if all(type(each) is list for each in recordings):
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

    def _violation(self, found: list[Any]) -> Violation:
        pairs = [*zip(self.points, found)]
        point, other = next(each for each in pairs if each[1] != found[0])
        names = ", ".join(symbol.name for symbol in self.symbols)
        different = _different(self.symbols, self.points[0], point)
        shown = (
            f"{found[0]} and {other}"
            if all(isinstance(each, (int, float, str)) for each in (found[0], other))
            else "other steps"
        )
        return Violation(
            different,
            f"{self.where or 'the function'} does not follow the size: {names} = "
            f"{', '.join(map(str, self.points[0]))} and {', '.join(map(str, point))} give {shown}",
        )


def _settle_ones(made: Dynamic, at: Callable, examples: list[Tensor]) -> None:
    """Where a function treats the size 1 otherwise, as one that broadcasts does, ranges begin at 2, as PyTorch's."""
    for number, symbol in enumerate(made.symbols):
        symbol.low = max(symbol.low, 1)
        if symbol.low > 1:
            continue
        point = tuple([1 if k == number else max(each.size, 2) for k, each in enumerate(made.symbols)])
        try:
            own, fields, _ = at(point)
            given = [_resized(example, shape, point) for example, shape in zip(examples, made.shapes)]
            same = fields == filled_in(made.template, point) or _same_results(own, made.program(point), given)
        except (Violation, ValueError):
            same = False
        if not same:
            if symbol.size < 2:
                raise Violation([symbol], "it treats the size 1 otherwise than others")
            symbol.low = 2


def _same_results(one: Program, other: Program, inputs: list[Tensor]) -> bool:
    """Whether two programs, which may copy what is one row as it is or not, give the same.

    False for programs that change what they hold or draw random numbers: they are not run.
    """
    for step in (step for program in (one, other) for step in program.steps if isinstance(step, Step)):
        writes = step.in_place and any(result in one.held or result in other.held for result in step.results)
        if writes or any(isinstance(input, Draw) for input in step.inputs):
            return False
    found: list[list[Tensor]] = [[], []]
    for program, tensors in zip((one, other), found):
        results = program(*[input.clone() for input in inputs])
        replace(results, lambda leaf, tensors=tensors: tensors.append(leaf) if isinstance(leaf, Tensor) else None)
    return len(found[0]) == len(found[1]) and all(
        a.shape == b.shape and a.dtype is b.dtype and allclose(a, b, 1e-4, 1e-5, True) for a, b in zip(*found)
    )
