"""The tape: the nodes that ops record so that gradients can be computed.

Not the walk over them (`engine`), nor the formulas (`ops`); nodes of in-place writes and of views are in
`views_and_writes`.
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

_ARITHMETIC = ("add", "sub", "mul", "div")  # PyTorch makes tensors of their numbers
_sequence = itertools.count(1)
# passes a node's saved tensors to hooks, while there are any: see `graph`
packing: Callable[[Node], None] | None = None


class Node:
    """A recorded op.

    `edges`: for each input None, (node, output number), or (leaf tensor, 0). `layouts`: those of the inputs.

    Nodes are numbered as they are made, so an edge always leads to a smaller number.
    """

    hooks: SimpleNamespace | None = None
    hidden: Container[int] = ()  # results that other results were computed of, which `edges` do not show
    uses: Sequence[Container[int]] | None = None  # for each input the results that were computed of it; None: all
    # if the saved tensors were dropped: recomputes them (see `utils.checkpoint`)
    refill: Callable[[], None] | None = None
    out: tuple[tuple[Tensor, int], ...] | None = None  # the saved results, with their versions
    packed: object = None  # what saved-tensor hooks returned
    foreign = False  # whether user code computes the gradients, and may keep references to them

    def __init__(self, op: Op | None, edges: Sequence, layouts: Sequence, outputs: tuple) -> None:
        self.sequence = next(_sequence)
        self.op, self.edges, self.layouts, self.outputs = op, edges, layouts, outputs

    def backward(
        self, grads: list[Tensor | None], asked: tuple[int, ...] | None = None
    ) -> list[tuple[int, Tensor | None]]:
        """(input position, gradient) for each input that requires one, or at least for those `asked` for, given the
        gradients of the results.
        """
        recipe, kept = self.recipe, self.kept
        calls, wanted = (recipe.calls, recipe.wanted) if asked is None else self.op.fewer(recipe, asked)
        if kept is None:
            kept = self.unpack()
        for each, version in zip(kept, self.versions):
            if version is not None and (each._own or each._storage).version != version:
                raise stale(each, version, each._node)
        pool = [grads if self.op.outputs else grads[0], *(self._linked(kept) if dispatch.state.grad_enabled else kept)]
        if recipe.keep_out:
            pool += self._results()
        if recipe.wide:
            pool += [*self.parameters, *self.layouts, self.layouts, wanted, dispatch.state.grad_enabled]
        # gradients are plain tensors, whatever the classes of those that are kept
        found, overriding = [], leave_alone() if overridable else None
        try:
            for position, function, arguments in calls:
                gradient = (
                    dispatch.apply(function, arguments(pool))
                    if isinstance(function, Op)
                    else function(*arguments(pool))
                )
                if position.__class__ is int:
                    found.append((position, gradient))
                else:
                    found += zip(position, gradient)
        finally:
            if overriding is not None:
                restore(overriding)
        return found

    def unpack(self) -> Sequence:
        """The saved inputs. Raises RuntimeError if they were freed or have been modified."""
        kept = self.filled()
        for each, version in zip(kept, self.versions):
            if version is not None and (each._own or each._storage).version != version:
                raise stale(each, version, each._node)
        return kept

    def filled(self) -> Sequence:
        """The saved inputs, recomputed or unpacked if need be. Raises RuntimeError if they were freed."""
        if self.packed is not None:
            return self.packed.kept()
        while self.kept is None and self.refill is not None:
            self.refill()
        if self.kept is None:
            raise used_up()
        return self.kept

    def _results(self) -> list:
        """The saved results as the gradient formulas take them; of several results all in a tuple."""
        results = []
        for number, (result, version) in zip(
            self.recipe.keep_out, self.out if self.packed is None else self.packed.out()
        ):
            if (result._own or result._storage).version != version:
                raise stale(result, version, self)
            fresh = result._alias()  # saving the result itself would be a reference cycle with this node
            if result._layout.dtype.differentiable:
                fresh._node, fresh._output, fresh._requires_grad = self, number, True
            results.append(fresh)
        return [*results, tuple(results)] if self.recipe.together else results

    def release(self) -> None:
        """Free the saved tensors. A node that saved none can be run again."""
        if self.versions or self.out or self.packed is not None:
            self.kept = self.out = self.refill = self.packed = None

    def _linked(self, kept: list) -> list:
        """Saved inputs with the history they had when they were saved, for double backward."""
        linked = []
        for each, position in zip(kept, self.recipe.keep):
            edge = self.edges[position]
            if (
                isinstance(each, Tensor)
                and not (edge is None and not each._requires_grad)
                and not (edge and (edge[0] is each or edge[0] is each._node))
            ):
                each = joined(each, edge)
            linked.append(each)
        return linked

    def name(self) -> str:
        """PyTorch's name of the node, such as AddBackward0."""
        return type(self).__name__ if self.op is None else f"{title(self)}Backward0"

    def shown(self) -> Node:
        """The node itself, from now on of a class that bears its name: tools that draw graphs read
        `type(node).__name__`.
        """
        name = self.name()
        if type(self).__name__ != name:
            self.__class__ = _class_of(type(self), name)
        return self

    @property
    def metadata(self) -> dict:
        """A dictionary for the user's own data about the node."""
        return self.__dict__.setdefault("_metadata", {})

    def __getattr__(self, name: str) -> object:
        """PyTorch's `_saved_self`, `_saved_other` and `_saved_result`: the saved inputs and result of an op."""
        place = {"_saved_self": 0, "_saved_other": 1}.get(name)
        if self.op is not None and name == "_saved_result" and self.recipe.keep_out:
            return self._results()[0]
        if self.op is not None and place is not None and place in self.recipe.keep:
            return self._linked(self.unpack())[self.recipe.keep.index(place)]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    @property
    def next_functions(self) -> tuple:
        """The nodes gradients flow to next, with the output they belong to."""
        shown = lambda target: AccumulateGrad.of(target) if isinstance(target, Tensor) else target.shown()  # noqa: E731
        edges = [self.edges[k] for k in self.shown_inputs()]
        return tuple((None, 0) if edge is None else (shown(edge[0]), edge[1]) for edge in edges)

    def shown_inputs(self) -> list[int]:
        """The inputs that have an edge in PyTorch's graph: those that can have a gradient, but no numbers except
        operands of arithmetic.
        """
        return [k for k, edge in enumerate(self.edges) if edge is not None or self._may_have_gradient(k)]

    def _may_have_gradient(self, position: int) -> bool:
        if self.op is None:
            return True
        given = self.layouts[position]
        number = not isinstance(given, Layout) and (given is not type(None) or isinstance(self.op, Pointwise))
        return self.op.has_gradient(position) and (not number or self.op.name in _ARITHMETIC)

    def shown_results(self) -> int:
        """How many results can have a gradient, as hooks of nodes get them."""
        most = self.op and self.op.results_with_gradient
        return most or max(
            [k + 1 for k, output in enumerate(self.outputs) if self.op is None or output.dtype.differentiable],
            default=len(self.outputs),
        )

    def register_hook(self, hook: Callable) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node's gradient is computed; a tuple it returns replaces
        grad_inputs.
        """
        return Handle.add(self._hooked().after, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook(grad_outputs)` before this node's gradient is computed; a tuple it returns replaces them."""
        return Handle.add(self._hooked().before, hook)

    def _hooked(self) -> SimpleNamespace:
        if dispatch.state.examples:
            extensions.check_leaves(leaves_of([self]))  # gradients of what stands for examples would pass the hook by
        return hooks_of(self)

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


