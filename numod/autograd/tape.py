"""The tape: the nodes that ops record so that gradients can be computed.

`engine` runs the backward pass, `ops` has the gradient formulas, `views_and_writes` the nodes of in-place writes and of
views.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache
from types import SimpleNamespace

from ..core import apply as dispatch
from ..core.overrides import leave_alone, overridable, restore
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Layout
from ..ops.op import Op
from ..ops.pointwise import Pointwise
from .names import title

_ARITHMETIC = ("add", "sub", "mul", "div")  # PyTorch converts their numbers to tensors
_sequence = itertools.count(1)
# passes a node's saved tensors to the saved-tensor hooks of `graph` while there are any
packing: Callable[[Node], None] | None = None


class Node:
    """A recorded op.

    `edges`: for each input None, (node, output number) or (leaf tensor, 0). `layouts`: the inputs' layouts.

    Nodes are numbered in order of creation, so an edge always leads to a smaller number.
    """

    hooks: SimpleNamespace | None = None
    indirect_results: Container[int] = ()  # results that other results were computed from, without an edge
    results_of_input: Sequence[Container[int]] | None = None  # for each input the results computed from it; None: all
    # if the saved tensors were dropped: recomputes them (see `utils.checkpoint`)
    refill: Callable[[], None] | None = None
    out: tuple[tuple[Tensor, int], ...] | None = None  # the saved results, with their versions
    packed: object = None  # what saved-tensor hooks returned
    is_custom_function = False  # whether user code computes the gradients, and may keep references to them
    sees_undefined = False  # whether that code gets None, not zeros, for results without gradient

    def __init__(self, op: Op | None, edges: Sequence, layouts: Sequence, outputs: tuple) -> None:
        self.sequence = next(_sequence)
        self.op, self.edges, self.layouts, self.outputs = op, edges, layouts, outputs

    def backward(
        self, grads: list[Tensor | None], needed: tuple[int, ...] | None = None
    ) -> list[tuple[int, Tensor | None]]:
        """Compute (input position, gradient) pairs from the gradients of the results.

        For each input that requires a gradient, or at least for those `needed`.
        """
        plan, saved = self.backward_plan, self.saved
        calls, wanted = (plan.calls, plan.wanted) if needed is None else self.op.narrowed(plan, needed)
        if saved is None:
            saved = self.unpack()
        for tensor, version in zip(saved, self.versions):
            if version is not None and (tensor._version_counter or tensor._storage).version != version:
                raise modified_error(tensor, version, tensor._node)
        values = [
            grads if self.op.outputs else grads[0],
            *(self._with_history(saved) if dispatch.state.grad_enabled else saved),
        ]
        if plan.keep_out:
            values += self._results()
        if plan.needs_attributes:
            values += [*self.attributes, *self.layouts, self.layouts, wanted, dispatch.state.grad_enabled]
        # gradients are plain tensors for all classes of saved tensors
        gradients, overriding = [], leave_alone() if overridable else None
        try:
            for position, function, arguments in calls:
                gradient = (
                    dispatch.apply(function, arguments(values))
                    if isinstance(function, Op)
                    else function(*arguments(values))
                )
                if position.__class__ is int:
                    gradients.append((position, gradient))
                else:
                    gradients += zip(position, gradient)
        finally:
            if overriding is not None:
                restore(overriding)
        return gradients

    def unpack(self) -> Sequence:
        """The saved inputs. Raises RuntimeError if they were freed or have been modified."""
        saved = self.filled()
        for tensor, version in zip(saved, self.versions):
            if version is not None and (tensor._version_counter or tensor._storage).version != version:
                raise modified_error(tensor, version, tensor._node)
        return saved

    def filled(self) -> Sequence:
        """The saved inputs, recomputed or unpacked if necessary. Raises RuntimeError if they were freed."""
        if self.packed is not None:
            return self.packed.saved()
        while self.saved is None and self.refill is not None:
            self.refill()
        if self.saved is None:
            raise freed_error()
        return self.saved

    def _results(self) -> list:
        """The saved results, followed by a tuple of all if the gradient formulas take that."""
        results = []
        for number, (result, version) in zip(
            self.backward_plan.keep_out, self.out if self.packed is None else self.packed.out()
        ):
            if (result._version_counter or result._storage).version != version:
                raise modified_error(result, version, self)
            fresh = result._alias()  # saving the result itself would be a reference cycle with this node
            if result._layout.dtype.differentiable:
                fresh._node, fresh._output, fresh._requires_grad = self, number, True
            results.append(fresh)
        return [*results, tuple(results)] if self.backward_plan.all_results else results

    def release(self) -> None:
        """Free the saved tensors. A node without saved tensors can run again."""
        if self.versions or self.out or self.packed is not None:
            self.saved = self.out = self.refill = self.packed = None

    def _with_history(self, saved: list) -> list:
        """The saved inputs with their history from when they were saved, for double backward."""
        linked = []
        for tensor, position in zip(saved, self.backward_plan.keep):
            edge = self.edges[position]
            if (
                isinstance(tensor, Tensor)
                and not (edge is None and not tensor._requires_grad)
                and not (edge and (edge[0] is tensor or edge[0] is tensor._node))
            ):
                tensor = with_edge(tensor, edge)
            linked.append(tensor)
        return linked

    def name(self) -> str:
        """PyTorch's name of the node, such as AddBackward0."""
        return type(self).__name__ if self.op is None else f"{title(self)}Backward0"

    def with_class_name(self) -> Node:
        """The node, changed to a class with its name, which tools that draw graphs read from `type(node).__name__`."""
        name = self.name()
        if type(self).__name__ != name:
            self.__class__ = _class_of(type(self), name)
        return self

    @property
    def metadata(self) -> dict:
        """A dictionary for user data about the node."""
        return self.__dict__.setdefault("_metadata", {})

    def __getattr__(self, name: str) -> object:
        """PyTorch's `_saved_self`, `_saved_other` and `_saved_result`: the saved inputs and result of an op."""
        position = {"_saved_self": 0, "_saved_other": 1}.get(name)
        if self.op is not None and name == "_saved_result" and self.backward_plan.keep_out:
            return self._results()[0]
        if self.op is not None and position is not None and position in self.backward_plan.keep:
            return self._with_history(self.unpack())[self.backward_plan.keep.index(position)]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def next_functions(self) -> tuple:
        """The nodes that receive the gradients of the inputs, each with an output number."""
        edges = [self.edges[k] for k in self.visible_inputs()]
        return tuple((None, 0) if edge is None else (_public_node(edge[0]), edge[1]) for edge in edges)

    def visible_inputs(self) -> list[int]:
        """The inputs that have an edge in PyTorch's graph: those that can have a gradient.

        Numbers have an edge in arithmetic only.
        """
        return [k for k, edge in enumerate(self.edges) if edge is not None or self._may_have_gradient(k)]

    def _may_have_gradient(self, position: int) -> bool:
        if self.op is None:
            return True
        input_layout = self.layouts[position]
        is_number = not isinstance(input_layout, Layout) and (
            input_layout is not type(None) or isinstance(self.op, Pointwise)
        )
        return self.op.has_gradient(position) and (not is_number or self.op.name in _ARITHMETIC)

    def visible_results(self) -> int:
        """The number of results that can have a gradient; hooks receive this many."""
        count = self.op and self.op.results_with_gradient
        return count or max(
            [k + 1 for k, output in enumerate(self.outputs) if self.op is None or output.dtype.differentiable],
            default=len(self.outputs),
        )

    def register_hook(self, hook: Callable) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node's gradient is computed; a tuple it returns replaces
        grad_inputs.
        """
        return Handle.add(self._checked_hooks().after, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook(grad_outputs)` before this node's gradient is computed; a tuple it returns replaces them."""
        return Handle.add(self._checked_hooks().before, hook)

    def _checked_hooks(self) -> SimpleNamespace:
        if dispatch.state.vmap_depth:
            extensions.check_leaves(leaves_of([self]))  # the hook would not see gradients of the whole batch
        return hooks_of(self)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


