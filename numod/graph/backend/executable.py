"""A recorded program, compiled and ready to run. The caller must check that its guards hold.

Returned results and gradients are allocated at every run.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np

from ...core.apply import state
from ...core.tensor import Tensor, wrap
from ...device import Storage
from . import memory_plan, schedule
from ..passes.freezing import freeze
from ..values.lazy_scalar import compute
from .lower import Buffer, Call, lower
from ..passes.pipeline import optimise, simplified
from ..ir.program import Program, Value
from .section import CheckFailed, Form, Section, draw, undraw
from ..values.pytree import Given, replace


class Executable:
    """A program ready to run. `name` is the kernel's, `form` how it runs."""

    boundary: int | None = None  # the step where the backward pass starts, if there is one
    inputs_known: int | None = None  # the number of inputs available at the start, if not all

    def __init__(self, program: Program, name: str = "step", form: Form = Form()) -> None:  # noqa: B008
        recording = self.boundary is not None or (
            state.grad_enabled and any(value.requires_grad for value in program.held.values())
        )
        self.recorded, self.freezing = program, form.freezing and not recording
        program, self.frozen = freeze(simplified(program)) if self.freezing else (program, [])
        self.program, self.boundary = optimise(program, self.boundary)
        program, self.lowered = self.program, lower(self.program)
        self.counting: list[dict] = []  # optimizer states with step counts in Python
        self.gradients = [(program.held.get(owner, owner), value) for owner, value in program.gradients.items()]
        self._leave(program.outputs, "result")
        self._leave([value for _, value in self.gradients], "gradient")
        self.storages, self.inputs_written = self._written()
        self.lowered.calls = schedule.checks_first(self.lowered.calls, program.shared, self.inputs_known)
        self.spoiled = schedule.written_before_checks(self.lowered.calls)
        self._prepare(name, form)

    def _prepare(self, name: str, form: Form) -> None:
        self.places, self.arena_size = memory_plan.plan(self.lowered)
        self.section = Section(self.lowered, self.lowered.calls, self.places, self.arena_size, name, form)
        self.arena = memory_plan.arena(self.arena_size)
        self.busy = threading.Lock()  # kernels release the GIL: a second thread uses memory of its own

    def _leave(self, structure: Any, kind: str) -> None:
        """Change the kind of the local buffers of a structure's values."""

        def note(each: Any) -> Any:
            if issubclass(type(each), Value) and self.lowered.places[each].buffer.kind == "local":
                self.lowered.places[each].buffer.kind = kind
            return each

        replace(structure, note)

    def _written(self) -> tuple[list[Storage], list[int]]:
        """(storages of held tensors, indices of inputs) that a run writes to."""
        calls = [call for call in self.lowered.calls if isinstance(call, Call) and call.step.in_place]
        buffers = dict.fromkeys(buffer for call in calls for buffer in call.writes)
        return [buffer.tensor._storage for buffer in buffers if buffer.kind == "held"], [
            buffer.number for buffer in buffers if buffer.kind == "input"
        ]

    def run(self, inputs: tuple[Tensor, ...], given: Sequence = ()) -> Any:
        """Run the program and return its results, of which some may be containers that were `given`.

        Raises `section.CheckFailed` if a check finds another value than when recorded.
        """
        memory_of: dict[Buffer, Any] = {}
        linked, free = self.section.linked, not self.busy.locked()
        with self.busy if free and not linked else nullcontext():
            self._begin(self.arena if free or linked else memory_plan.arena(self.arena_size), inputs, memory_of)
        self._count_writes(inputs)
        return self._built(self.program.outputs, inputs, memory_of, self._set_gradients(inputs, memory_of), given)

    def _begin(self, arena: np.ndarray, inputs: tuple[Tensor, ...], memory_of: dict[Buffer, Any]) -> list:
        """Run the section and return the run-time numbers.

        A check that fails, or a call on the host that raises, leaves memory, random streams and step counts unchanged:
        the function itself then raises, or handles, what it does.
        """
        for each in self.frozen:
            each.refresh()
        storages = [
            inputs[each.number]._storage if each.kind == "input" else each.tensor._storage for each in self.spoiled
        ]
        before = [
            (storage, storage.data.copy() if isinstance(storage.data, np.ndarray) else storage.data.copy_to_host())
            for storage in storages
        ]
        counts = (
            [(state, dict(state)) for state in self.counting]
            if self.section.may_fail or self.section.replay is not None
            else []
        )
        values = draw(self.lowered.sources)
        try:
            self._run(self.section, arena, inputs, memory_of, values)
        except Exception as error:
            undraw(self.lowered.sources, values)
            for state, former in counts:
                state.update(former)
            for storage, data in before:
                if isinstance(storage.data, np.ndarray):
                    storage.data[...] = data
                else:
                    storage.data.copy_to_device(data)
            if isinstance(error, CheckFailed):
                raise
            raise CheckFailed(f"{type(error).__name__}: {error}") from error
        return values

    def _run(
        self,
        section: Section,
        arena: np.ndarray,
        inputs: tuple[Tensor, ...],
        memory_of: dict[Buffer, Any],
        values: list,
    ) -> None:
        """Run a section, after assigning memory to those of its arrays that have none: new results, gradients."""
        for each in section.made:
            if each not in memory_of:
                memory_of[each] = Storage(each.device.empty(each.size, each.storage))
        section.run(arena, inputs, memory_of, values)

    def _count_writes(self, inputs: tuple[Tensor, ...]) -> None:
        for storage in self.storages:
            storage.version += 1
        for number in self.inputs_written:
            inputs[number]._storage.version += 1

    def _set_gradients(self, inputs: tuple[Tensor, ...], memory_of: dict[Buffer, Any]) -> dict[Value, Tensor]:
        """Set the leaves' gradients, and return them by value."""
        made: dict[Value, Tensor] = {}
        for owner, value in self.gradients:
            owner = inputs[self.program.inputs.index(owner)] if isinstance(owner, Value) else owner
            if value is not None and value not in made:
                made[value] = self._tensor(value, inputs, memory_of)
            owner._grad = None if value is None else made[value]
        return made

    def _built(
        self,
        structure: Any,
        inputs: tuple[Tensor, ...],
        memory_of: dict[Buffer, Any],
        tensors: dict[Value, Tensor] | None = None,
        given: Sequence = (),
    ) -> Any:
        """A structure of values as tensors, one per value. `tensors`: those that exist already."""
        tensors = {} if tensors is None else tensors

        def build(each: Any) -> Any:
            if issubclass(type(each), Value):
                if each not in tensors:
                    tensors[each] = self._tensor(each, inputs, memory_of)
                return tensors[each]
            return given[each.number] if type(each) is Given else each

        return replace(structure, build, compute)

    def _tensor(self, value: Value, inputs: tuple, memory_of: dict[Buffer, Any]) -> Tensor:
        span, layout = self.lowered.places[value], self.lowered.layouts[value]
        buffer = span.buffer
        if buffer.kind == "input":
            owner = inputs[buffer.number]
            return owner if value in self.program.inputs else wrap(owner._storage, layout, owner._offset + span.offset)
        if buffer.kind == "held":
            return (
                self.program.held[value]
                if value in self.program.held
                else wrap(buffer.tensor._storage, layout, span.offset)
            )
        storage = memory_of.get(buffer)
        if storage is None:  # uninitialised memory that no kernel uses
            storage = memory_of[buffer] = Storage(buffer.device.empty(buffer.size, buffer.storage))
        result = wrap(storage, layout, span.offset)
        if state.inference:
            result._inference = True
        return result

    def __call__(self, *inputs: Tensor) -> Any:
        """Run with inputs like those recorded. Raises RuntimeError if inputs, or the outcome of a check, differ."""
        self.program._expect(inputs)
        try:
            return self.run(inputs)
        except CheckFailed as failure:
            raise failure.__cause__ or RuntimeError(f"{failure}; trace again") from None

    def explain(self, source: bool = False, assembly: bool = False, llvm: bool = False) -> str:
        """A full report as text; see `explain.explain`."""
        from ..report.explain import explain

        return explain(self, source, assembly, llvm)

    __str__ = explain
