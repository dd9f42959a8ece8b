"""Linear algebra, under PyTorch's names in `numod.linalg`: factorisations are ops of LAPACK, the rest is composed of them."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf as infinity

import numpy as np

from .. import dtypes
from ..errors import LinAlgError
from ..ops import factorization as op
from . import reductions, return_types
from .contractions import chain_matmul, cross as vector_product
from .creation import eye, from_numpy, full, tensor
from .elementwise import contiguous, where
from .products import matmul
from .shapes import movedim, reshape, squeeze, stack, transpose, unsqueeze
from .tensor import Tensor
from .triangles import tril, triu


def _square(name: str, a: Tensor) -> Tensor:
    if a.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if a.shape[-1] != a.shape[-2]:
        raise RuntimeError(f"linalg.{name}: A must be batches of square matrices, but they are {a.shape[-2]} by {a.shape[-1]} matrices")
    return contiguous(a)


def _matrix(name: str, a: Tensor) -> Tensor:
    if a.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    return contiguous(a)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices (..., N, N). Raises LinAlgError for singular ones."""
    return op.inv.apply((_square("inv", A),))


def det(A: Tensor) -> Tensor:
    """Determinants of square matrices."""
    return op.det.apply((_square("det", A),))


def slogdet(A: Tensor) -> tuple[Tensor, Tensor]:
    """(sign, logarithm of the absolute value) of determinants."""
    return return_types.slogdet(op.slogdet.apply((_square("slogdet", A),)))


def logdet(A: Tensor) -> Tensor:
    """The logarithm of determinants; NaN where they are negative."""
    sign, value = slogdet(A)
    return value + where(sign < 0, full((), float("nan"), dtype=A.dtype), 0.0)


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B where not `left`. B is (..., N, K) or vectors (..., N). Raises LinAlgError for singular A."""
    a = _square("solve", A)
    if not left:
        return solve(A.mT, B.mT).mT
    vectors = B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))
    b = unsqueeze(B, -1) if vectors else B
    if b.ndim < 2 or b.shape[-2] != a.shape[-1]:
        raise RuntimeError(f"linalg.solve: Incompatible shapes of A and B for the equation AX = B ({list(A.shape)} and {list(B.shape)})")
    result = op.solve.apply((a, contiguous(b)))
    return squeeze(result, -1) if vectors else result


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B (or X A = B) for a triangular A, whose other triangle is not read."""
    a = _square("solve_triangular", A)
    if not left:
        return solve_triangular(A.mT, B.mT, upper=not upper, unitriangular=unitriangular).mT
    if B.shape[-2] != a.shape[-1]:
        raise RuntimeError(f"linalg.solve_triangular: Incompatible shapes of A and B for the equation AX = B ({list(A.shape)} and {list(B.shape)})")
    return op.solve_triangular.apply((a, contiguous(B)), (bool(upper), bool(unitriangular)))


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower L with L L^T = A (or upper), for symmetric positive-definite A. Raises LinAlgError for others."""
    found = op.cholesky.apply((_square("cholesky", A),))
    return found.mT if upper else found


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> tuple[Tensor, Tensor]:
    """(L, info): info is 0, or 1 where a matrix is not positive-definite (then L is NaN), unless `check_errors` raises."""
    try:
        found = cholesky(A, upper=upper)
    except LinAlgError:
        if check_errors:
            raise
        return return_types.cholesky_ex((full(A.shape, float("nan"), dtype=A.dtype), full(A.shape[:-2], 1, dtype=dtypes.int32)))
    return return_types.cholesky_ex((found, full(A.shape[:-2], 0, dtype=dtypes.int32)))


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, for the Cholesky factor of A."""
    lower = L.mT if upper else L
    return solve_triangular(lower.mT, solve_triangular(lower, B, upper=False), upper=True)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, from its Cholesky factor."""
    return cholesky_solve(eye(L.shape[-1], dtype=L.dtype).expand(L.shape), L, upper)


def qr(A: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """(Q, R): Q orthonormal columns, R upper triangular; `mode` "reduced", "complete" or "r"."""
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'")
    q, r = op.qr.apply((_matrix("qr", A),), (mode == "complete",))
    return return_types.qr((A.new_zeros(0) if mode == "r" else q, r))


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, Vh) with A = U diag(S) Vh, S falling."""
    return return_types.linalg_svd(op.svd.apply((_matrix("svd", A),), (bool(full_matrices),)))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values, falling."""
    return svd(A, False)[1]


def eigh(A: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """(eigenvalues rising, eigenvectors as columns) of symmetric matrices, of which the triangle `UPLO` is read."""
    if UPLO.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {UPLO}")
    return return_types.linalg_eigh(op.eigh.apply((_square("eigh", A),), (UPLO.upper() == "L",)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices, rising."""
    return eigh(A, UPLO)[0]


