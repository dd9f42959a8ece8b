"""Lowers a recorded program to kernel calls over buffers: each op's own launch is run once, with placeholders (spans)
for arrays.

So every op is lowered by means of its eager kernels. A launch that needs actual arrays (NumPy's LAPACK, say) remains a
call on the host. Nothing is compiled here: `link` and `run` do that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.create.random import Draw
from ...core.tensor import Tensor
from ...core.convert.transfer import Move
from ...device import Layout
from ...kernel import bind
from ...ops.complexes import as_real
from ...ops.update import Update
from ..values.source_location import CannotRepeat
from ..ir.program import EMPTY, Check, Program, Step, Value, numbers_of


@dataclass(eq=False)
class Buffer:
    """A flat range of memory.

    `kind`: "input" (argument k of the call), "held" (a tensor that existed), "result" (allocated by every run) or
    "local".
    """

    kind: str
    size: int
    storage: np.dtype
    device: object
    tensor: Tensor | None = None
    number: int = 0

    @property
    def nbytes(self) -> int:
        """Its size in bytes."""
        return self.size * self.storage.itemsize


@dataclass(frozen=True)
class Span:
    """A buffer from an element on: the placeholder for an array in a launch.

    Complex numbers are read as pairs of real ones where it is `paired`.
    """

    buffer: Buffer
    offset: int = 0
    paired: bool = False

    def __getitem__(self, part: slice) -> Span:
        return Span(self.buffer, self.offset + (part.start or 0), self.paired)

    def pairs(self) -> Span:
        """The same memory as pairs of real numbers."""
        return Span(self.buffer, 2 * self.offset, True) if self.buffer.storage.kind == "c" else self

    @property
    def storage(self) -> np.dtype:
        """The dtype of its elements."""
        return self.buffer.storage.type().real.dtype if self.paired else self.buffer.storage

    @property
    def size(self) -> int:
        """How many there are."""
        return self.buffer.size * (2 if self.paired else 1) - self.offset

    def of(self, array: Any) -> Any:
        """The part of the buffer's array that it stands for."""
        array = array.view(self.storage) if self.paired else array
        return array[self.offset :] if self.offset else array


class Number(float):
    """A number known only at run time: item `index` of `source`."""

    source: Any
    index: int
    kind: str


class Integer(int):
    """An integer known only at run time."""

    source: Any
    index: int
    kind: str


class Loaded(float):
    """A number that the program computes: the element at `span`."""

    span: Span

    @property
    def buffer(self) -> Buffer:
        """Where it lies."""
        return self.span.buffer


@dataclass
class Call:
    """A kernel, or a host function, with its spans and numbers.

    `reads` and `writes` are the buffers of the op it belongs to.
    """

    kernel: bind.Unbuilt | None
    arguments: tuple
    position: int  # source line of its step in the program
    step: Step
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    host: Callable | None = None


@dataclass
class Test:
    """A check recorded from the library: the value at `span` must equal `found`."""

    position: int
    span: Span
    layout: Layout
    found: float | int | bool
    where: str


@dataclass
class Lowered:
    """The calls in order, and the spans of the program's values."""

    calls: list[Call | Test] = field(default_factory=list)
    places: dict[Value, Span] = field(default_factory=dict)
    layouts: dict[Value, Layout] = field(default_factory=dict)
    # sources of run-time numbers: a Draw, or a function that returns a tuple
    sources: list = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # how many numbers each source gives


def lower(program: Program) -> Lowered:
    """The kernel calls of a program.

    Raises RuntimeError for what only the interpreter can run (moves between devices).
    """
    return _Lowering(program).result


