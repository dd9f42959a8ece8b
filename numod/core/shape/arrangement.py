"""Functions that rearrange tensors: splitting, stacking, repeating, rotating, grids. Views are in `shapes`."""

from __future__ import annotations

import warnings

from collections.abc import Sequence
from itertools import chain, combinations as _combinations, combinations_with_replacement
from math import comb

import numpy as np

from ... import dtypes
from ...errors import SINGLE_INT, normalize_dim, plain
from ...ops.pointwise import broadcast_shapes as _broadcast
from ...ops.table import row_major
from ..apply import apply
from ..arguments import expect_ints, is_whole
from ..create.creation import zeros
from ..index.selection import flip, read
from ..resolve import refuse_floats
from .shapes import (
    cat,
    expand,
    in_shape,
    narrow,
    ravel,
    repeat,
    reshape,
    split,
    stack,
    transpose,
    unsafe_split,
    unsqueeze,
)
from ..tensor import Tensor
from ..create.values import computed

BOTH = """
    tile rot90 fliplr flipud tensor_split hsplit vsplit dsplit narrow_copy
    split_with_sizes unsafe_split_with_sizes
"""
FUNCTIONS = """
    repeat_interleave hstack vstack dstack column_stack row_stack=vstack atleast_1d atleast_2d atleast_3d meshgrid
    cartesian_prod combinations block_diag broadcast_tensors broadcast_shapes
"""
METHODS = "repeat_interleave=repeat_interleave_of"
OUT = "hstack vstack dstack column_stack row_stack repeat_interleave narrow_copy"


def tile(input: Tensor, *times: int, dims: Sequence[int] | None = None) -> Tensor:
    """The tensor repeated along each dimension; with fewer repeats than dimensions, for the last dimensions.

    Example:

        >>> torch.tile(torch.tensor([1, 2]), (2,))
        tensor([1, 2, 1, 2])
    """
    dims = _sizes(times if dims is None else (tuple(dims),))
    expect_ints("tile", "dims", dims)
    return repeat(input, (1,) * (input.ndim - len(dims)) + dims)


def _sizes(sizes: tuple) -> tuple[int, ...]:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes


def repeat_interleave(
    input: Tensor, repeats: Tensor | int | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated `repeats` times (a number, or one per element) along a dimension, or of the flattened
    tensor.

    With a single tensor of counts, index k repeated counts[k] times.

    Example:

        >>> torch.repeat_interleave(torch.tensor([1, 2]), 2)
        tensor([1, 1, 2, 2])
    """
    return (
        _indices_repeated(input)
        if repeats is None
        else repeat_interleave_of(input, repeats, dim, output_size=output_size)
    )


def repeat_interleave_of(
    input: Tensor, repeats: Tensor | int, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated `repeats` times (a number, or one per element) along a dimension, or flattened."""
    if dim is None:
        input, dim = ravel(input), 0
    dim = normalize_dim(dim, input.ndim)
    input = input if input.ndim else ravel(input)
    n = input.shape[dim]
    if not isinstance(repeats, (Tensor, *SINGLE_INT)):
        raise TypeError(
            f"repeat_interleave(): argument 'repeats' (position 2) must be Tensor or int, not {type(repeats).__name__}"
        )
    if not isinstance(repeats, Tensor) or repeats.numel() == 1 and n != 1:
        times = int(repeats) if isinstance(repeats, Tensor) else plain(repeats)
        if times < 0:
            raise RuntimeError(f"Repeats must be non-negative, got {times}")
        shape = list(input.shape)
        spread = expand(unsqueeze(input, dim + 1), (*shape[: dim + 1], times, *shape[dim + 1 :]))
        return in_shape(apply(row_major, (spread,)), *shape[:dim], n * times, *shape[dim + 1 :])
    if repeats.numel() != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {repeats.numel()} and "
            f"input.size({dim}) = {n}"
        )
    return read(input, dim, _indices_repeated(repeats))


