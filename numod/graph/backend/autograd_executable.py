"""A compiled forward pass with its compiled backward pass, for results that require gradients.

The backward pass reads local memory of the forward pass, so each call has its own arena, which its node keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ...autograd import enable_grad
from ...autograd.engine import grad_up_to
from ...autograd.tape import Node, edge_to, freed_error, hooks_of, inference_error, modified_error
from ...core.apply import state
from ...core.create.creation import zeros
from ...core.derived import written_since
from ...core.tensor import DataVersionCounter, Tensor
from . import memory_plan
from ..values.lazy_scalar import ScalarExpression, compute
from ..values.source_location import CannotRepeat
from .lower import Buffer
from ..ir.program import Program, Value
from .executable import Executable
from .section import Form, Section, begin_kernels, is_linked
from ..values.pytree import ArgumentContainer, is_structure, parts, replace


class Tape(NamedTuple):
    """The backward pass of a recorded function. Sets contain numbers of differentiated results."""

    boundary: int  # the step where the backward pass starts
    differentiated: list[Value]  # results that require gradients
    targets: list[Tensor | int]  # leaves that get gradients: existing tensors, or numbers of inputs
    results_of_target: list[set[int]]  # per target: the results that depend on it
    depends_on: list[set[int]]  # per result: the results that it depends on
    shared_history: list[set[int]]  # per result: the results that share nodes with saved tensors with it
    sees_undefined: bool  # whether a Function's backward gets None, not zeros, for results without gradient


class Differentiable(Executable):
    """A program with a forward pass and, from step `boundary` on, its backward pass. Outputs: (results, gradients).

    Its inputs are those of the forward pass, followed by one gradient per differentiated result.
    """

    def __init__(self, program: Program, tape: Tape, name: str, form: Form) -> None:
        self.boundary, self.tape = tape.boundary, tape
        self.inputs_known = len(program.inputs) - len(tape.differentiated)
        program.outputs = (*program.outputs, tuple(tape.differentiated))  # passes may rename them
        super().__init__(program, name, form)

    def _prepare(self, name: str, form: Form) -> None:
        """Divide the kernel calls into a forward and a backward section, which share an arena of memory."""
        self.differentiated = list(self.program.outputs[2])
        calls = self.lowered.calls
        for buffer in memory_plan.crossing(self.lowered, self.boundary):
            # a GPU section frees its local memory after its run; results last until the backward pass
            if buffer.device.type != "cpu":
                buffer.kind = "result"
        self.places, self.arena_size = memory_plan.plan(self.lowered, self.boundary)
        forward, backward = (
            [call for call in calls if (call.position < self.boundary) is first] for first in (True, False)
        )
        if not (form.dynamic or is_linked(forward, form) or is_linked(backward, form)):
            begin_kernels([*forward, *backward])  # before the first section waits for its own
        self.section = Section(self.lowered, forward, self.places, self.arena_size, name, form)
        form = self.section.form_at_other_sizes(form)
        self.backward = Section(self.lowered, backward, self.places, self.arena_size, f"{name}_backward", form)
        if self.backward.tests:
            where = self.backward.tests[0].location
            raise CannotRepeat(
                f"compile: the backward pass of {where} branches on a value of the gradient; leave the function "
                "uncompiled"
            )
        self.saved = [
            buffer for buffer in self.backward.buffers if buffer.kind == "held" or buffer in self.section.arrays
        ]
        self.saved_inputs = [buffer.number for buffer in self.saved if buffer.kind == "input"]
        # memory that only the forward pass reads
        self.forward_only = [
            buffer for buffer in self.section.buffers if buffer.kind in ("held", "input") and buffer not in self.saved
        ]
        layouts = self.lowered.layouts
        self.result_layouts = tuple([layouts[value] for value in self.differentiated])
        self.target_layouts = [
            layouts[self.program.inputs[target]] if isinstance(target, int) else target._layout
            for target in self.tape.targets
        ]
        self.inner_results = frozenset().union(*self.tape.depends_on)
        self.output_of = {value: output for output, value in enumerate(self.differentiated)}
        self.zeros: dict[int, Tensor] = {}  # read-only gradients of unused results
        self.input_gradients = [
            (position, value) for position, value in enumerate(self.program.outputs[1]) if value is not None
        ]

    def zero(self, number: int) -> Tensor:
        """The zero gradient of an unused result."""
        gradient = self.zeros.get(number)
        if gradient is None:
            layout = self.result_layouts[number]
            gradient = self.zeros[number] = zeros(layout.shape, dtype=layout.dtype, device=layout.device)
        return gradient

    def run(self, inputs: tuple[Tensor, ...], recompute: Callable = lambda: None, containers: Sequence = ()) -> Any:
        """Run the forward pass and attach a node that runs the backward pass to its results.

        `recompute` calls the function eagerly and returns its results, or None if guards fail.
        """
        # reading the class is faster than reading thread-local state
        if type(state).special and any(inputs[number]._inference for number in self.saved_inputs):
            raise inference_error()
        arena, memory_of = memory_plan.arena(self.arena_size), {}
        values = self._begin(arena, inputs, memory_of)
        self._count_writes(inputs)
        tensors = self._set_gradients(inputs, memory_of)
        node = CompiledNode(self, inputs, arena, memory_of, values, recompute)

        def build(leaf: Any) -> Any:
            if type(leaf) is not Value:
                return containers[leaf.number] if type(leaf) is ArgumentContainer else leaf
            tensor = tensors.get(leaf)
            if tensor is None:
                tensor = tensors[leaf] = self._tensor(leaf, inputs, memory_of)
                if (output := self.output_of.get(leaf)) is not None:
                    node.attach(tensor, output)
            return tensor

        outputs = self.program.outputs[0]
        return build(outputs) if type(outputs) is Value else replace(outputs, build, compute)


class CompiledNode(Node):
    """The tape's node of a compiled forward pass. It keeps the arena until backward has run."""

    def __init__(
        self,
        executable: Differentiable,
        inputs: tuple,
        arena: np.ndarray,
        memory_of: dict[Buffer, Any],
        values: list,
        recompute: Callable,
    ) -> None:
        edges = [edge_to(inputs[target] if type(target) is int else target) for target in executable.tape.targets]
        super().__init__(None, edges, executable.target_layouts, executable.result_layouts)
        self.executable, self.recompute, self.saved = executable, recompute, (inputs, arena, memory_of, values)
        self.indirect_results = executable.inner_results
        self.results_of_input = executable.tape.results_of_target
        self.redirected = False
        self.result_tensors: list[tuple[int, ref]] = []  # (output, tensor) with this node as history
        self.used_outputs: set[int] = set()  # outputs that got a gradient in the last backward pass
        self.freed_outputs: set[int] = set()  # outputs whose eager history would have been freed
        self.storages = [
            buffer.tensor._storage
            if buffer.kind == "held"
            else inputs[buffer.number]._storage
            if buffer.kind == "input"
            else memory_of[buffer]
            for buffer in (*executable.saved, *executable.forward_only)
        ]
        self.versions, self.data_writes = [storage.version for storage in self.storages], DataVersionCounter.last

    def attach(self, tensor: Tensor, output: int) -> None:
        """Make this node the history of a result."""
        tensor._node, tensor._output, tensor._requires_grad = self, output, True
        self.result_tensors.append((output, ref(tensor)))

    def backward(self, grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Run the backward section."""
        used = self.used_outputs = {number for number, gradient in enumerate(grads) if gradient is not None}
        if self.redirected:
            return [(number, grads[number]) for number in used]
        if not used.isdisjoint(self.freed_outputs):
            raise freed_error()
        inputs, arena, memory_of, values = self._check_saved()
        if self.executable.tape.sees_undefined and len(used) < len(grads):
            results = self._recomputed("a Function with set_materialize_grads(False) gets None for unused results")
            return self._differentiate(results, grads)
        if state.grad_enabled:
            results = self._recomputed("create_graph=True differentiates a compiled function's gradient")
            gradients = self._differentiate(results, grads)
            self._redirect_to(results)  # the gradients' history may depend on them, if an op saved its result
            return gradients
        executable = self.executable
        seeds = [executable.zero(k) if grad is None else grad for k, grad in enumerate(grads)]
        inputs = (*inputs, *[seed if seed._layout.dense else seed.contiguous() for seed in seeds])
        memory_of = dict(memory_of)
        executable._run(executable.backward, arena, inputs, memory_of, values)
        if len(used) == len(grads):
            return [
                (position, executable._tensor(value, inputs, memory_of))
                for position, value in executable.input_gradients
            ]
        input_gradients = [
            (position, value)
            for position, value in executable.input_gradients
            if not used.isdisjoint(self.results_of_input[position])
        ]
        reached = [(position, executable._tensor(value, inputs, memory_of)) for position, value in input_gradients]
        zero_storages = [zero._storage for zero in executable.zeros.values()]
        reached = [
            (position, gradient.clone() if gradient._storage in zero_storages else gradient)
            for position, gradient in reached
        ]
        unused = set(range(len(grads))).difference(used, *(executable.tape.depends_on[number] for number in used))
        if all(
            unused.isdisjoint(self.results_of_input[position]) or _is_finite(gradient) for position, gradient in reached
        ):
            return reached
        # NaN may be the zero gradient of an unused result times an infinite derivative
        results = self._recompute()
        return reached if results is None else self._differentiate(results, grads)

    def _check_saved(self) -> tuple:
        """Return the state saved for the backward pass. Raises RuntimeError if it was modified in place."""
        for storage, buffer, version in zip(self.storages, self.executable.saved, self.versions):
            if storage.version != version:
                value = next(
                    candidate for candidate, span in self.executable.lowered.places.items() if span.buffer is buffer
                )
                raise modified_error(self.executable._tensor(value, self.saved[0], self.saved[2]), version, self)
        return self.saved

    def _recompute(self) -> list[Tensor] | None:
        """Recompute the differentiated results eagerly, each with its own history.

        Returns None if the function has side effects, or its inputs may have been modified.
        """
        executable = self.executable
        pure = not (
            executable.storages
            or executable.inputs_written
            or executable.lowered.sources
            or executable.program.gradients
        )
        unchanged = (
            not written_since(self.storages, self.data_writes)
            and [storage.version for storage in self.storages] == self.versions
        )
        with enable_grad():
            outputs = self.recompute() if pure and unchanged else None
        if outputs is None:
            return None
        tensors: dict[Value, Tensor] = {}
        _match(executable.program.outputs[0], outputs, tensors)
        return [tensors[value] for value in executable.differentiated]

    def _recomputed(self, why: str) -> list[Tensor]:
        """Recompute the differentiated results. Raises RuntimeError, starting with `why`, if that is not possible."""
        results = self._recompute()
        if results is None:
            raise RuntimeError(
                f"{why}. This requires calling the function again, but it draws random numbers, writes to tensors, or "
                "has changed, or its inputs have changed; call it uncompiled"
            )
        return results

    def _differentiate(self, results: list[Tensor], grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Compute the gradients from the results' eager histories; they are differentiable in grad mode."""
        inputs = self.saved[0]
        owners = [inputs[target] if isinstance(target, int) else target for target in self.executable.tape.targets]
        pairs = [(result, gradient) for result, gradient in zip(results, grads) if gradient is not None]
        gradients = grad_up_to([a for a, _ in pairs], owners, [g for _, g in pairs], create_graph=state.grad_enabled)
        return [(position, gradient) for position, gradient in enumerate(gradients) if gradient is not None]

    def show(self, tensor: Tensor) -> None:
        """Replace the results' history by the eager one, in which a result can be part of another's history.

        From then on this node redirects to the eager histories.
        """
        if tensor._output in self.freed_outputs:
            return  # its gradient cannot be computed any more
        self._check_saved()
        self._redirect_to(
            self._recomputed(
                "a hook or a gradient is requested for a compiled function's result that other results depend on"
            )
        )

    def _redirect_to(self, results: list[Tensor]) -> None:
        """Redirect this node, its result tensors and their hooks to the histories of recomputed results."""
        _renumber_before(self, results)
        self.edges, self.layouts, self.redirected, self.saved = list(map(edge_to, results)), self.outputs, True, None
        self.results_of_input = [{number} for number in range(len(results))]
        for output, reference in self.result_tensors:
            tensor = reference()
            if tensor is not None and tensor._node is self:
                tensor._node, tensor._output = self.edges[output]
        for name in ("tensor", "retain") if self.hooks is not None else ():
            for output, hooks in getattr(self.hooks, name).items():
                node, number = self.edges[output]
                getattr(hooks_of(node), name)[number] = hooks
            setattr(self.hooks, name, {})

    def release(self) -> None:
        """Free the memory once the histories of all results are used up."""
        self.freed_outputs.update(*(self.executable.tape.shared_history[number] for number in self.used_outputs))
        if len(self.freed_outputs) == len(self.outputs):
            self.saved = None

    def name(self) -> str:
        """The node's name."""
        return "CompiledFunctionBackward"


def _match(structure: Any, outputs: Any, tensors: dict[Value, Tensor]) -> None:
    """Map the values of a structure to the tensors at equal positions in `outputs`."""
    if isinstance(structure, Value):
        tensors[structure] = outputs
    elif type(structure) is ScalarExpression:
        if structure.operation == "view_of":
            _match(structure.operands[:2], (outputs, outputs._base), tensors)
        elif structure.operation == "with_inference":
            _match(structure.operands[0], outputs, tensors)
    elif is_structure(structure):
        for part, output in zip(parts(structure), parts(outputs)):
            _match(part, output, tensors)


def _renumber_before(node: Node, results: list[Tensor]) -> None:
    """Give all newer nodes of these results' histories sequence numbers just before that of `node`.

    `node` leads to them, and backward visits nodes in descending order.
    """
    newer, pending = set(), [edge_to(result)[0] for result in results]
    while pending:
        current = pending.pop()
        if isinstance(current, Node) and current.sequence > node.sequence and current not in newer:
            newer.add(current)
            pending += [edge[0] for edge in current.edges if edge is not None]
    for k, newer_node in enumerate(sorted(newer, key=lambda newer_node: newer_node.sequence), 1):
        newer_node.sequence = node.sequence - 1 + k / (len(newer) + 1)


def _is_finite(gradient: Tensor) -> bool:
    """Whether the gradient has no NaN or infinity. A sum that overflows counts as infinite."""
    return bool((gradient.detach().sum().abs() < float("inf"))._observe())
