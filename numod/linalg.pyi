# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .device.layout import Size as _Size
from .device.device import Device as _device
from .dtypes import dtype as _dtype
from .formats import layout as _layout, memory_format as _memory_format
from .core import return_types
from .core.tensor import Tensor
from .errors import LinAlgError as LinAlgError

@overload
def cholesky(A: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor:
    """The lower L with L L^T = A (or upper, its transpose), for symmetric positive-definite A."""
@overload
def cholesky(input: Tensor, *, upper: _bool = False, out: Tensor | None = None) -> Tensor:
    """The lower L with L L^T = A (or upper, its transpose), for symmetric positive-definite A."""
@overload
def cholesky_ex(A: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Tensor | None = None) -> return_types.linalg_cholesky_ex:
    """(L, info): info is 0, or the order of the first leading minor that is not positive, unless `check_errors` raises."""
@overload
def cholesky_ex(input: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> return_types.linalg_cholesky_ex:
    """(L, info): info is 0, or the order of the first leading minor that is not positive, unless `check_errors` raises."""
@overload
def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number |A| |A^-1|; by default the ratio of the largest and smallest singular value."""
@overload
def cond(input: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """The condition number |A| |A^-1|; by default the ratio of the largest and smallest singular value."""
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """The cross product along a dimension of size 3."""
def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants of square matrices."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
    """The diagonals of matrices, as the last dimension of a view."""
@overload
def eig(A: Tensor, *, out: Tensor | None = None) -> return_types.linalg_eig:
    """(eigenvalues, eigenvectors as columns, of length 1), complex also where the matrix is real."""
@overload
def eig(input: Tensor, *, out: Sequence[Tensor] | None = None) -> return_types.linalg_eig:
    """(eigenvalues, eigenvectors as columns, of length 1), complex also where the matrix is real."""
@overload
def eigh(A: Tensor, UPLO: str = 'L', *, out: Tensor | None = None) -> return_types.linalg_eigh:
    """(eigenvalues in ascending order, eigenvectors as columns) of symmetric matrices; only triangle `UPLO` is read."""
@overload
def eigh(input: Tensor, UPLO: str = 'L', *, out: Sequence[Tensor] | None = None) -> return_types.linalg_eigh:
    """(eigenvalues in ascending order, eigenvectors as columns) of symmetric matrices; only triangle `UPLO` is read."""
@overload
def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of `eig`."""
@overload
def eigvals(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of `eig`."""
@overload
def eigvalsh(A: Tensor, UPLO: str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order."""
@overload
def eigvalsh(input: Tensor, UPLO: str = 'L', *, out: Tensor | None = None) -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order."""
@overload
def householder_product(A: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of Householder reflections 1 - tau v v^H, with v below the diagonal of A."""
@overload
def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of Householder reflections 1 - tau v v^H, with v below the diagonal of A."""
def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The inverse of square matrices (..., N, N). Raises LinAlgError for singular ones."""
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_inv_ex:
    """(inverse, info): info is 0, or the position of the first zero pivot, for which `check_errors` raises instead."""
@overload
def ldl_factor(A: Tensor, *, hermitian: _bool = False, out: Tensor | None = None) -> return_types.linalg_ldl_factor:
    """(LD, pivots) with A = P L D L^T P^T:"""
@overload
def ldl_factor(input: Tensor, *, hermitian: _bool = False, out: Sequence[Tensor] | None = None) -> return_types.linalg_ldl_factor:
    """(LD, pivots) with A = P L D L^T P^T:"""
@overload
def ldl_factor_ex(A: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Tensor | None = None) -> return_types.linalg_ldl_factor_ex:
    """(LD, pivots, info) of symmetric matrices, whose lower triangles are read:"""
@overload
def ldl_factor_ex(input: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Sequence[Tensor] | None = None) -> return_types.linalg_ldl_factor_ex:
    """(LD, pivots, info) of symmetric matrices, whose lower triangles are read:"""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B, from `ldl_factor` of A."""
@overload
def lstsq(A: Tensor, B: Tensor, rcond: _float | None = None, *, driver: str | None = None) -> return_types.linalg_lstsq:
    """(solution, residuals, rank, singular values) of the least-squares problem |A X - B|."""
@overload
def lstsq(input: Tensor, b: Tensor, rcond: _float | None = None, *, driver: str | None = None, out: Sequence[Tensor] | None = None) -> return_types.linalg_lstsq:
    """(solution, residuals, rank, singular values) of the least-squares problem |A X - B|."""
def lu(A: Tensor, *, pivot: _bool = True, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_lu:
    """(P, L, U) with A = P L U; without `pivot`, P is empty."""
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Sequence[Tensor] | None = None) -> return_types.linalg_lu_factor:
    """(L and U in one matrix, pivots counted from 1), for `lu_solve`."""
def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_lu_factor_ex:
    """(L and U in one matrix, pivots counted from 1, info): info is 0, or the position of the first zero on the diagonal of U."""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B (X A = B where not `left`), or with A^H, from `lu_factor` of A."""
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Product with PyTorch's broadcasting:"""
@overload
def matrix_exp(A: Tensor) -> Tensor:
    """1 + A + A^2 / 2! + ..., by scaling, a Padé approximant and squaring."""
@overload
def matrix_exp(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """1 + A + A^2 / 2! + ..., by scaling, a Padé approximant and squaring."""
@overload
def matrix_norm(A: Tensor, ord: Any = 'fro', dim: Sequence[_int] = ..., keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf."""
@overload
def matrix_norm(input: Tensor, ord: str = 'fro', dim: Sequence[_int] = ..., keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """Norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf."""
@overload
def matrix_power(A: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """A to the n-th power; of its inverse for negative n."""
@overload
def matrix_power(input: Tensor, n: _int, *, out: Tensor | None = None) -> Tensor:
    """A to the n-th power; of its inverse for negative n."""
@overload
def matrix_rank(A: Tensor, *, atol: Tensor | None = None, rtol: Tensor | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """How many singular values exceed max(atol, rtol * the greatest); `tol` is an older name for atol alone."""
@overload
def matrix_rank(input: Tensor, *, atol: Tensor | None | _float = None, rtol: Tensor | None | _float = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """How many singular values exceed max(atol, rtol * the greatest); `tol` is an older name for atol alone."""
@overload
def matrix_rank(input: Tensor, tol: _float | Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """How many singular values exceed max(atol, rtol * the greatest); `tol` is an older name for atol alone."""
def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of matrices (the first and last may be vectors), multiplied in the cheapest order."""
def norm(input: Tensor, ord: Any = None, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """A vector norm, or a matrix norm if two dimensions and `ord` are given."""
@overload
def pinv(A: Tensor, *, atol: _float | None = None, rtol: _float | None = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the greatest) count as 0."""
@overload
def pinv(input: Tensor, *, atol: Tensor | None | _float = None, rtol: Tensor | None | _float = None, hermitian: _bool = False, out: Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the greatest) count as 0."""
@overload
def pinv(input: Tensor, rcond: _float | Tensor, hermitian: _bool = False, *, out: Tensor | None = None) -> Tensor:
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the greatest) count as 0."""
def qr(A: Tensor, mode: str = 'reduced', *, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_qr:
    """(Q, R): Q orthonormal columns, R upper triangular; `mode` "reduced", "complete", or "r" for R alone."""
def slogdet(A: Tensor, *, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_slogdet:
    """(sign, logarithm of the absolute value) of determinants."""
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Tensor | None = None) -> Tensor:
    """X with A X = B, or X A = B if not `left`."""
def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_solve_ex:
    """(X, info): info is 0, or the position of the first zero pivot of A, for which `check_errors` raises instead."""
@overload
def solve_triangular(A: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B (or X A = B) for a triangular A; the other triangle is not read."""
@overload
def solve_triangular(input: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Tensor | None = None) -> Tensor:
    """X with A X = B (or X A = B) for a triangular A; the other triangle is not read."""
def svd(A: Tensor, full_matrices: _bool = True, *, driver: str | None = None, out: Tensor | None | Sequence[Tensor] = None) -> return_types.linalg_svd:
    """(U, S, Vh) with A = U diag(S) Vh, S in descending order."""
def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """Singular values in descending order."""
def tensordot(a: Any, b: Any, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Contract the last `dims` dimensions of a with the first of b, or the two lists of dimensions in `dims`."""
@overload
def tensorinv(A: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A seen as a matrix of its first `ind` dimensions by the others."""
@overload
def tensorinv(input: Tensor, ind: _int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse of A seen as a matrix of its first `ind` dimensions by the others."""
@overload
def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B."""
@overload
def tensorsolve(input: Tensor, other: Tensor, dims: Sequence[_int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B."""
def vander(x: Tensor, N: _int | None = None) -> Tensor:
    """Powers 0 to N - 1 of each element, (..., n, N); by default as many as elements."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Tensor | None = None) -> Tensor:
    """The dot product along a dimension, of complex vectors with x conjugated."""
@overload
def vector_norm(x: Tensor, ord: Any = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord); max and min of |x| for inf and -inf, the number of nonzeros for 0."""
@overload
def vector_norm(input: Tensor, ord: Any = 2, dim: _int | Sequence[_int] | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Tensor | None = None) -> Tensor:
    """(sum of |x| ** ord) ** (1 / ord); max and min of |x| for inf and -inf, the number of nonzeros for 0."""