def lu_factor(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor]:
    """(L and U in one matrix, rows exchanged counted from 1), for `lu_solve`."""
    lu, pivots = op.lu.apply((_matrix("lu_factor", A),))
    return return_types.linalg_lu_factor((lu, pivots.to(dtypes.int32)))


def lu(A: Tensor, *, pivot: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(P, L, U) with A = P L U."""
    packed, pivots = lu_factor(A)
    rows, columns = A.shape[-2:]
    k = min(rows, columns)
    lower = tril(packed[..., :, :k], -1) + eye(rows, k, dtype=A.dtype)
    flat = [_permutation(each, rows, A) for each in reshape(pivots, (-1, k)).tolist()]
    return return_types.linalg_lu((reshape(stack(flat, 0), (*A.shape[:-2], rows, rows)), lower, triu(packed[..., :k, :])))


def _permutation(exchanged: list[int], rows: int, like: Tensor) -> Tensor:
    """The matrix P of rows exchanged one after the other."""
    order = list(range(rows))
    for k, other in enumerate(exchanged):
        order[k], order[other - 1] = order[other - 1], order[k]
    return transpose(eye(rows, dtype=like.dtype).index_select(0, tensor(order, dtype=dtypes.int64)), 0, 1)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B, from `lu_factor` of A."""
    rows = LU.shape[-1]
    flat = [_permutation(each, rows, LU) for each in reshape(pivots, (-1, rows)).tolist()]
    order = reshape(stack(flat, 0), (*LU.shape[:-2], rows, rows))
    a = matmul(order, matmul(tril(LU, -1) + eye(rows, dtype=LU.dtype), triu(LU)))
    return solve(a.mT if adjoint else a, B, left=left)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """(solution, residuals, rank, singular values) of the least |A X - B|, by the pseudoinverse."""
    a, vectors = _matrix("lstsq", A), B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1])
    b = unsqueeze(B, -1) if vectors else B
    solution = matmul(pinv(a, rtol=rcond), b)
    empty = A.new_zeros(0)
    rest = matmul(a, solution) - b
    residuals = reductions.sum(rest * rest, -2) if a.shape[-2] > a.shape[-1] else empty
    return return_types.linalg_lstsq((squeeze(solution, -1) if vectors else solution, squeeze(residuals, -1) if vectors and residuals.numel() else residuals, matrix_rank(a), empty))


