"""Linear algebra, under PyTorch's names in `numod.linalg`: inverses, determinants, solving, functions of matrices.

Their factors are in `decompositions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from ... import dtypes
from ...errors import normalize_dim, warn_deprecated
from ...ops.linalg import factorization as op, triangular_solve as substitution
from ...ops import table as t
from ...ops.pointwise import broadcast_shapes
from ..math import reductions
from .. import return_types
from .contractions import cross as vector_product, ordered_product
from ..create.creation import eye
from .decompositions import attempt, expect_matrix, expect_square, row_order, svd, svdvals
from ..convert.copies import contiguous
from ..math.elementwise import where
from ..math.norms import tolerances
from .products import matmul
from ..create.ranges import arange
from ..index.selection import gather
from ..shape.parts import diagonal as any_diagonal
from ..shape.shapes import expand, movedim, reshape, squeeze, unsqueeze
from ..search.sorting import sort
from ..tensor import Tensor

BOTH = (
    "inverse=inv det logdet slogdet=old_slogdet pinverse matrix_power matrix_exp cholesky_solve cholesky_inverse "
    "triangular_solve"
)
FUNCTIONS = "lu_solve=old_lu_solve vander=old_vander"
METHODS = "lu_solve=old_lu_solve"
OUT = "lu_solve slogdet inverse pinverse matrix_power cholesky_solve cholesky_inverse triangular_solve"


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonals of matrices, as the last dimension of a view.

    Example:

        >>> torch.linalg.diagonal(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 4.])
    """
    return any_diagonal(A, offset, dim1, dim2)


