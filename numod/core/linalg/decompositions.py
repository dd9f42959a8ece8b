"""Matrix decompositions: Cholesky, QR, singular values, eigenvalues, LU.

The ops are in `ops.linalg.factorization`, solvers in `linear_algebra`.
"""

from __future__ import annotations

from collections.abc import Callable

from ... import dtypes
from ...errors import LinAlgError, warn_deprecated
from ...ops.linalg import factorization as op, gradients  # noqa: F401  gives the ops their gradients
from ...ops.pointwise import broadcast_shapes
from ...ops.linalg.triangular_solve import solve_triangular
from .. import return_types
from ..apply import without_derivative
from ..create.creation import eye, full, zeros
from ..convert.copies import contiguous
from .products import matmul
from ..create.ranges import arange
from ..math.reductions import any_ as any_of
from ..shape.joining import stack
from ..shape.shapes import expand, reshape, unsqueeze
from ..tensor import Tensor
from ..shape.triangles import tril, triu

BOTH = "cholesky=old_cholesky qr=old_qr svd=old_svd geqrf ormqr orgqr=householder_product"
FUNCTIONS = "lu=old_lu lu_unpack"
METHODS = "lu=old_lu"
OUT = "lu lu_unpack cholesky qr svd geqrf ormqr orgqr"
_OF_REAL = ("ldl_factor_ex", "ldl_solve")


def expect_matrix(name: str, A: Tensor) -> Tensor:
    """`x` as a contiguous batch of matrices. Raises RuntimeError for other shapes and dtypes."""
    if A.ndim < 2:
        raise RuntimeError(f"linalg.{name}: The input tensor A must have at least 2 dimensions.")
    if A.is_complex() and name in _OF_REAL:
        raise NotImplementedError(f"linalg.{name}: there is no form for complex matrices; try linalg.solve")
    if not A.dtype.differentiable:
        # as PyTorch, whose checks differ from one function to the next
        error = (
            NotImplementedError
            if name in ("eigh", "lu", "lu_factor_ex", "solve_triangular", "householder_product")
            else RuntimeError
        )
        raise error(f"linalg.{name}: Expected a floating point or complex tensor as input. Got {A.dtype.short}")
    if A.dtype.itemsize < 4:
        error = (
            RuntimeError
            if name in ("inv", "slogdet", "pinv", "matrix_norm", "matrix_rank", "lstsq")
            else NotImplementedError
        )
        raise error(
            f"linalg.{name}: Low precision dtypes not supported. Got {A.dtype.short}; convert first, for example with "
            ".float()"
        )
    return contiguous(A)


def expect_square(name: str, A: Tensor) -> Tensor:
    """`x` as a contiguous batch of square matrices. Raises RuntimeError for others."""
    if A.ndim >= 2 and A.shape[-1] != A.shape[-2]:
        raise RuntimeError(
            f"linalg.{name}: A must be batches of square matrices, but they are {A.shape[-2]} by {A.shape[-1]} matrices"
        )
    return expect_matrix(name, A)


def attempt(function: Callable, check_errors: bool, *tensors: Tensor) -> tuple[Tensor, Tensor]:
    """(result, info): a matrix that cannot be factored has NaN as its result and its position in `info`; with
    `check_errors` it raises.
    """
    first, last = tensors[0], tensors[-1]
    try:
        return function(*tensors), zeros(first.shape[:-2], dtype=dtypes.int32, device=first.device)
    except LinAlgError as error:
        if check_errors:
            raise
        if first.ndim == 2:
            return full(last.shape, float("nan"), dtype=last.dtype, device=last.device), full(
                (), error.info, dtype=dtypes.int32, device=last.device
            )
        results, infos = zip(
            *(attempt(function, False, *parts) for parts in zip(*(tensor.unbind(0) for tensor in tensors)))
        )
        return stack(results), stack(infos)