def _public_node(target: Node | Tensor) -> Node | AccumulateGrad:
    """The node that users see for the target of an edge."""
    return AccumulateGrad.of(target) if isinstance(target, Tensor) else target.with_class_name()


@cache
def _class_of(kind: type[Node], name: str) -> type[Node]:
    return type(name, (kind,), {})


class LeafNode(Node):
    """Connects a tensor that replaces a leaf, such as one returned by an unpack hook, to that leaf."""

    def __init__(self, leaf: Tensor) -> None:
        super().__init__(None, ((leaf, 0),), (leaf._layout,), (leaf._layout,))
        self.sequence = -self.sequence  # processed after all nodes that lead to it

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        yield 0, grads[0]

    def release(self) -> None:
        """Nothing to free."""


def with_edge(result: Tensor, edge: tuple | None) -> Tensor:
    """An alias of the tensor with `edge` as its history."""
    result = result._alias()
    if edge is not None:
        result._node, result._output, result._requires_grad = (
            *(edge if isinstance(edge[0], Node) else (LeafNode(edge[0]), 0)),
            True,
        )
    return result


class AccumulateGrad:
    """The node that accumulates a leaf's gradient, as in `next_functions`.

    There is one per leaf while it is referenced or has hooks.
    """

    next_functions = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable, self.metadata, self.hooks = variable, {}, None

    @classmethod
    def of(cls, variable: Tensor) -> AccumulateGrad:
        """The AccumulateGrad of this leaf."""
        end = variable._end and variable._end()
        if end is None:
            end = cls(variable)
            variable._end = weakref.ref(end)
        return end

    def register_hook(self, hook: Callable) -> Handle:
        """Call `hook((), (grad,))` after the gradient was accumulated."""
        return Handle.add(self._checked_hooks().after, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook((grad,))` before, and after the leaf's own hooks; a tuple it returns replaces the gradient."""
        return Handle.add(self._checked_hooks().before, hook)

    def _checked_hooks(self) -> SimpleNamespace:
        self.variable._end = lambda: self  # the leaf keeps it alive from now on
        self.hooks = self.hooks or SimpleNamespace(before={}, after={})
        return self.hooks

    def name(self) -> str:
        """PyTorch's name of the node."""
        return "torch::autograd::AccumulateGrad"


class Handle:
    """Removes a hook: `handle.remove()`, or leaving a `with` block."""

    def __init__(self, hooks: dict, key: int) -> None:
        self._hooks, self._key = hooks, key

    _keys = itertools.count()

    @classmethod
    def add(cls, hooks: dict, hook: Callable) -> Handle:
        """Add `hook` to a table of hooks."""
        key = next(cls._keys)
        hooks[key] = hook
        return cls(hooks, key)

    def remove(self) -> None:
        """Remove the hook. A second call does nothing."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


def expose(tensor: Tensor) -> None:
    """Add edges for other results of the tensor's node that were computed from the tensor.

    Called before the tensor gets hooks or its gradient is captured.
    """
    if tensor._node is not None and tensor._output in tensor._node.indirect_results:
        tensor._node.show(tensor)


def hook_on(tensor: Tensor, hook: Callable) -> Handle:
    """Call `hook(grad)` with the gradient of a computed tensor."""
    return Handle.add(hooks_of(tensor._node).tensor.setdefault(tensor._output, {}), hook)


def hooks_of(node: Node) -> SimpleNamespace:
    """The node's hooks: `tensor` (per output number), `retain` (output number to tensor), `before` and `after`."""
    if node.hooks is None:
        node.hooks = SimpleNamespace(tensor={}, retain={}, before={}, after={})
    return node.hooks


def leaves_of(targets: Iterable[Node | Tensor]) -> Iterator[Tensor]:
    """The leaves that receive gradients from these nodes, and the leaves among the targets."""
    seen, waiting = set(), list(targets)
    while waiting:
        target = waiting.pop()
        if not isinstance(target, Node):
            yield target
        elif target not in seen:
            seen.add(target)
            waiting.extend(edge[0] for edge in target.edges if edge is not None)


def edge_to(value: object) -> tuple | None:
    """The edge along which an input's gradient flows: None, (node, output number) or (leaf, 0)."""
    if not isinstance(value, Tensor):
        return None
    node = value._node if value._base is None else value._made_by
    if node is not None:
        return node, value._output
    return (value, 0) if value._requires_grad else None


def make_node(op: Op, inputs: tuple, layouts: list, attributes: tuple, outputs: tuple[Layout, ...]) -> Node:
    """The node of `op(inputs)`, with the values that its gradient formulas need."""
    edges, requiring_grad, bit = [], 0, 1
    for value in inputs:
        edge = None
        if isinstance(value, Tensor):
            source = value._node if value._base is None else value._made_by
            if source is not None:
                edge = source, value._output
                requiring_grad |= bit
            elif value._requires_grad:
                edge = value, 0
                requiring_grad |= bit
        edges.append(edge)
        bit += bit
    node = Node(op, edges, layouts, outputs)
    node.attributes = attributes
    node.backward_plan = plan = op.backward_plans.get((requiring_grad, len(edges))) or op.backward_plan(
        requiring_grad, len(edges)
    )
    saved_values, versions, saves_tensor = [], [], False
    for position in plan.keep:
        value = inputs[position]
        saved_values.append(value)
        if isinstance(value, Tensor):
            saves_tensor = True
            versions.append((value._version_counter or value._storage).version)
            if value._inference:
                raise inference_error()
        else:
            versions.append(None)
    node.saved, node.versions = saved_values, versions if saves_tensor and not op.reusable else ()
    return node


def record(op: Op, inputs: tuple, layouts: list, attributes: tuple, result: Tensor | tuple[Tensor, ...]) -> None:
    """Attach a new node to the result, or results, of an op."""
    if op.outputs:
        _record_several(op, inputs, layouts, attributes, result)
    elif result._layout.dtype.differentiable:
        node = result._node = make_node(op, inputs, layouts, attributes, (result._layout,))
        result._requires_grad = True
        # an alias has no node; a batched one keeps the history of its numbers, for an outer tape
        if node.backward_plan.keep_out:
            node.out = ((result._alias(Tensor), (result._version_counter or result._storage).version),)
        if packing is not None:
            packing(node)


def _record_several(op: Op, inputs: tuple, layouts: list, attributes: tuple, results: tuple[Tensor, ...]) -> None:
    node = make_node(op, inputs, layouts, attributes, tuple([result._layout for result in results]))
    for number, result in enumerate(results):
        if result._layout.dtype.differentiable:
            result._node, result._output, result._requires_grad = node, number, True
    if node.backward_plan.keep_out:
        node.out = tuple(
            [
                (results[k]._alias(Tensor), (results[k]._version_counter or results[k]._storage).version)
                for k in node.backward_plan.keep_out
            ]
        )
    if packing is not None:
        packing(node)


def inference_error() -> RuntimeError:
    """The error for inference tensors that a node would save."""
    return RuntimeError(
        "Inference tensors cannot be saved for backward. To work around you can make a clone to get a normal tensor "
        "and use it in autograd."
    )


def freed_error() -> RuntimeError:
    """The error for saved tensors that were freed."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). "
        "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you "
        "need to backward through the graph a second time or if you need to access saved tensors after calling "
        "backward."
    )


def modified_error(tensor: Tensor, version: int, node: Node | None) -> RuntimeError:
    """The error for a saved tensor that was modified in place."""
    producer = f", which is output {tensor._output} of {node.name()}," if node is not None else ""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[numod.{tensor.dtype.short}Tensor {list(tensor.shape)}]"
        f"{producer} is at version {(tensor._version_counter or tensor._storage).version}; expected version "
        f"{version} instead. Hint: use an out-of-place operation there, or clone() before writing."
    )


extensions.provide(record=record)
