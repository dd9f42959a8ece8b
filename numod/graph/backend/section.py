"""A sequence of kernel calls, ready to run.

It runs as one native function if the work is small, as a CUDA graph on a GPU, else as separate launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...device import Storage, progress
from ...device.storage import address
from ...kernel import build
from ...ops.sequence.rnn_layer import Layer, is_room
from .link import ARENA, FIRST, link
from .lower import Buffer, Call, CheckCall, Integer, Loaded, Lowered, Number, Span
from .schedule import may_fail
from .cuda_graph import Replay, suits_cuda_graph
from ..ir.repetition import key_of_call, repeated_runs

LINKED_WORK = 1 << 20  # maximum work (in elements of simple work) for linking calls into one serial function
LINKED_CALLS = 400
# factors by which LINKED_WORK is lower for a function of all sizes, since other sizes may be larger: compiled because
# sizes have changed, or because of `compile(dynamic=True)`
SOME_SIZES, ALL_SIZES = 2, 16


class CheckFailed(Exception):
    """A check found another value than when the program was recorded."""


@dataclass(frozen=True)
class Form:
    """How calls are run.

    `linked`: as one native function, or kernel by kernel; None chooses by the amount of work.
    `dynamic`: one function for all sizes. `requested`: by `compile(dynamic=True)`, not since sizes changed.
    `freezing`: values that depend only on constant held tensors are computed once (`freeze`).
    `sparsity`: frozen weights are packed without their zeros where that is faster.
    """

    linked: bool | None = None
    dynamic: bool = False
    freezing: bool = False
    requested: bool = False
    sparsity: bool = False


class Section:
    """Calls of a lowered program.

    `arrays`: the buffers whose memory each run passes in (inputs, results, gradients), in order.
    `places`, `size`: offsets of local memory in an arena, and the arena's size.
    """

    def __init__(
        self,
        lowered: Lowered,
        calls: Sequence[Call | CheckCall],
        places: dict[Buffer, int],
        size: int,
        name: str,
        form: Form,
    ) -> None:
        self.name, self.calls, self.places, self.sources = name, list(calls), places, lowered.sources
        self.buffers = _buffers(self.calls)
        self.arrays = [buffer for buffer in self.buffers if buffer.kind not in ("held", "local")]
        self.outputs = [array for array in self.arrays if array.kind != "input"]
        self.held = [buffer for buffer in self.buffers if buffer.kind == "held"]
        self.tests = [call for call in self.calls if isinstance(call, CheckCall)]
        self.may_fail = any(map(may_fail, self.calls))
        arguments = [a for call in self.calls if isinstance(call, Call) for a in call.arguments]
        self.numbers = sorted({(a.source, a.index) for a in arguments if isinstance(a, (Number, Integer))})
        self.linked = is_linked(self.calls, form)
        self.replay: Replay | None = None
        if self.linked:
            self._link(name, form.dynamic)
        else:
            self.kernel = None
            with progress.expecting(len({id(call.kernel) for call in self.calls if isinstance(call, Call)})):
                begin_kernels(self.calls)
                self.launchers = [
                    None if isinstance(call, CheckCall) else call.host or call.kernel.build() for call in self.calls
                ]
            if form.linked is not False and suits_cuda_graph(self.calls, size):
                self.replay = Replay(self.calls, lambda: self.launchers, places)

    def _link(self, name: str, dynamic: bool) -> None:
        """Link the calls.

        Inputs are arguments. Each run writes the addresses of results and gradients into its table.
        """
        self.inputs = [array for array in self.arrays if array.kind == "input"]
        linked = link(self.calls, self.places, self.inputs, name, dynamic)
        self.kernel, self.launch, self.slots = linked.kernel, linked.launch, linked.slots
        self.position_of = {
            slot: position
            for position, slot in enumerate(self.slots, FIRST)
            if isinstance(slot, Buffer) and slot.kind != "held"
        }
        self.output_positions = [
            (output, self.position_of[output]) for output in self.outputs if output in self.position_of
        ]
        self.input_positions = [
            (input.number, self.position_of[input]) for input in self.inputs if input in self.position_of
        ]
        self.table = np.zeros(FIRST + len(self.slots), np.int64)
        for position, slot in enumerate(self.slots, FIRST):
            if slot not in self.position_of:
                self.table[position] = address(slot.tensor._storage.data) if isinstance(slot, Buffer) else slot

    def form_at_other_sizes(self, form: Form) -> Form:
        """The form in which other sizes use the same code: on a CPU, one function or separate kernels, as here."""
        on_cpu = all(buffer.device.type == "cpu" for buffer in self.buffers)
        return replace(form, linked=self.linked) if form.dynamic and on_cpu else form

    def kernels(self) -> list[build.Kernel]:
        """The section's kernels."""
        return (
            [self.kernel]
            if self.linked
            else [call.kernel.built() for call in self.calls if isinstance(call, Call) and call.kernel is not None]
        )

    def run(
        self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence
    ) -> None:
        """Run the calls. Raises CheckFailed.

        `memory_of`: memory of the outputs. `values`: the run-time numbers of each source.
        """
        if self.linked:
            self._run_linked(arena, inputs, memory_of, values)
        else:
            self._run_separately(arena, inputs, memory_of, values)

    def _run_linked(
        self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence
    ) -> None:
        table = self.table.copy()  # other threads may be running this function
        table[ARENA] = address(arena)
        for output, position in self.output_positions:
            table[position] = address(memory_of[output].data)
        for number, position in self.input_positions:
            table[position] = address(_elements(inputs[number]))
        arrays = [_elements(inputs[input.number]) for input in self.inputs]
        failed = self.launch(address(table), *arrays, *[values[source][index] for source, index in self.numbers])
        if failed:
            raise _failure(self.tests[failed - 1])

    def _run_separately(
        self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence
    ) -> None:
        """Launch the kernels one by one, or replay them as a CUDA graph if that is free."""
        memory = {
            array: _elements(inputs[array.number]) if array.kind == "input" else memory_of[array].data
            for array in self.arrays
        }
        memory.update((held_buffer, held_buffer.tensor._storage.data) for held_buffer in self.held)
        replay = self.replay
        if replay is not None and replay.backend.replaying and replay.lock.acquire(blocking=False):
            try:
                arrays = [memory[buffer] for buffer in replay.buffers]
                return replay.start(
                    replay.ready(arrays), arrays, [values[source][index] for source, index in replay.numbers]
                )
            finally:
                replay.lock.release()
        for buffer in self.buffers:
            if buffer.kind == "local":
                memory[buffer] = self.local(buffer, arena)
        for call, launch in zip(self.calls, self.launchers):
            if isinstance(call, CheckCall):
                _check(call, memory)
            else:
                launch(*[_argument(a, memory, values) for a in call.arguments])

    def local(self, buffer: Buffer, arena: np.ndarray | None) -> Any:
        """A local buffer's memory."""
        if buffer.device.type != "cpu":
            return buffer.device.empty(buffer.size, buffer.storage)
        offset = self.places[buffer]
        return arena[offset : offset + buffer.nbytes].view(buffer.storage)