def cholesky(A: Tensor, *, upper: bool = False) -> Tensor:
    """The lower L with L L^T = A (or upper, its transpose), for symmetric positive-definite A.

    Raises LinAlgError for others.

    Example:

        >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    factor = op.cholesky.apply((expect_square("cholesky", A.mH if upper and A.ndim > 1 else A),))
    return factor.mH if upper else factor


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False) -> return_types.linalg_cholesky_ex:
    """(L, info): info is 0, or the order of the first leading minor that is not positive, unless `check_errors`
    raises.

    Example:

        >>> torch.linalg.cholesky_ex(torch.tensor([[4.0]]))
        numod.return_types.linalg_cholesky_ex(
        L=tensor([[2.]]),
        info=tensor(0, dtype=numod.int32))
    """
    return return_types.linalg_cholesky_ex(attempt(lambda a: cholesky(a, upper=upper), check_errors, A))


def qr(A: Tensor, mode: str = "reduced") -> return_types.linalg_qr:
    """(Q, R): Q orthonormal columns, R upper triangular; `mode` "reduced", "complete", or "r" for R alone.

    Example:

        >>> q, r = torch.linalg.qr(torch.ones(3, 2))
        >>> q.shape, r.shape
        (numod.Size([3, 2]), numod.Size([2, 2]))
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or 'complete'"
        )
    return return_types.linalg_qr(op.qr.apply((expect_matrix("qr", A),), (mode,)))


def geqrf(input: Tensor) -> return_types.geqrf:
    """(a, tau):

    R on and above the diagonal, the Householder vectors of Q below it, and their scales; `householder_product` computes
    Q.

    Example:

        >>> torch.geqrf(torch.tensor([[3.0], [4.0]])).a
        tensor([[-5.0000],
                [ 0.5000]])
    """
    packed, tau = op.geqrf.apply((expect_matrix("geqrf", input.detach()),))
    return return_types.geqrf((without_derivative("geqrf", packed, input), without_derivative("geqrf", tau, input)))


