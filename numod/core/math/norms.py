"""Norms of vectors and matrices, as in `numod.linalg`, condition number and rank.

The reductions are in `reductions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf as infinity

from ... import dtypes
from ...dtypes import dtype as DType
from ...errors import SINGLE_INT, normalize_dims
from ...ops.linalg import factorization as op
from . import reductions
from ..linalg.decompositions import attempt, eigvalsh, expect_matrix, expect_square, svdvals
from .elementwise import masked_fill
from ..shape.shapes import movedim, unsqueeze
from ..tensor import Tensor

BOTH = "norm=old_norm"
FUNCTIONS = "nuclear_norm frobenius_norm"
OUT = "norm nuclear_norm frobenius_norm"

Dims = int | Sequence[int] | None


def vector_norm(
    x: Tensor, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord); max and min of |x| for inf and -inf, the number of nonzeros for 0.

    Example:

        >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if isinstance(ord, str):
        raise TypeError(
            f"linalg_vector_norm(): argument 'ord' must be Number, not str; use numod.linalg.matrix_norm for {ord!r}"
        )
    if isinstance(ord, complex):
        raise RuntimeError(f"linalg.vector_norm: Expected a non-complex scalar as the order of norm, got {ord}.")
    return reductions.norm(x, ord, dim, keepdim, dtype)


def matrix_norm(
    A: Tensor,
    ord: float | str = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
) -> Tensor:
    """Norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf.

    Example:

        >>> torch.linalg.matrix_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(5.)
    """
    a = A if dtype is None else A.to(dtype)
    a = a if ord not in ("nuc", 2, -2) and a.is_floating_point() and a.ndim > 1 else expect_matrix("matrix_norm", a)
    if len(dim) != 2:
        raise RuntimeError(f"linalg.matrix_norm: dim must be a 2-tuple. Got {list(dim)}")
    dims = normalize_dims(tuple(dim), a.ndim)
    if ord == "fro":
        return reductions.norm(a, 2, dims, keepdim)
    moved = movedim(a, dims, (-2, -1))
    if ord == "nuc" or ord in (2, -2):
        values = svdvals(moved)
        result = reductions.sum(values, -1) if ord == "nuc" else _end(values, ord)
    elif ord in (1, -1, infinity, -infinity):
        result = _end(reductions.sum(moved.abs(), -2 if abs(ord) == 1 else -1), ord)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    for d in sorted(dims) if keepdim else ():
        result = unsqueeze(result, d)
    return result


def _end(values: Tensor, ord: float) -> Tensor:
    """The maximum, or for negative orders the minimum; the greatest of none is 0."""
    if ord > 0 and not values.shape[-1]:
        return values.sum(-1)
    return (reductions.amax if ord > 0 else reductions.amin)(values, -1)


def norm(
    A: Tensor, ord: float | str | None = None, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Tensor:
    """A vector norm, or a matrix norm if two dimensions and `ord` are given.

    Example:

        >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    count = A.ndim if dim is None else 1 if isinstance(dim, SINGLE_INT) else len(dim)
    if isinstance(ord, str) and (count != 2 or (dim is None and A.ndim != 2)):
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    if dim is None and A.ndim > 2:
        raise RuntimeError(
            f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
        )
    return (
        matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
        if count == 2
        else vector_norm(A, ord, dim, keepdim, dtype=dtype)
    )


def old_norm(
    input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False, dtype: DType | None = None
) -> Tensor:
    """The vector norm of all elements, or over dimensions; "nuc" the sum of singular values.

    Matrix norms are in `numod.linalg`.

    Example:

        >>> torch.linalg.norm(torch.tensor([3.0, 4.0]))
        tensor(5.)
    """
    if p != "nuc":
        return reductions.norm(input, p, dim, keepdim, dtype)
    return nuclear_norm(input if dtype is None else input.to(dtype), (-2, -1) if dim is None else dim, keepdim)


def nuclear_norm(input: Tensor, dim: Sequence[int] | bool = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sum of singular values of matrices: nuclear_norm(input, dim, keepdim) or nuclear_norm(input, keepdim).

    Example:

        >>> torch.nuclear_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(7.)
    """
    if isinstance(dim, bool):
        dim, keepdim = (-2, -1), dim
    return matrix_norm(input, "nuc", dim, keepdim)


def frobenius_norm(input: Tensor, dim: Dims = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares.

    Example:

        >>> torch.frobenius_norm(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(5.)
    """
    return reductions.norm(input, 2, dim, keepdim)


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """The condition number |A| |A^-1|; by default the ratio of the largest and smallest singular value.

    Infinite for singular matrices.

    Example:

        >>> torch.linalg.cond(torch.tensor([[2.0, 0.0], [0.0, 1.0]]))
        tensor(2.)
    """
    if p is None or p in (2, -2):
        values = svdvals(A)
        if not values.shape[-1]:
            return reductions.sum(values, -1)
        return values[..., -1] / values[..., 0] if p == -2 else values[..., 0] / values[..., -1]
    inverse, info = attempt(lambda a: op.inv.apply((expect_square("cond", a),)), False, A)
    inverse = masked_fill(inverse, unsqueeze(unsqueeze(info != 0, -1), -1), infinity if p != "nuc" else 1.0)
    result = masked_fill(matrix_norm(A, p) * matrix_norm(inverse, p), info != 0, infinity)
    return masked_fill(result, result.isnan() & ~A.isnan().any(-1).any(-1), infinity)  # infinities in A, as in NumPy


def matrix_rank(
    A: Tensor,
    tol: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """How many singular values exceed max(atol, rtol * the greatest); `tol` is an older name for atol alone.

    Example:

        >>> torch.linalg.matrix_rank(torch.ones(3, 3))
        tensor(1)
    """
    a = expect_matrix("matrix_rank", A.detach())
    values = eigvalsh(a).abs() if hermitian else svdvals(a)
    if not values.shape[-1]:
        return A.new_zeros(A.shape[:-2]).to(dtypes.int64)
    atol, rtol = (tol, 0.0) if tol is not None else tolerances(a, atol, rtol)
    limit = reductions.amax(values, -1) * rtol
    limit = limit.maximum(atol.to(limit.dtype)) if isinstance(atol, Tensor) else limit.clamp_min(atol)
    return reductions.sum(values > unsqueeze(limit, -1), -1)


def tolerances(
    A: Tensor, atol: float | Tensor | None, rtol: float | Tensor | None
) -> tuple[float | Tensor, float | Tensor]:
    """(absolute, relative) tolerance of singular values; the relative one defaults to rounding errors."""
    has_absolute = atol is not None and (isinstance(atol, Tensor) or atol > 0)
    return 0.0 if atol is None else atol, (
        0.0 if has_absolute else max(A.shape[-2:]) * dtypes.finfo(A.dtype).eps
    ) if rtol is None else rtol