def _indices_repeated(repeats: Tensor) -> Tensor:
    """Index k repeated repeats[k] times, from a running count of the rows that end before each output position."""
    if repeats.ndim > 1:
        raise RuntimeError(f"repeat_interleave only accept 1D vector as repeat, got {repeats.ndim} dimensions")
    if repeats.dtype not in (dtypes.int32, dtypes.int64):
        raise RuntimeError("repeats has to be Long or Int tensor")
    repeats = ravel(repeats)
    if repeats.numel() and int(repeats.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    row_ends = repeats.cumsum(0)
    total = int(row_ends[-1]) if repeats.numel() else 0
    starts = zeros(total + 1, dtype=dtypes.int64, device=repeats.device)
    starts.index_add_(0, row_ends, zeros(row_ends.shape, dtype=dtypes.int64, device=row_ends.device) + 1)
    return starts.cumsum(0)[:total]


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotated k times by 90 degrees in the plane of two dimensions, from the first towards the second.

    Example:

        >>> torch.rot90(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 4],
                [1, 3]])
    """
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    first, second = (normalize_dim(dim, input.ndim) for dim in dims)
    if first == second:
        raise RuntimeError(f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}")
    quarter_turns = k % 4
    if quarter_turns == 1:
        return transpose(flip(input, second), first, second)
    if quarter_turns == 3:
        return transpose(flip(input, first), first, second)
    return flip(input, first, second) if quarter_turns == 2 else input.clone()


def fliplr(input: Tensor) -> Tensor:
    """Left-right flip: dimension 1 in reverse order.

    Example:

        >>> torch.fliplr(torch.tensor([[1, 2], [3, 4]]))
        tensor([[2, 1],
                [4, 3]])
    """
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, 1)


def flipud(input: Tensor) -> Tensor:
    """Up-down flip: dimension 0 in reverse order.

    Example:

        >>> torch.flipud(torch.tensor([[1, 2], [3, 4]]))
        tensor([[3, 4],
                [1, 2]])
    """
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, 0)


# ---- splitting


def tensor_split(
    input: Tensor,
    indices_or_sections: Tensor | int | Sequence[int] | None = None,
    dim: int = 0,
    *,
    sections: int | None = None,
    indices: Sequence[int] | None = None,
) -> tuple[Tensor, ...]:
    """A number of nearly equal parts along a dimension, or the parts between indices; views.

    Example:

        >>> torch.tensor_split(torch.arange(5), 2)
        (tensor([0, 1, 2]), tensor([3, 4]))
    """
    indices_or_sections = _the_argument("tensor_split", indices_or_sections, sections, indices)
    if not input.ndim:
        raise RuntimeError("tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims")
    dim = normalize_dim(dim, input.ndim)
    if isinstance(indices_or_sections, Tensor):
        cuts = _cuts_of(indices_or_sections)
    else:
        expect_ints("tensor_split", "indices_or_sections", indices_or_sections)
        cuts = plain(indices_or_sections)
    n = input.shape[dim]
    if isinstance(cuts, int):
        if cuts <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {cuts}")
        size, more = divmod(n, cuts)
        return unsafe_split(input, [size + (k < more) for k in range(cuts)], dim)
    bounds = [0, *(slice(None, cut).indices(n)[1] for cut in cuts)]
    ends = [*bounds[1:], n]
    return tuple(narrow(input, dim, start, max(0, end - start)) for start, end in zip(bounds, ends))


def _cuts_of(sections: Tensor) -> int | list[int]:
    """The sections or indices that `tensor_split` takes as a tensor."""
    if sections.dtype is not dtypes.int64:
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {sections.dtype.short}"
        )
    if sections.ndim > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {sections.ndim} dims"
        )
    return sections.tolist()


def _split_along(
    name: str, input: Tensor, cuts: Tensor | int | Sequence[int], dim: int, least: int
) -> tuple[Tensor, ...]:
    if input.ndim < least:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {least} dimension, but got a tensor with {input.ndim} "
            "dimensions!"
        )
    expect_ints(name, "indices_or_sections", cuts)
    if is_whole(cuts) and (cuts == 0 or input.shape[dim] % cuts):
        raise RuntimeError(
            f"torch.{name} attempted to split along dimension {dim}, but the size of "
            f"the dimension {input.shape[dim]} is not divisible by the split_size {cuts}!"
        )
    return tensor_split(input, cuts, dim)


def hsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` into columns: along dimension 1, or 0 of a vector.

    Example:

        >>> torch.hsplit(torch.arange(4), 2)
        (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along(
        "hsplit",
        input,
        _the_argument("hsplit", _unpack_one(indices_or_sections), sections, indices),
        0 if input.ndim == 1 else 1,
        1,
    )


def vsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` into rows: along dimension 0.

    Example:

        >>> torch.vsplit(torch.arange(4).reshape(2, 2), 2)
        (tensor([[0, 1]]), tensor([[2, 3]]))
    """
    return _split_along(
        "vsplit", input, _the_argument("vsplit", _unpack_one(indices_or_sections), sections, indices), 0, 2
    )