def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first columns of the product of Householder reflections 1 - tau v v^H, with v below the diagonal of A.

    Example:

        >>> torch.linalg.householder_product(*torch.geqrf(torch.tensor([[3.0], [4.0]]))).abs()
        tensor([[0.6000],
                [0.8000]])
    """
    rows, columns = expect_matrix("householder_product", A).shape[-2:]
    if rows < columns:
        raise RuntimeError(
            "linalg.householder_product: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if columns < tau.shape[-1]:
        raise RuntimeError("linalg.householder_product: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    return _reflected(A, tau, eye(rows, columns, dtype=A.dtype, device=A.device).expand(A.shape), False)


def ormqr(input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q @ other (or other @ Q), with Q, all its columns, from `geqrf`; or with Q^H.

    Example:

        >>> torch.ormqr(*torch.geqrf(torch.eye(2)), torch.ones(2, 1)).abs()
        tensor([[1.],
                [1.]])
    """
    if input.ndim < 2 or other.ndim < 2:
        raise RuntimeError(f"ormqr: {'input' if input.ndim < 2 else 'other'} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] > min(input.shape[-2:]):
        raise RuntimeError(f"ormqr: other.shape[{side}] must be greater than or equal to tau.shape[-1]")
    return _reflected(input, tau, other, transpose) if left else _reflected(input, tau, other.mH, not transpose).mH


def _reflected(A: Tensor, tau: Tensor, x: Tensor, transposed: bool) -> Tensor:
    """Multiply x (..., rows, n) by reflections: x - V T V^H x with (1 + D S) T = D.

    D is diag(tau), S is V^H V above its diagonal.

    Joffrain and others, Accumulating Householder transformations, revisited, 2006.
    """
    if tau.dtype is not A.dtype or x.dtype is not A.dtype:
        raise RuntimeError(
            f"reflections and the matrix they are applied to must have the same dtype, got input {A.dtype.short}, tau "
            f"{tau.dtype.short} and other {x.dtype.short}"
        )
    rows, count = A.shape[-2], tau.shape[-1]
    v, scale = tril(A[..., :count], -1) + eye(rows, count, dtype=A.dtype, device=A.device), unsqueeze(tau, -1)
    part = matmul(v.mH, x)
    inner = expand(scale * matmul(v.mH, v), (*part.shape[:-2], count, count))  # whose triangle alone is read
    solved = solve_triangular.apply(
        (contiguous(inner.mH if transposed else inner), contiguous(part if transposed else scale * part)),
        (not transposed, True),
    )
    return x - matmul(v, scale.conj() * solved if transposed else solved)


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> return_types.linalg_svd:
    """(U, S, Vh) with A = U diag(S) Vh, S in descending order.

    Example:

        >>> u, s, vh = torch.linalg.svd(torch.ones(3, 2), full_matrices=False)
        >>> u.shape, s.shape, vh.shape
        (numod.Size([3, 2]), numod.Size([2]), numod.Size([2, 2]))
    """
    return return_types.linalg_svd(op.svd.apply((expect_matrix("svd", A),), (bool(full_matrices),)))


def svdvals(A: Tensor, *, driver: str | None = None) -> Tensor:
    """Singular values in descending order.

    Example:

        >>> torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor([4., 3.])
    """
    return op.svdvals.apply((expect_matrix("svdvals", A),))


def eigh(A: Tensor, UPLO: str = "L") -> return_types.linalg_eigh:
    """(eigenvalues in ascending order, eigenvectors as columns) of symmetric matrices; only triangle `UPLO` is read.

    Example:

        >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        tensor([2., 3.])
    """
    return return_types.linalg_eigh(op.eigh.apply(*_one_triangle(A, UPLO)))


def eigvalsh(A: Tensor, UPLO: str = "L") -> Tensor:
    """Eigenvalues of symmetric matrices in ascending order.

    Example:

        >>> torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
        tensor([1., 3.])
    """
    return op.eigvalsh.apply(*_one_triangle(A, UPLO))


def _one_triangle(A: Tensor, uplo: str) -> tuple[tuple, tuple]:
    """Inputs and attributes of the ops of symmetric matrices."""
    if uplo.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {uplo}")
    return (expect_square("eigh", A),), (uplo.upper() == "L",)


def eig(A: Tensor) -> return_types.linalg_eig:
    """(eigenvalues, eigenvectors as columns, of length 1), complex also where the matrix is real.

    Example:

        >>> torch.linalg.eig(torch.tensor([[2.0, 0.0], [0.0, 3.0]])).eigenvalues
        tensor([2.+0.j, 3.+0.j])
    """
    return return_types.linalg_eig(op.eig.apply((expect_square("eig", A),)))


def eigvals(A: Tensor) -> Tensor:
    """The eigenvalues of `eig`.

    Example:

        >>> torch.linalg.eigvals(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor([2.+0.j, 3.+0.j])
    """
    return eig(A)[0]


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False) -> return_types.linalg_lu_factor_ex:
    """(L and U in one matrix, pivots counted from 1, info): info is 0, or the position of the first zero on the
    diagonal of U.

    Example:

        >>> torch.linalg.lu_factor_ex(torch.tensor([[2.0, 1.0], [4.0, 3.0]])).info
        tensor(0, dtype=numod.int32)
    """
    packed, pivots, info, _ = op.lu.apply((expect_matrix("lu_factor_ex", A),), (bool(pivot),))
    if check_errors and any_of(info)._observe():
        position = next(code for code in reshape(info, -1).tolist() if code)
        raise LinAlgError(
            f"linalg.lu_factor_ex: U[{position},{position}] is zero and using it on lu_solve would result in a "
            "division by zero."
        )
    return return_types.linalg_lu_factor_ex((packed, pivots, info))


