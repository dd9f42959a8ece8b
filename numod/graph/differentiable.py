"""A compiled forward pass with its compiled backward pass, for results that require gradients.

Local memory is needed until backward, so each call has its own arena, which its node keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.engine import grad
from ..autograd.tape import Node, edge_to, stale
from ..core.apply import state
from ..core.tensor import Tensor
from . import memory
from .later import Reading, compute
from .lines import CannotRepeat
from .lower import Buffer
from .program import Program, Value
from .run import Executable
from .section import Form, Section
from .structure import Given, replace


class Differentiable(Executable):
    """A program whose steps from `boundary` on are the backward pass of the ones before; its outputs are (results, gradients).

    Its inputs are those of the forward pass and then a gradient for each of the results `differentiated`. The gradients are for `wanted`:
    tensors that existed, or numbers of inputs.
    """

    def __init__(self, program: Program, boundary: int, differentiated: list[Value], wanted: list[Tensor | int], name: str, form: Form) -> None:
        self.boundary, self.wanted = boundary, wanted
        self.inputs_known = len(program.inputs) - len(differentiated)
        program.outputs = (*program.outputs, tuple(differentiated))  # passes may rename them
        super().__init__(program, name, form)

    def _prepare(self, name: str, form: Form) -> None:
        self.differentiated = list(self.program.outputs[2])
        calls = self.lowered.calls
        for each in memory.crossing(self.lowered, self.boundary):
            if each.device.type != "cpu":  # a section's local memory there is its run's alone: what backward reads lasts as results do
                each.kind = "result"
        self.places, self.arena_size = memory.plan(self.lowered, self.boundary)
        self.section = Section(self.lowered, [each for each in calls if each.position < self.boundary], self.places, name, form)
        self.backward = Section(self.lowered, [each for each in calls if each.position >= self.boundary], self.places, f"{name}_backward", form)
        if self.backward.tests:
            where = self.backward.tests[0].where
            raise CannotRepeat(f"compile: the backward pass of {where} branches on a value of the gradient; leave the function uncompiled")
        self.kept = [each for each in self.backward.buffers if each.kind == "held" or each in self.section.arrays]

    def run(self, inputs: tuple[Tensor, ...], again: Callable = lambda: None, given: Sequence = ()) -> Any:
        """Run the forward pass; its results get a node that runs the backward pass. `again` recomputes them eagerly, or returns None if guards fail."""
        arena, memory_of = memory.arena(self.arena_size), {}
        values = self._begin(arena, inputs, memory_of)
        self._count_writes(inputs)
        tensors = self._set_gradients(inputs, memory_of)
        node = CompiledNode(self, inputs, arena, memory_of, values, again)

        def build(each: Any) -> Any:
            if not isinstance(each, Value):
                return given[each.number] if type(each) is Given else each
            if each not in tensors:
                tensors[each] = self._tensor(each, inputs, memory_of)
                if each in self.differentiated:
                    made = tensors[each]
                    made._node, made._output, made._requires_grad = node, self.differentiated.index(each), True
            return tensors[each]

        return replace(self.program.outputs[0], build, compute)


class CompiledNode(Node):
    """The tape's node of a compiled forward pass. It keeps the arena until backward has run."""

    def __init__(self, executable: Differentiable, inputs: tuple, arena: np.ndarray, memory_of: dict[Buffer, Any], values: list, again: Callable) -> None:
        owners = [inputs[each] if isinstance(each, int) else each for each in executable.wanted]
        layouts = executable.lowered.layouts
        results = tuple(layouts[each] for each in executable.differentiated)
        super().__init__(None, [edge_to(each) for each in owners], [each._layout for each in owners], results)
        self.executable, self.again, self.kept, self.versions = executable, again, (inputs, arena, memory_of, values), None
        self.storages = [self._storage(each) for each in executable.kept]
        self.versions = [each.version for each in self.storages]

    def _storage(self, buffer: Buffer) -> Any:
        inputs, _, memory_of, _ = self.kept
        return buffer.tensor._storage if buffer.kind == "held" else inputs[buffer.number]._storage if buffer.kind == "input" else memory_of[buffer]

    def backward(self, grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Run the backward section."""
        if self.kept is None:
            self.unpack()  # raises
        inputs, arena, memory_of, values = self.kept
        for storage, buffer, version in zip(self.storages, self.executable.kept, self.versions):
            if storage.version != version:
                raise stale(buffer.tensor if buffer.kind == "held" else inputs[buffer.number] if buffer.kind == "input" else grads[0], version, self)
        if state.grad_enabled:
            return self._backward_eagerly(inputs, grads)
        program = self.executable.program
        seeds = [grads[k] if grads[k] is not None else _zeros(layout) for k, layout in enumerate(self.outputs)]
        seeds = [each if each._layout.dense else each.contiguous() for each in seeds]
        memory_of = dict(memory_of)
        self.executable._run(self.executable.backward, arena, (*inputs, *seeds), memory_of, values)
        found = self.executable._built(program.outputs[1], (*inputs, *seeds), memory_of)
        return [(position, gradient) for position, gradient in enumerate(found) if gradient is not None]

    def _backward_eagerly(self, inputs: tuple, grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Differentiable gradients (double backward): from calling the function again eagerly, if it has no side effects."""
        executable = self.executable
        pure = not (executable.storages or executable.inputs_written or executable.lowered.sources or executable.program.gradients)
        outputs = self.again() if pure else None
        if outputs is None:
            raise RuntimeError(
                "a compiled function's gradient cannot itself be differentiated where the function draws, writes or has changed since; "
                "call it uncompiled for create_graph=True"
            )
        made: dict[Value, Tensor] = {}
        _pair(executable.program.outputs[0], outputs, made)
        owners = [inputs[each] if isinstance(each, int) else each for each in executable.wanted]
        pairs = [(made[value], g) for value, g in zip(executable.differentiated, grads) if g is not None]
        found = grad([a for a, _ in pairs], owners, [g for _, g in pairs], create_graph=True, allow_unused=True)
        return [(position, gradient) for position, gradient in enumerate(found) if gradient is not None]

    def release(self) -> None:
        """Free the memory."""
        self.kept = None

    def name(self) -> str:
        """The node's name."""
        return "CompiledFunctionBackward"


def _pair(structure: Any, outputs: Any, made: dict[Value, Tensor]) -> None:
    """Maps the values of a structure to the tensors at the same positions of another."""
    if isinstance(structure, Value):
        made[structure] = outputs
    elif isinstance(structure, (tuple, list)) and type(structure) is not Reading:
        for each, output in zip(structure, outputs):
            _pair(each, output, made)
    elif isinstance(structure, dict):
        for key, each in structure.items():
            _pair(each, outputs[key], made)


def _zeros(layout: Any) -> Tensor:
    from ..core.creation import zeros

    return zeros(layout.shape, dtype=layout.dtype, device=layout.device)