def pinv(A: Tensor, *, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """The Moore-Penrose inverse; singular values below the tolerance count as 0."""
    u, s, vh = svd(_matrix("pinv", A), False)
    limit = _tolerance(A, s, atol, rtol)
    return matmul(vh.mT * unsqueeze(where(s > limit, 1 / where(s > limit, s, s.new_ones(())), s.new_zeros(())), -2), u.mT)


def _tolerance(A: Tensor, s: Tensor, atol: float | None, rtol: float | None) -> Tensor:
    default = 0.0 if atol is not None and atol > 0 else max(A.shape[-2:]) * dtypes.finfo(A.dtype).eps
    greatest = reductions.amax(s.detach(), -1, keepdim=True) if s.shape[-1] else s
    return (greatest * (default if rtol is None else rtol)).clamp_min(atol or 0.0)


def matrix_rank(A: Tensor, *, tol: float | None = None, atol: float | None = None, rtol: float | None = None, hermitian: bool = False) -> Tensor:
    """How many singular values exceed the tolerance."""
    s = svdvals(A)
    return reductions.sum((s > _tolerance(A, s, tol if atol is None else atol, 0.0 if tol is not None else rtol)).to(dtypes.int64), -1)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A multiplied n times; its inverse for negative n."""
    a = _square("matrix_power", A)
    if n < 0:
        return matrix_power(inv(a), -n)
    result = eye(a.shape[-1], dtype=a.dtype).expand(a.shape).clone()
    while n:
        result = matmul(result, a) if n & 1 else result
        a, n = (matmul(a, a) if n > 1 else a), n >> 1
    return result


def matrix_exp(A: Tensor) -> Tensor:
    """1 + A + A^2 / 2! + ..., by scaling and squaring. Higham, 2005."""
    a = _square("matrix_exp", A)
    size = float(reductions.amax(reductions.sum(a.detach().abs(), -2))) if a.numel() else 0.0
    halvings = 0
    while size > 0.25:
        size, halvings = size / 2, halvings + 1
    a = a * 0.5**halvings
    identity = eye(a.shape[-1], dtype=a.dtype).expand(a.shape)
    result = identity
    for k in range(13 if a.dtype is dtypes.float64 else 9, 0, -1):
        result = identity + matmul(a, result) / k
    for _ in range(halvings):
        result = matmul(result, result)
    return result


def vector_norm(x: Tensor, ord: float = 2, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None) -> Tensor:  # noqa: A002
    """(sum of |x| ** ord) ** (1 / ord); greatest and least of |x| for inf and -inf, how many are not 0 for ord 0."""
    x = x if dtype is None else x.to(dtype)
    if not x.is_floating_point():
        raise RuntimeError(f"linalg.vector_norm: Expected a floating point tensor as input. Got {x.dtype}")
    if dim is None:
        result = reductions.norm(reshape(x, -1), ord, 0, False)
        return reshape(result, (1,) * x.ndim) if keepdim else result
    return reductions.norm(x, ord, dim, keepdim)


def matrix_norm(A: Tensor, ord: float | str = "fro", dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, dtype: dtypes.dtype | None = None) -> Tensor:  # noqa: A002
    """Norms of matrices: "fro", "nuc", 1, -1, 2, -2, inf, -inf."""
    a = _matrix("matrix_norm", A if dtype is None else A.to(dtype))
    first, second = (d % a.ndim for d in dim)
    if first == second:
        raise RuntimeError("linalg.matrix_norm: dims must be different. Got " + str(tuple(dim)))
    if ord in ("fro", "f"):
        return vector_norm(a, 2, (first, second), keepdim)
    moved = movedim(a, (first, second), (-2, -1))
    if ord == "nuc" or (isinstance(ord, (int, float)) and abs(ord) == 2):
        s = svdvals(moved)
        result = reductions.sum(s, -1) if ord == "nuc" else reductions.amax(s, -1) if ord > 0 else reductions.amin(s, -1)
    elif isinstance(ord, (int, float)) and abs(ord) in (1, infinity):
        sums = reductions.sum(moved.abs(), -2 if abs(ord) == 1 else -1)
        result = reductions.amax(sums, -1) if ord > 0 else reductions.amin(sums, -1)
    else:
        raise RuntimeError(f"linalg.matrix_norm: Order {ord} not supported.")
    for d in sorted((first, second)) if keepdim else ():
        result = unsqueeze(result, d)
    return result


def norm(A: Tensor, ord: float | str | None = None, dim: int | Sequence[int] | None = None, keepdim: bool = False, *, dtype: dtypes.dtype | None = None) -> Tensor:  # noqa: A002
    """A vector norm, or a matrix norm where two dimensions are meant."""
    if ord is None:
        return vector_norm(A, 2, dim, keepdim, dtype=dtype)
    if isinstance(ord, str) or (dim is None and A.ndim == 2) or (not isinstance(dim, int) and dim is not None and len(dim) == 2):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dim, keepdim, dtype=dtype)
    return vector_norm(A, ord, dim, keepdim, dtype=dtype)


def cond(A: Tensor, p: float | str | None = None) -> Tensor:
    """|A| |A^-1| in a norm; by default the ratio of the greatest and least singular value."""
    if p is None or p in (2, -2):
        s = svdvals(A)
        ratio = s[..., 0] / s[..., -1]
        return 1 / ratio if p == -2 else ratio
    return matrix_norm(A, p) * matrix_norm(inv(A), p)


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices (the first and last may be vectors), in the order that costs least."""
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = unsqueeze(parts[0], 0) if first else parts[0]
    parts[-1] = unsqueeze(parts[-1], 1) if last else parts[-1]
    result = chain_matmul(*parts)
    result = squeeze(result, -1) if last else result
    return squeeze(result, 0) if first else result


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of reflections 1 - tau v v^T, with v below the diagonal of A."""
    rows, columns = A.shape[-2:]
    result = eye(rows, columns, dtype=A.dtype).expand(A.shape).clone()
    low = tril(A, -1) + eye(rows, columns, dtype=A.dtype)
    for k in range(tau.shape[-1] - 1, -1, -1):
        v = low[..., :, k : k + 1]
        result = result - tau[..., k : k + 1].unsqueeze(-1) * matmul(v, matmul(v.mT, result))
    return result


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of each element, (..., n, N)."""
    n = x.shape[-1] if N is None else N
    return stack([x**k for k in range(n)], -1)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Sums of products along a dimension."""
    return reductions.sum(x * y, dim)


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:  # noqa: A002
    """The vector product along a dimension of size 3."""
    return vector_product(input, other, dim)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A seen as a matrix of its first `ind` dimensions by the others."""
    rows = 1
    for n in A.shape[:ind]:
        rows *= n
    if ind <= 0 or rows * rows != A.numel():
        raise RuntimeError(f"Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), with ind > 0, but got shape {list(A.shape)} and ind {ind}")
    return reshape(inv(reshape(A, (rows, rows))), (*A.shape[ind:], *A.shape[:ind]))


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B."""
    a = A if dims is None else movedim(A, list(dims), list(range(A.ndim - len(dims), A.ndim)))
    shape = a.shape[B.ndim :]
    return reshape(solve(reshape(a, (B.numel(), -1)), reshape(B, -1)), shape)


def eig(A: Tensor) -> tuple[Tensor, Tensor]:
    """(eigenvalues, eigenvectors) of matrices whose eigenvalues are real. RuntimeError for others: numod has no complex dtypes."""
    values, vectors = np.linalg.eig(_square("eig", A).detach().numpy())
    if np.iscomplexobj(values) and np.abs(values.imag).max() > 0:
        raise RuntimeError("linalg.eig: the matrix has complex eigenvalues, and numod has no complex dtypes; for symmetric matrices use linalg.eigh")
    return return_types.linalg_eig((from_numpy(np.ascontiguousarray(values.real)), from_numpy(np.ascontiguousarray(vectors.real))))


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of `eig`."""
    return eig(A)[0]


def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> tuple[Tensor, Tensor, Tensor]:  # noqa: A002
    """(U, S, V) with input = U diag(S) V^T: the older form, `numod.svd`."""
    u, s, vh = svd(input, not some)
    return return_types.svd((u, s, vh.mT) if compute_uv else (input.new_zeros(input.shape[-2:-1] * 2), s, input.new_zeros(input.shape[-1:] * 2)))


def old_qr(input: Tensor, some: bool = True) -> tuple[Tensor, Tensor]:  # noqa: A002
    """(Q, R): the older form, `numod.qr`."""
    return qr(input, "reduced" if some else "complete")


def old_cholesky(input: Tensor, upper: bool = False) -> Tensor:  # noqa: A002
    """The Cholesky factor: the older form, `numod.cholesky`."""
    return cholesky(input, upper=upper)


BOTH = "inverse=inv det logdet slogdet pinverse=pinv matrix_power matrix_exp cholesky=old_cholesky cholesky_solve cholesky_inverse qr=old_qr svd=old_svd orgqr=householder_product"
