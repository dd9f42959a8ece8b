"""The standard's linear algebra. Functions that are not defined here are those of `numod.linalg`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numod

from .. import Tensor
from ..linalg import (
    det, eigh, eigvalsh, inv, matrix_power, pinv, slogdet, svdvals,
)  # fmt: skip
from . import statistics
from .common import Axis

__all__ = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
    "trace", "vecdot", "vector_norm",
]  # fmt: skip


def matmul(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The product of matrices, in the arrays' common dtype."""
    dtype = numod.promote_types(x1.dtype, x2.dtype)
    return numod.matmul(x1.to(dtype), x2.to(dtype))


def matrix_transpose(x: Tensor, /) -> Tensor:
    """Matrices with rows and columns exchanged. Raises ValueError below two dimensions."""
    if x.ndim < 2:
        raise ValueError(f"matrix_transpose: expected an array of at least 2 dimensions, got {x.ndim}")
    return x.mT


def tensordot(x1: Tensor, x2: Tensor, /, *, axes: int | tuple[Sequence[int], Sequence[int]] = 2) -> Tensor:
    """The sum of products over several axes of both arrays."""
    dtype = numod.promote_types(x1.dtype, x2.dtype)
    return numod.tensordot(x1.to(dtype), x2.to(dtype), dims=axes)


def vecdot(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The dot product along an axis, of x1's conjugate with x2."""
    dtype = numod.promote_types(x1.dtype, x2.dtype)
    if x1.shape[axis] != x2.shape[axis]:
        raise ValueError(f"vecdot: axis {axis} has {x1.shape[axis]} and {x2.shape[axis]} elements")
    return numod.linalg.vecdot(*numod.broadcast_tensors(x1.to(dtype), x2.to(dtype)), dim=axis).to(dtype)


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Tensor:
    """The cross product of vectors of three elements along an axis."""
    dtype = numod.promote_types(x1.dtype, x2.dtype)
    return numod.linalg.cross(*numod.broadcast_tensors(x1.to(dtype), x2.to(dtype)), dim=axis)


def outer(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The products of all pairs of elements of two vectors."""
    return numod.outer(x1, x2)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Tensor:
    """The diagonals of matrices."""
    return numod.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Tensor:
    """The sums of the diagonals of matrices, in the dtype of `sum`."""
    return statistics.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def cholesky(x: Tensor, /, *, upper: bool = False) -> Tensor:
    """The triangular factor of positive definite matrices."""
    return numod.linalg.cholesky(x, upper=upper)


def qr(x: Tensor, /, *, mode: str = "reduced") -> Any:
    """The factors Q and R."""
    return numod.linalg.qr(x, mode)


def svd(x: Tensor, /, *, full_matrices: bool = True) -> Any:
    """The singular value decomposition (U, S, Vh)."""
    return numod.linalg.svd(x, full_matrices=full_matrices)


def solve(x1: Tensor, x2: Tensor, /) -> Tensor:
    """The solution of x1 @ x = x2; x2 is a vector only if it has one dimension."""
    if x2.ndim == 1:
        return numod.linalg.solve(x1, x2[:, None])[..., 0]
    shape = numod.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    return numod.linalg.solve(x1.expand(*shape, *x1.shape[-2:]), x2.expand(*shape, *x2.shape[-2:]))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: Any = "fro") -> Tensor:
    """The norms of matrices."""
    return numod.linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_rank(x: Tensor, /, *, rtol: Any = None) -> Tensor:
    """The numbers of singular values above `rtol` times the largest."""
    return numod.linalg.matrix_rank(x, rtol=rtol)


def vector_norm(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False, ord: float = 2) -> Tensor:
    """The norms of vectors along the axes."""
    return numod.linalg.vector_norm(x, ord, axis, keepdims)
