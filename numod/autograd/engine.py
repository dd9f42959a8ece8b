"""The backward engine: traverses the tape from results to leaves and computes gradients.

It does not recurse, so graphs may be arbitrarily deep.
"""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextvars import copy_context
from heapq import heappop, heappush
from sys import getrefcount

from typing import NamedTuple

from ..core.apply import apply, state
from ..core.extensions import extensions
from ..core.tensor import Tensor, wrap
from ..device import Layout
from ..errors import warn_caller
from ..ops import table
from ..ops.view import View
from .tape import AccumulateGrad, Node, edge_to, expose


class _Running(threading.local):
    """The backward passes that this thread runs, the innermost last."""

    def __init__(self) -> None:
        self.walks: list[_BackwardPass] = []


running = _Running()
finishing_early = False  # whether some leaf has `_finish_early` set
watch: Callable | None = None  # runs a node's backward while anomaly detection is on, see `anomaly`


class GradientEdge(NamedTuple):
    """An edge of the graph: a node (`grad_fn`, or a leaf's AccumulateGrad) and the index of its output."""

    node: Node | AccumulateGrad
    output_nr: int


def _target(tensor: Tensor | GradientEdge) -> tuple:
    if isinstance(tensor, GradientEdge):
        return (tensor.node.variable, 0) if isinstance(tensor.node, AccumulateGrad) else tuple(tensor)
    if not isinstance(tensor, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    return edge_to(tensor)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Add the gradients of `tensors` (sums weighted by `grad_tensors`) to `.grad` of the leaves, or of `inputs` alone.

    Raises RuntimeError if a tensor requires no gradient, is no scalar and has no weight, or if the graph was freed.

    Example:

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.backward(x**2)
        >>> x.grad
        tensor(6.)
    """
    tensors = _tuple(tensors)
    targets = None if inputs is None else _tuple(inputs)
    if targets is not None and not targets:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for tensor in targets or ():
        if isinstance(tensor, Tensor):
            tensor.retain_grad()  # so that non-leaf tensors get `.grad`
    if create_graph:
        warnings.warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. "
            "We recommend using autograd.grad when creating the graph to avoid this. If you have to use this "
            "function, make sure to reset the .grad fields "
            "of your parameters to None after use to break the cycle and avoid the leak.",
            stacklevel=3,
        )
    _walk(
        tensors, grad_tensors, bool(create_graph if retain_graph is None else retain_graph), create_graph, targets, True
    )


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """Gradients of `outputs` with respect to `inputs`; `.grad` is not changed.

    Raises RuntimeError for an unused input, unless `allow_unused`: then its gradient is None.

    With `is_grads_batched`, `grad_outputs` and the gradients have an additional first dimension, and one backward pass
    computes all of its elements (`func.vmap`).

    Example:

        >>> x = torch.tensor(3.0, requires_grad=True)
        >>> torch.autograd.grad(x**2, x)
        (tensor(6.),)
    """
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not only_inputs:
        warn_caller(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use numod.autograd.backward.",
            FutureWarning,
        )
    if not inputs:
        raise RuntimeError("`inputs` argument to `grad()` cannot be empty.")
    if is_grads_batched:
        return _batched(
            outputs,
            inputs,
            _tuple(grad_outputs),
            create_graph=create_graph,
            allow_unused=allow_unused,
            materialize_grads=materialize_grads,
        )
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    for input in inputs:
        _target(input)  # raises
        if not isinstance(input, GradientEdge) and not input.requires_grad:
            raise RuntimeError("One of the differentiated Tensors does not require grad")
    retain = create_graph if retain_graph is None else retain_graph
    gradients = _walk(outputs, grad_outputs, retain, create_graph, inputs, False)
    if not (allow_unused or materialize_grads) and any(result is None for result in gradients):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        )
    return tuple(
        _zeros(input, create_graph) if gradient is None and materialize_grads else gradient
        for input, gradient in zip(inputs, gradients)
    )


def grad_up_to(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], create_graph: bool = False
) -> Sequence[Tensor | None]:
    """`grad` that stops at the inputs: their gradients are not passed on, even if an input was computed from another.

    Hooks of the inputs do not run. Unused inputs get None. The graph is retained.
    """
    return _walk(tuple(outputs), grad_outputs, True, create_graph, tuple(inputs), False, stop_at_inputs=True)


def _zeros(tensor: Tensor | GradientEdge, requires_grad: bool) -> Tensor:
    target, number = _target(tensor)
    layout = (
        tensor._layout
        if isinstance(tensor, Tensor)
        else target._layout
        if isinstance(target, Tensor)
        else target.outputs[number]
    )
    return apply(table.fill, (0,), (layout.dtype, layout.device, layout.shape)).requires_grad_(requires_grad)


def _batched(outputs: tuple, inputs: tuple, weights: tuple, **options: object) -> tuple[Tensor | None, ...]:
    unused: list[bool] = []

    def row(*weights: Tensor) -> tuple[Tensor, ...]:
        gradients = grad(outputs, inputs, weights, retain_graph=True, **options)
        unused[:] = [gradient is None for gradient in gradients]
        return tuple(gradient for gradient in gradients if gradient is not None)

    columns = iter(extensions.map_rows(row, weights) or _map_rows(row, weights))
    return tuple(None if missing else next(columns) for missing in unused)


def _map_rows(function: Callable, columns: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """The function's results for each row of the tensors, stacked."""
    from ..core.shape.shapes import stack

    return tuple(map(stack, zip(*[function(*row) for row in zip(*(column.unbind() for column in columns))])))


def _tuple(value: object) -> tuple:
    return (value,) if isinstance(value, (Tensor, GradientEdge)) else tuple(value)


def _seeds(tensors: tuple[Tensor, ...], weights: object) -> list[Tensor]:
    weights = (None,) * len(tensors) if weights is None else _tuple(weights)
    if len(weights) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(weights)} gradients")
    return [_seed(tensor, weight) for tensor, weight in zip(tensors, weights)]