def inv(A: Tensor) -> Tensor:
    """The inverse of square matrices (..., N, N). Raises LinAlgError for singular ones.

    Example:

        >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return op.inv.apply((expect_square("inv", A),))


def inv_ex(A: Tensor, *, check_errors: bool = False) -> return_types.linalg_inv_ex:
    """(inverse, info): info is 0, or the position of the first zero pivot, for which `check_errors` raises instead.

    Example:

        >>> torch.linalg.inv_ex(torch.tensor([[2.0]]))
        numod.return_types.linalg_inv_ex(
        inverse=tensor([[0.5000]]),
        info=tensor(0, dtype=numod.int32))
    """
    return return_types.linalg_inv_ex(attempt(inv, check_errors, A))


def det(A: Tensor) -> Tensor:
    """Determinants of square matrices.

    Example:

        >>> torch.linalg.det(torch.tensor([[2.0, 0.0], [0.0, 3.0]]))
        tensor(6.)
    """
    return op.det.apply((expect_square("det", A),))


def slogdet(A: Tensor) -> return_types.linalg_slogdet:
    """(sign, logarithm of the absolute value) of determinants.

    Example:

        >>> torch.linalg.slogdet(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
        numod.return_types.linalg_slogdet(
        sign=tensor(1.),
        logabsdet=tensor(0.))
    """
    return return_types.linalg_slogdet(op.slogdet.apply((expect_square("slogdet", A),)))


def old_slogdet(input: Tensor) -> return_types.slogdet:
    """(sign, logarithm of the absolute value) of determinants.

    Example:

        >>> torch.linalg.slogdet(torch.tensor([[-1.0, 0.0], [0.0, 1.0]]))
        numod.return_types.linalg_slogdet(
        sign=tensor(-1.),
        logabsdet=tensor(0.))
    """
    return return_types.slogdet(slogdet(input))


def logdet(A: Tensor) -> Tensor:
    """The logarithm of determinants; NaN for negative ones of real matrices.

    Example:

        >>> torch.logdet(torch.tensor([[2.0, 0.0], [0.0, 0.5]]))
        tensor(0.)
    """
    sign, value = slogdet(A)
    if A.is_complex():
        return t.log(sign) + value
    return where(sign < 0, float("nan"), value)


def _sides(name: str, A: Tensor, B: Tensor, left: bool) -> tuple[Tensor, Tensor]:
    """A and B broadcast to the same batch shape, contiguous. Raises RuntimeError if they do not fit."""
    _expect_one_dtype(name, A, B)
    a = expect_square(name, A)
    expect_matrix(name, B)
    if B.shape[-2 if left else -1] != a.shape[-1]:
        form = "AX = B" if left else "XA = B"
        shapes = " and ".join(f"{matrix.shape[-2]}x{matrix.shape[-1]}" for matrix in (A, B))
        raise RuntimeError(f"linalg.{name}: Incompatible shapes of A and B for the equation {form} ({shapes})")
    batch = broadcast_shapes(f"linalg.{name}", [A.shape[:-2], B.shape[:-2]])
    return tuple([contiguous(expand(matrix, (*batch, *matrix.shape[-2:]))) for matrix in (a, B)])


def solve(A: Tensor, B: Tensor, *, left: bool = True) -> Tensor:
    """X with A X = B, or X A = B if not `left`.

    B is (..., N, K) or vectors (..., N). Raises LinAlgError for singular A.

    Example:

        >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
        tensor([1.0000, 0.5000])
    """
    vectors = _are_vectors(A, B)
    if vectors and not left:
        raise RuntimeError(
            "linalg.solve: Vector broadcasting of the left hand side is not supported "
            "for left=False. In this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    a, b = _sides("solve", A, unsqueeze(B, -1) if vectors else B, left)
    if not left:
        return op.solve.apply((contiguous(a.mT), contiguous(b.mT))).mT
    result = op.solve.apply((a, b))
    return squeeze(result, -1) if vectors else result


def _are_vectors(A: Tensor, B: Tensor) -> bool:
    return B.ndim == 1 or (B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1]))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> return_types.linalg_solve_ex:
    """(X, info): info is 0, or the position of the first zero pivot of A, for which `check_errors` raises instead.

    Example:

        >>> torch.linalg.solve_ex(torch.tensor([[2.0]]), torch.tensor([[8.0]]))
        numod.return_types.linalg_solve_ex(
        result=tensor([[4.]]),
        info=tensor(0, dtype=numod.int32))
    """
    return return_types.linalg_solve_ex(attempt(lambda a, b: solve(a, b, left=left), check_errors, A, B))


def _expect_one_dtype(name: str, A: Tensor, B: Tensor) -> None:
    if A.dtype is not B.dtype:
        raise RuntimeError(
            f"linalg.{name}: Expected A and B to have the same dtype, but found A of type {A.dtype.short} and B of "
            f"type {B.dtype.short} instead"
        )


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B (or X A = B) for a triangular A; the other triangle is not read.

    Example:

        >>> A, B = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0], [3.0]])
        >>> torch.linalg.solve_triangular(A, B, upper=False)
        tensor([[1.],
                [2.]])
    """
    a, b = _sides("solve_triangular", A, B, left)
    if left:
        return substitution.solve_triangular.apply((a, b), (bool(upper), bool(unitriangular)))
    return substitution.solve_triangular.apply(
        (contiguous(a.mT), contiguous(b.mT)), (not upper, bool(unitriangular))
    ).mT


def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> return_types.triangular_solve:
    """(X with A X = b, a copy of A). Deprecated in favor of `linalg.solve_triangular`.

    Example:

        >>> A, B = torch.tensor([[2.0, 0.0], [1.0, 1.0]]), torch.tensor([[2.0], [3.0]])
        >>> torch.linalg.solve_triangular(A, B, upper=False)
        tensor([[1.],
                [2.]])
    """
    warn_deprecated("triangular_solve", "linalg.solve_triangular")
    solution = solve_triangular(A.mT if transpose else A, b, upper=upper != transpose, unitriangular=unitriangular)
    return return_types.triangular_solve((solution, A.clone()))


def cholesky_solve(B: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """X with A X = B, for the Cholesky factor of A.

    Example:

        >>> torch.cholesky_solve(torch.tensor([[4.0]]), torch.tensor([[2.0]]))
        tensor([[1.]])
    """
    lower = L.mH if upper else L
    return solve_triangular(lower.mH, solve_triangular(lower, B, upper=False), upper=True)


def cholesky_inverse(L: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A, from its Cholesky factor.

    Example:

        >>> torch.cholesky_inverse(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.2500, 0.0000],
                [0.0000, 0.0625]])
    """
    return cholesky_solve(eye(L.shape[-1], dtype=L.dtype, device=L.device).expand(L.shape), L, upper)


def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """X with A X = B (X A = B where not `left`), or with A^H, from `lu_factor` of A.

    Example:

        >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> torch.linalg.lu_solve(LU, pivots, torch.tensor([[2.0], [8.0]]))
        tensor([[1.],
                [2.]])
    """
    if not left:
        return lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    order = unsqueeze(row_order(LU, pivots), -1)
    LU, B = _sides("lu_solve", LU, B, True)
    if adjoint:
        return _rows(
            solve_triangular(LU.mH, solve_triangular(LU.mH, B, upper=False), upper=True, unitriangular=True),
            sort(order, -2).indices,
        )
    return solve_triangular(LU, solve_triangular(LU, _rows(B, order), upper=False, unitriangular=True), upper=True)


def _rows(x: Tensor, order: Tensor) -> Tensor:
    """Rows of matrices x (..., N, K) in the order (..., N, 1), which may lack batches."""
    return gather(x, -2, expand(order, x.shape))


def old_lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """X with A X = b, from `lu_factor` of A: the older order of arguments.

    Example:

        >>> LU, pivots = torch.linalg.lu_factor(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> torch.lu_solve(torch.tensor([[2.0], [8.0]]), LU, pivots)
        tensor([[1.],
                [2.]])
    """
    return lu_solve(LU_data, LU_pivots, b)


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> return_types.linalg_lstsq:
    """(solution, residuals, rank, singular values) of the least-squares problem |A X - B|.

    Of several solutions the shortest is returned. Results that the driver does not compute are empty.

    Example:

        >>> torch.linalg.lstsq(torch.tensor([[1.0], [1.0]]), torch.tensor([[1.0], [3.0]])).solution
        tensor([[2.]])
    """
    driver = driver or "gelsy"
    if driver not in ("gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss), got {driver}"
        )
    a, vectors = expect_matrix("lstsq", A), _are_vectors(A, B)
    b = unsqueeze(B, -1) if vectors else B
    _expect_one_dtype("lstsq", A, B)
    if b.ndim < 2 or b.shape[-2] != a.shape[-2]:
        raise RuntimeError(
            f"linalg.lstsq: A and B should have the same number of rows, but their shapes are {tuple(A.shape)} and "
            f"{tuple(B.shape)}"
        )
    eps = dtypes.finfo(A.dtype).eps
    # eps as LAPACK does
    if rcond is None:
        rcond = max(A.shape[-2:]) * eps
    elif rcond < 0 or (rcond >= 1 and driver == "gelsd"):
        rcond = eps
    else:
        rcond = float(rcond)
    batch = broadcast_shapes("linalg.lstsq", [a.shape[:-2], b.shape[:-2]])
    a, b = (contiguous(expand(matrix, (*batch, *matrix.shape[-2:]))) for matrix in (a, b))
    (solution, rank), empty = op.lstsq.apply((a, b), (rcond,)), A.new_zeros(0, dtype=A.dtype.real)
    rest = matmul(a, solution) - b
    tall = (
        a.shape[-2] > a.shape[-1]
        and driver != "gelsy"
        and (driver == "gels" or bool((rank == a.shape[-1]).all()._observe()))
    )
    residuals = reductions.sum(t.square(abs(rest)), -2) if tall else empty
    return return_types.linalg_lstsq((
        squeeze(solution, -1) if vectors else solution, residuals, rank if driver != "gels" else rank.new_zeros(0),
        svdvals(a) if driver in ("gelsd", "gelss") else empty,
    ))  # fmt: skip


def pinv(
    A: Tensor,
    rcond: float | Tensor | None = None,
    hermitian: bool = False,
    *,
    atol: float | Tensor | None = None,
    rtol: float | Tensor | None = None,
) -> Tensor:
    """The Moore-Penrose inverse; singular values up to max(atol, rtol * the greatest) count as 0.

    `rcond` is an older name of rtol. The tolerances are numbers, or tensors with one for each matrix.

    Example:

        >>> torch.linalg.pinv(torch.ones(3, 2)).shape
        numod.Size([2, 3])
    """
    rtol = rcond if rtol is None else rtol
    a = expect_matrix("pinv", A)
    atol, rtol = tolerances(a, atol, rtol)
    if not any([isinstance(tolerance, Tensor) and tolerance.ndim for tolerance in (atol, rtol)]):
        return op.pinv.apply((a,), (float(atol), float(rtol), bool(hermitian)))
    u, s, vh = svd(a, full_matrices=False)
    atol, rtol = (
        unsqueeze(tolerance, -1) if isinstance(tolerance, Tensor) else tolerance for tolerance in (atol, rtol)
    )
    significant = (s > s[..., :1] * rtol) & (s > atol)
    return matmul(vh.mH * unsqueeze(where(significant, 1 / s, 0.0), -2), u.mH)


def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """The Moore-Penrose inverse; `numod.linalg.pinv` is the newer form.

    Example:

        >>> torch.linalg.pinv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return pinv(input, rtol=rcond)


def matrix_power(A: Tensor, n: int) -> Tensor:
    """A to the n-th power; of its inverse for negative n.

    Example:

        >>> torch.linalg.matrix_power(torch.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    if n < 0:
        return matrix_power(inv(A), -n)
    a = A if A.ndim >= 2 and A.shape[-1] == A.shape[-2] else expect_square("matrix_power", A)
    if n == 0:
        unit = eye(a.shape[-1], dtype=a.dtype, device=a.device)
        return where(unit == unit, unit, a)  # the tape keeps a's part in it, which is zero
    result = None
    while n:
        result = (a if result is None else matmul(result, a)) if n & 1 else result
        a, n = (matmul(a, a) if n > 1 else a), n >> 1
    return result.clone() if result is A else result


def matrix_exp(A: Tensor) -> Tensor:
    """1 + A + A^2 / 2! + ..., by scaling, a Padé approximant and squaring.

    Higham, The scaling and squaring method, 2005.

    Example:

        >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    if A.dtype.compute is not A.dtype:
        return matrix_exp(A.to(A.dtype.compute)).to(A.dtype)
    a = expect_square("matrix_exp", A)
    if not a.numel():
        return a.clone()
    size = reductions.amax(reductions.sum(abs(a.detach()), -2), -1)
    limit, coefficients = _PADE[a.dtype.real.itemsize]
    times = t.clamp_min(t.ceil(t.log2(size / limit)), 0.0)
    times = where(t.isfinite(times), times, 0.0)
    a = a * unsqueeze(unsqueeze(t.exp2(-times), -1), -1)
    square = matmul(a, a)
    power = eye(a.shape[-1], dtype=a.dtype, device=a.device)
    even, odd = power * coefficients[0], power * coefficients[1]
    for k in range(2, len(coefficients), 2):
        power = matmul(power, square) if k > 2 else square
        even, odd = even + power * coefficients[k], odd + power * coefficients[k + 1]
    odd = matmul(a, odd)
    result = solve(even - odd, even + odd)
    for k in range(int(reductions.amax(times)._observe())):
        result = where(unsqueeze(unsqueeze(times > k, -1), -1), matmul(result, result), result)
    return result


def _pade(degree: int) -> list[float]:
    """Coefficients of the numerator, lowest order first; the denominator's have alternating signs."""
    coefficients = [1.0]
    for k in range(degree):
        coefficients.append(coefficients[-1] * (degree - k) / ((2 * degree - k) * (k + 1)))
    return coefficients


# by itemsize: the largest norm for which the approximant is exact to rounding
_PADE = {8: (5.371920351148152, _pade(13)), 4: (3.925724783138660, _pade(7))}


def multi_dot(tensors: Sequence[Tensor]) -> Tensor:
    """The product of matrices (the first and last may be vectors), multiplied in the cheapest order.

    Example:

        >>> torch.linalg.multi_dot([torch.ones(2, 3), torch.ones(3, 4), torch.ones(4, 1)]).shape
        numod.Size([2, 1])
    """
    parts = list(tensors)
    if len(parts) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(parts)}")
    for k, part in enumerate(parts):
        if part.ndim != 2 and not (part.ndim == 1 and k in (0, len(parts) - 1)):
            raise RuntimeError(
                f"multi_dot(): tensor {k} must be {'2D' if 0 < k < len(parts) - 1 else '1D or 2D'} but got {part.ndim}D"
            )
    first, last = parts[0].ndim == 1, parts[-1].ndim == 1
    parts[0] = unsqueeze(parts[0], 0) if first else parts[0]
    parts[-1] = unsqueeze(parts[-1], 1) if last else parts[-1]
    result = ordered_product(*parts)
    result = squeeze(result, -1) if last else result
    return squeeze(result, 0) if first else result


def vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 to N - 1 of each element, (..., n, N); by default as many as elements.

    Example:

        >>> torch.linalg.vander(torch.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    n = x.shape[-1] if N is None and x.ndim else N or 1
    if n <= 1:
        raise RuntimeError(f"N must be greater than 1, got {n}.")
    return _powers(x if x.ndim else reshape(x, (1,)), n)


def _powers(x: Tensor, n: int) -> Tensor:
    """The first `n` powers; int64 for integers, since powers grow."""
    x = x if x.dtype.differentiable else x.to(dtypes.int64)
    return t.pow(unsqueeze(x, -1), arange(n, device=x.device))


def old_vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Powers of each element of a vector (n) -> (n, N), in descending order unless `increasing`.

    Example:

        >>> torch.vander(torch.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [4, 2, 1],
                [9, 3, 1]])
    """
    n = x.shape[-1] if N is None else N
    if not n:
        return x.new_zeros((x.shape[-1], 0))
    powers = _powers(x, n)
    return powers if increasing else powers.flip(-1)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """The dot product along a dimension, of complex vectors with x conjugated.

    Example:

        >>> torch.linalg.vecdot(torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0]))
        tensor(11.)
    """
    return reductions.sum(x.conj() * y, normalize_dim(dim, max(x.ndim, y.ndim)))


def cross(input: Tensor, other: Tensor, *, dim: int = -1) -> Tensor:
    """The cross product along a dimension of size 3.

    Example:

        >>> torch.linalg.cross(torch.tensor([1.0, 0.0, 0.0]), torch.tensor([0.0, 1.0, 0.0]))
        tensor([0., 0., 1.])
    """
    return vector_product(input, other, dim)


def tensorinv(A: Tensor, ind: int = 2) -> Tensor:
    """The inverse of A seen as a matrix of its first `ind` dimensions by the others.

    Example:

        >>> torch.linalg.tensorinv(torch.eye(4).reshape(4, 2, 2), ind=1).shape
        numod.Size([2, 2, 4])
    """
    rows = prod(A.shape[:ind])
    if ind <= 0 or rows * rows != A.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == "
            f"prod(self.shape[:ind]), with ind > 0, but got shape {list(A.shape)} and ind {ind}"
        )
    return reshape(inv(reshape(A, (rows, rows))), (*A.shape[ind:], *A.shape[:ind]))


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None) -> Tensor:
    """X with tensordot(A, X, X.ndim) = B.

    Example:

        >>> torch.linalg.tensorsolve(torch.eye(4).reshape(2, 2, 4), torch.ones(2, 2))
        tensor([1., 1., 1., 1.])
    """
    a = A if dims is None else movedim(A, list(dims), list(range(A.ndim - len(dims), A.ndim)))
    shape = a.shape[B.ndim :]
    return reshape(solve(reshape(a, (B.numel(), prod(shape))), reshape(B, -1)), shape)
