"""A compiled program, ready to run. The caller must check that its guards hold.

Every run allocates its results and gradients.
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
from ...errors import DistError
from . import memory_plan, schedule
from ..passes.freezing import freeze, trained_values
from ..values.lazy_scalar import compute
from .lower import Buffer, Call, lower
from ..passes.pipeline import optimise, simplified
from ..ir.program import Program, Value
from .section import CheckFailed, Form, Section, draw, undraw
from ..values.pytree import ArgumentContainer, replace


class Executable:
    """A compiled program. `name`: name of its kernel. `form`: how its calls run."""

    boundary: int | None = None  # the step where the backward pass starts, if there is one
    inputs_known: int | None = None  # the number of inputs available at the start, if not all

    def __init__(self, program: Program, name: str = "step", form: Form = Form()) -> None:  # noqa: B008
        recording = self.boundary is not None or (
            state.grad_enabled and any(value.requires_grad for value in program.held.values())
        )
        self.recorded, self.freezing = program, form.freezing and not recording
        variable = () if self.freezing else None if recording else trained_values(program)
        program, self.frozen = (
            (program, []) if variable is None else freeze(simplified(program), form.sparsity, variable)
        )
        self.program, self.boundary = optimise(program, self.boundary)
        program, self.lowered = self.program, lower(self.program)
        self.counting: list[dict] = []  # optimizer states with step counts in Python
        self.gradients = [(program.held.get(owner, owner), value) for owner, value in program.gradients.items()]
        self._set_kind(program.outputs, "result")
        self._set_kind([value for _, value in self.gradients], "gradient")
        self.storages, self.inputs_written = self._written()
        self.lowered.calls = schedule.checks_first(self.lowered.calls, program.shared, self.inputs_known)
        self.spoiled = schedule.written_before_checks(self.lowered.calls)
        self._prepare(name, form)

    def _prepare(self, name: str, form: Form) -> None:
        self.places, self.arena_size = memory_plan.plan(self.lowered)
        self.section = Section(self.lowered, self.lowered.calls, self.places, self.arena_size, name, form)
        self.arena = memory_plan.arena(self.arena_size)
        self.busy = threading.Lock()  # kernels release the GIL: a second thread allocates another arena

    def _set_kind(self, structure: Any, kind: str) -> None:
        """Set the kind of the local buffers of a structure's values."""

        def set_kind(leaf: Any) -> Any:
            if issubclass(type(leaf), Value) and self.lowered.places[leaf].buffer.kind == "local":
                self.lowered.places[leaf].buffer.kind = kind
            return leaf

        replace(structure, set_kind)

    def _written(self) -> tuple[list[Storage], list[int]]:
        """(storages of held tensors, indices of inputs) that a run writes to."""
        calls = [call for call in self.lowered.calls if isinstance(call, Call) and call.step.in_place]
        buffers = dict.fromkeys(buffer for call in calls for buffer in call.writes)
        return [buffer.tensor._storage for buffer in buffers if buffer.kind == "held"], [
            buffer.number for buffer in buffers if buffer.kind == "input"
        ]

    def run(self, inputs: tuple[Tensor, ...], containers: Sequence = ()) -> Any:
        """Run the program and return its results. `containers`: the arguments' containers, which it may return.

        Raises `section.CheckFailed` if a check finds another value than when recorded.
        """
        memory_of: dict[Buffer, Any] = {}
        linked, arena_free = self.section.linked, not self.busy.locked()
        with self.busy if arena_free and not linked else nullcontext():
            self._begin(self.arena if arena_free or linked else memory_plan.arena(self.arena_size), inputs, memory_of)
        self._count_writes(inputs)
        return self._build_tensors(
            self.program.outputs, inputs, memory_of, self._set_gradients(inputs, memory_of), containers
        )

    def _begin(self, arena: np.ndarray, inputs: tuple[Tensor, ...], memory_of: dict[Buffer, Any]) -> list:
        """Run the section and return the run-time numbers.

        If a check fails or a host call raises, this restores memory, random streams and step counts, and raises
        CheckFailed. The function then runs eagerly and raises or handles the error itself.
        """
        for frozen in self.frozen:
            frozen.refresh()
        storages = [
            inputs[buffer.number]._storage if buffer.kind == "input" else buffer.tensor._storage
            for buffer in self.spoiled
        ]
        saved_data = [
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
            for state, former_counts in counts:
                state.update(former_counts)
            for storage, saved in saved_data:
                if isinstance(storage.data, np.ndarray):
                    storage.data[...] = saved
                else:
                    storage.data.copy_to_device(saved)
            if isinstance(error, (CheckFailed, DistError)):
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
        """Allocate memory for new results and gradients, and run a section."""
        for buffer in section.outputs:
            if buffer not in memory_of:
                memory_of[buffer] = Storage(buffer.device.empty(buffer.size, buffer.storage))
        section.run(arena, inputs, memory_of, values)

    def _count_writes(self, inputs: tuple[Tensor, ...]) -> None:
        for storage in self.storages:
            storage.version += 1
        for number in self.inputs_written:
            inputs[number]._storage.version += 1

    def _set_gradients(self, inputs: tuple[Tensor, ...], memory_of: dict[Buffer, Any]) -> dict[Value, Tensor]:
        """Set the leaves' gradients. Returns them by value."""
        gradients: dict[Value, Tensor] = {}
        for owner, value in self.gradients:
            owner = inputs[self.program.inputs.index(owner)] if isinstance(owner, Value) else owner
            if value is not None and value not in gradients:
                gradients[value] = self._tensor(value, inputs, memory_of)
            owner._grad = None if value is None else gradients[value]
        return gradients

    def _build_tensors(
        self,
        structure: Any,
        inputs: tuple[Tensor, ...],
        memory_of: dict[Buffer, Any],
        tensors: dict[Value, Tensor] | None = None,
        containers: Sequence = (),
    ) -> Any:
        """A structure with its values replaced by tensors. `tensors`: tensors of values that exist already."""
        tensors = {} if tensors is None else tensors

        def build(leaf: Any) -> Any:
            if issubclass(type(leaf), Value):
                if leaf not in tensors:
                    tensors[leaf] = self._tensor(leaf, inputs, memory_of)
                return tensors[leaf]
            return containers[leaf.number] if type(leaf) is ArgumentContainer else leaf

        return replace(structure, build, compute)

    def _tensor(self, value: Value, inputs: tuple, memory_of: dict[Buffer, Any]) -> Tensor:
        """The tensor of a value after a run."""
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
        """Run the program. Raises RuntimeError if inputs or the outcome of a check differ from those recorded."""
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
