"""Views of all elements in other shapes: argument handling for `ops.view`, with PyTorch's errors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import dtypes
from ...device import Layout
from ...device.layout import ordered_strides
from ...errors import SINGLE_INT, normalize_dim, normalize_dims, warn_caller_once, warn_caller
from ...ops.reduce import reduction as r
from ...ops import table as t, view as v
from ..apply import apply
from ..arguments import expect_ints
from ..resolve import flat, refuse_floats, resolved, whole
from ..tensor import Tensor

BOTH = """
    reshape permute transpose movedim broadcast_to unsqueeze squeeze flatten unflatten ravel swapaxes
    swapdims=transpose moveaxis=movedim t=t_
"""
METHODS = "view view_as reshape_as expand expand_as sum_to_size"


def view(input: Tensor, *shape: int, size: Sequence[int] | None = None) -> Tensor:
    """The same elements in another shape, without copying. Raises RuntimeError where the strides do not allow it."""
    sizes, fits = _sizes(input._layout, *flat(shape if size is None else (tuple(size),)))
    if not fits:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across "
            "two contiguous subspaces): "
            f"{tuple(input.shape)} with strides {input.stride()} as {sizes}. Use .reshape(...) instead."
        )
    return apply(v.reshape, (input,), (sizes,))


def view_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with the shape of `other`.

    Example:

        >>> torch.arange(4).view_as(torch.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return view(self, other.shape)


def reshape(input: Tensor, *sizes: int, shape: Sequence[int] | None = None) -> Tensor:
    """The same elements in another shape; a view where possible. One size may be -1.

    Example:

        >>> torch.reshape(torch.arange(6), (2, 3))
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    sizes, fits = _sizes(input._layout, *flat(sizes if shape is None else (tuple(shape),)))
    if not fits:
        input = apply(t.row_major, (input,))
    return apply(v.reshape, (input,), (sizes,))


def in_shape(result: Tensor, *sizes: int) -> Tensor:
    """A new dense result in another shape; not a view, as in PyTorch, since writes to views cost more."""
    view = apply(v.reshape, (result,), (sizes,))
    if view is not result:
        view._base, view._unrecorded = None, False
    return view


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """Reshaped to the shape of `other`.

    Example:

        >>> torch.arange(4).reshape_as(torch.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return reshape(self, other.shape)


@resolved
def _sizes(input_layout: Layout, *shape: int) -> tuple[tuple[int, ...], bool]:
    """(shape with -1 resolved, whether a view can have it). Raises RuntimeError if the number of elements differs."""
    sizes = whole("reshape", shape)
    known_size = prod(n for n in sizes if n != -1)
    if -1 in sizes:
        if sizes.count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if known_size == 0 and input_layout.size == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {list(sizes)} because the unspecified dimension size "
                "-1 can be any value and is ambiguous"
            )
        if known_size == 0:
            raise RuntimeError(f"shape '{list(sizes)}' is invalid for input of size {input_layout.size}")
        sizes = tuple(input_layout.size // known_size if n == -1 else n for n in sizes)
    if prod(sizes) != input_layout.size or any(n < 0 for n in sizes):
        raise RuntimeError(
            f"shape '{list(shape[0]) if len(shape) == 1 and isinstance(shape[0], Sequence) else list(shape)}' is "
            f"invalid for input of size {input_layout.size}"
        )
    return sizes, v.view_strides(input_layout, sizes) is not None


def permute(input: Tensor, *order: int, dims: Sequence[int] | None = None) -> Tensor:
    """Dimensions in the given order; a view.

    Example:

        >>> torch.permute(torch.ones(2, 3, 4), (2, 0, 1)).shape
        numod.Size([4, 2, 3])
    """
    return apply(v.permute, (input,), (_order(input._layout.ndim, *flat(order if dims is None else (tuple(dims),))),))


@resolved
def _order(ndim: int, *dims: int) -> tuple[int, ...]:
    dims = tuple(dims[0]) if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    if len(dims) != ndim:
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the desired ordering of "
            "dimensions i.e. "
            f"input.dim() = {ndim} is not equal to len(dims) = {len(dims)}"
        )
    return normalize_dims(dims, ndim)


def memory_order(input_layout: Layout) -> tuple[list[int], list[int]] | None:
    """(dimensions from outermost to innermost in memory, inverse permutation); None for row-major tensors."""
    if input_layout.dense:
        return None
    strides = input_layout.strides if input_layout.packed else ordered_strides(input_layout.shape, input_layout.strides)
    order = sorted(range(input_layout.ndim), key=lambda d: -strides[d])
    return (
        None if order == list(range(input_layout.ndim)) else (order, [order.index(d) for d in range(input_layout.ndim)])
    )


def channels_last_order(*layouts: Layout) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """(order of dimensions in memory, inverse permutation) of images whose channels lie last; None for others."""
    ndim = layouts[0].ndim
    if ndim not in (4, 5) or layouts[0].dense:
        return None
    order = (0, *range(2, ndim), 1)
    for layout in layouts:
        strides = [layout.strides[d] for d in order]
        if layout.ndim != ndim or layout.dense or not layout.packed or strides != sorted(strides, reverse=True):
            return None
    return order, (0, ndim - 1, *range(1, ndim - 1))


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions swapped; a view.

    Example:

        >>> torch.transpose(torch.ones(2, 3), 0, 1).shape
        numod.Size([3, 2])
    """
    return apply(v.permute, (input,), (_exchanged(input._layout.ndim, dim0, dim1),))


