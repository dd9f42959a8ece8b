"""One pass over the tape, from results to leaves, that computes gradients.

It does not recurse, so graphs may be arbitrarily deep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import NamedTuple

from ..core.apply import apply, state
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Layout
from ..ops import table
from ..ops.view import View
from .accumulate import accumulate
from .tape import AccumulateGrad, Node, edge_to, expose

watch: Callable | None = None  # runs a node's backward while anomaly detection is on, see `anomaly`


class GradientEdge(NamedTuple):
    """An edge of the graph: a node (`grad_fn`, or a leaf's AccumulateGrad) and the index of its output."""

    node: Node | AccumulateGrad
    output_nr: int


def target_of(tensor: Tensor | GradientEdge) -> tuple:
    if isinstance(tensor, GradientEdge):
        return (tensor.node.variable, 0) if isinstance(tensor.node, AccumulateGrad) else tuple(tensor)
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    return edge_to(tensor)


class BackwardPass:
    """One backward pass: the pending gradients by node, and the gradients captured for `inputs`.

    Nodes are processed in descending order of their numbers.
    """

    def __init__(self, inputs: tuple[Tensor, ...], stop_at_inputs: bool = False) -> None:
        self.stop_at_inputs = stop_at_inputs  # whether gradients of the inputs are not passed on
        self.heap: list[tuple[int, Node]] = []
        self.pending: dict[Node, list[Tensor | None]] = {}
        self.leaves: dict[Tensor, Tensor] = {}
        # by edge, the gradients that this pass created from a tensor's parts: further parts are added in place
        self.accumulating: dict[tuple[int, int], Tensor] = {}
        self.shared_storages: set[int] = set()  # ids of storages that others use, which `.grad` must not share
        self.capture_at: dict[tuple[int, int], list[int]] = {}
        self.captured: list[Tensor | None] = [None] * len(inputs)
        for tensor in inputs:  # before the next loop, since it may change edges of other tensors
            if isinstance(tensor, Tensor) and not stop_at_inputs:
                expose(tensor)
        for k, tensor in enumerate(inputs):
            target, number = target_of(tensor)
            self.capture_at.setdefault((id(target), number), []).append(k)
        self.at_end: list[Callable[[], None]] = []
        # for leaves that are finished as soon as their gradient is complete, the number of parts still to come
        self.awaited: dict[Tensor, int] = {}
        # the nodes that lead to a captured tensor, with the inputs that lead there. None: all nodes
        self.path: dict[Node, tuple[int, ...]] | None = None

    def find_path(self, roots: list[tuple], into_leaves: bool) -> None:
        """Find the nodes to process: those that lead from `roots` to a captured tensor or a tensor with `.grad` set."""
        capturing = {target for target, _ in self.capture_at} if into_leaves else set()
        self.path, visited, stack = {}, set(), [(target, False) for target, _ in roots if isinstance(target, Node)]
        while stack:
            node, ready = stack.pop()
            if ready:
                # a node that computed a captured tensor runs only for its hooks
                has_hooks = id(node) in capturing and node.hooks is not None and (node.hooks.before or node.hooks.after)
                positions = [
                    k
                    for k, edge in enumerate(node.edges)
                    if edge is not None
                    and (has_hooks or (id(edge[0]), edge[1]) in self.capture_at or self.leads_on(*edge))
                ]
                if has_hooks or positions:
                    self.path[node] = tuple(positions)
            elif node not in visited:
                visited.add(node)
                stack.append((node, True))
                stack += [(edge[0], False) for edge in node.edges if edge is not None and isinstance(edge[0], Node)]

    def send(self, edge: tuple, gradient: Tensor) -> None:
        """Pass a gradient along an edge, to a node or leaf."""
        target, number = edge
        if self.path is not None and not self.leads_on(target, number) and (id(target), number) not in self.capture_at:
            return
        if isinstance(target, Tensor):
            self.leaves[target] = self.leaves[target] + gradient if target in self.leaves else gradient
            if self.awaited and target in self.awaited:
                self.awaited[target] -= 1
                if not self.awaited[target]:
                    self.finish_leaf(target, self.leaves.pop(target), True)
        elif target not in self.pending:
            self.pending[target] = gradients = [None] * len(target.outputs)
            gradients[number] = gradient
            heappush(self.heap, (-target.sequence, target))
        else:
            gradients = self.pending[target]
            gradients[number] = gradient if gradients[number] is None else gradients[number] + gradient

    def await_leaves(self, roots: list[tuple]) -> None:
        """Count the parts of the gradients of leaves that are to be finished early: the edges that lead to them."""
        stack, seen = list(roots), set()
        while stack:
            target, _ = stack.pop()
            if isinstance(target, Tensor):
                if target._finish_early:
                    self.awaited[target] = self.awaited.get(target, 0) + 1
            elif target not in seen:
                seen.add(target)
                stack += [edge for edge in target.edges if edge is not None]

    def leads_on(self, target: Node | Tensor, number: int) -> bool:
        """Whether a result of a node leads to a captured tensor."""
        positions = self.path.get(target)
        return positions is not None and (
            target.results_of_input is None
            or any(number in target.results_of_input[position] for position in positions)
        )

    def pending_gradient(self, edge: tuple) -> Tensor | None:
        """The gradient accumulated so far at the end of an edge."""
        target, number = edge
        if isinstance(target, Tensor):
            return self.leaves.get(target)
        if target in self.pending:
            return self.pending[target][number]
        return None

    def add_part(self, node: Node, gradient: Tensor) -> bool:
        """Add the gradient of a view in place to the pending gradient of its base, if this pass created that.

        Otherwise each of many views would add a gradient of the base's size. Returns whether it was added.
        """
        (edge,) = node.edges
        whole = self.pending_gradient(edge)
        if whole is None or self.accumulating.get((id(edge[0]), edge[1])) is not whole:
            return False
        whole._view(node.op, node.attributes).add_(gradient)
        return True

    def capture(self, target: object, number: int, gradient: Tensor | None) -> None:
        """Store the gradient if it is one of those to capture."""
        for k in self.capture_at.get((id(target), number), ()):
            self.captured[k] = gradient

    def capture_outputs(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        """Store the gradients to capture of a node's results, and return those to pass on."""
        for number, gradient in enumerate(grads):
            self.capture(node, number, gradient)
        return (
            [None if (id(node), number) in self.capture_at else gradient for number, gradient in enumerate(grads)]
            if self.stop_at_inputs
            else grads
        )

    def run(self, retain: bool) -> None:
        """Process the nodes, the last recorded first."""
        heap, pending, path = self.heap, self.pending, self.path
        while heap:
            node = heappop(heap)[1]
            grads = pending.pop(node)
            if self.stop_at_inputs:
                grads = self.capture_outputs(node, grads)
            if node.hooks is not None:
                _run_tensor_hooks(node, grads, self)
            if path is not None:
                if not self.stop_at_inputs:
                    self.capture_outputs(node, grads)
                if node not in path or not any(grad is not None for grad in grads):
                    continue
            if node.hooks is not None:
                grads = _run_prehooks(node, grads)
            is_part = node.op.__class__ is View and node.op.of_part and node.hooks is None and not state.grad_enabled
            if is_part and self.add_part(node, grads[0]):
                continue
            edges, layouts = node.edges, node.layouts  # a compiled function's node may change these
            if watch is not None:
                input_gradients = watch(node, grads)
            else:
                input_gradients = (
                    node.backward(grads)
                    if path is None or node.__class__ is not Node
                    else node.backward(grads, path[node])
                )
            if node.is_custom_function:
                input_gradients = list(input_gradients)
                self.shared_storages.update(
                    id(gradient._storage) for _, gradient in input_gradients if gradient is not None
                )
            if node.hooks is not None and node.hooks.after:
                input_gradients = _run_posthooks(
                    node,
                    grads,
                    [
                        (k, gradient) if edges[k] is None else (k, converted(gradient, layouts[k]))
                        for k, gradient in input_gradients
                    ],
                )
            for position, gradient in input_gradients:
                if gradient is not None and edges[position] is not None:
                    layout = layouts[position]
                    self.send(edges[position], gradient if gradient._layout is layout else converted(gradient, layout))
                    if is_part:
                        self.accumulating[id(edges[0][0]), edges[0][1]] = self.pending_gradient(edges[0])
            if not retain:
                node.release()

    def finish(self, only: tuple[Tensor, ...] | None) -> None:
        """Accumulate the gradients of all leaves, or of the tensors in `only`."""
        if state.vmap_depth:
            extensions.check_leaves(self.leaves if only is None else [target_of(tensor)[0] for tensor in only])
        for leaf, gradient in self.leaves.items():
            self.finish_leaf(leaf, gradient, only is None)
        for leaf, gradient in {
            target_of(tensor)[0]: gradient for tensor, gradient in zip(only or (), self.captured)
        }.items():
            if isinstance(leaf, Tensor) and gradient is not None:
                self.add(leaf, gradient)

    def finish_leaf(self, leaf: Tensor, gradient: Tensor, accumulates: bool) -> None:
        """Run a leaf's hooks, and accumulate its gradient or only capture it."""
        if leaf._hooks is not None and not self.stop_at_inputs:
            for hook in list(leaf._hooks.values()):
                self.shared_storages.add(id(gradient._storage))
                gradient = _hook_result(hook(gradient), gradient)
                self.shared_storages.add(id(gradient._storage))
        if self.capture_at:
            self.capture(leaf, 0, gradient)
        if accumulates and leaf._requires_grad:
            self.add(leaf, gradient)

    def add(self, leaf: Tensor, gradient: Tensor) -> None:
        """Accumulate a leaf's gradient and run the hooks of its AccumulateGrad."""
        end = leaf._end and leaf._end()
        hooks = None if end is None else end.hooks
        if hooks is not None:
            for hook in list(hooks.before.values()):
                (gradient,) = hook((gradient,)) or (gradient,)
                self.shared_storages.add(id(gradient._storage))
        accumulate(leaf, gradient, self.shared_storages)
        for hook in list((leaf._after_hooks or {}).values()):
            result = hook(leaf)  # a tensor is ignored: `lambda p: p.sub_(p.grad)` is a usual hook
            if not (result is None or isinstance(result, Tensor)):
                raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
        if hooks is not None:
            for hook in list(hooks.after.values()):
                hook((), (gradient,))


def batched_as(layout: Layout, gradient: Tensor) -> Tensor:
    """The gradient of a batched tensor as a batched tensor, so that random ops on it draw for each example."""
    batch, gradient_batch = layout.batch, gradient._layout.batch
    if batch is None or gradient_batch is not None and gradient_batch.depth >= batch.depth:
        return gradient
    return gradient * batch.wrap(apply(table.fill, (1,), (layout.dtype, layout.device, ())), is_batched=False)


def converted(gradient: Tensor | None, layout: Layout) -> Tensor | None:
    """A gradient converted to the shape, dtype and device of its input."""
    if gradient is None:
        return None
    gradient_layout = gradient._layout
    if gradient_layout.shape != layout.shape:
        gradient = gradient.sum_to_size(layout.shape)
    if gradient_layout.dtype.is_complex and not layout.dtype.is_complex:
        gradient = gradient.real  # a real input has a real gradient
    if gradient_layout.dtype is not layout.dtype or gradient_layout.device is not layout.device:
        gradient = gradient.to(device=layout.device, dtype=layout.dtype)
    return gradient if layout.batch is None else batched_as(layout, gradient)


def _run_tensor_hooks(node: Node, grads: list[Tensor | None], running_pass: BackwardPass) -> None:
    """Run the hooks of the node's results, which may replace gradients, and set `.grad` of retained results."""
    for number, hooks in node.hooks.tensor.items():
        for hook in list(hooks.values()):
            if grads[number] is not None:
                running_pass.shared_storages.add(id(grads[number]._storage))
                grads[number] = _hook_result(hook(grads[number]), grads[number])
                running_pass.shared_storages.add(id(grads[number]._storage))
    for number, reference in node.hooks.retain.items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            if state.vmap_depth:
                extensions.check_leaves((tensor,))
            tensor._grad = grads[number].contiguous().clone() if tensor._grad is None else tensor._grad + grads[number]


def _run_prehooks(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """The gradients after the node's prehooks, which run after the hooks of its results."""
    count = node.visible_results() if node.hooks.before else 0
    for hook in list(node.hooks.before.values()):
        replaced = hook(tuple(grads[:count]))
        if replaced is not None:
            grads = [*_checked_count(hook, replaced, count), *grads[count:]]
    return grads


def _run_posthooks(
    node: Node, grads: list, by_position: list[tuple[int, Tensor | None]]
) -> list[tuple[int, Tensor | None]]:
    positions = node.visible_inputs()
    by_position = dict(by_position)
    grad_outputs = tuple(grads[: node.visible_results()])
    inputs: Sequence[Tensor | None] = [by_position.get(k) if node.edges[k] is not None else None for k in positions]
    for hook in list(node.hooks.after.values()):
        replaced = hook(tuple(inputs), grad_outputs)
        inputs = inputs if replaced is None else _checked_count(hook, replaced, len(positions))
    return [(k, gradient) for k, gradient in zip(positions, inputs) if gradient is not None]


def _checked_count(hook: Callable, replaced: Tensor | Sequence, count: int) -> Sequence:
    """The gradients that a node's hook returned. Raises RuntimeError for a wrong number of them."""
    replaced = [replaced] if isinstance(replaced, Tensor) else replaced
    if len(replaced) != count:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got "
            f"{len(replaced)}, but expected {count})"
        )
    return replaced


def _hook_result(result: Tensor | None, gradient: Tensor) -> Tensor:
    if result is None:
        return gradient
    if not isinstance(result, Tensor):
        raise TypeError(f"expected a hook to return None or a Tensor, got {type(result).__name__}")
    if result.shape != gradient.shape:
        raise RuntimeError(f"hook has changed the size of value: {tuple(gradient.shape)} to {tuple(result.shape)}")
    if result.dtype is not gradient.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {gradient.dtype.short} got {result.dtype.short})")
    return batched_as(gradient._layout, result)
