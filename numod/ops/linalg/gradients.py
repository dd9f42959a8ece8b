"""Gradients of the ops of `factorization`, composed of tensor operations, so that they can be differentiated again.

Importing this module sets them.
"""

from __future__ import annotations

from .factorization import (
    cholesky,
    det,
    eig,
    eigh,
    eigvalsh,
    inv,
    inv_or_infinite,
    lstsq,
    lu,
    pinv,
    qr,
    slogdet,
    solve,
    svd,
    svd_or_nan,
    svdvals,
)
from ..index.concat import cat
from .triangular_solve import solve_triangular


def _scaled(x: object, scale: object) -> object:
    """scale (...) * x (..., M, N)."""
    return scale.unsqueeze(-1).unsqueeze(-1) * x


def _triangular(a: object, b: object, upper: bool, unit: bool = False) -> object:
    """X with a X = b."""
    return solve_triangular.apply((a.contiguous(), b.contiguous()), (upper, unit))


def _zeros_for_none(grads: list, results: tuple) -> list:
    """The gradients, zero for results that have none."""
    return [like.new_zeros(like.shape) if grad is None else grad for grad, like in zip(grads, results)]


def _gaps(values: object, powers: int = 1) -> object:
    """values[j]^powers - values[i]^powers off the diagonal, and infinity on it, so that quotients are 0 there."""
    n = values.shape[-1]
    rows, columns = values.unsqueeze(-1), values.unsqueeze(-2)
    gap = columns - rows if powers == 1 else (columns - rows) * (columns + rows)
    return gap.masked_fill(values.new_identity(n).bool(), float("inf"))


def _inv_gradient(g: object, out: object) -> object:
    return -(out.mH @ g @ out.mH)


def _solve_gradient(g: object, a: object, out: object) -> tuple:
    d_b = solve.apply((a.mH.contiguous(), g.contiguous()))
    return -(d_b @ out.mH), d_b


def _triangular_gradient(g: object, a: object, out: object, upper: bool, unit: bool) -> tuple:
    d_b = _triangular(a.mH, g, not upper, unit)
    product = -(d_b @ out.mH)
    return (product.triu(int(unit)) if upper else product.tril(-int(unit))), d_b


def _cholesky_gradient(g: object, out: object) -> object:
    """Murray, Differentiation of the Cholesky decomposition, 2016: L^-T phi(L^T g) L^-1, symmetric."""
    inner = (out.mH @ g).tril()
    inner = inner - 0.5 * inner.diagonal(0, -2, -1).diag_embed()
    unsymmetric = _triangular(out.mH, _triangular(out.mH, inner, True).mH, True).mH
    return 0.5 * (unsymmetric + unsymmetric.mH)


def _slogdet_gradient(grads: list, a: object, sign: object) -> object:
    """The sign of a real determinant is constant; a complex sign moves on the unit circle."""
    scale = sign.new_zeros(sign.shape) if grads[1] is None else grads[1]
    if a.is_complex() and grads[0] is not None:
        scale = scale + 1j * (sign.conj() * grads[0]).imag
    return _scaled(inv_or_infinite.apply((a,)).mH, scale)


def _det_gradient(g: object, a: object, out: object, recording: bool) -> object:
    """The transposed cofactors, by the singular values, which works for singular matrices too. For double backward and
    complex matrices, by the inverse.
    """
    if recording or a.is_complex():
        return _scaled(inv_or_infinite.apply((a,)).mH, g * out.conj())
    u, s, vh = svd_or_nan.apply((a,))
    n = a.shape[-1]
    cofactors = s.unsqueeze(-2).expand((*s.shape[:-1], n, n)).masked_fill(a.new_identity(n).bool(), 1).prod(-1)
    return _scaled((u * cofactors.unsqueeze(-2)) @ vh, g * det.apply((u,)) * det.apply((vh,)))


def _qr_gradient(grads: list, a: object, q: object, r: object, mode: str) -> object:
    """Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2010.

    For a wide matrix, R is a square block and Q^H times the other columns.
    """
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(..., mode='reduced') if you are going to require gradients."
        )
    rows, columns = q.shape[-2], r.shape[-1]
    if mode == "complete" and rows > columns:
        raise RuntimeError("The QR decomposition is not differentiable when mode='complete' and nrows > ncols.")
    gq, gr = _zeros_for_none(grads, (q, r))
    if rows < columns:
        right_block = q @ gr[..., rows:]
        gq, gr, r = gq + a[..., rows:] @ gr[..., rows:].mH, gr[..., :rows], r[..., :rows]
    m = r @ gr.mH - gq.mH @ q
    low = m.tril(-1)
    right = gq + q @ (low + low.mH + m.diagonal(0, -2, -1).real.diag_embed())  # the diagonal of R is real
    square = _triangular(r, right.mH, True).mH
    return _concatenated(square, right_block, -1) if rows < columns else square