@cache
def _class_of(kind: type[Node], name: str) -> type[Node]:
    return type(name, (kind,), {})


class LeafNode(Node):
    """Connects a tensor that stands for a leaf, such as one returned by an unpack hook, to that leaf."""

    def __init__(self, leaf: Tensor) -> None:
        super().__init__(None, ((leaf, 0),), (leaf._layout,), (leaf._layout,))
        self.sequence = -self.sequence  # processed after all nodes that lead to it

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        yield 0, grads[0]

    def release(self) -> None:
        """Nothing to free."""


def joined(each: Tensor, edge: tuple | None) -> Tensor:
    """The tensor with `edge` as its history."""
    each = each._alias()
    if edge is not None:
        each._node, each._output, each._requires_grad = (
            *(edge if isinstance(edge[0], Node) else (LeafNode(edge[0]), 0)),
            True,
        )
    return each


class AccumulateGrad:
    """The node that accumulates a leaf's gradient, as `next_functions` shows it: one per leaf, while it is referenced
    or has hooks.
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
        return Handle.add(self._hooked().after, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook((grad,))` before, and after the leaf's own hooks; a tuple it returns replaces the gradient."""
        return Handle.add(self._hooked().before, hook)

    def _hooked(self) -> SimpleNamespace:
        self.variable._end = lambda: self  # from now on the leaf keeps it alive
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
    """Make the tape show how other results of its node were computed of the tensor, before that is given hooks or its
    own gradient is asked for.
    """
    if tensor._node is not None and tensor._output in tensor._node.hidden:
        tensor._node.show(tensor)