def dsplit(
    input: Tensor, *indices_or_sections: object, sections: int | None = None, indices: Sequence[int] | None = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along dimension 2.

    Example:

        >>> [part.shape for part in torch.dsplit(torch.ones(1, 2, 4), 2)]
        [numod.Size([1, 2, 2]), numod.Size([1, 2, 2])]
    """
    return _split_along(
        "dsplit", input, _the_argument("dsplit", _unpack_one(indices_or_sections), sections, indices), 2, 3
    )


def _unpack_one(values: tuple) -> object:
    return values[0] if len(values) == 1 else values or None


def _the_argument(name: str, *values: object) -> object:
    """The value of the one argument that is not None; TypeError for none or several."""
    values_set = [value for value in values if value is not None]
    if len(values_set) != 1:
        raise TypeError(f"{name}(): expected one of indices_or_sections, sections and indices, got {len(values_set)}")
    return values_set[0]


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes along a dimension; views.

    Example:

        >>> torch.split_with_sizes(torch.arange(5), [2, 3])
        (tensor([0, 1]), tensor([2, 3, 4]))
    """
    expect_ints("split_with_sizes", "split_sizes", split_sizes)
    sizes = tuple(split_sizes)
    refuse_floats("split_with_sizes", sizes)
    return split(input, sizes, dim)


def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the given sizes, as views that autograd lets one write to.

    Example:

        >>> torch.unsafe_split_with_sizes(torch.arange(4), [1, 3])
        (tensor([0]), tensor([1, 2, 3]))
    """
    return unsafe_split(input, tuple(split_sizes), dim)


def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of `length` elements of a dimension from `start` on.

    Example:

        >>> torch.narrow_copy(torch.arange(5), 0, 1, 3)
        tensor([1, 2, 3])
    """
    return narrow(input, dim, start, length).clone()


# ---- joining


def _unpacked(tensors: tuple) -> list[Tensor]:
    """The tensors as a list; a single argument may be a sequence of them."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)


def _same_kind(tensors: tuple, results: list[Tensor]) -> Tensor | tuple[Tensor, ...]:
    return results[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(results)


def atleast_1d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars as vectors of one element; other tensors unchanged.

    Example:

        >>> torch.atleast_1d(torch.tensor(3.0))
        tensor([3.])
    """
    return _same_kind(tensors, [reshape(tensor, 1) if not tensor.ndim else tensor for tensor in _unpacked(tensors)])


def atleast_2d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars and vectors as a row of a matrix; other tensors unchanged.

    Example:

        >>> torch.atleast_2d(torch.tensor([1.0, 2.0])).shape
        numod.Size([1, 2])
    """
    return _same_kind(
        tensors,
        [
            reshape(tensor, (1, -1)) if not tensor.ndim else unsqueeze(tensor, 0) if tensor.ndim == 1 else tensor
            for tensor in _unpacked(tensors)
        ],
    )


def atleast_3d(*tensors: Tensor) -> Tensor | tuple[Tensor, ...]:
    """Scalars as (1, 1, 1), vectors as (1, n, 1), matrices as (m, n, 1); other tensors unchanged.

    Example:

        >>> torch.atleast_3d(torch.tensor([1.0, 2.0])).shape
        numod.Size([1, 2, 1])
    """
    return _same_kind(
        tensors, [tensor if tensor.ndim > 2 else unsqueeze(atleast_2d(tensor), -1) for tensor in _unpacked(tensors)]
    )


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 1, vectors along 0.

    Example:

        >>> torch.hstack([torch.tensor([1, 2]), torch.tensor([3])])
        tensor([1, 2, 3])
    """
    parts = _converted("hstack", tensors, atleast_1d)
    return cat(parts, 0 if parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 0, vectors as rows.

    Example:

        >>> torch.vstack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 2],
                [3, 4]])
    """
    return cat(_converted("vstack", tensors, atleast_2d), 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 2.

    Example:

        >>> torch.dstack([torch.tensor([1, 2]), torch.tensor([3, 4])]).shape
        numod.Size([1, 2, 2])
    """
    return cat(_converted("dstack", tensors, atleast_3d), 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors concatenated along dimension 1, scalars and vectors as columns.

    Example:

        >>> torch.column_stack([torch.tensor([1, 2]), torch.tensor([3, 4])])
        tensor([[1, 3],
                [2, 4]])
    """
    return hstack(
        _converted(
            "column_stack", tensors, lambda tensor: reshape(tensor, (tensor.numel(), 1)) if tensor.ndim <= 1 else tensor
        )
    )


def _converted(name: str, tensors: Sequence[Tensor], convert: object) -> list[Tensor]:
    if isinstance(tensors, Tensor):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor; did you mean [tensor]?"
        )
    tensors = list(tensors)
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return [convert(tensor) for tensor in tensors]


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with the tensors (vectors as rows) along its diagonal, 0 elsewhere.

    Example:

        >>> torch.block_diag(torch.ones(1, 2), torch.tensor([[3.0]]))
        tensor([[1., 1., 0.],
                [0., 0., 3.]])
    """
    for k, tensor in enumerate(tensors):
        if tensor.ndim > 2:
            raise RuntimeError(
                f"numod.block_diag: Input tensors must have 2 or fewer dimensions. Input {k} has {tensor.ndim} "
                "dimensions"
            )
    blocks = [atleast_2d(tensor) for tensor in tensors] or [zeros(1, 0)]
    width, columns_before, rows = sum(block.shape[1] for block in blocks), 0, []
    for block in blocks:
        height, block_width = block.shape
        sides = [
            zeros(height, n, dtype=block.dtype, device=block.device)
            for n in (columns_before, width - columns_before - block_width)
        ]
        rows.append(cat((sides[0], block, sides[1]), 1))
        columns_before += block_width
    return cat(rows, 0)


# ---- broadcasting and grids


def broadcast_shapes(*shapes: Sequence[int] | int) -> tuple[int, ...]:
    """The shape to which all shapes broadcast.

    Example:

        >>> torch.broadcast_shapes((2, 1), (3,))
        numod.Size([2, 3])
    """
    from ...device import Size

    return Size(
        _broadcast("broadcast_shapes", [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes])
        if shapes
        else ()
    )


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors expanded to their common broadcast shape; views, or the tensors themselves.

    Example:

        >>> [x.shape for x in torch.broadcast_tensors(torch.ones(2, 1), torch.ones(3))]
        [numod.Size([2, 3]), numod.Size([2, 3])]
    """
    tensors = tuple(_unpacked(tensors))
    shape = _broadcast("broadcast_tensors", [tensor.shape for tensor in tensors])
    return tuple(tensor if tensor.shape == shape else expand(tensor, shape) for tensor in tensors)


def meshgrid(*tensors: Tensor, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Coordinates of a grid: each vector along its own dimension, expanded to the grid's shape.

    "xy" swaps the first two dimensions.

    Example:

        >>> x, y = torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")
        >>> x.shape, y[0]
        (numod.Size([2, 3]), tensor([0, 1, 2]))
    """
    vectors = _unpacked(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warnings.warn(
            "numod.meshgrid: in an upcoming release, it will be required to pass the indexing argument.", stacklevel=3
        )
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'numod.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for vector in vectors:
        if vector.ndim > 1:
            raise RuntimeError(
                f"numod.meshgrid: Expected 0D or 1D tensor in the tensor list but got a tensor of {vector.ndim} "
                "dimensions"
            )
        if vector.dtype is not vectors[0].dtype:
            raise RuntimeError("numod.meshgrid expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(vectors) >= 2
    vectors = [vectors[1], vectors[0], *vectors[2:]] if swap else vectors
    shape = [vector.numel() for vector in vectors]
    grids = [
        expand(reshape(vector, [-1 if d == k else 1 for d in range(len(shape))]), shape)
        for k, vector in enumerate(vectors)
    ]
    return (grids[1], grids[0], *grids[2:]) if swap else tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """The Cartesian product of vectors, one combination per row; a single vector itself.

    Example:

        >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    vectors = _unpacked(tensors)
    for vector in vectors:
        if vector.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(vector.shape)}")
    return vectors[0] if len(vectors) == 1 else stack([ravel(grid) for grid in meshgrid(*vectors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of r elements of a vector, in order, one per row.

    Example:

        >>> torch.combinations(torch.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return zeros(0, dtype=input.dtype, device=input.device)
    n = input.shape[0]
    count = (comb(n + r - 1, r) if n else 0) if with_replacement else comb(n, r)
    chosen = chain.from_iterable((combinations_with_replacement if with_replacement else _combinations)(range(n), r))
    indices = np.fromiter(chosen, np.int64, count * r)  # raises at once if there is not enough memory
    return reshape(read(input, 0, computed(indices, dtypes.int64, input.device)), (count, r))