@resolved
def _exchanged(ndim: int, dim0: int, dim1: int) -> tuple[int, ...]:
    dim0, dim1 = normalize_dim(dim0, ndim), normalize_dim(dim1, ndim)
    dims = list(range(ndim))
    if dims:
        dims[dim0], dims[dim1] = dim1, dim0
    return tuple(dims)


def t_(input: Tensor) -> Tensor:
    """A matrix transposed; a vector or scalar as it is; a view.

    Example:

        >>> torch.t(torch.ones(2, 3)).shape
        numod.Size([3, 2])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, -1)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two dimensions swapped; a view.

    Example:

        >>> torch.swapaxes(torch.ones(2, 3), 0, 1).shape
        numod.Size([3, 2])
    """
    return transpose(input, axis0, axis1)


def movedim(input: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions moved to other positions, the others in their order; a view.

    Example:

        >>> torch.movedim(torch.ones(2, 3, 4), 0, 2).shape
        numod.Size([3, 4, 2])
    """
    for key, dims in (("source", source), ("destination", destination)):
        expect_ints("movedim", key, dims)
    dim_lists = [[dims] if isinstance(dims, SINGLE_INT) else list(dims) for dims in (source, destination)]
    if len(dim_lists[0]) != len(dim_lists[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({dim_lists[0]} dims) should contain the same number "
            f"of dims as destination ({dim_lists[1]} dims)"
        )
    return apply(v.permute, (input,), (_moved(input._layout.ndim, *dim_lists[0], *dim_lists[1]),))


@resolved
def _moved(ndim: int, *dims: int) -> tuple[int, ...]:
    """The permutation that moves the first half of `dims` to the positions in the second half."""
    halves = dims[: len(dims) // 2], dims[len(dims) // 2 :]
    source, destination = (tuple([normalize_dim(dim, ndim) for dim in half]) for half in halves)
    for name, normalized, half in zip(("source", "destination"), (source, destination), halves):
        if len(set(normalized)) != len(normalized):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({list(half)})")
    rest = iter(d for d in range(ndim) if d not in source)
    return tuple([source[destination.index(d)] if d in destination else next(rest) for d in range(ndim)])


def expand(input: Tensor, *sizes: int, size: Sequence[int] | None = None, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 expanded without copying; -1 keeps a size.

    Example:

        >>> torch.tensor([[1], [2]]).expand(2, 3)
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    sizes = sizes if size is None else tuple(size)
    sizes = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    refuse_floats("expand", sizes)
    return apply(v.expand, (input,), (sizes,))


def expand_as(input: Tensor, other: Tensor) -> Tensor:
    """Expanded to the shape of `other`.

    Example:

        >>> torch.tensor([[1], [2]]).expand_as(torch.zeros(2, 3))
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    return expand(input, other.shape)


def broadcast_to(input: Tensor, *sizes: int, size: Sequence[int] | None = None) -> Tensor:
    """Expanded to a size.

    Example:

        >>> torch.broadcast_to(torch.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand(input, *sizes, size=size)


def sum_to_size(input: Tensor, *sizes: int, size: Sequence[int] | None = None) -> Tensor:
    """Summed over the dimensions along which a tensor of `size` would be broadcast (the reverse of `broadcast_to`).

    Example:

        >>> torch.ones(2, 3).sum_to_size(1, 3)
        tensor([[2., 2., 2.]])
    """
    sizes = sizes if size is None else (size,)
    size = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    lead = input.ndim - len(size)
    if lead < 0 or any(n not in (1, m) for n, m in zip(size, input.shape[lead:])):
        raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(input.shape)}}}.")
    dims = tuple(range(lead)) + tuple(d + lead for d, n in enumerate(size) if n == 1 and input.shape[d + lead] != 1)
    if not dims and size:
        return input
    return apply(r.sum, (input,), (dims, True, input.dtype if input.dtype.differentiable else dtypes.int64)).reshape(
        size
    )


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """A dimension of size 1 inserted before `dim`.

    Example:

        >>> torch.unsqueeze(torch.tensor([1, 2]), 0)
        tensor([[1, 2]])
    """
    return apply(v.unsqueeze, (input,), (normalize_dim(dim, input.ndim + 1),))


def squeeze(input: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Dimensions of size 1 removed, all or the given ones.

    Example:

        >>> torch.squeeze(torch.ones(1, 2, 1)).shape
        numod.Size([2])
    """
    return apply(v.squeeze, (input,), (normalize_dims(dim, input.ndim),))


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions start_dim to end_dim (inclusive) as one.

    Example:

        >>> torch.flatten(torch.ones(2, 3, 4), start_dim=1).shape
        numod.Size([2, 12])
    """
    shape = _flat(input._layout, start_dim, end_dim)
    return input if shape is None else reshape(input, shape)


@resolved
def _flat(input_layout: Layout, start_dim: int, end_dim: int) -> tuple[int, ...] | None:
    """The shape with dimensions start_dim to end_dim flattened; None if it does not change."""
    start, end = normalize_dim(start_dim, input_layout.ndim), normalize_dim(end_dim, input_layout.ndim)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if input_layout.ndim == 0:
        return (1,)
    return (
        None
        if start == end
        else (*input_layout.shape[:start], prod(input_layout.shape[start : end + 1]), *input_layout.shape[end + 1 :])
    )


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """One dimension as several.

    Example:

        >>> torch.unflatten(torch.ones(4, 6), 1, (2, 3)).shape
        numod.Size([4, 2, 3])
    """
    dim = normalize_dim(dim, input.ndim)
    sizes = tuple(sizes)
    known_size = prod(n for n in sizes if n != -1)
    sizes = tuple(input.shape[dim] // known_size if n == -1 and known_size else n for n in sizes)
    if prod(sizes) != input.shape[dim]:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} ({input.shape[dim]}) "
            "in the input tensor"
        )
    return reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension; a view only where they lie one after the other.

    Example:

        >>> torch.ravel(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 2, 3, 4])
    """
    return reshape(input if input._layout.dense else apply(t.row_major, (input,)), -1)


def _reversed(self: Tensor) -> Tensor:
    """All dimensions in reverse order; a view.

    Warns unless there are two dimensions: use `mT` for a batch of matrices.
    """
    if self.ndim not in (0, 2):
        warn_caller(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. "
            "Consider `x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse "
            "the dimensions of a tensor."
        )
    return permute(self, *range(self.ndim - 1, -1, -1))


Tensor.T = property(_reversed)


def _transposed(self: Tensor) -> Tensor:
    """The last two dimensions swapped; a view. Raises RuntimeError for a vector."""
    if self.ndim == 1:
        raise RuntimeError("tensor.mT is only supported on matrices or batches of matrices. Got 1-D tensor.")
    if not self.ndim:
        warn_caller_once("Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.")
    return transpose(self, -2, -1) if self.ndim else transpose(self, 0, 0)


Tensor.mT = property(_transposed)
