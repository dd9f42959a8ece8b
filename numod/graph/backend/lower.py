"""Lowers a recorded program to kernel calls over buffers.

Each op's eager launch runs once, with placeholders (spans) for arrays, and its kernel calls are recorded. A launch that
needs actual arrays, such as NumPy's LAPACK, becomes a call on the host. Kernels are compiled later, by `section`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...core.convert.transfer import Move
from ...device import Layout
from ...device.layout import same_elements
from ...kernel import bind
from ...ops.complexes import as_real
from ...ops.op import Plan
from ...ops.update import Update
from ..values.source_location import CannotRepeat
from ..ir.program import EMPTY, Check, Program, Step, Value, numbers_of


@dataclass(eq=False)
class Buffer:
    """A flat range of memory.

    `kind`: "input" (memory of input `number`), "held" (memory of an existing `tensor`), "result" and "gradient"
    (allocated by every run) or "local" (within a run).
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
    """The elements of a buffer from `offset` on: the placeholder for an array in a launch.

    `form`: the dtype as which the memory is viewed; None for that of the buffer.
    """

    buffer: Buffer
    offset: int = 0
    form: np.dtype | None = None

    def __getitem__(self, part: slice) -> Span:
        return Span(self.buffer, self.offset + (part.start or 0), self.form)

    def pairs(self) -> Span:
        """The same memory as pairs of real numbers."""
        is_complex = self.storage.kind == "c"
        return Span(self.buffer, 2 * self.offset, self.storage.type().real.dtype) if is_complex else self

    def view(self, storage: np.dtype) -> Span:
        """The same memory as elements of another dtype of the same width."""
        if storage.itemsize != self.storage.itemsize:
            raise TypeError(f"a span of {self.storage} cannot be viewed as {storage}, whose width differs")
        return Span(self.buffer, self.offset, storage)

    @property
    def storage(self) -> np.dtype:
        """The dtype of its elements."""
        return self.buffer.storage if self.form is None else self.form

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.buffer.size * (self.buffer.storage.itemsize // self.storage.itemsize) - self.offset

    def of(self, array: Any) -> Any:
        """The span's part of the buffer's array."""
        array = array if self.form is None else array.view(self.form)
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
        """The buffer that contains the number."""
        return self.span.buffer


@dataclass
class Call:
    """A kernel, or a host function, with its spans and numbers.

    `reads` and `writes` are the buffers of the op it belongs to.
    """

    kernel: bind.Unbuilt | None
    arguments: tuple
    position: int  # index of its step in the program
    step: Step
    reads: tuple[Buffer, ...]
    writes: tuple[Buffer, ...]
    host: Callable | None = None


@dataclass
class CheckCall:
    """A check recorded from the library: the value at `span` must equal `expected`."""

    position: int
    span: Span
    layout: Layout
    expected: float | int | bool
    location: str


@dataclass
class Lowered:
    """The calls in order, and the spans of the program's values."""

    calls: list[Call | CheckCall] = field(default_factory=list)
    places: dict[Value, Span] = field(default_factory=dict)
    layouts: dict[Value, Layout] = field(default_factory=dict)
    # sources of run-time numbers: a Draw, or a function that returns a tuple
    sources: list = field(default_factory=list)
    widths: list[int] = field(default_factory=list)  # the number of values that each source returns


def lower(program: Program) -> Lowered:
    """The kernel calls of a program.

    Raises CannotRepeat for moves between devices, which only the interpreter can run.
    """
    return _Lowering(program).result


class _Lowering:
    """Collects the kernel calls of a program's steps, and the memory that each value occupies."""

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
            self.result.places[value] = self._captured_span(tensor)
        for self.position, step in enumerate(program.steps):
            if isinstance(step, Check):
                self.result.calls.append(
                    CheckCall(
                        self.position,
                        self.result.places[step.value],
                        program.layouts[step.value],
                        step.expected,
                        step.location,
                    )
                )
            else:
                self._lower(step)

    def _captured_span(self, tensor: Tensor) -> Span:
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
        """Add the kernel calls of a step. Views and uninitialised memory need none."""
        if isinstance(step.op, Move):
            raise CannotRepeat(
                f"compile: {step.location} copies a tensor to another device inside the compiled function; move it "
                "before the call"
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
            plan = step.op.prepare(tuple(layouts), step.attributes)
            self.result.places[step.results[0]] = Span(spans[0].buffer, spans[0].offset + plan.offset)
            return None
        if step.in_place:
            targets = [self.result.places[result] for result in step.results]
            into = tuple(self.result.layouts[result] for result in step.results)
            located_inputs = [
                (self.result.places[input], self.result.layouts[input]) if issubclass(type(input), Value) else None
                for input in step.inputs
            ]
            over = tuple(
                located_inputs.index(located) if (located := (span, layout)) in located_inputs else None
                for span, layout in zip(targets, into)
            )
            outputs = [span for span, position in zip(targets, over) if position is None]
            self._run(
                step, lambda: step.op.prepare_into(tuple(layouts), step.attributes, into, over), spans, outputs, targets
            )
        else:
            for value in step.results:
                self._make(value)
            targets = [self.result.places[result] for result in step.results]
            self._run(step, lambda: self._prepared(step, tuple(layouts)), spans, targets, targets)
        return None

    def _prepared(self, step: Step, layouts: tuple) -> Plan:
        """The plan of a step. Raises ValueError if its results are not those for which there is memory."""
        plan = step.op.prepare(layouts, step.attributes)
        planned = plan.layout if isinstance(plan.layout, tuple) else (plan.layout,)
        for value, layout in zip(step.results, planned, strict=True):
            expected = self.result.layouts[value]
            if not same_elements(layout, expected):
                raise ValueError(
                    f"{step.op.name} plans a result {layout.dtype} {tuple(layout.shape)}, the program expects "
                    f"{expected.dtype} {tuple(expected.shape)}"
                )
        return plan

    def _make(self, value: Value) -> None:
        """Add a local buffer for a value."""
        layout = self.result.layouts[value]
        self.result.places[value] = Span(Buffer("local", layout.extent, layout.storage, layout.device))

    def _update(self, step: Step) -> None:
        """An optimizer's step, as the launches of `apply_updates`."""
        numbers, count, recorded = step.attributes
        if numbers is None:
            values = [self._loaded(number) for number in numbers_of(step)]
        else:
            values = [_number(recorded_value, len(self.result.sources), k) for k, recorded_value in enumerate(recorded)]
            self.result.sources.append(numbers)
            self.result.widths.append(len(recorded))
        size = (len(step.inputs) - (len(recorded) if numbers is None else 0)) // max(count, 1)
        for first in range(0, count, step.op.together):
            members = step.inputs[first * size : min(first + step.op.together, count) * size]
            layouts = [_layout_in_pairs(self.result.layouts[member]) for member in members]
            spans = [self.result.places[member].pairs() for member in members]
            kinds = [*layouts, *[float if isinstance(value, float) else int for value in values]]
            written = [spans[k + position] for k in range(0, len(members), size) for position in step.op.positions]

            def plan(layouts=layouts, kinds=kinds):
                return step.op.prepare_into(kinds, (len(layouts) // size,), tuple(layouts), ())

            self._run(step, plan, spans, [], written, values)

    def _loaded(self, number: Value | float) -> float:
        """A number of an optimizer step: the value that the program holds when it runs, or a constant."""
        if not isinstance(number, Value):
            return float(number)
        loaded = Loaded(0.0)
        loaded.span = self.result.places[number]
        return loaded

    def _with_draws(self, inputs: tuple) -> list:
        """A step's numbers, with the seed and offset of a random op replaced by run-time numbers."""
        arguments = list(inputs)
        for k, input in enumerate(inputs):
            if isinstance(input, Draw):
                if id(input) not in self.draws:
                    self.draws[id(input)] = len(self.result.sources)
                    self.result.sources.append(input)
                    self.result.widths.append(2)
                arguments[k - 1], arguments[k] = (
                    _number(inputs[j], self.draws[id(input)], n) for n, j in enumerate((k - 1, k))
                )
        return [number for number in arguments if not issubclass(type(number), Value) and number is not None]

    def _run(
        self, step: Step, prepare: Callable, spans: list, outputs: list, targets: list, numbers: list | None = None
    ) -> None:
        """Run the plan's launch with spans and record its kernel calls, or a host call if it needs arrays."""
        numbers = self._with_draws(step.inputs) if numbers is None else numbers
        reads, writes = tuple(span.buffer for span in spans), tuple(target.buffer for target in targets)
        with bind.unbuilt() as log:
            plan = prepare()
            try:
                plan.launch(*spans, *outputs, *numbers, *plan.constants)
            except Exception:  # the launch needs arrays
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
            lowered_arguments = tuple(self._argument(argument, kernel.device) for argument in arguments)
            self.result.calls.append(Call(kernel, lowered_arguments, self.position, step, reads, writes))

    def _argument(self, argument: object, device: object) -> object:
        """An argument of a recorded call. An array that the launch allocated becomes a local buffer."""
        if isinstance(argument, (Span, int, float, complex)):
            return argument
        if id(argument) not in self.scratch:
            # the array is kept alive so that its id is not reused
            self.scratch[id(argument)] = Buffer("local", argument.size, np.dtype(argument.dtype), device), argument
        return Span(self.scratch[id(argument)][0])


def _layout_in_pairs(layout: Layout) -> Layout:
    """The layout of a complex tensor viewed as real numbers, as optimizers update it; other layouts unchanged."""
    return as_real.prepare((layout,), ()).layout if layout.dtype.is_complex else layout


def _number(value: float, source: int, index: int) -> Number | Integer:
    """The placeholder of a run-time number, with the type of the recorded `value`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        value = float(value)
    number = Integer(value) if isinstance(value, int) else Number(value)
    number.source, number.index, number.kind = source, index, "int64" if isinstance(value, int) else "float64"
    return number