def hook_on(tensor: Tensor, hook: Callable) -> Handle:
    """Have `hook(grad)` called with the gradient that comes to a computed tensor."""
    return Handle.add(hooks_of(tensor._node).tensor.setdefault(tensor._output, {}), hook)


def hooks_of(node: Node) -> SimpleNamespace:
    """The node's hooks: `tensor` (per output number), `retain` (output number to tensor), `before` and `after`."""
    if node.hooks is None:
        node.hooks = SimpleNamespace(tensor={}, retain={}, before={}, after={})
    return node.hooks


def leaves_of(targets: Iterable[Node | Tensor]) -> Iterator[Tensor]:
    """The leaves that gradients come to from nodes, or from leaves themselves."""
    seen, waiting = set(), list(targets)
    while waiting:
        target = waiting.pop()
        if not isinstance(target, Node):
            yield target
        elif target not in seen:
            seen.add(target)
            waiting.extend(edge[0] for edge in target.edges if edge is not None)


def edge_to(each: object) -> tuple | None:
    """The edge along which an input's gradient flows: None, (node, output number) or (leaf, 0)."""
    if not isinstance(each, Tensor):
        return None
    node = each._node if each._base is None else each._made_by
    if node is not None:
        return node, each._output
    return (each, 0) if each._requires_grad else None


def make_node(op: Op, inputs: tuple, layouts: list, parameters: tuple, outputs: tuple[Layout, ...]) -> Node:
    """A node for `op(inputs)` that saves what its gradient formulas need."""
    edges, wanted, bit = [], 0, 1
    for each in inputs:
        edge = None
        if isinstance(each, Tensor):
            source = each._node if each._base is None else each._made_by
            if source is not None:
                edge = source, each._output
                wanted |= bit
            elif each._requires_grad:
                edge = each, 0
                wanted |= bit
        edges.append(edge)
        bit += bit
    node = Node(op, edges, layouts, outputs)
    node.parameters = parameters
    node.recipe = recipe = op.recipes.get((wanted, len(edges))) or op.recipe(wanted, len(edges))
    kept, versions, saved = [], [], False
    for position in recipe.keep:
        each = inputs[position]
        kept.append(each)
        if isinstance(each, Tensor):
            saved = True
            versions.append((each._own or each._storage).version)
            if each._inference:
                raise RuntimeError(
                    "Inference tensors cannot be saved for backward. To work around you can make a clone to get a "
                    "normal tensor and use it in autograd."
                )
        else:
            versions.append(None)
    node.kept, node.versions = kept, versions if saved and not op.reusable else ()
    return node


def record(op: Op, inputs: tuple, layouts: list, parameters: tuple, result: Tensor | tuple[Tensor, ...]) -> None:
    """Attach a new node to the result, or results, of an op."""
    if op.outputs:
        _record_several(op, inputs, layouts, parameters, result)
    elif result._layout.dtype.differentiable:
        node = result._node = make_node(op, inputs, layouts, parameters, (result._layout,))
        result._requires_grad = True
        # without its node; what stands for examples keeps the history of their numbers, for an outer tape
        if node.recipe.keep_out:
            node.out = ((result._alias(Tensor), (result._own or result._storage).version),)
        if packing is not None:
            packing(node)


def _record_several(op: Op, inputs: tuple, layouts: list, parameters: tuple, results: tuple[Tensor, ...]) -> None:
    node = make_node(op, inputs, layouts, parameters, tuple([result._layout for result in results]))
    for number, result in enumerate(results):
        if result._layout.dtype.differentiable:
            result._node, result._output, result._requires_grad = node, number, True
    if node.recipe.keep_out:
        node.out = tuple(
            [
                (results[k]._alias(Tensor), (results[k]._own or results[k]._storage).version)
                for k in node.recipe.keep_out
            ]
        )
    if packing is not None:
        packing(node)


def used_up() -> RuntimeError:
    """The error for saved tensors that were freed."""
    return RuntimeError(
        "Trying to backward through the graph a second time (or directly access saved tensors after they have already "
        "been freed). "
        "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify "
        "retain_graph=True if you "
        "need to backward through the graph a second time or if you need to access saved tensors after calling "
        "backward."
    )


def stale(each: Tensor, version: int, node: Node | None) -> RuntimeError:
    """The error for a saved tensor that was modified in place."""
    made = f", which is output {each._output} of {node.name()}," if node is not None else ""
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[numod.{each.dtype.short}Tensor {list(each.shape)}]"
        f"{made} is at version {(each._own or each._storage).version}; expected version "
        f"{version} instead. Hint: use an out-of-place operation there, or clone() before writing."
    )


extensions.provide(record=record)
