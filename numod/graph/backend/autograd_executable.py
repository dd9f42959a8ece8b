"""A compiled forward pass with its compiled backward pass, for results that require gradients.

Local memory is needed until backward, so each call has its own arena, which its node keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from ...autograd import enable_grad
from ...autograd.engine import grad_up_to
from ...autograd.tape import Node, edge_to, hooks_of, stale, used_up
from ...core.apply import state
from ...core.create.creation import zeros
from ...core.tensor import OwnCount, Tensor
from . import memory_plan
from ..values.lazy_scalar import ScalarExpression, compute
from ..values.source_location import CannotRepeat
from .lower import Buffer
from ..ir.program import Program, Value
from .executable import Executable
from .section import Form, Section
from ..values.pytree import Given, is_structure, parts, replace


class Tape(NamedTuple):
    """What the tape showed of a recorded function's results: the step at which their backward pass begins, the results
    that have one, and what their gradients are `wanted` for: tensors that existed, or numbers of inputs. `uses`: for
    each of these the numbers of the results that were computed of it. `behind`: for each result those of the results
    that it was computed of. `shares`: those in whose histories, too, are nodes of its own that saved tensors.
    """

    boundary: int
    differentiated: list[Value]
    wanted: list[Tensor | int]
    uses: list[set[int]]
    behind: list[set[int]]
    shares: list[set[int]]


class Differentiable(Executable):
    """A program whose steps from `boundary` on are the backward pass of the ones before; its outputs are (results,
    gradients).

    Its inputs are those of the forward pass and then a gradient for each of the results that have one.
    """

    def __init__(self, program: Program, tape: Tape, name: str, form: Form) -> None:
        self.boundary, self.tape = tape.boundary, tape
        self.inputs_known = len(program.inputs) - len(tape.differentiated)
        program.outputs = (*program.outputs, tuple(tape.differentiated))  # passes may rename them
        super().__init__(program, name, form)

    def _prepare(self, name: str, form: Form) -> None:
        self.differentiated = list(self.program.outputs[2])
        calls = self.lowered.calls
        for each in memory_plan.crossing(self.lowered, self.boundary):
            # a section's local memory there is its run's alone: what backward reads lasts as results do
            if each.device.type != "cpu":
                each.kind = "result"
        self.places, self.arena_size = memory_plan.plan(self.lowered, self.boundary)
        forward, backward = (
            [call for call in calls if (call.position < self.boundary) is first] for first in (True, False)
        )
        self.section = Section(self.lowered, forward, self.places, self.arena_size, name, form)
        self.backward = Section(self.lowered, backward, self.places, self.arena_size, f"{name}_backward", form)
        if self.backward.tests:
            where = self.backward.tests[0].where
            raise CannotRepeat(
                f"compile: the backward pass of {where} branches on a value of the gradient; leave the function "
                "uncompiled"
            )
        self.kept = [
            buffer for buffer in self.backward.buffers if buffer.kind == "held" or buffer in self.section.arrays
        ]
        # what else it is computed of
        self.given = [
            buffer for buffer in self.section.buffers if buffer.kind in ("held", "input") and buffer not in self.kept
        ]
        layouts = self.lowered.layouts
        self.results = tuple([layouts[each] for each in self.differentiated])
        self.owners = [
            layouts[self.program.inputs[each]] if isinstance(each, int) else each._layout for each in self.tape.wanted
        ]
        self.hidden = frozenset().union(*self.tape.behind)
        self.place_of = {each: place for place, each in enumerate(self.differentiated)}
        self.zeros: dict[int, Tensor] = {}  # gradients of results that none comes to, which runs only read
        self.slopes = [(position, each) for position, each in enumerate(self.program.outputs[1]) if each is not None]

    def zero(self, number: int) -> Tensor:
        """The gradient of a result that none comes to."""
        found = self.zeros.get(number)
        if found is None:
            layout = self.results[number]
            found = self.zeros[number] = zeros(layout.shape, dtype=layout.dtype, device=layout.device)
        return found

    def run(self, inputs: tuple[Tensor, ...], again: Callable = lambda: None, given: Sequence = ()) -> Any:
        """Run the forward pass; its results get a node that runs the backward pass.

        `again` recomputes them eagerly, or returns None if guards fail.
        """
        arena, memory_of = memory_plan.arena(self.arena_size), {}
        values = self._begin(arena, inputs, memory_of)
        self._count_writes(inputs)
        tensors = self._set_gradients(inputs, memory_of)
        node = CompiledNode(self, inputs, arena, memory_of, values, again)

        def build(each: Any) -> Any:
            if type(each) is not Value:
                return given[each.number] if type(each) is Given else each
            found = tensors.get(each)
            if found is None:
                found = tensors[each] = self._tensor(each, inputs, memory_of)
                if (place := self.place_of.get(each)) is not None:
                    node.own(found, place)
            return found

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
        again: Callable,
    ) -> None:
        edges = [edge_to(inputs[each] if type(each) is int else each) for each in executable.tape.wanted]
        super().__init__(None, edges, executable.owners, executable.results)
        self.executable, self.again, self.kept = executable, again, (inputs, arena, memory_of, values)
        self.hidden, self.uses, self.anew = executable.hidden, executable.tape.uses, False
        self.made: list[tuple[int, ref]] = []  # the tensors that have it as their history
        self.used: set[int] = set()  # results whose gradients the last backward pass had
        self.freed: set[int] = set()  # those whose histories, by themselves, would have been freed
        self.storages = [
            each.tensor._storage
            if each.kind == "held"
            else inputs[each.number]._storage
            if each.kind == "input"
            else memory_of[each]
            for each in (*executable.kept, *executable.given)
        ]
        self.versions, self.own_writes = [storage.version for storage in self.storages], OwnCount.total

    def own(self, tensor: Tensor, output: int) -> None:
        """Make it the history of a result."""
        tensor._node, tensor._output, tensor._requires_grad = self, output, True
        self.made.append((output, ref(tensor)))

    def backward(self, grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """Run the backward section."""
        used = self.used = {number for number, gradient in enumerate(grads) if gradient is not None}
        if self.anew:
            return [(number, grads[number]) for number in used]
        if not used.isdisjoint(self.freed):
            raise used_up()
        inputs, arena, memory_of, values = self._unchanged()
        if state.grad_enabled:
            results = self._results_anew("create_graph=True differentiates a compiled function's gradient")
            found = self._of_results(results, grads)
            self._lead_to(results)  # on which the gradients' history depends, where an op saves its result
            return found
        executable = self.executable
        seeds = [executable.zero(k) if grad is None else grad for k, grad in enumerate(grads)]
        inputs = (*inputs, *[seed if seed._layout.dense else seed.contiguous() for seed in seeds])
        memory_of = dict(memory_of)
        executable._run(executable.backward, arena, inputs, memory_of, values)
        if len(used) == len(grads):
            return [(position, executable._tensor(each, inputs, memory_of)) for position, each in executable.slopes]
        slopes = [(position, each) for position, each in executable.slopes if not used.isdisjoint(self.uses[position])]
        reached = [(position, executable._tensor(each, inputs, memory_of)) for position, each in slopes]
        shared = [zero._storage for zero in executable.zeros.values()]
        reached = [(position, each.clone() if each._storage in shared else each) for position, each in reached]
        beside = set(range(len(grads))).difference(used, *(executable.tape.behind[number] for number in used))
        if all(beside.isdisjoint(self.uses[position]) or _is_finite(each) for position, each in reached):
            return reached
        # zeros for the results beside those that are used, times a derivative that is infinite, may have come to it
        results = self._again()
        return reached if results is None else self._of_results(results, grads)

    def _unchanged(self) -> tuple:
        """What was kept for the backward pass. Raises RuntimeError if it has been modified."""
        for storage, buffer, version in zip(self.storages, self.executable.kept, self.versions):
            if storage.version != version:
                value = next(each for each, span in self.executable.lowered.places.items() if span.buffer is buffer)
                raise stale(self.executable._tensor(value, self.kept[0], self.kept[2]), version, self)
        return self.kept

    def _again(self) -> list[Tensor] | None:
        """The results that have gradients, from calling the function again eagerly: these have their own histories.

        None where it has side effects, or what it is computed of may have been written to.
        """
        executable = self.executable
        pure = not (
            executable.storages
            or executable.inputs_written
            or executable.lowered.sources
            or executable.program.gradients
        )
        same = OwnCount.total == self.own_writes and [storage.version for storage in self.storages] == self.versions
        with enable_grad():
            outputs = self.again() if pure and same else None
        if outputs is None:
            return None
        made: dict[Value, Tensor] = {}
        _pair(executable.program.outputs[0], outputs, made)
        return [made[value] for value in executable.differentiated]

    def _results_anew(self, why: str) -> list[Tensor]:
        """The same, where there must be some."""
        results = self._again()
        if results is None:
            raise RuntimeError(
                f"{why}, which needs the function to be called again, but that draws, writes or has changed since, or "
                "tensors it uses have; call it uncompiled"
            )
        return results

    def _of_results(self, results: list[Tensor], grads: list[Tensor | None]) -> list[tuple[int, Tensor]]:
        """The gradients by the results' own histories, which can be differentiated where the tape records."""
        inputs = self.kept[0]
        owners = [inputs[each] if isinstance(each, int) else each for each in self.executable.tape.wanted]
        pairs = [(result, gradient) for result, gradient in zip(results, grads) if gradient is not None]
        found = grad_up_to([a for a, _ in pairs], owners, [g for _, g in pairs], create_graph=state.grad_enabled)
        return [(position, gradient) for position, gradient in enumerate(found) if gradient is not None]

    def show(self, tensor: Tensor) -> None:
        """Give one of the results the history it has eagerly, of which others' histories are parts.

        This node from now on leads to these.
        """
        if tensor._output in self.freed:
            return  # its gradient will not be computed any more
        self._unchanged()
        self._lead_to(
            self._results_anew(
                "a compiled function's result that others were computed of is given a hook, or its gradient is asked "
                "for"
            )
        )

    def _lead_to(self, results: list[Tensor]) -> None:
        """Have results that were made eagerly for those it gave, and their tensors and hooks go over to the histories
        of these.
        """
        _number_before(self, results)
        self.edges, self.layouts, self.anew, self.kept = list(map(edge_to, results)), self.outputs, True, None
        self.uses = [{number} for number in range(len(results))]
        for output, reference in self.made:
            tensor = reference()
            if tensor is not None and tensor._node is self:
                tensor._node, tensor._output = self.edges[output]
        for name in ("tensor", "retain") if self.hooks is not None else ():
            for output, hooks in getattr(self.hooks, name).items():
                node, number = self.edges[output]
                getattr(hooks_of(node), name)[number] = hooks
            setattr(self.hooks, name, {})

    def release(self) -> None:
        """Free the memory, unless a result is left whose history was no part of those that are used up."""
        self.freed.update(*(self.executable.tape.shares[number] for number in self.used))
        if len(self.freed) == len(self.outputs):
            self.kept = None

    def name(self) -> str:
        """The node's name."""
        return "CompiledFunctionBackward"


def _pair(structure: Any, outputs: Any, made: dict[Value, Tensor]) -> None:
    """Maps the values of a structure to the tensors at the same positions of another."""
    if isinstance(structure, Value):
        made[structure] = outputs
    elif type(structure) is ScalarExpression:
        if structure.operation == "view_of":
            _pair(structure.operands[:2], (outputs, outputs._base), made)
    elif is_structure(structure):
        for part, output in zip(parts(structure), parts(outputs)):
            _pair(part, output, made)


def _number_before(node: Node, results: list[Tensor]) -> None:
    """Number the nodes of these results' histories, which are newer than `node`, as if they had been made just before
    it: it leads to them.
    """
    found, waiting = set(), [edge_to(result)[0] for result in results]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Node) and each.sequence > node.sequence and each not in found:
            found.add(each)
            waiting += [edge[0] for edge in each.edges if edge is not None]
    for k, each in enumerate(sorted(found, key=lambda each: each.sequence), 1):
        each.sequence = node.sequence - 1 + k / (len(found) + 1)


def _is_finite(gradient: Tensor) -> bool:
    """Whether there is neither NaN nor an infinity in it, and no sum that overflows."""
    return bool((gradient.detach().sum().abs() < float("inf"))._observe())