def _seed(tensor: Tensor | GradientEdge, weight: Tensor | None) -> Tensor:
    """The gradient that a backward pass starts with."""
    if isinstance(tensor, GradientEdge):
        target, number = _target(tensor)
        layout = target._layout if isinstance(target, Tensor) else target.outputs[number]
    elif not isinstance(tensor, Tensor):
        raise RuntimeError(f"expected the outputs to be Tensors or GradientEdges, but got {type(tensor).__name__}")
    elif tensor.requires_grad:
        layout = tensor._layout
    else:
        raise RuntimeError(
            "element 0 of tensors does not require grad and does not have a grad_fn; set requires_grad=True on an "
            "input, or leave no_grad()"
        )
    if weight is None:
        if layout.size != 1:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs; reduce the tensor (.sum(), .mean()) or pass "
                "its gradient"
            )
        if layout.dtype.is_complex:
            raise RuntimeError(
                f"grad can be implicitly created only for real scalar outputs but got {layout.dtype}; take its .real "
                "or .abs(), or pass its gradient"
            )
        weight = apply(table.fill, (1,), (layout.dtype, layout.device, layout.shape))
    elif weight.dtype.is_complex is not layout.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            "grad_output[0] has a dtype of "
            f"{weight.dtype} and output[0] has a dtype of {layout.dtype}."
        )
    elif weight.shape != layout.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[0] has a shape of {weight.shape} and output[0] has a shape of "
            f"{layout.shape}."
        )
    return _batched_as(layout, weight)


def _batched_as(layout: Layout, gradient: Tensor) -> Tensor:
    """The gradient of a batched tensor as a batched tensor, so that random ops on it draw for each example."""
    batch, gradient_batch = layout.batch, gradient._layout.batch
    if batch is None or gradient_batch is not None and gradient_batch.depth >= batch.depth:
        return gradient
    return gradient * batch.wrap(apply(table.fill, (1,), (layout.dtype, layout.device, ())), is_batched=False)