def lu_factor(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu_factor:
    """(L and U in one matrix, pivots counted from 1), for `lu_solve`.

    Raises RuntimeError if U has a zero on its diagonal.

    Example:

        >>> torch.linalg.lu_factor(torch.tensor([[2.0, 1.0], [4.0, 3.0]])).LU
        tensor([[ 4.0000,  3.0000],
                [ 0.5000, -0.5000]])
    """
    try:
        return return_types.linalg_lu_factor(lu_factor_ex(A, pivot=pivot, check_errors=True)[:2])
    except LinAlgError as error:
        hint = (
            " If you still want to perform the factorization, consider calling linalg.lu(A, pivot) or "
            "linalg.lu_factor_ex(A, pivot)"
        )
        raise RuntimeError(str(error).replace("lu_factor_ex", "lu_factor") + hint) from None


def ldl_factor_ex(
    A: Tensor, *, hermitian: bool = False, check_errors: bool = False
) -> return_types.linalg_ldl_factor_ex:
    """(LD, pivots, info) of symmetric matrices, whose lower triangles are read:

    L below the block-diagonal D. info is 0, or the first singular block of D.

    Example:

        >>> torch.linalg.ldl_factor_ex(torch.tensor([[4.0, 2.0], [2.0, 5.0]])).info
        tensor(0, dtype=numod.int32)
    """
    packed, pivots, info = op.ldl.apply((expect_square("ldl_factor_ex", A),))
    if check_errors and any_of(info)._observe():
        raise LinAlgError(
            f"linalg.ldl_factor_ex: D is singular: its diagonal has a zero at {reshape(info, -1).tolist()}, counted "
            "from 1"
        )
    return return_types.linalg_ldl_factor_ex((packed, pivots, info))


def ldl_factor(A: Tensor, *, hermitian: bool = False) -> return_types.linalg_ldl_factor:
    """(LD, pivots) with A = P L D L^T P^T:

    L below the block-diagonal D. Bunch and Kaufman, 1977. Raises RuntimeError if D is singular.

    Example:

        >>> torch.linalg.ldl_factor(torch.tensor([[4.0, 2.0], [2.0, 5.0]])).LD.shape
        numod.Size([2, 2])
    """
    return return_types.linalg_ldl_factor(ldl_factor_ex(A, check_errors=True)[:2])


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """X with A X = B, from `ldl_factor` of A.

    Example:

        >>> LD, pivots = torch.linalg.ldl_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> torch.linalg.ldl_solve(LD, pivots, torch.tensor([[2.0], [8.0]]))
        tensor([[1.],
                [2.]])
    """
    a, b = expect_square("ldl_solve", LD), expect_matrix("ldl_solve", B)
    if tuple(pivots.shape) != tuple(a.shape[:-1]) or b.shape[-2] != a.shape[-1]:
        raise RuntimeError(
            f"linalg.ldl_solve: LD {tuple(a.shape)}, pivots {tuple(pivots.shape)} and B {tuple(b.shape)} do not fit "
            "together"
        )
    batch = broadcast_shapes("linalg.ldl_solve", [a.shape[:-2], b.shape[:-2]])
    operands = (a, a.shape[-2:]), (pivots, pivots.shape[-1:]), (b, b.shape[-2:])
    return op.ldl_solve.apply(tuple(contiguous(expand(operand, (*batch, *tail))) for operand, tail in operands))


def lu(A: Tensor, *, pivot: bool = True) -> return_types.linalg_lu:
    """(P, L, U) with A = P L U; without `pivot`, P is empty.

    Example:

        >>> torch.linalg.lu(torch.tensor([[2.0, 1.0], [4.0, 3.0]])).L
        tensor([[1.0000, 0.0000],
                [0.5000, 1.0000]])
    """
    packed, _, _, order = op.lu.apply((expect_matrix("lu", A),), (bool(pivot),))
    return return_types.linalg_lu((_permutation(order, A) if pivot else A.new_zeros(0), *_triangles(packed)))


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True
) -> return_types.lu_unpack:
    """(P, L, U) from `lu_factor`; tensors that are not requested are empty.

    Example:

        >>> P, L, U = torch.lu_unpack(*torch.linalg.lu_factor(torch.tensor([[2.0, 1.0], [4.0, 3.0]])))
        >>> P @ L @ U
        tensor([[2., 1.],
                [4., 3.]])
    """
    empty = LU_data.new_zeros(0)
    exchanged = _permutation(row_order(LU_data, LU_pivots), LU_data) if unpack_pivots else empty
    return return_types.lu_unpack((exchanged, *(_triangles(LU_data) if unpack_data else (empty, empty))))


