"""A few singular vectors or eigenvectors of large matrices, by products with them: randomized projections and LOBPCG.

Full factorizations: `decompositions`.
"""

from __future__ import annotations

from ..apply import state
from ..create.creation import eye
from .decompositions import cholesky, eigh, qr, svd
from .linear_algebra import solve_triangular
from ..math.norms import matrix_norm, vector_norm
from .products import matmul
from ..create.random import randn
from ..math.reductions import mean
from ..shape.joining import cat
from ..tensor import Tensor

FUNCTIONS = "svd_lowrank pca_lowrank lobpcg"


def svd_lowrank(
    A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) with A - M ≈ U diag(S) V^H, of q columns.

    Halko, Martinsson and Tropp, Finding structure with randomness, 2009, algorithm 5.1.

    Example:

        >>> U, S, V = torch.svd_lowrank(torch.randn(8, 4), q=2)
        >>> U.shape, S.shape, V.shape
        (numod.Size([8, 2]), numod.Size([2]), numod.Size([4, 2]))
    """
    q, a = 6 if q is None else q, A if M is None else A - M
    if a.shape[-2] < a.shape[-1]:
        u, s, v = svd_lowrank(a.mH, q, niter)
        return v, s, u
    basis = _range(a, q, 2 if niter is None else niter)
    u, s, vh = svd(matmul(basis.mH, a), False)
    return matmul(basis, u), s, vh.mH


def _range(a: Tensor, q: int, times: int) -> Tensor:
    """Orthonormal columns (..., M, q) that approximately span the range of a (..., M, N): algorithm 4.4, from random
    vectors.
    """
    start = randn(a.shape[-1], q, dtype=a.dtype, device=a.device)
    basis = qr(matmul(a, start))[0]
    for _ in range(times):
        basis = qr(matmul(a, qr(matmul(a.mH, basis))[0]))[0]
    return basis


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, V) of the principal components of the rows of A (..., M, N), whose mean is subtracted where `center`.

    Example:

        >>> U, S, V = torch.pca_lowrank(torch.randn(8, 4), q=2)
        >>> U.shape, S.shape, V.shape
        (numod.Size([8, 2]), numod.Size([2]), numod.Size([4, 2]))
    """
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}")
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    return svd_lowrank(A - mean(A, -2, True) if center else A, q, niter)


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
) -> tuple[Tensor, Tensor]:
    """(k eigenvalues, eigenvectors) of A x = λ B x for symmetric A and positive-definite B (..., N, N); the largest
    ones by default.

    X (..., N, k) are first guesses, iK a preconditioner, tol bounds the residual over the norms. Knyazev, Toward the
    optimal preconditioned eigensolver, 2001.

    Example:

        >>> torch.lobpcg(torch.diag(torch.arange(1.0, 10.0)), k=1)[0].round()
        tensor([9.])
    """
    k = (1 if X is None else X.shape[-1]) if k is None else k
    size, tol = A.shape[-1], {4: 1.2e-4, 8: 1.5e-8}[A.dtype.itemsize] if tol is None else tol
    if size < 3 * k:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={size}) is smaller than 3 x the number "
            f"of requested eigenpairs (={k})"
        )
    weigh = (lambda x: x) if B is None else lambda x: matmul(B, x)
    # by all vectors: gradients of the iterations would be inexact
    if state.grad_enabled and (A.requires_grad or (B is not None and B.requires_grad)):
        return _best(
            (A + A.mT) * 0.5, weigh, eye(size, dtype=A.dtype, device=A.device).expand(A.shape), k, largest is not False
        )
    x = randn(*A.shape[:-2], size, k if n is None else n, dtype=A.dtype, device=A.device) if X is None else X
    values, x = _best(A, weigh, x, k, largest is not False)
    before = None
    for _ in range(1000 if niter is None else niter):
        residual = matmul(A, x) - weigh(x) * values.unsqueeze(-2)
        size_x = vector_norm(x, dim=-2) * (
            matrix_norm(A).unsqueeze(-1) + values.abs() * (1 if B is None else matrix_norm(B).unsqueeze(-1))
        )
        if (vector_norm(residual, dim=-2) <= tol * size_x).all()._observe():
            break
        tried = residual if iK is None else matmul(iK, residual)
        old = x
        values, x = _best(
            A, weigh, cat([x, tried] if before is None else [x, tried, before], -1), k, largest is not False
        )
        before = x - matmul(old, matmul(weigh(old).mT, x))
    return values, x


def _best(a: Tensor, weigh: object, space: Tensor, k: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The k best (eigenvalues, eigenvectors) in the span of `space`, orthonormal by B (Rayleigh and Ritz)."""
    space = qr(space)[0]
    factor = cholesky(matmul(space.mT, weigh(space)))
    space = solve_triangular(factor, space.mT, upper=False).mT
    inner = matmul(space.mT, matmul(a, space))
    values, vectors = eigh((inner + inner.mT) * 0.5)
    values, vectors = (values.flip(-1), vectors.flip(-1)) if largest else (values, vectors)
    return values[..., :k], matmul(space, vectors[..., :k])