def begin_kernels(calls: Sequence[Call | CheckCall]) -> None:
    """Begin the kernels of calls that are launched separately: LLVM works on all at a time."""
    with build.ahead():
        for call in calls:
            if isinstance(call, Call) and call.kernel is not None and call.host is None:
                call.kernel.build()


def _elements(x: Tensor) -> np.ndarray:
    """An input's memory from its first element on."""
    return x._storage.data[x._offset :] if x._offset else x._storage.data


def draw(sources: Sequence) -> list[tuple]:
    """The run-time numbers: new random draws, and current hyper-parameters of optimizers."""
    return [source.generator.draw(source.count) if isinstance(source, Draw) else source() for source in sources]


def undraw(sources: Sequence, values: list[tuple]) -> None:
    """Reset the random streams to their state before these values were drawn."""
    for source, numbers in zip(reversed(sources), reversed(values)):
        if isinstance(source, Draw):
            source.generator.undraw(numbers[1], source.count)


def is_linked(calls: Sequence, form: Form = Form()) -> bool:
    """Whether the calls run as one native function."""
    if form.linked is False or not _linkable(calls):
        return False
    return bool(form.linked) or (small(calls, form) and not _has_packed_sequences(calls))


def _linkable(calls: Sequence) -> bool:
    """Whether the calls can be linked: only CPU kernels, and not too many."""
    kernels = [call.kernel for call in calls if isinstance(call, Call)]
    if not kernels or not all(kernel is not None and kernel.device.type == "cpu" for kernel in kernels):
        return False
    return (
        len(kernels) <= LINKED_CALLS
        or sum(run.period for run in repeated_runs([*map(key_of_call, calls)])) <= LINKED_CALLS
    )


def small(calls: Sequence, form: Form = Form()) -> bool:
    """Whether the work is small enough for one serial function, also at the larger sizes of a dynamic form."""
    factor = (ALL_SIZES if form.requested else SOME_SIZES) if form.dynamic else 1
    return factor * sum(call.kernel.work for call in calls if isinstance(call, Call)) < LINKED_WORK


def _has_packed_sequences(calls: Sequence) -> bool:
    """Whether recurrent layers run over packed sequences of any lengths.

    Their kernels, about 50, would take seconds to compile as one function.
    """
    layers = [call.step for call in calls if isinstance(call, Call) and isinstance(call.step.op, Layer)]
    return any(is_room(layer.attributes[0]) for layer in layers)


def _buffers(calls: Sequence) -> list[Buffer]:
    buffers: dict[Buffer, None] = {}
    for call in calls:
        arguments = [call.span] if isinstance(call, CheckCall) else call.arguments
        spans = [getattr(argument, "span", argument) for argument in arguments if isinstance(argument, (Span, Loaded))]
        buffers.update(dict.fromkeys(span.buffer for span in spans))
    return list(buffers)


def _argument(argument: Any, memory: dict, values: Sequence) -> Any:
    if isinstance(argument, Span):
        return argument.of(memory[argument.buffer])
    if isinstance(argument, Loaded):
        return float(memory[argument.buffer][argument.span.offset])
    return values[argument.source][argument.index] if isinstance(argument, (Number, Integer)) else argument


def _check(test: CheckCall, memory: dict) -> None:
    buffer = test.span.buffer
    if buffer.device.backend.download(memory[buffer][test.span.offset : test.span.offset + 1])[0] != test.expected:
        raise _failure(test)


def _failure(test: CheckCall) -> CheckFailed:
    return CheckFailed(f"the check at {test.location or 'an unknown line'} found another value than {test.expected}")
