"""The backward engine: the walk over the tape from results to leaves.

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
from ..ops import table
from ..ops.view import View
from .tape import AccumulateGrad, Node, edge_to, expose


class _Running(threading.local):
    """The backward passes that this thread runs, the innermost last."""

    def __init__(self) -> None:
        self.walks: list[_Walk] = []


running = _Running()
watch: Callable | None = None  # runs a node's backward while anomaly detection is on, see `anomaly`


class GradientEdge(NamedTuple):
    """An edge of the graph: a node (`grad_fn`, or a leaf's AccumulateGrad) and the index of its output."""

    node: Node | AccumulateGrad
    output_nr: int


def _target(each: Tensor | GradientEdge) -> tuple:
    if isinstance(each, GradientEdge):
        return (each.node.variable, 0) if isinstance(each.node, AccumulateGrad) else tuple(each)
    if not isinstance(each, Tensor):
        raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(each).__name__}")
    return edge_to(each)


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: object = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: object = None,
) -> None:
    """Add the gradients of `tensors` (sums weighted by `grad_tensors`) to `.grad` of the leaves, or of `inputs` alone.

    Raises RuntimeError if a tensor requires no gradient, is no scalar and has no weight, or if the graph was freed.
    """
    tensors = _tuple(tensors)
    wanted = None if inputs is None else _tuple(inputs)
    if wanted is not None and not wanted:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    for each in wanted or ():
        if isinstance(each, Tensor):
            each.retain_grad()  # which is how a tensor that is no leaf gets its gradient
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
        tensors, grad_tensors, bool(create_graph if retain_graph is None else retain_graph), create_graph, wanted, True
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
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs`, leaving `.grad` alone.

    Raises RuntimeError for an input not used, unless allowed.

    With `is_grads_batched`, `grad_outputs` have an additional first dimension, as do the gradients: one backward pass
    is for all of its elements (`func.vmap`).
    """
    outputs, inputs = _tuple(outputs), _tuple(inputs)
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
    found = _walk(outputs, grad_outputs, retain, create_graph, inputs, False)
    if not (allow_unused or materialize_grads) and any(each is None for each in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if "
            "this is the desired behavior."
        )
    return tuple(
        _zeros(input, create_graph) if gradient is None and materialize_grads else gradient
        for input, gradient in zip(inputs, found)
    )


def grad_up_to(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], grad_outputs: Sequence[Tensor], create_graph: bool = False
) -> Sequence[Tensor | None]:
    """`grad` as if none of the inputs had been computed of others: what comes to one does not go on from there, not
    even to its hooks, which are for what comes from all of the graph. None for those not used. The graph stays.
    """
    return _walk(tuple(outputs), grad_outputs, True, create_graph, tuple(inputs), False, ends=True)


def _zeros(each: Tensor | GradientEdge, requires_grad: bool) -> Tensor:
    target, number = _target(each)
    layout = (
        each._layout
        if isinstance(each, Tensor)
        else target._layout
        if isinstance(target, Tensor)
        else target.outputs[number]
    )
    return apply(table.fill, (0,), (layout.dtype, layout.device, layout.shape)).requires_grad_(requires_grad)


def _batched(outputs: tuple, inputs: tuple, weights: tuple, **options: object) -> tuple[Tensor | None, ...]:
    unused: list[bool] = []

    def row(*weights: Tensor) -> tuple[Tensor, ...]:
        found = grad(outputs, inputs, weights, retain_graph=True, **options)
        unused[:] = [each is None for each in found]
        return tuple(each for each in found if each is not None)

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
    """The gradient to begin with."""
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
    return _known_to(layout, weight)


def _known_to(layout: Layout, gradient: Tensor) -> Tensor:
    """The gradient of what stands for examples (`func.examples`) as one that does too: ops on it that draw random
    numbers then take each example's.
    """
    batch, own = layout.batch, gradient._layout.batch
    if batch is None or own is not None and own.depth >= batch.depth:
        return gradient
    return gradient * batch.wrap(apply(table.fill, (1,), (layout.dtype, layout.device, ())), each=False)


class _Walk:
    """One backward pass: pending gradients by node, processed in descending order of the nodes' numbers, and the
    gradients captured for `inputs`.
    """

    def __init__(self, wanted: tuple[Tensor, ...], ends: bool = False) -> None:
        self.ends = ends  # whether gradients that are wanted go no further
        self.heap: list[tuple[int, Node]] = []
        self.pending: dict[Node, list[Tensor | None]] = {}
        self.leaves: dict[Tensor, Tensor] = {}
        # by edge, gradients made here of a tensor's parts: further parts are added in place
        self.wholes: dict[tuple[int, int], Tensor] = {}
        self.given: set[int] = set()  # storages with other owners, which no leaf may adopt as its gradient
        self.catch: dict[tuple[int, int], list[int]] = {}
        self.caught: list[Tensor | None] = [None] * len(wanted)
        for each in wanted:  # first all: that of one may change the edges of others
            if isinstance(each, Tensor) and not ends:
                expose(each)
        for k, each in enumerate(wanted):
            target, number = _target(each)
            self.catch.setdefault((id(target), number), []).append(k)
        self.at_end: list[Callable[[], None]] = []
        # nodes on a path to a wanted tensor, with the inputs where it goes on; None: all
        self.path: dict[Node, tuple[int, ...]] | None = None

    def find_path(self, roots: list[tuple], into_leaves: bool) -> None:
        """Mark the nodes reachable from `roots` that lead to a wanted tensor, or that made one which gets its `.grad`:
        only those are processed.
        """
        made = {target for target, _ in self.catch} if into_leaves else set()
        self.path, seen, stack = {}, set(), [(target, False) for target, _ in roots if isinstance(target, Node)]
        while stack:
            node, ready = stack.pop()
            if ready:
                # else it would be computed for nothing
                own = id(node) in made and node.hooks is not None and (node.hooks.before or node.hooks.after)
                ways = [
                    k
                    for k, edge in enumerate(node.edges)
                    if edge is not None and (own or (id(edge[0]), edge[1]) in self.catch or self.leads_on(*edge))
                ]
                if own or ways:
                    self.path[node] = tuple(ways)
            elif node not in seen:
                seen.add(node)
                stack.append((node, True))
                stack += [(edge[0], False) for edge in node.edges if edge is not None and isinstance(edge[0], Node)]

    def send(self, edge: tuple, gradient: Tensor) -> None:
        """Pass a gradient along an edge, to a node or leaf."""
        target, number = edge
        if self.path is not None and not self.leads_on(target, number) and (id(target), number) not in self.catch:
            return
        if isinstance(target, Tensor):
            self.leaves[target] = self.leaves[target] + gradient if target in self.leaves else gradient
        elif target not in self.pending:
            self.pending[target] = waiting = [None] * len(target.outputs)
            waiting[number] = gradient
            heappush(self.heap, (-target.sequence, target))
        else:
            waiting = self.pending[target]
            waiting[number] = gradient if waiting[number] is None else waiting[number] + gradient

    def leads_on(self, target: Node | Tensor, number: int) -> bool:
        """Whether a result of a node is on a path to a wanted tensor."""
        ways = self.path.get(target)
        return ways is not None and (target.uses is None or any(number in target.uses[way] for way in ways))

    def waiting(self, edge: tuple) -> Tensor | None:
        """The gradient that waits at the end of an edge."""
        target, number = edge
        return (
            self.leaves.get(target)
            if isinstance(target, Tensor)
            else self.pending[target][number]
            if target in self.pending
            else None
        )

    def add_part(self, node: Node, gradient: Tensor) -> bool:
        """Add the gradient of a part to the one of the whole that waits, where this pass made that: else many parts
        would each be added as a whole.
        """
        (edge,) = node.edges
        whole = self.waiting(edge)
        if whole is None or self.wholes.get((id(edge[0]), edge[1])) is not whole:
            return False
        whole._view(node.op, node.parameters).add_(gradient)
        return True

    def note(self, target: object, number: int, gradient: Tensor | None) -> None:
        """Keep the gradient if the caller asked for it."""
        for k in self.catch.get((id(target), number), ()):
            self.caught[k] = gradient

    def noted(self, node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
        """Keep those of the gradients that the caller asked for. Those that go on from there."""
        for number, gradient in enumerate(grads):
            self.note(node, number, gradient)
        return (
            [None if (id(node), number) in self.catch else gradient for number, gradient in enumerate(grads)]
            if self.ends
            else grads
        )

    def run(self, retain: bool) -> None:
        """Process the nodes, the latest first."""
        heap, pending, path = self.heap, self.pending, self.path
        while heap:
            node = heappop(heap)[1]
            grads = pending.pop(node)
            if self.ends:
                grads = self.noted(node, grads)
            if node.hooks is not None:
                _hooked(node, grads, self)
            if path is not None:
                if not self.ends:
                    self.noted(node, grads)
                if node not in path or not any(grad is not None for grad in grads):
                    continue
            if node.hooks is not None:
                grads = _before(node, grads)
            part = node.op.__class__ is View and node.op.of_part and node.hooks is None and not state.grad_enabled
            if part and self.add_part(node, grads[0]):
                continue
            edges, layouts = node.edges, node.layouts  # which a compiled function's node may change
            if watch is not None:
                found = watch(node, grads)
            else:
                found = (
                    node.backward(grads)
                    if path is None or node.__class__ is not Node
                    else node.backward(grads, path[node])
                )
            if node.foreign:
                found = list(found)
                self.given.update(id(gradient._storage) for _, gradient in found if gradient is not None)
            if node.hooks is not None and node.hooks.after:
                found = _after(
                    node,
                    grads,
                    [
                        (k, gradient) if edges[k] is None else (k, _fitted(gradient, layouts[k]))
                        for k, gradient in found
                    ],
                )
            for position, gradient in found:
                if gradient is not None and edges[position] is not None:
                    layout = layouts[position]
                    self.send(edges[position], gradient if gradient._layout is layout else _fitted(gradient, layout))
                    if part:
                        self.wholes[id(edges[0][0]), edges[0][1]] = self.waiting(edges[0])
            if not retain:
                node.release()

    def finish(self, only: tuple[Tensor, ...] | None) -> None:
        """Accumulate the gradients of the leaves: of all, or of those in `only`."""
        if state.examples:
            extensions.check_leaves(self.leaves if only is None else [_target(each)[0] for each in only])
        for leaf, gradient in self.leaves.items():
            if leaf._hooks is not None and not self.ends:
                for hook in list(leaf._hooks.values()):
                    self.given.add(id(gradient._storage))
                    gradient = _replaced(hook(gradient), gradient)
                    self.given.add(id(gradient._storage))
            if self.catch:
                self.note(leaf, 0, gradient)
            if only is None and leaf._requires_grad:
                self.add(leaf, gradient)
        for leaf, gradient in {_target(each)[0]: gradient for each, gradient in zip(only or (), self.caught)}.items():
            if isinstance(leaf, Tensor) and gradient is not None:
                self.add(leaf, gradient)

    def add(self, leaf: Tensor, gradient: Tensor) -> None:
        """Accumulate into the leaf's gradient, between the hooks of its AccumulateGrad."""
        end = leaf._end and leaf._end()
        hooks = None if end is None else end.hooks
        if hooks is not None:
            for hook in list(hooks.before.values()):
                (gradient,) = hook((gradient,)) or (gradient,)
                self.given.add(id(gradient._storage))
        accumulate(leaf, gradient, self.given)
        for hook in list((leaf._after_hooks or {}).values()):
            result = hook(leaf)  # a tensor has no meaning, but `lambda p: p.sub_(p.grad)` is a usual hook
            if not (result is None or isinstance(result, Tensor)):
                raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
        if hooks is not None:
            for hook in list(hooks.after.values()):
                hook((), (gradient,))


def _walk(*arguments: object, **options: object) -> list[Tensor | None]:
    """`_walk_here`, on a thread of its own where passes in one another have used up half of this one's stack."""
    walks = running.walks
    if not (walks and _stack_is_deep()):
        return _walk_here(*arguments, **options)
    modes, context, results = dict(state.__dict__), copy_context(), []

    def run() -> None:
        running.walks = walks
        state.__dict__.update(modes)
        try:
            results.append((context.run(_walk_here, *arguments, **options), None))
        except BaseException as error:  # raised again by the thread that waits
            results.append((None, error))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    ((found, error),) = results
    if error is not None:
        raise error
    return found


def _stack_is_deep() -> bool:
    """Whether half of the calls that Python allows are in progress."""
    try:
        return sys._getframe(sys.getrecursionlimit() // 2) is not None
    except ValueError:
        return False


def _walk_here(
    tensors: tuple,
    weights: object,
    retain: bool,
    create_graph: bool,
    wanted: tuple | None,
    into_leaves: bool,
    ends: bool = False,
) -> list[Tensor | None]:
    """Run backward; the gradients of `wanted` are returned, and added to `.grad` (of those, or of all leaves) where
    `into_leaves`. They go on from there unless these are the `ends`.
    """
    walk, walks = _Walk(wanted or (), ends), running.walks
    before = state.grad_enabled
    try:
        state.grad_enabled = create_graph
        walks.append(walk)
        seeds, roots = _seeds(tensors, weights), [_target(tensor) for tensor in tensors]
        if wanted is not None:
            walk.find_path(roots, into_leaves)
        for root, seed in zip(roots, seeds):
            walk.given.add(id(seed._storage))
            walk.send(root, seed)
        walk.run(retain or state.examples > 0)
        walk.finish(wanted if into_leaves else ())
        for call in walk.at_end:
            call()
    finally:
        state.grad_enabled = before  # first, for the handler of a signal can raise after any call
        if walk in walks:
            walks.remove(walk)
    return walk.caught


def _fitted(gradient: Tensor | None, layout: Layout) -> Tensor | None:
    """A gradient converted to the shape, dtype and device of its input."""
    if gradient is None:
        return None
    own = gradient._layout
    if own.shape != layout.shape:
        gradient = gradient.sum_to_size(layout.shape)
    if own.dtype.is_complex and not layout.dtype.is_complex:
        gradient = gradient.real  # the rest of it would lead where the input cannot go
    if own.dtype is not layout.dtype or own.device is not layout.device:
        gradient = gradient.to(device=layout.device, dtype=layout.dtype)
    return gradient if layout.batch is None else _known_to(layout, gradient)


def _before(node: Node, grads: list[Tensor | None]) -> list[Tensor | None]:
    """The gradients as the node's own hooks leave them: these run where the node does, after those of its tensors."""
    count = node.shown_results() if node.hooks.before else 0
    for hook in list(node.hooks.before.values()):
        replaced = hook(tuple(grads[:count]))
        if replaced is not None:
            grads = [*_as_many(hook, replaced, count), *grads[count:]]
    return grads


def _as_many(hook: Callable, replaced: Tensor | Sequence, count: int) -> Sequence:
    """The gradients that a hook of a node returned."""
    replaced = [replaced] if isinstance(replaced, Tensor) else replaced
    if len(replaced) != count:
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', hook)}' has returned an incorrect number of values (got "
            f"{len(replaced)}, but expected {count})"
        )
    return replaced


def _hooked(node: Node, grads: list[Tensor | None], walk: _Walk) -> None:
    """Let the hooks of the node's results replace their gradients, and keep those that are retained."""
    for number, hooks in node.hooks.tensor.items():
        for hook in list(hooks.values()):
            if grads[number] is not None:
                walk.given.add(id(grads[number]._storage))
                grads[number] = _replaced(hook(grads[number]), grads[number])
                walk.given.add(id(grads[number]._storage))
    for number, reference in node.hooks.retain.items():
        tensor = reference()
        if tensor is not None and grads[number] is not None:
            if state.examples:
                extensions.check_leaves((tensor,))
            tensor._grad = grads[number].contiguous().clone() if tensor._grad is None else tensor._grad + grads[number]


def _after(node: Node, grads: list, found: list[tuple[int, Tensor | None]]) -> list[tuple[int, Tensor | None]]:
    places, found, given = node.shown_inputs(), dict(found), tuple(grads[: node.shown_results()])
    inputs: Sequence[Tensor | None] = [found.get(k) if node.edges[k] is not None else None for k in places]
    for hook in list(node.hooks.after.values()):
        replaced = hook(tuple(inputs), given)
        inputs = inputs if replaced is None else _as_many(hook, replaced, len(places))
    return [(k, gradient) for k, gradient in zip(places, inputs) if gradient is not None]


def _replaced(result: Tensor | None, gradient: Tensor) -> Tensor:
    if result is None:
        return gradient
    if not isinstance(result, Tensor):
        raise TypeError(f"expected a hook to return None or a Tensor, got {type(result).__name__}")
    if result.shape != gradient.shape:
        raise RuntimeError(f"hook has changed the size of value: {tuple(gradient.shape)} to {tuple(result.shape)}")
    if result.dtype is not gradient.dtype:
        raise RuntimeError(f"hook has changed the type of value (was {gradient.dtype.short} got {result.dtype.short})")
    return _known_to(gradient._layout, result)


def accumulate(leaf: Tensor, gradient: Tensor, given: set[int]) -> None:
    """Add a gradient to `leaf.grad`. The first one is adopted if nobody else holds its memory, else copied."""
    if leaf._grad_dtype is not None and leaf._grad_dtype[0] is not None:
        gradient = gradient.to(leaf._grad_dtype[0])
    if leaf._grad is not None:
        leaf._grad = leaf._grad + gradient if state.grad_enabled or state.examples else leaf._grad.add_(gradient)
        return
    if not state.grad_enabled:
        own, storage = leaf._layout, gradient._storage
        in_order = gradient._layout.dense if own.dense or not own.packed else gradient._layout.strides == own.strides
        if not in_order or id(storage) in given:
            gradient = _copied_in_order(gradient, own)
        elif gradient._base is not None:
            gradient = wrap(storage, gradient._layout, 0) if _shows_all(gradient) else gradient.clone()
        given.add(id(gradient._storage))
    leaf._grad = gradient


def _copied_in_order(gradient: Tensor, own: Layout) -> Tensor:
    """A copy in the order in memory of its leaf, as PyTorch's; row-major where the leaf has gaps."""
    if own.dense or not own.packed:
        return gradient.clone() if gradient._layout.dense else gradient.contiguous()
    return apply(table.fill, (0,), (gradient.dtype, gradient.device, tuple(own.shape), own.strides)).copy_(gradient)


def _shows_all(view: Tensor) -> bool:
    """Whether a dense view shows all of a memory that nobody but its base refers to, and nobody but the view to that:
    then it can go on without its base.
    """
    # One reference is the argument of `getrefcount`, one more to the storage is in `accumulate`.
    return (
        view._layout.size == view._storage.data.size
        and getrefcount(view._base) <= 2
        and getrefcount(view._storage) <= 4
    )
