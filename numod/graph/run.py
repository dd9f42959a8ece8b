"""Running a lowered program: one native function where it is small, else its kernels in turn. Whether it may run is the caller's to know.

Results that leave are new memory at every run. A gradient's memory is used again only where nobody but the parameter holds it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.random import Draw
from ..core.tensor import Tensor, wrap
from ..device import Storage, blas
from . import memory
from .link import ARENA, FIRST, STATUS, link
from .lower import Buffer, Integer, Lowered, Number, Span, Test, lower
from .trace import Program, Value, _replace

LINKED_WORK = 1 << 20  # elements of simple work up to which a program is one serial function
LINKED_CALLS = 400


class CheckFailed(Exception):
    """A check of the library found another value than when the program was recorded. Nothing was written before it."""


class Executable:
    """A program ready to run: `run(inputs)` gives its results. `linked` says whether it is one native function."""

    def __init__(self, program: Program, name: str = "step", linked: bool | None = None) -> None:
        self.program = program
        self.lowered = lowered = lower(program)
        self.results = self._results()
        self.gradients = self._gradients()
        self.places, self.arena_size = memory.plan(lowered)
        self.written = self._written()
        buffers = lowered.buffers
        self.inputs = sorted({each for each in buffers if each.kind == "input"}, key=lambda each: each.number)
        self.held = [each for each in buffers if each.kind == "held"]
        self.returned = list(dict.fromkeys(span.buffer for span in self.results.values() if span.buffer.kind == "result"))
        self.made = [each for each in self.returned if each in buffers]
        self.linked = self._links() if linked is None else linked
        self._prepare(name)

    def _links(self) -> bool:
        """Whether one serial function is the better form."""
        calls = [each for each in self.lowered.calls if not isinstance(each, Test)]
        if not calls or len(calls) > LINKED_CALLS or any(each.kernel is None or each.kernel.device.type != "cpu" for each in calls):
            return False
        return sum(each.kernel.work for each in calls) < LINKED_WORK

    def _results(self) -> dict[Value, Span]:
        """Where the values lie that the caller gets; local memory becomes memory that leaves."""
        found: dict[Value, Span] = {}

        def note(each: Any) -> Any:
            if isinstance(each, Value):
                found[each] = self.lowered.places[each]
                if found[each].buffer.kind == "local":
                    found[each].buffer.kind = "result"
            return each

        _replace(self.program.outputs, note)
        return found

    def _gradients(self) -> list[tuple[Tensor | int, Value | None]]:
        """(a held tensor or the number of an input, the value that becomes its gradient)."""
        found = []
        for owner, value in self.program.gradients.items():
            if value is not None and self.lowered.places[value].buffer.kind == "local":
                self.lowered.places[value].buffer.kind = "gradient"
            found.append((self.program.held.get(owner, self.program.inputs.index(owner) if owner in self.program.inputs else None), value))
        return found

    def _written(self) -> tuple[list[Storage], list[int]]:
        """Storages of held tensors, and numbers of inputs, that a run writes to."""
        buffers = dict.fromkeys(buffer for each in self.lowered.calls if not isinstance(each, Test) and each.step.in_place for buffer in each.writes)
        return [each.tensor._storage for each in buffers if each.kind == "held"], [each.number for each in buffers if each.kind == "input"]

    # ---- one native function, or a list of kernels

    def _prepare(self, name: str) -> None:
        self.arena = np.empty(max(self.arena_size, 1), np.uint8)
        self.gradient_buffers = [each for each in self.lowered.buffers if each.kind == "gradient"]
        self.gradient_tensors: dict[Buffer, Storage] = {}
        self.blas_work = max([each.kernel.work for each in self.lowered.calls if not isinstance(each, Test) and each.kernel and "gemm(" in each.kernel.source], default=0)
        if self.linked:
            linked = link(self.lowered, self.places, self.inputs, self.made, name)
            self.kernel, self.launch = linked.kernel, linked.launch
            self.slots = {each: FIRST + k for k, each in enumerate(linked.slots) if isinstance(each, Buffer)}
            self.table = np.zeros(FIRST + len(linked.slots), np.int64)
            self.table[ARENA] = self.arena.ctypes.data
            for place, each in enumerate(linked.slots, FIRST):
                self.table[place] = each.tensor._storage.data.ctypes.data if isinstance(each, Buffer) and each.kind == "held" else 0 if isinstance(each, Buffer) else each
        else:
            self.kernel = None
            self.launchers = [None if isinstance(each, Test) else each.host or each.kernel.build() for each in self.lowered.calls]
            self.arrays: dict[Buffer, Any] = {each: each.tensor._storage.data for each in self.held}
            for buffer, offset in self.places.items():
                self.arrays[buffer] = self._local(buffer, offset)

    def _local(self, buffer: Buffer, offset: int) -> Any:
        if buffer.device.type != "cpu":
            return buffer.device.empty(buffer.size, buffer.storage)
        return self.arena[offset : offset + buffer.nbytes].view(buffer.storage)

    def run(self, inputs: tuple[Tensor, ...]) -> Any:
        """Run with these inputs, which the caller has compared with the program's. Raises CheckFailed."""
        given = [inputs[each.number] for each in self.inputs]
        arrays = [each._storage.data[each._offset :] if each._offset else each._storage.data for each in given]
        made = [each.device.empty(each.size, each.storage) for each in self.made]
        self._renew_gradients()
        values = [each.generator.draw(each.count) if isinstance(each, Draw) else each() for each in self.lowered.sources]
        if self.linked:
            self._run_linked(arrays, made, values)
        else:
            self._run_in_turn(arrays, made, values)
        storages, numbers = self.written
        for storage in storages:
            storage.version += 1
        for number in numbers:
            inputs[number]._storage.version += 1
        return self._finish(inputs, dict(zip(self.made, made)))

    def _run_linked(self, arrays: list, made: list, values: list) -> None:
        self.launch(self.table, *arrays, *made, *[number for each in values for number in each])
        if self.table[STATUS]:
            failed, self.table[STATUS] = int(self.table[STATUS]), 0
            test = [each for each in self.lowered.calls if isinstance(each, Test)][failed - 1]
            raise CheckFailed(f"the check at {test.where} does not find {test.found}")

    def _run_in_turn(self, arrays: list, made: list, values: list) -> None:
        memory_of = self.arrays
        memory_of.update(zip(self.inputs, arrays))
        memory_of.update(zip(self.made, made))
        memory_of.update((each, storage.data) for each, storage in self.gradient_tensors.items())
        for each, launch in zip(self.lowered.calls, self.launchers):
            if isinstance(each, Test):
                self._test(each)
                continue
            launch(*[self._value(a, memory_of, values) for a in each.arguments])

    def _value(self, each: Any, memory_of: dict, values: list) -> Any:
        if isinstance(each, Span):
            array = memory_of[each.buffer]
            return array[each.offset :] if each.offset else array
        return values[each.source][each.index] if isinstance(each, (Number, Integer)) else each

    def _test(self, test: Test) -> None:
        buffer = test.span.buffer
        host = buffer.device.backend.download(self.arrays[buffer][test.span.offset : test.span.offset + 1])
        if host[0] != test.found:
            raise CheckFailed(f"the check at {test.where} does not find {test.found}")

    # ---- what leaves

    def _renew_gradients(self) -> None:
        """Memory for gradients: that of the last run, unless somebody else holds it."""
        for buffer in self.gradient_buffers:
            storage = self.gradient_tensors.get(buffer)
            if storage is None or sys.getrefcount(storage) > 4:  # here, in the dict, in the tensor, as the argument
                storage = self.gradient_tensors[buffer] = Storage(buffer.device.empty(buffer.size, buffer.storage))
                if self.linked and buffer in self.slots:
                    self.table[self.slots[buffer]] = storage.data.ctypes.data

    def _finish(self, inputs: tuple[Tensor, ...], made: dict[Buffer, Any]) -> Any:
        storages = {each: Storage(made[each] if each in made else each.device.empty(each.size, each.storage)) for each in self.returned}
        tensors = {value: self._tensor(value, span, inputs, storages) for value, span in self.results.items()}
        for owner, value in self.gradients:
            owner = inputs[owner] if isinstance(owner, int) else owner
            if value is None:
                owner._grad = None
            elif value in tensors:
                owner._grad = tensors[value]
            elif owner._grad is None or owner._grad._storage is not self.gradient_tensors.get(self.lowered.places[value].buffer):
                owner._grad = self._tensor(value, self.lowered.places[value], inputs, storages)
        return _replace(self.program.outputs, lambda each: tensors[each] if isinstance(each, Value) else each)

    def _tensor(self, value: Value, span: Span, inputs: tuple, storages: dict) -> Tensor:
        buffer, layout = span.buffer, self.lowered.layouts[value]
        if buffer.kind == "input":
            owner = inputs[buffer.number]
            return owner if owner._layout is layout and not span.offset else wrap(owner._storage, layout, owner._offset + span.offset)
        if buffer.kind == "held":
            return next((each for v, each in self.program.held.items() if v == value), None) or wrap(buffer.tensor._storage, layout, span.offset)
        storage = self.gradient_tensors[buffer] if buffer.kind == "gradient" else storages[buffer]
        return wrap(storage, layout, span.offset)


def executable(program: Program, linked: bool | None = None) -> Callable:
    """The program as a function of its inputs, without checks of them."""
    return Executable(program, linked=linked).run