def row_order(LU: Tensor, pivots: Tensor) -> Tensor:
    """Which row of A came to stand in each place of its factors, (..., M)."""
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "numod.lu_unpack: LU_pivots is expected to be a contiguous tensor of numod.int32 dtype.\n"
            "Note: this function is intended to be used with the output produced by numod.linalg.lu_factor"
        )
    if tuple(pivots.shape) != (*LU.shape[:-2], min(LU.shape[-2:])):
        raise RuntimeError(
            "a matrix has as many pivots as rows or columns, of which there are fewer; got pivots "
            f"{tuple(pivots.shape)} of matrices {tuple(LU.shape)}"
        )
    return op.order.apply((contiguous(pivots),), (LU.shape[-2],))


def _triangles(packed: Tensor) -> tuple[Tensor, Tensor]:
    """L, with ones on its diagonal, and U."""
    rows, columns = packed.shape[-2:]
    k = min(rows, columns)
    return tril(packed[..., :k], -1) + eye(rows, k, dtype=packed.dtype, device=packed.device), triu(packed[..., :k, :])


def _permutation(order: Tensor, like: Tensor) -> Tensor:
    """The matrix P with A = P L U, where row k of the permuted matrix is row order[k] of A."""
    return (unsqueeze(order, -2) == unsqueeze(arange(order.shape[-1], device=order.device), -1)).to(like.dtype)


# ---- older forms, in the top namespace


def old_svd(input: Tensor, some: bool = True, compute_uv: bool = True) -> return_types.svd:
    """(U, S, V) with input = U diag(S) V^H; V itself, not transposed. `numod.linalg.svd` is the newer form.

    Example:

        >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).S
        tensor([4., 3.])
    """
    if compute_uv:
        u, s, vh = svd(input, not some)
        return return_types.svd((u, s, vh.mH))
    (*batch, rows, columns) = input.shape
    return return_types.svd(
        (input.new_zeros((*batch, rows, rows)), svdvals(input), input.new_zeros((*batch, columns, columns)))
    )


def old_qr(input: Tensor, some: bool = True) -> return_types.qr:
    """(Q, R), reduced where `some`, else complete. Deprecated in favor of `linalg.qr`.

    Example:

        >>> Q, R = torch.linalg.qr(torch.tensor([[3.0], [4.0]]))
        >>> R.abs()
        tensor([[5.]])
    """
    warn_deprecated("qr", "linalg.qr")
    return return_types.qr(qr(input, "reduced" if some else "complete"))


def old_cholesky(input: Tensor, upper: bool = False) -> Tensor:
    """The Cholesky factor of symmetric positive-definite matrices. Deprecated in favor of `linalg.cholesky`.

    Example:

        >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    warn_deprecated("cholesky", "linalg.cholesky")
    return cholesky(input, upper=upper)


def old_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> tuple[Tensor, ...]:
    """(L and U in one matrix, pivots), and infos if requested. Deprecated in favor of `linalg.lu_factor_ex`.

    Example:

        >>> torch.linalg.lu(torch.tensor([[2.0, 1.0], [4.0, 3.0]])).L
        tensor([[1.0000, 0.0000],
                [0.5000, 1.0000]])
    """
    warn_deprecated("lu", "linalg.lu_factor / numod.linalg.lu_factor_ex")
    results = tuple(lu_factor_ex(A, pivot=pivot))
    return results if get_infos else results[:2]
