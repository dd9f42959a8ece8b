"""Autograd of views and in-place writes: which writes are refused, and the nodes of written tensors and their views."""

from __future__ import annotations

from collections.abc import Iterator

from ..core import apply as dispatch
from ..core.extensions import extensions
from ..core.tensor import Tensor
from ..device import Layout
from ..device.layout import layout
from ..dtypes import dtype as DType
from ..ops import complexes
from ..ops.op import Op
from ..ops.view import spread
from . import tape
from .tape import Node, edge_to, hooks_of, make_node


_SEVERAL_VIEWS_ERROR = (
    "This view is the output of a function that returns multiple views. Such functions do not allow the output views "
    "to be modified inplace. You should "
    "replace the inplace operation by an out-of-place one, or take the view by an index."
)


def make_write_node(op: Op, inputs: tuple, layouts: list, attributes: tuple, target: Tensor) -> Node:
    """The node of an op that will overwrite `target`. It saves copies of the old values that it needs."""
    if isinstance(target._unrecorded, str):
        raise RuntimeError(
            f"Output {target._output} of {target._unrecorded} is a view and is being modified inplace. "
            f"{_SEVERAL_VIEWS_ERROR}"
        )
    if target._unrecorded:
        raise RuntimeError(
            "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Make the view "
            "where gradients are recorded, "
            "and let an autograd.Function that returns a view, or its input, return a clone()."
        )
    node = make_node(op, inputs, layouts, attributes, (target._layout,))
    for position, saved in enumerate(node.saved):
        if isinstance(saved, Tensor) and saved._storage is target._storage:
            node.saved[position] = copy = saved.clone()
            node.versions[position] = copy._storage.version
    edge = edge_to(target)
    if edge is not None and not any(
        input is target and op.gradient_of(position) is not None for position, input in enumerate(inputs)
    ):
        node.edges, node.layouts, node.__class__ = [*node.edges, edge], [*layouts, target._layout], OverwritingNode
    return node


class OverwritingNode(Node):
    """The node of a write that does not depend on the old values; their gradient is zero."""

    def backward(
        self, grads: list[Tensor | None], needed: tuple[int, ...] | None = None
    ) -> list[tuple[int, Tensor | None]]:
        layout = self.layouts[-1]
        return [*super().backward(grads), (len(self.edges) - 1, grads[0].new_zeros(layout.shape, dtype=layout.dtype))]


def attach(node: Node, target: Tensor) -> None:
    """Attach the node to a target written in place.

    The base of a view gets a node that routes the view's part of the gradient through the op.
    """
    if node.backward_plan.keep_out:
        node.out = ((target.detach(), (target._version_counter or target._storage).version),)
    if tape.packing is not None:
        tape.packing(node)
    rebase(node, target)


def rebase(node: Node, target: Tensor) -> None:
    """Make `node` the history of a target written in place and, if it is a view, of its base as well."""
    owner = target if target._base is None else target._base
    old_node = owner._node
    if target._base is not None:
        node = ViewWriteNode(owner, target, node)
    if owner._retains_grad and old_node is not None:
        hooks_of(node).retain[0] = old_node.hooks.retain.pop(owner._output)
    owner._node, owner._output, owner._requires_grad = node, 0, True
    if target._base is not None:
        renew(target)


def check_write(target: Tensor) -> None:
    """Raise RuntimeError, in PyTorch's words, for in-place writes that autograd does not support."""
    if target._layout.overlapping:
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if target._inference and not dispatch.state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor first."
        )
    base = target._base
    if not (target._requires_grad or base is not None) or not dispatch.state.grad_enabled:
        return
    if target._requires_grad and target._node is None:
        raise RuntimeError(
            "a leaf Variable that requires grad is being used in an in-place operation. Write under numod.no_grad(), "
            "or to a clone()."
        )
    if base is not None and base._requires_grad and base._node is None:
        raise RuntimeError(
            "a view of a leaf Variable that requires grad is being used in an in-place operation. Write under "
            "numod.no_grad(), or to a clone()."
        )


