"""Records the backward pass of a function's results, behind the steps of its forward pass."""

from __future__ import annotations

from typing import Any

from ...autograd.engine import grad_up_to
from ...autograd.tape import edge_to
from ...core.create.creation import ones
from ...core.tensor import Tensor
from ..backend.autograd_executable import Tape
from ..values.pytree import replace
from ..values.source_location import CannotRepeat
from .recorder import Recorder


def differentiate(recorder: Recorder, inputs: tuple[Tensor, ...], outputs: Any) -> tuple[tuple, Tape] | None:
    """Record the gradients of the outputs that require them; (gradients, tape), or None if no output does."""
    results = _differentiable(recorder, inputs, outputs)
    if not results:
        return None
    leaves = _leaves(results, inputs)
    seeds = [ones(result.shape, dtype=result.dtype, device=result.device) for result in results]
    for seed in seeds:
        recorder.add_input(seed)
    boundary = len(recorder.program.steps)
    try:
        gradients = tuple(grad_up_to(results, leaves, seeds)) if leaves else ()
    # a saved tensor was overwritten, or a Function's backward raised; backward() may never be called
    except Exception as error:
        raise CannotRepeat(f"compile: the gradients of the results cannot be computed: {error}") from error
    numbers = {id(tensor): number for number, tensor in enumerate(inputs)}
    targets = [numbers.get(id(leaf), leaf) for leaf in leaves]
    differentiated = [recorder.values.by_tensor[id(result)] for result in results]
    return gradients, Tape(boundary, differentiated, targets, *_dependencies_of_results(results, leaves))


def _differentiable(recorder: Recorder, inputs: tuple[Tensor, ...], outputs: Any) -> list[Tensor]:
    """The results whose history no backward pass has freed. Tensors that existed before keep their own history."""
    results: list[Tensor] = []

    def add(leaf: Any) -> None:
        if not issubclass(type(leaf), Tensor) or id(leaf) in recorder.environment.outside:
            return
        if leaf.grad_fn is not None and not any(leaf is tensor for tensor in (*results, *inputs)):
            results.append(leaf)

    replace(outputs, add)
    return [result for result in results if _leaves([result], inputs) is not None]


def _leaves(results: list[Tensor], inputs: tuple[Tensor, ...]) -> list[Tensor] | None:
    """The leaves and inputs that the results depend on; None if a backward pass has freed their history."""
    stops = {(id(edge[0]), edge[1]): tensor for tensor in inputs if (edge := edge_to(tensor)) is not None}
    leaves: dict[int, Tensor] = {}
    seen, pending = set(), [edge_to(result) for result in results]
    while pending:
        target, output = pending.pop()
        leaf = stops.get((id(target), output), target if isinstance(target, Tensor) else None)
        if leaf is not None:
            leaves[id(leaf)] = leaf
        elif target not in seen:
            seen.add(target)
            if getattr(target, "saved", ()) is None and target.refill is None and target.packed is None:
                return None
            if target.hooks is not None and any(vars(target.hooks).values()):
                raise CannotRepeat(
                    "compile: a computed tensor has hooks or retains its gradient, which a compiled function does not "
                    "call; leave the function uncompiled"
                )
            pending += [edge for edge in target.edges if edge is not None]
    return list(leaves.values())


def _dependencies_of_results(
    results: list[Tensor], leaves: list[Tensor]
) -> tuple[list[set[int]], list[set[int]], list[set[int]], bool]:
    """How results, by number, depend on leaves and on each other.

    Returns (for each leaf, the results that depend on it; for each result, the results that it depends on; for each
    result, the results whose history shares a node with saved tensors; whether a node tells None from zeros).
    """
    result_at, leaf_at = [
        {(id(edge[0]), edge[1]): number for number, edge in enumerate(map(edge_to, tensors))}
        for tensors in (results, leaves)
    ]
    uses: list[set[int]] = [set() for _ in leaves]
    depends_on: list[set[int]] = [set() for _ in results]
    saving_nodes: list[set[int]] = [set() for _ in results]
    sees_undefined = False
    for number, result in enumerate(results):
        seen, pending = set(), [edge_to(result)]
        while pending:
            target, output = pending.pop()
            position = id(target), output
            if position in leaf_at:
                uses[leaf_at[position]].add(number)
            elif position not in seen:
                seen.add(position)
                if getattr(target, "saved", True) or target.out or target.packed is not None:
                    saving_nodes[number].add(id(target))
                sees_undefined = sees_undefined or target.sees_undefined
                depends_on[number].add(result_at.get(position, number))
                pending += [edge for edge in target.edges if edge is not None]
        depends_on[number].discard(number)
    shared_history = [
        {number for number, other in enumerate(saving_nodes) if not nodes.isdisjoint(other)} for nodes in saving_nodes
    ]
    return uses, depends_on, shared_history, sees_undefined