def _svd_gradient(grads: list, u: object, s: object, vh: object, full: bool) -> object:
    """Townsend, Differentiating the singular value decomposition, 2016.

    Of full matrices, only the first columns count.
    """
    k = s.shape[-1]
    gu, gs, gvh = grads
    u, vh = u[..., :k], vh[..., :k, :]
    gu, gvh = None if gu is None else gu[..., :k], None if gvh is None else gvh[..., :k, :]
    total = (s.new_zeros((*s.shape, k)) if gs is None else gs.diag_embed()).to(u.dtype)
    if gu is not None:
        rotation = u.mH @ gu
        total = total + (rotation - rotation.mH) / _gaps(s, 2) * s.unsqueeze(-2)
        if u.is_complex() and gvh is not None:  # the common phase of a pair of vectors
            total = total + (rotation.diagonal(0, -2, -1).imag / s * 1j).diag_embed()
    if gvh is not None:
        rotation = vh @ gvh.mH
        total = total + s.unsqueeze(-1) * ((rotation - rotation.mH) / _gaps(s, 2))
    result = u @ total @ vh
    if gu is not None and u.shape[-2] > k:
        left = gu / s.unsqueeze(-2)
        result = result + (left - u @ (u.mH @ left)) @ vh
    if gvh is not None and vh.shape[-1] > k:
        right = gvh / s.unsqueeze(-1)
        result = result + u @ (right - (right @ vh.mH) @ vh)
    return result


def _svdvals_gradient(g: object, a: object) -> object:
    u, _, vh = svd.apply((a,), (False,))
    return (u * g.unsqueeze(-2)) @ vh


def _eigh_gradient(grads: list, values: object, vectors: object) -> object:
    total = vectors.new_zeros(vectors.shape) if grads[0] is None else grads[0].diag_embed().to(vectors.dtype)
    if grads[1] is not None:
        rotation = vectors.mH @ grads[1]
        # the symmetric part, so that gradient steps keep a matrix symmetric
        total = total + (rotation - rotation.mH) / (2.0 * _gaps(values))
    return vectors @ total @ vectors.mH


def _eigvalsh_gradient(g: object, a: object, lower: bool) -> object:
    _, vectors = eigh.apply((a,), (lower,))
    return (vectors * g.unsqueeze(-2)) @ vectors.mH


def _eig_gradient(grads: list, values: object, vectors: object) -> object:
    """Boeddeker and others, On the computation of complex-valued gradients, 2017; vectors of length 1."""
    total = values.new_zeros(vectors.shape) if grads[0] is None else grads[0].diag_embed()
    if grads[1] is not None:
        rotation = vectors.mH @ grads[1]
        total = (
            total
            + (rotation - (vectors.mH @ vectors) * rotation.diagonal(0, -2, -1).real.unsqueeze(-2))
            / _gaps(values).conj()
        )
    return solve.apply((vectors.mH.contiguous(), (total @ vectors.mH).contiguous()))


def _pinv_gradient(g: object, a: object, out: object) -> object:
    """Golub and Pereyra, The differentiation of pseudo-inverses, 1973."""
    left, right = g.mH - a @ (out @ g.mH), g.mH - (g.mH @ out) @ a
    return left @ out @ out.mH + out.mH @ out @ right - out.mH @ g @ out.mH


def _lstsq_gradient(grads: list, a: object, b: object, rtol: float) -> tuple:
    """The solution is the pseudoinverse times b."""
    if grads[0] is None:
        return None, None
    inverse = pinv.apply((a,), (0.0, rtol, False))
    return _pinv_gradient(grads[0] @ b.mH, a, inverse), inverse.mH @ grads[0]


def _lu_gradient(grads: list, lu: object, order: object) -> object:
    """Triangular solves for the square part, then solves with its factors for the other columns or rows."""
    if grads[0] is None:
        return lu.new_zeros(lu.shape)
    g, k = grads[0], min(lu.shape[-2:])
    square, g_square = lu[..., :k, :k], g[..., :k, :k]
    lower, upper = square.tril(-1) + square.new_identity(k), square.triu()
    inner_lower, inner_upper = lower.mH @ g_square.tril(-1), g_square.triu() @ upper.mH
    if lu.shape[-1] > k:
        inner_lower = inner_lower - g[..., k:] @ lu[..., k:].mH
    if lu.shape[-2] > k:
        inner_upper = inner_upper - lu[..., k:, :].mH @ g[..., k:, :]
    result = _triangular(upper, (inner_lower.tril(-1) + inner_upper.triu()).mH, True).mH
    result = _concatenated(result, g[..., k:], -1)
    result = _triangular(lower.mH, result, True, True)
    if lu.shape[-2] > k:
        result = _concatenated(result, _triangular(upper, g[..., k:, :].mH, True).mH, -2)
    return g.new_zeros(g.shape).scatter(-2, order.unsqueeze(-1).expand(g.shape), result)


def _concatenated(first: object, second: object, dim: int) -> object:
    """Concatenate two tensors along one of the last dimensions."""
    return cat.apply((first, second), (first.ndim + dim,)) if second.shape[dim] else first


for _op, _gradient in (
    (inv, _inv_gradient),
    (inv_or_infinite, _inv_gradient),
    (cholesky, _cholesky_gradient),
    (det, _det_gradient),
    (slogdet, _slogdet_gradient),
    (qr, _qr_gradient),
    (svd, _svd_gradient),
    (svdvals, _svdvals_gradient),
    (eigh, _eigh_gradient),
    (eigvalsh, _eigvalsh_gradient),
    (eig, _eig_gradient),
    (pinv, _pinv_gradient),
    (lu, _lu_gradient),
):
    _op.gradients = {"a": _gradient}
for _op, _gradient in ((solve, _solve_gradient), (solve_triangular, _triangular_gradient), (lstsq, _lstsq_gradient)):
    _op.gradients = {("a", "b"): _gradient}
