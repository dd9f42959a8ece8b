"""A sequence of kernel calls, ready to run: as one native function if the work is small, on a GPU as a graph of the driver's (`replay`), else kernel by kernel,
as eager ops launch them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.random import Draw
from ..core.tensor import Tensor
from ..device import Storage
from ..device.storage import address
from ..kernel import build
from ..ops.recurrent_layer import Layer, is_room
from .link import ARENA, FIRST, link
from .lower import Buffer, Call, Integer, Lowered, Number, Span, Test
from .order import may_fail
from .replay import Replay, suits
from .roll import key_of_call, stretches

LINKED_WORK = 1 << 20  # maximum work (in elements of simple work) for linking calls into one serial function
LINKED_CALLS = 400


class CheckFailed(Exception):
    """A check of the library found another value than when the program was recorded."""


@dataclass(frozen=True)
class Form:
    """How calls are run. `linked`: as one native function, or kernel by kernel; None decides by the work. `dynamic`: one function for all sizes.

    `freezing`: what depends only on tensors that the program holds and does not write is computed once (`freeze`).
    """

    linked: bool | None = None
    dynamic: bool = False
    freezing: bool = False


class Section:
    """Calls of a lowered program. `arrays`: the buffers whose memory each run passes in, in order; held and local memory belongs to the section.

    `places`, `size`: offsets of local memory in an arena, and its size."""

    def __init__(self, lowered: Lowered, calls: Sequence[Call | Test], places: dict[Buffer, int], size: int, name: str, form: Form) -> None:
        self.name, self.calls, self.places, self.sources = name, list(calls), places, lowered.sources
        self.buffers = _buffers(self.calls)
        self.arrays = [each for each in self.buffers if each.kind not in ("held", "local")]
        self.made = [each for each in self.arrays if each.kind != "input"]
        self.held = [each for each in self.buffers if each.kind == "held"]
        self.tests = [each for each in self.calls if isinstance(each, Test)]
        self.may_fail = any(map(may_fail, self.calls))
        arguments = [a for each in self.calls if isinstance(each, Call) for a in each.arguments]
        self.numbers = sorted({(a.source, a.index) for a in arguments if isinstance(a, (Number, Integer))})
        self.linked = form.linked is not False and _linkable(self.calls) and (form.linked or (small(self.calls) and not _takes_lengths(self.calls)))
        self.replay: Replay | None = None
        if self.linked:
            self._link(name, form.dynamic)
        else:
            self.kernel = None
            self.launchers = [None if isinstance(each, Test) else each.host or each.kernel.build() for each in self.calls]
            if form.linked is not False and suits(self.calls, size):
                self.replay = Replay(self.calls, lambda: self.launchers, places)

    def _link(self, name: str, dynamic: bool) -> None:
        """Link the calls. Inputs are arguments; addresses of results and gradients are filled into the table by each call."""
        self.inputs = [each for each in self.arrays if each.kind == "input"]
        linked = link(self.calls, self.places, self.inputs, name, dynamic)
        self.kernel, self.launch, self.slots = linked.kernel, linked.launch, linked.slots
        self.places_of = {each: place for place, each in enumerate(self.slots, FIRST) if isinstance(each, Buffer) and each.kind != "held"}
        self.listed = [(each, self.places_of[each]) for each in self.made if each in self.places_of]
        self.listed_inputs = [(each.number, self.places_of[each]) for each in self.inputs if each in self.places_of]
        self.table = np.zeros(FIRST + len(self.slots), np.int64)
        for place, each in enumerate(self.slots, FIRST):
            if each not in self.places_of:
                self.table[place] = address(each.tensor._storage.data) if isinstance(each, Buffer) else each

    def kernels(self) -> list[build.Kernel]:
        """The kernels it launches."""
        return [self.kernel] if self.linked else [each.kernel.built() for each in self.calls if isinstance(each, Call) and each.kernel is not None]

    def run(self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence) -> None:
        """Run with the inputs, memory for what is `made` and each source's run-time numbers. Raises CheckFailed."""
        if self.linked:
            self._run_linked(arena, inputs, memory_of, values)
        else:
            self._run_in_turn(arena, inputs, memory_of, values)

    def _run_linked(self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence) -> None:
        table = self.table.copy()  # a table of its own: another thread may be in this function
        table[ARENA] = address(arena)
        for each, place in self.listed:
            table[place] = address(memory_of[each].data)
        for number, place in self.listed_inputs:
            table[place] = address(_elements(inputs[number]))
        given = [_elements(inputs[each.number]) for each in self.inputs]
        failed = self.launch(address(table), *given, *[values[source][index] for source, index in self.numbers])
        if failed:
            raise _failure(self.tests[failed - 1])

    def _run_in_turn(self, arena: np.ndarray, inputs: Sequence[Tensor], memory_of: dict[Buffer, Storage], values: Sequence) -> None:
        memory = {each: _elements(inputs[each.number]) if each.kind == "input" else memory_of[each].data for each in self.arrays}
        memory.update((each, each.tensor._storage.data) for each in self.held)
        replay = self.replay
        if replay is not None and replay.backend.replaying and replay.lock.acquire(blocking=False):
            try:
                arrays = [memory[each] for each in replay.buffers]
                return replay.start(replay.ready(arrays), arrays, [values[source][index] for source, index in replay.numbers])
            finally:
                replay.lock.release()
        for each in self.buffers:
            if each.kind == "local":
                memory[each] = self.local(each, arena)
        for each, launch in zip(self.calls, self.launchers):
            if isinstance(each, Test):
                _examine(each, memory)
            else:
                launch(*[_argument(a, memory, values) for a in each.arguments])

    def local(self, buffer: Buffer, arena: np.ndarray | None) -> Any:
        """A local buffer's memory."""
        if buffer.device.type != "cpu":
            return buffer.device.empty(buffer.size, buffer.storage)
        offset = self.places[buffer]
        return arena[offset : offset + buffer.nbytes].view(buffer.storage)