class ViewWriteNode(Node):
    """The node of a base written through a view.

    The view's part of the gradient passes through the op, the rest goes to the old base. The gradient of the old view
    goes to the base directly, so its hooks do not run after the write.
    """

    def __init__(self, base: Tensor, view: Tensor, inner: Node) -> None:
        old, replaced = (base._node, base._output) if base._node is not None else None, (view._node, view._output)
        self.view_inputs = {k for k, edge in enumerate(inner.edges) if edge is not None and edge == replaced}
        edges = [None if k in self.view_inputs else edge for k, edge in enumerate(inner.edges)]
        super().__init__(None, (old, *edges), (base._layout, *inner.layouts), (base._layout,))
        self.base_layout, self.view_geometry = _whole(base, view), _part(base, view)
        self.inner = inner
        self.dtype = view._layout.dtype
        self.view_shape = tuple(view._layout.shape)
        self.is_custom_function = inner.is_custom_function

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        base_gradient = spread(
            _of_dtype(grads[0], self.base_layout.dtype),
            self.base_layout,
            self.base_layout.shape,
            self.base_layout.strides,
            0,
        )
        view_gradient = base_gradient.as_strided(*self.view_geometry)
        input_gradients = [
            pair for pair in self.inner.backward([_of_dtype(view_gradient.clone(), self.dtype)]) if pair[1] is not None
        ]
        yield from [
            (position + 1, gradient) for position, gradient in input_gradients if position not in self.view_inputs
        ]
        if self.edges[0] is not None:
            view_gradient.zero_()
            for position, gradient in input_gradients:
                if position in self.view_inputs:
                    view_gradient.add_(_of_dtype(gradient.sum_to_size(self.view_shape), view_gradient.dtype))
            yield 0, _of_dtype(base_gradient, self.layouts[0].dtype)

    def release(self) -> None:
        """Free the inner node's saved tensors."""
        self.inner.release()

    def name(self) -> str:
        """PyTorch's name for it."""
        return "CopySlices"


class ViewNode(Node):
    """The new node of a view after a write through its base or another view.

    It scatters the view's gradient into zeros of the base's shape.
    """

    def __init__(self, base: Tensor, view: Tensor) -> None:
        super().__init__(None, ((base._node, base._output),), (base._layout,), (view._layout,))
        self.base_layout, self.view_geometry = _whole(base, view), _part(base, view)

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        yield (
            0,
            _of_dtype(
                spread(_of_dtype(grads[0], self.base_layout.dtype), self.base_layout, *self.view_geometry),
                self.layouts[0].dtype,
            ),
        )

    def release(self) -> None:
        """Nothing to free."""

    def name(self) -> str:
        """PyTorch's name for it."""
        return "AsStridedBackward0"


class NoGradientViewNode(ViewNode):
    """The new node of a view that has no gradient: one of several views of a function, or one created in no_grad mode.

    The view may be used, but backward raises RuntimeError.
    """

    def backward(self, grads: list[Tensor | None]) -> Iterator[tuple[int, Tensor | None]]:
        raise RuntimeError(
            "A view was created in no_grad mode, or by a function that returns multiple views, and its base or "
            "another view of its base has been modified "
            "inplace with grad mode enabled. Make the view after the write, or where gradients are recorded and by an "
            "index."
        )


def _part(base: Tensor, view: Tensor) -> tuple:
    """(shape, strides, offset from the base's first element) of a view, in real numbers if either is complex."""
    if base._layout.dtype is view._layout.dtype:
        return tuple(view._layout.shape), view._layout.strides, view._offset - base._offset
    shape, strides, offset = _as_reals(view)
    return shape, strides, offset - _as_reals(base)[2]


def _whole(base: Tensor, view: Tensor) -> Layout:
    """The layout of a base; of its real numbers, where the view is one of these."""
    if base._layout.dtype is view._layout.dtype or not base.is_complex():
        return base._layout
    shape, strides, _ = _as_reals(base)
    return layout(shape, view._layout.dtype, base.device, strides)


def _as_reals(x: Tensor) -> tuple:
    """(shape, strides, offset) of the real numbers in a tensor's memory."""
    if not x.is_complex():
        return tuple(x._layout.shape), x._layout.strides, x._offset
    shape, strides, _, offset = complexes.as_real.rule(x._layout, x._offset)
    return shape, strides, offset


def _of_dtype(gradient: Tensor, dtype: DType) -> Tensor:
    """Convert a gradient between complex numbers and pairs of real numbers."""
    if gradient.dtype.is_complex is dtype.is_complex:
        return gradient
    return (complexes.as_real if dtype.is_complex else complexes.as_complex).gradients["x"](gradient)


def renew(view: Tensor) -> None:
    """Update a view's node after a write to its base."""
    if view._unrecorded and view._node is not None and view._base._node is not None:
        message = (
            f"Output {view._output} of {view._node.name()} is a view and its base or another view of its base has "
            "been modified inplace"
        )
        if isinstance(view._unrecorded, str):
            raise RuntimeError(f"{message}. {_SEVERAL_VIEWS_ERROR}")
        raise RuntimeError(
            f"{message}, which its gradient does not account for, since an autograd.Function returned the view or it "
            "was made in no_grad mode. Return a clone() there, or write to a clone()."
        )
    view._seen = (view._version_counter or view._storage).version
    if view._base._node is not None:
        node, old_node = (NoGradientViewNode if view._unrecorded else ViewNode)(view._base, view), view._node
        if view._retains_grad and old_node is not None:
            hooks_of(node).retain[0] = old_node.hooks.retain.pop(view._output)
        view._node, view._output, view._requires_grad = node, 0, True


extensions.provide(make_node=make_write_node, attach=attach, check_write=check_write)
Tensor._renew = staticmethod(renew)
