"""Views, reshapes and concatenation: argument handling for `ops.view` and `ops.index.concat`, with PyTorch's errors."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index

from ... import dtypes
from ...device import Layout
from ...device.layout import ordered_strides
from ...dtypes import dtype as DType
from ...errors import SINGLE_INT, normalize_dim, normalize_dims, plain, warn_caller_once
from ...ops.index import concat, pad as ops_pad
from ...ops.reduce import reduction as r
from ...ops import table as t, view as v
from ..apply import apply, state
from ..arguments import expect_ints, is_whole
from ..resolve import flat, refuse_floats, resolved, whole, whole_number
from ..tensor import Tensor

BOTH = """
    reshape permute transpose movedim broadcast_to unsqueeze squeeze flatten unflatten ravel narrow select
    as_strided diagonal split chunk unsafe_split unsafe_chunk unbind swapaxes swapdims=transpose moveaxis=movedim
    t=t_
"""
FUNCTIONS = "cat stack concat=cat concatenate=cat"
OUT = "cat stack concat concatenate"
METHODS = "view view_as reshape_as expand expand_as sum_to_size repeat"


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


def narrow(input: Tensor, dim: int, start: Tensor | int, length: int) -> Tensor:
    """`length` elements of a dimension from `start` on.

    Example:

        >>> torch.narrow(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return apply(v.slice_, (input,), _span(input._layout, dim, start, length))


@resolved
def _span(input_layout: Layout, dim: int, start: int | Tensor, length: int) -> tuple[int, int, int, int]:
    """(dimension, start, both counted from the front, length, step) of `narrow`."""
    dim = normalize_dim(dim, input_layout.ndim)
    if input_layout.ndim == 0:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    size = input_layout.shape[dim]
    if isinstance(start, Tensor):
        if start.ndim or start.dtype is dtypes.bool_ or start.dtype.is_floating_point:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start)
    start = whole_number("narrow", "start", start)
    if not -size <= start <= size:
        raise IndexError(f"start out of range (expected to be in range of [{-size}, {size}], but got {start})")
    length = whole_number("narrow", "length", length)
    if length < 0:
        raise RuntimeError(f"narrow(): length must be non-negative, got {length}.")
    start = start + size if start < 0 else start
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return dim, start, length, 1


def select(input: Tensor, dim: int, index: int) -> Tensor:
    """One index of a dimension, which is removed; a view.

    Example:

        >>> torch.select(torch.tensor([[1, 2], [3, 4]]), 1, 0)
        tensor([1, 3])
    """
    return apply(v.select, (input,), _selected_offset(input._layout, dim, index))


@resolved
def _selected_offset(input_layout: Layout, dim: int, index: int) -> tuple[int, int]:
    if input_layout.ndim == 0:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = normalize_dim(dim, input_layout.ndim)
    n, index = input_layout.shape[dim], whole_number("select", "index", index)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension {dim} with size {n}")
    return dim, index % n


