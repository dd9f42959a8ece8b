"""Triangles and diagonals of matrices, and the indices of triangles: tril, triu, diag, tril_indices and the like."""

from __future__ import annotations

from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...errors import normalize_dim
from ...ops.linalg import tril_triu as tr
from ..apply import apply
from ..create.creation import default_device, factory
from ..convert.copies import contiguous
from ..math.reductions import sum as total
from .parts import diagonal as _diagonal
from .shapes import movedim
from ..tensor import Tensor

BOTH = "tril triu diag diag_embed diagflat trace"
FUNCTIONS = "tril_indices triu_indices"
IN_PLACE = "tril triu"
OUT = "tril triu diag"


def _expect_matrix(name: str, input: Tensor) -> None:
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input tensor must have at least 2 dimensions, got {input.ndim}")


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices (..., M, N) with 0 above a diagonal.

    Example:

        >>> torch.tril(torch.ones(2, 2))
        tensor([[1., 0.],
                [1., 1.]])
    """
    _expect_matrix("tril", input)
    return apply(tr.band, (contiguous(input),), (-input.shape[-2], int(diagonal)))


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """Matrices (..., M, N) with 0 below a diagonal.

    Example:

        >>> torch.triu(torch.ones(2, 2))
        tensor([[1., 1.],
                [0., 1.]])
    """
    _expect_matrix("triu", input)
    return apply(tr.band, (contiguous(input),), (int(diagonal), input.shape[-1]))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """A matrix with a vector on a diagonal, or the diagonal of a matrix.

    Example:

        >>> torch.diag(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return _diagonal(input, diagonal, 0, 1).clone()


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices, in dimensions dim1 and dim2 of the result, with the last dimension of `input` on a diagonal and 0
    elsewhere.

    Example:

        >>> torch.diag_embed(torch.tensor([[1, 2]])).shape
        numod.Size([1, 2, 2])
    """
    ndim = input.ndim + 1
    first, second = normalize_dim(dim1, ndim), normalize_dim(dim2, ndim)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    n = input.shape[-1] + abs(offset)
    result = input.new_zeros((*input.shape[:-1], n, n))
    _diagonal(result, offset, -2, -1).copy_(input)
    return (
        result if second == ndim - 1 and first == ndim - 2 else movedim(result, (-2, -1), (first, second)).contiguous()
    )


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements of `input` on a diagonal.

    Example:

        >>> torch.diagflat(torch.tensor([1, 2]))
        tensor([[1, 0],
                [0, 2]])
    """
    return diag_embed(input.reshape(-1), offset)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Example:

        >>> torch.trace(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor(5.)
    """
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype is dtypes.bool_:
        raise NotImplementedError(
            "\"trace\" not implemented for 'Bool'; convert first, for example with .to(numod.int64)"
        )
    return total(_diagonal(input, 0, 0, 1))


@factory
def tril_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Rows and columns, (2, count), of the elements on and below a diagonal of a (row, col) matrix, row by row.

    Example:

        >>> torch.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    return _indices("tril_indices", row, col, offset, False, dtype, device).requires_grad_(requires_grad)


@factory
def triu_indices(
    row: int,
    col: int,
    offset: int = 0,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Rows and columns, (2, count), of the elements on and above a diagonal of a (row, col) matrix, row by row.

    Example:

        >>> torch.triu_indices(2, 2)
        tensor([[0, 0, 1],
                [0, 1, 1]])
    """
    return _indices("triu_indices", row, col, offset - 1, True, dtype, device).requires_grad_(requires_grad)


def _indices(
    name: str, row: int, col: int, offset: int, upper: bool, dtype: DType | None, device: Device | str | None
) -> Tensor:
    for side, size in (("row", row), ("col", col)):
        if size < 0:
            raise RuntimeError(f"{name}: {side} must be non-negative, got {size}")
    if dtype not in (None, dtypes.int32, dtypes.int64):
        raise RuntimeError(f"\"{name}\" not implemented for '{dtype.short}'; the indices are int64 or int32")
    return apply(
        tr.triangle,
        (),
        (dtype or dtypes.int64, default_device() if device is None else Device(device), row, col, offset, upper),
    )
