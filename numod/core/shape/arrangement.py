"""Functions that rearrange tensors: repeating, rotating, flipping, broadcasting, grids."""

from __future__ import annotations


from collections.abc import Sequence
from itertools import chain, combinations as _combinations, combinations_with_replacement
from math import comb

import numpy as np

from ... import dtypes
from ...errors import SINGLE_INT, normalize_dim, plain, warn_caller
from ...ops.pointwise import broadcast_shapes as _broadcast
from ...ops.table import row_major
from ..apply import apply
from ..arguments import expect_ints
from ..create.creation import zeros
from ..index.selection import flip, read
from .joining import atleast_2d, cat, repeat, stack, unpacked
from .shapes import expand, in_shape, ravel, reshape, transpose, unsqueeze
from ..tensor import Tensor
from ..create.values import computed

BOTH = "tile rot90 fliplr flipud"
FUNCTIONS = """
    repeat_interleave meshgrid cartesian_prod combinations block_diag broadcast_tensors broadcast_shapes
"""
METHODS = "repeat_interleave=repeat_interleave_of"
OUT = "repeat_interleave"


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
    tensors = tuple(unpacked(tensors))
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
    vectors = unpacked(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing is None:
        warn_caller("numod.meshgrid: in an upcoming release, it will be required to pass the indexing argument.")
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
    vectors = unpacked(tensors)
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