class _Lowering:
    def __init__(self, program: Program) -> None:
        self.result = Lowered(layouts=dict(program.layouts))
        self.storages: dict[int, Buffer] = {}
        self.draws: dict[int, int] = {}
        self.scratch: dict[int, tuple[Buffer, np.ndarray]] = {}
        for number, value in enumerate(program.inputs):
            layout = program.layouts[value]
            self.result.places[value] = Span(
                Buffer("input", layout.extent, layout.storage, layout.device, number=number)
            )
        for value, tensor in program.held.items():
            self.result.places[value] = self._held(tensor)
        for self.position, step in enumerate(program.steps):
            if isinstance(step, Check):
                self.result.calls.append(
                    Test(
                        self.position,
                        self.result.places[step.value],
                        program.layouts[step.value],
                        step.found,
                        step.where,
                    )
                )
            else:
                self._lower(step)

    def _held(self, tensor: Tensor) -> Span:
        """The span of a held tensor.

        Tensors that share a storage share a buffer, which starts at the storage's first element.
        """
        storage = tensor._storage
        if id(storage) not in self.storages:
            self.storages[id(storage)] = Buffer(
                "held", len(storage.data), tensor._layout.storage, tensor.device, tensor
            )
        return Span(self.storages[id(storage)], tensor._offset)

    def _lower(self, step: Step) -> None:
        if isinstance(step.op, Move):
            raise CannotRepeat(
                f"compile: {step.where} copies a tensor to another device inside the compiled function; move it before"
            )
        if step.op is EMPTY:
            return self._make(step.results[0])
        if isinstance(step.op, Update):
            return self._update(step)
        layouts = [
            self.result.layouts[input] if issubclass(type(input), Value) else type(input) for input in step.inputs
        ]
        tensors = [k for k, input in enumerate(step.inputs) if issubclass(type(input), Value)]
        spans = [self.result.places[step.inputs[k]] for k in tensors]
        if step.op.is_view:
            plan = step.op.prepare(tuple(layouts), step.parameters)
            self.result.places[step.results[0]] = Span(spans[0].buffer, spans[0].offset + plan.offset)
            return None
        if step.in_place:
            targets = [self.result.places[result] for result in step.results]
            into = tuple(self.result.layouts[result] for result in step.results)
            places = [
                (self.result.places[input], self.result.layouts[input]) if issubclass(type(input), Value) else None
                for input in step.inputs
            ]
            over = tuple(
                places.index(pair) if (pair := (span, layout)) in places else None
                for span, layout in zip(targets, into)
            )
            outputs = [span for span, position in zip(targets, over) if position is None]
            self._run(
                step, lambda: step.op.prepare_into(tuple(layouts), step.parameters, into, over), spans, outputs, targets
            )
        else:
            for value in step.results:
                self._make(value)
            targets = [self.result.places[result] for result in step.results]
            self._run(step, lambda: step.op.prepare(tuple(layouts), step.parameters), spans, targets, targets)
        return None

    def _make(self, value: Value) -> None:
        layout = self.result.layouts[value]
        self.result.places[value] = Span(Buffer("local", layout.extent, layout.storage, layout.device))

    def _update(self, step: Step) -> None:
        """An optimizer's step, as the launches of `apply_updates`."""
        numbers, count, recorded = step.parameters
        if numbers is None:
            values = [self._loaded(each) for each in numbers_of(step)]
        else:
            values = [_number(each, len(self.result.sources), k) for k, each in enumerate(recorded)]
            self.result.sources.append(numbers)
            self.result.widths.append(len(recorded))
        size = (len(step.inputs) - (len(recorded) if numbers is None else 0)) // max(count, 1)
        for first in range(0, count, step.op.together):
            members = step.inputs[first * size : min(first + step.op.together, count) * size]
            layouts = [_in_pairs(self.result.layouts[member]) for member in members]
            spans = [self.result.places[member].pairs() for member in members]
            kinds = [*layouts, *[float if isinstance(value, float) else int for value in values]]
            written = [spans[k + position] for k in range(0, len(members), size) for position in step.op.positions]

            def plan(layouts=layouts, kinds=kinds):
                return step.op.prepare_into(kinds, (len(layouts) // size,), tuple(layouts), ())

            self._run(step, plan, spans, [], written, values)

    def _loaded(self, each: Value | float) -> float:
        """A number of an update: what a value holds when it runs, or a number as it is."""
        if not isinstance(each, Value):
            return float(each)
        found = Loaded(0.0)
        found.span = self.result.places[each]
        return found

    def _drawn(self, inputs: tuple) -> list:
        """A step's parameters, with seed and offset of a random op replaced by those of its draw."""
        numbers = list(inputs)
        for k, input in enumerate(inputs):
            if isinstance(input, Draw):
                if id(input) not in self.draws:
                    self.draws[id(input)] = len(self.result.sources)
                    self.result.sources.append(input)
                    self.result.widths.append(2)
                numbers[k - 1], numbers[k] = (
                    _number(inputs[j], self.draws[id(input)], n) for n, j in enumerate((k - 1, k))
                )
        return [number for number in numbers if not issubclass(type(number), Value) and number is not None]

    def _run(
        self, step: Step, prepare: Callable, spans: list, outputs: list, targets: list, numbers: list | None = None
    ) -> None:
        """Run the plan's launch with spans and record the kernels it calls; a launch that needs arrays becomes a host
        call.
        """
        numbers = self._drawn(step.inputs) if numbers is None else numbers
        reads, writes = tuple(span.buffer for span in spans), tuple(target.buffer for target in targets)
        with bind.unbuilt() as log:
            plan = prepare()
            try:
                plan.launch(*spans, *outputs, *numbers, *plan.constants)
            except Exception:  # whatever it does with an array, it is not ours to link
                log = None
        if log is None:
            plan = prepare()
            self.result.calls.append(
                Call(
                    None,
                    (*spans, *outputs, *numbers, *plan.constants),
                    self.position,
                    step,
                    reads,
                    writes,
                    host=plan.launch,
                )
            )
            return
        for kernel, arguments in log:
            given = tuple(self._argument(argument, kernel.device) for argument in arguments)
            self.result.calls.append(Call(kernel, given, self.position, step, reads, writes))

    def _argument(self, each: object, device: object) -> object:
        """An argument of a recorded call: spans and numbers as they are; an array that the launch allocated becomes a
        local buffer.
        """
        if isinstance(each, (Span, int, float, complex)):
            return each
        if id(each) not in self.scratch:
            # the array is kept alive so that its id is not reused
            self.scratch[id(each)] = Buffer("local", each.size, np.dtype(each.dtype), device), each
        return Span(self.scratch[id(each)][0])


def _in_pairs(layout: Layout) -> Layout:
    """A complex tensor's layout as one of real numbers: optimizers take both parts as numbers like any others."""
    return as_real.prepare((layout,), ()).layout if layout.dtype.is_complex else layout


def _number(value: float, source: int, index: int) -> Number | Integer:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = float(value)
    found = Integer(value) if isinstance(value, int) else Number(value)
    found.source, found.index, found.kind = source, index, "int64" if isinstance(value, int) else "float64"
    return found