def _elements(x: Tensor) -> np.ndarray:
    """An input's memory from its first element on."""
    return x._storage.data[x._offset :] if x._offset else x._storage.data


def draw(sources: Sequence) -> list[tuple]:
    """The run-time numbers: new random draws, and current hyper-parameters of optimizers."""
    return [each.generator.draw(each.count) if isinstance(each, Draw) else each() for each in sources]


def undraw(sources: Sequence, values: list[tuple]) -> None:
    """Reset the random streams to before `draw` gave these values."""
    for each, numbers in zip(reversed(sources), reversed(values)):
        if isinstance(each, Draw):
            each.generator.undraw(numbers[1], each.count)


def _linkable(calls: Sequence) -> bool:
    """Whether the calls can be linked: only CPU kernels, and not too many."""
    kernels = [each.kernel for each in calls if isinstance(each, Call)]
    if not kernels or not all(each is not None and each.device.type == "cpu" for each in kernels):
        return False
    return len(kernels) <= LINKED_CALLS or sum(each.period for each in stretches([*map(key_of_call, calls)])) <= LINKED_CALLS


def small(calls: Sequence) -> bool:
    """Whether the work is small enough for one serial function."""
    return sum(each.kernel.work for each in calls if isinstance(each, Call)) < LINKED_WORK


def _takes_lengths(calls: Sequence) -> bool:
    """Whether layers run over packed sequences of any lengths: some 50 kernels in one function take seconds to compile, and save half of a short step."""
    layers = [each.step for each in calls if isinstance(each, Call) and isinstance(each.step.op, Layer)]
    return any(is_room(each.parameters[0]) for each in layers)


def _buffers(calls: Sequence) -> list[Buffer]:
    found: dict[Buffer, None] = {}
    for each in calls:
        spans = [each.span] if isinstance(each, Test) else [a for a in each.arguments if isinstance(a, Span)]
        found.update(dict.fromkeys(span.buffer for span in spans))
    return list(found)


def _argument(each: Any, memory: dict, values: Sequence) -> Any:
    if isinstance(each, Span):
        return each.of(memory[each.buffer])
    return values[each.source][each.index] if isinstance(each, (Number, Integer)) else each


def _examine(test: Test, memory: dict) -> None:
    buffer = test.span.buffer
    if buffer.device.backend.download(memory[buffer][test.span.offset : test.span.offset + 1])[0] != test.found:
        raise _failure(test)


def _failure(test: Test) -> CheckFailed:
    return CheckFailed(f"the check at {test.where or 'an unknown line'} does not find {test.found}")