def as_strided(input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view of any sizes and strides over the storage. Raises RuntimeError if it would leave the storage.

    Example:

        >>> torch.as_strided(torch.arange(6), (2, 2), (3, 1))
        tensor([[0, 1],
                [3, 4]])
    """
    offset = input._offset if storage_offset is None else storage_offset
    for name, numbers in (("size", size), ("stride", stride)):
        if not isinstance(numbers, (tuple, list)):
            raise TypeError(f"as_strided(): argument '{name}' must be tuple of ints, not {type(numbers).__name__}")
    size, stride = tuple(size), tuple(stride)
    if isinstance(offset, Tensor) and is_whole(offset):
        offset = index(offset)
    if len(size) != len(stride):
        raise RuntimeError(f"mismatch in length of strides and shape: {len(stride)} and {len(size)}")
    if not all(
        hasattr(value, "__index__") and not isinstance(value, (bool, Tensor)) for value in (*size, *stride, offset)
    ):
        raise TypeError(f"as_strided(): sizes, strides and storage offset must be ints, got {size}, {stride}, {offset}")
    if min(size, default=0) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(size)}: {list(size)}")
    extent = 1 + sum((n - 1) * s for n, s in zip(size, stride)) if prod(size) else 0
    if min(stride, default=0) < 0 or offset < 0 or offset + extent > input._storage.nbytes() // input.itemsize:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset "
            f"{offset} are out of bounds for storage of {input._storage.data.size} elements"
        )
    return apply(v.as_strided, (input,), (size, stride, offset - input._offset))


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The diagonal of two dimensions, as the last dimension of a view.

    Example:

        >>> torch.diagonal(torch.tensor([[1, 2], [3, 4]]))
        tensor([1, 4])
    """
    dim1, dim2 = normalize_dim(dim1, input.ndim), normalize_dim(dim2, input.ndim)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return apply(v.diagonal, (input,), (offset, dim1, dim2))


def split(
    tensor: Tensor,
    split_size_or_sections: int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    split_size: int | Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """Parts of a given size (the last may be smaller), or of several sizes, along a dimension; views.

    (The method's argument is called `split_size`.)

    Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.split(torch.arange(5), 2)
        (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    return _of_several(
        "Split", unsafe_split(tensor, split_size if split_size_or_sections is None else split_size_or_sections, dim)
    )


def _of_several(name: str, views: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Views made by one function, which must not be written to where gradients are recorded.

    In PyTorch they are results of one node.
    """
    if state.grad_enabled:
        for view in views:
            view._unrecorded = view._unrecorded or name
    return views


def unsafe_split(tensor: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of `split`, as views that can be modified in place.

    Example:

        >>> torch.unsafe_split(torch.arange(4), 3)
        (tensor([0, 1, 2]), tensor([3]))
    """
    _require_dims("split", tensor)
    dim = normalize_dim(dim, tensor.ndim)
    n, sizes = tensor.shape[dim], plain(split_size_or_sections)
    if isinstance(sizes, int):
        if sizes <= 0 and n:
            raise RuntimeError(f"split expects split_size be non-negative, but got split_size={sizes}")
        sizes = [min(sizes, n - start) for start in range(0, n, sizes)] if n else [0]
    elif sum(sizes) != n:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {n} (input tensor's size at dimension {dim}), "
            f"but got split_sizes={list(sizes)}"
        )
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={list(sizes)}"
        )
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return tuple([apply(v.slice_, (tensor,), (dim, start, size, 1)) for start, size in zip(starts, sizes)])


def _require_dims(name: str, x: Tensor) -> None:
    if not x.ndim:
        raise RuntimeError(f"{name} expects at least a 1-dimensional tensor")


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of equal size, the last perhaps smaller; views.

    Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.chunk(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    return _of_several("Split", unsafe_chunk(input, chunks, dim))


def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """The parts of `chunk`, as views that can be modified in place.

    Example:

        >>> torch.unsafe_chunk(torch.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    chunks = plain(chunks)
    _require_dims("chunk", input)
    if chunks < 1:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    n = input.shape[normalize_dim(dim, input.ndim)]
    return unsafe_split(input, -(-n // chunks) if n else [0] * chunks, dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dimension; views. Where gradients are recorded they cannot be written to.

    Example:

        >>> torch.unbind(torch.tensor([[1, 2], [3, 4]]))
        (tensor([1, 2]), tensor([3, 4]))
    """
    dim = normalize_dim(dim, input.ndim)
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    return _of_several("Unbind", tuple([apply(v.select, (input,), (dim, k)) for k in range(input.shape[dim])]))


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors concatenated along a dimension. Empty one-dimensional tensors are skipped, as in PyTorch.

    Example:

        >>> torch.cat([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """
    if isinstance(tensors, Tensor):
        raise TypeError("cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = tuple(tensors)
    if not tensors:
        raise ValueError("cat(): expected a non-empty list of Tensors")
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"expected Tensor as element in argument 0, but got {type(tensor).__name__}")
    dim, joined_positions, converted, result_dtype, orders = _joining(dim, *[tensor._layout for tensor in tensors])
    if orders is not None:  # the result has its channels last too
        return permute(cat([permute(tensor, orders[0]) for tensor in tensors], orders[0].index(dim)), orders[1])
    if len(joined_positions) < len(tensors):
        tensors = _without_skipped(tensors, joined_positions, dim)
    if converted:
        tensors = tuple([tensor.to(result_dtype) for tensor in tensors])
    result = apply(concat.cat, tensors, (dim,))
    return result if result._layout.dtype is result_dtype else result.to(result_dtype)


def _without_skipped(tensors: tuple[Tensor, ...], joined_positions: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
    """The tensors to join.

    Skipped ones that require a gradient get an empty one: they are joined, in a shape that fits.
    """
    shape = list(tensors[joined_positions[0]].shape)
    shape[dim] = 0
    return tuple(
        [
            tensor if k in joined_positions else reshape(tensor, tuple(shape))
            for k, tensor in enumerate(tensors)
            if k in joined_positions or tensor.requires_grad
        ]
    )


@resolved
def _joining(dim: int, *layouts: Layout) -> tuple[int, tuple[int, ...], bool, DType, tuple | None]:
    """(dimension counted from the front, positions of the tensors to join, whether they must be converted first, dtype
    of the result, `channels_last_order`).
    """
    for k, layout in enumerate(layouts):
        if layout.ndim == 0:
            raise RuntimeError(f"zero-dimensional tensor (at position {k}) cannot be concatenated; use stack()")
    joined_positions = tuple(k for k, layout in enumerate(layouts) if layout.shape != (0,)) or (0,)
    # skipped tensors still count for the dtype
    result_dtype = dtypes.result_type([layout.dtype for layout in layouts], [], [])
    converted = any(
        layouts[k].dtype is not result_dtype and layouts[k].dtype.compute is not layouts[k].dtype
        for k in joined_positions
    )
    # where all are skipped, any dimension will do
    dim = 0 if layouts[joined_positions[0]].shape == (0,) else normalize_dim(dim, layouts[joined_positions[0]].ndim)
    return dim, joined_positions, converted, result_dtype, channels_last_order(*layouts)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of equal shape concatenated along a new dimension.

    Example:

        >>> torch.stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    if isinstance(tensors, Tensor):
        raise TypeError("stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor")
    tensors = tuple(tensors)
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first_layout, mixed = tensors[0]._layout, False
    for k, tensor in enumerate(tensors):
        if tensor._layout is not first_layout and tensor.shape != first_layout.shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first_layout.shape)} at entry 0 and "
                f"{list(tensor.shape)} at entry {k}"
            )
        mixed |= tensor._layout.dtype is not first_layout.dtype
    if mixed:
        common_dtype = dtypes.result_type([tensor.dtype for tensor in tensors], [], [])
        tensors = tuple([tensor.to(common_dtype) for tensor in tensors])
    return apply(concat.stack, tensors, (normalize_dim(dim, first_layout.ndim + 1),))


def pad_constant(input: Tensor, pad: Sequence[int], value: float = 0.0) -> Tensor:
    """Padded with `value`: pad = (left, right, top, bottom, ...) from the last dimension on; negative sizes crop."""
    before, after = _sides(input._layout, *pad)
    dtype = input._layout.dtype
    kind = {"c": complex, "f": float, "b": bool}.get(dtype.kind, int)
    result = padded(input, before, after, "constant", kind(dtypes.fitting(value, dtype)))
    return result if result is not input else input.clone()


@resolved
def _sides(input_layout: Layout, *pad: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The number of elements to insert before and after each dimension."""
    for number in pad:
        whole_number("pad", "pad", number)
    if len(pad) % 2 or len(pad) > 2 * input_layout.ndim:
        raise RuntimeError(
            "Padding length must be divisible by 2 and at most twice the number of the dimension of the input, got "
            f"{len(pad)} for {input_layout.ndim} dimensions"
        )
    before, after = ((*(0,) * (input_layout.ndim - len(pad) // 2), *pad[-2 + k :: -2]) for k in (0, 1))
    for n, low, high in zip(input_layout.shape, before, after):
        if n + low + high < 0 or n + min(low, 0) < 0 or n + min(high, 0) < 0:
            raise RuntimeError(
                f"The input size {n}, plus negative padding {low} and {high}, resulted in a negative output size"
            )
    return before, after


def padded(input: Tensor, before: Sequence[int], after: Sequence[int], mode: str, value: float = 0) -> Tensor:
    """Pad each dimension by these numbers of elements before and after (negative: remove), see `ops.index.pad`."""
    if (orders := channels_last_order(input._layout)) is not None and mode != "circular":
        order, inverse = orders
        sides = [[side[d] for d in order] for side in (before, after)]
        return permute(padded(permute(input, order), *sides, mode, value), inverse)
    for low, high in _paddings(tuple(before), tuple(after)):
        input = apply(
            ops_pad.pad, (input if input._layout.dense else apply(t.row_major, (input,)), value), (low, high, mode)
        )
    return input


@lru_cache(maxsize=1024)
def _paddings(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """`_sides` in steps of at most three dimensions, the limit of the op."""
    steps, changed = [], [d for d in range(len(before)) if before[d] or after[d]]
    while changed:
        step_dims = [d for d in changed if d > changed[-1] - 3]
        steps.append(tuple([tuple(n if d in step_dims else 0 for d, n in enumerate(side)) for side in (before, after)]))
        changed = changed[: -len(step_dims)]
    return steps


def repeat(input: Tensor, *times: int, repeats: Sequence[int] | None = None) -> Tensor:
    """A copy repeated along each dimension (new ones in front).

    Example:

        >>> torch.tensor([1, 2]).repeat(2, 2)
        tensor([[1, 2, 1, 2],
                [1, 2, 1, 2]])
    """
    times = times if repeats is None else (repeats,)
    repeats = tuple(times[0]) if len(times) == 1 and isinstance(times[0], Sequence) else times
    expect_ints("repeat", "repeats", repeats)
    if len(repeats) < input.ndim:
        raise RuntimeError("Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor")
    shape = (1,) * (len(repeats) - input.ndim) + tuple(input.shape)
    spread = input.reshape([m for n in shape for m in (1, n)]).expand(
        [m for k, n in zip(repeats, shape) for m in (k, n)]
    )
    return in_shape(apply(t.row_major, (spread,)), *[k * n for k, n in zip(repeats, shape)])


def _reversed(self: Tensor) -> Tensor:
    """All dimensions in reverse order; a view.

    Warns unless there are two dimensions: use `mT` for a batch of matrices.
    """
    if self.ndim not in (0, 2):
        warnings.warn(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it will "
            "throw an error in a future release. "
            "Consider `x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse "
            "the dimensions of a tensor.",
            stacklevel=3,
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