class _BackwardPass:
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
            target, number = _target(tensor)
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
        return (
            self.leaves.get(target)
            if isinstance(target, Tensor)
            else self.pending[target][number]
            if target in self.pending
            else None
        )

    def add_part(self, node: Node, gradient: Tensor) -> bool:
        """Add the gradient of a view in place to the pending gradient of its base, if this pass created that.

        Otherwise each of many views would add a gradient of the base's size. Returns whether it was added.
        """
        (edge,) = node.edges
        whole = self.pending_gradient(edge)
        if whole is None or self.accumulating.get((id(edge[0]), edge[1])) is not whole:
            return False
        whole._view(node.op, node.parameters).add_(gradient)
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
                        (k, gradient) if edges[k] is None else (k, _converted(gradient, layouts[k]))
                        for k, gradient in input_gradients
                    ],
                )
            for position, gradient in input_gradients:
                if gradient is not None and edges[position] is not None:
                    layout = layouts[position]
                    self.send(edges[position], gradient if gradient._layout is layout else _converted(gradient, layout))
                    if is_part:
                        self.accumulating[id(edges[0][0]), edges[0][1]] = self.pending_gradient(edges[0])
            if not retain:
                node.release()

    def finish(self, only: tuple[Tensor, ...] | None) -> None:
        """Accumulate the gradients of all leaves, or of the tensors in `only`."""
        if state.vmap_depth:
            extensions.check_leaves(self.leaves if only is None else [_target(tensor)[0] for tensor in only])
        for leaf, gradient in self.leaves.items():
            self.finish_leaf(leaf, gradient, only is None)
        for leaf, gradient in {
            _target(tensor)[0]: gradient for tensor, gradient in zip(only or (), self.captured)
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


def _walk(*arguments: object, **options: object) -> list[Tensor | None]:
    """`_run_backward`, on a new thread if nested passes have used half of this thread's stack."""
    walks = running.walks
    if not (walks and _stack_is_deep()):
        return _run_backward(*arguments, **options)
    modes, context, results = dict(state.__dict__), copy_context(), []

    def run() -> None:
        running.walks = walks
        state.__dict__.update(modes)
        try:
            results.append((context.run(_run_backward, *arguments, **options), None))
        except BaseException as error:  # reraised by the waiting thread
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    ((gradients, error),) = results
    if error is not None:
        raise error
    return gradients


def _stack_is_deep() -> bool:
    """Whether half of Python's recursion limit is used."""
    try:
        return sys._getframe(sys.getrecursionlimit() // 2) is not None
    except ValueError:
        return False


def _run_backward(
    tensors: tuple,
    weights: object,
    retain: bool,
    create_graph: bool,
    targets: tuple | None,
    into_leaves: bool,
    stop_at_inputs: bool = False,
) -> list[Tensor | None]:
    """Run a backward pass and return the gradients of `wanted`.

    With `into_leaves`, gradients are added to `.grad` of these tensors, or of all leaves. With `stop_at_inputs`,
    gradients of `wanted` are not passed on.
    """
    walk, walks = _BackwardPass(targets or (), stop_at_inputs), running.walks
    before = state.grad_enabled
    try:
        state.grad_enabled = create_graph
        walks.append(walk)
        seeds, roots = _seeds(tensors, weights), [_target(tensor) for tensor in tensors]
        if targets is not None:
            walk.find_path(roots, into_leaves)
        elif finishing_early:
            walk.await_leaves(roots)
        for root, seed in zip(roots, seeds):
            walk.shared_storages.add(id(seed._storage))
            walk.send(root, seed)
        walk.run(retain or state.vmap_depth > 0)
        walk.finish(targets if into_leaves else ())
        for call in walk.at_end:
            call()
    finally:
        state.grad_enabled = before  # first, since a signal handler may raise after any call
        if walk in walks:
            walks.remove(walk)
    return walk.captured


def _converted(gradient: Tensor | None, layout: Layout) -> Tensor | None:
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
    return gradient if layout.batch is None else _batched_as(layout, gradient)


def _run_prehooks(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """The gradients after the node's prehooks, which run after the hooks of its results."""
    count = node.visible_results() if node.hooks.before else 0
    for hook in list(node.hooks.before.values()):
        replaced = hook(tuple(grads[:count]))
        if replaced is not None:
            grads = [*_checked_count(hook, replaced, count), *grads[count:]]
    return grads


def _checked_count(hook: Callable, replaced: Tensor | Sequence, count: int) -> Sequence:
    """The gradients that a node's hook returned. Raises RuntimeError for a wrong number of them."""
    replaced = [replaced] if isinstance(replaced, Tensor) else replaced
    if len(replaced) != count:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got "
            f"{len(replaced)}, but expected {count})"
        )
    return replaced


def _run_tensor_hooks(node: Node, grads: list[Tensor | None], walk: _BackwardPass) -> None:
    """Run the hooks of the node's results, which may replace gradients, and set `.grad` of retained results."""
    for number, hooks in node.hooks.tensor.items():
        for hook in list(hooks.values()):
            if grads[number] is not None:
                walk.shared_storages.add(id(grads[number]._storage))
                grads[number] = _hook_result(hook(grads[number]), grads[number])
                walk.shared_storages.add(id(grads[number]._storage))
    for number, reference in node.hooks.retain.items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            if state.vmap_depth:
                extensions.check_leaves((tensor,))
            tensor._grad = grads[number].contiguous().clone() if tensor._grad is None else tensor._grad + grads[number]


def _run_posthooks(
    node: Node, grads: list, by_position: list[tuple[int, Tensor | None]]
) -> list[tuple[int, Tensor | None]]:
    positions, by_position, grad_outputs = (
        node.visible_inputs(),
        dict(by_position),
        tuple(grads[: node.visible_results()]),
    )
    inputs: Sequence[Tensor | None] = [by_position.get(k) if node.edges[k] is not None else None for k in positions]
    for hook in list(node.hooks.after.values()):
        replaced = hook(tuple(inputs), grad_outputs)
        inputs = inputs if replaced is None else _checked_count(hook, replaced, len(positions))
    return [(k, gradient) for k, gradient in zip(positions, inputs) if gradient is not None]


def _hook_result(result: Tensor | None, gradient: Tensor) -> Tensor:
    if result is None:
        return gradient
    if not isinstance(result, Tensor):
        raise TypeError(f"expected a hook to return None or a Tensor, got {type(result).__name__}")
    if result.shape != gradient.shape:
        raise RuntimeError(f"hook has changed the size of value: {tuple(gradient.shape)} to {tuple(result.shape)}")
    if result.dtype is not gradient.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {gradient.dtype.short} got {result.dtype.short})")
    return _batched_as(gradient._layout, result)


def accumulate(leaf: Tensor, gradient: Tensor, shared_storages: set[int]) -> None:
    """Add a gradient to `leaf.grad`. The first one is stored itself unless its memory is shared, else copied."""
    if leaf._grad_dtype is not None and leaf._grad_dtype[0] is not None:
        gradient = gradient.to(leaf._grad_dtype[0])
    if leaf._grad is not None:
        leaf._grad = leaf._grad + gradient if state.grad_enabled or state.vmap_depth else leaf._grad.add_(gradient)
        return
    if not state.grad_enabled:
        leaf_layout, storage = leaf._layout, gradient._storage
        in_order = (
            gradient._layout.dense
            if leaf_layout.dense or not leaf_layout.packed
            else gradient._layout.strides == leaf_layout.strides
        )
        if not in_order or id(storage) in shared_storages:
            gradient = _copy_in_layout(gradient, leaf_layout)
        elif gradient._base is not None:
            gradient = wrap(storage, gradient._layout, 0) if _covers_storage(gradient) else gradient.clone()
        shared_storages.add(id(gradient._storage))
    leaf._grad = gradient


def _copy_in_layout(gradient: Tensor, leaf_layout: Layout) -> Tensor:
    """A copy with the leaf's strides, as in PyTorch; row-major if the leaf has gaps."""
    if leaf_layout.dense or not leaf_layout.packed:
        return gradient.clone() if gradient._layout.dense else gradient.contiguous()
    return apply(
        table.fill, (0,), (gradient.dtype, gradient.device, tuple(leaf_layout.shape), leaf_layout.strides)
    ).copy_(gradient)


def _covers_storage(view: Tensor) -> bool:
    """Whether a dense view covers all of its storage, and only the view refers to its base and storage.

    Then the view does not need its base.
    """
    # one reference is the argument of `getrefcount`, one more to the storage is in `accumulate`
    return (
        view._layout.size == view._storage.data.size
        and getrefcount(view._base) <= 2
        and getrefcount(view._storage) <= 4
    )
