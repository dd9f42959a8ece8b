"""Factorisations of matrices by NumPy's LAPACK, on the CPU. Batches (..., M, N); float32 stays float32. The gradients are written in tensor operations."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..device import Layout
from ..device.layout import layout
from ..errors import LinAlgError
from .op import Op, Plan


class Factorization(Op):
    """`compute(*arrays, *parameters)` gives an array, or a tuple; `shapes(*shapes, *parameters)` what their shapes are."""

    def __init__(self, name: str, inputs: str, outputs: str, parameters: str, compute: Callable, shapes: Callable) -> None:
        super().__init__(name)
        self.inputs, self.outputs, self.parameters, self.compute, self.shapes = tuple(inputs.split()), tuple(outputs.split()), tuple(parameters.split()), compute, shapes

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        first = arguments[0]
        if first.device.type != "cpu":
            raise RuntimeError(f"{self.name}: there is no kernel for {first.device}; move the matrix with .cpu() first")
        if any(not each.dtype.is_floating_point for each in arguments):
            raise RuntimeError(f"{self.name}: Expected a floating point tensor as input. Got {first.dtype}")
        if len({each.dtype for each in arguments}) > 1:
            raise RuntimeError(f"{self.name}: expected tensors of one dtype, got {' and '.join(str(each.dtype) for each in arguments)}")
        made = self.shapes(*(tuple(each.shape) for each in arguments), *parameters)
        results = tuple(layout(shape, first.dtype, first.device) for shape in (made if self.outputs else (made,)))

        def launch(*buffers: np.ndarray) -> None:
            arrays = [_array(each, data) for each, data in zip(arguments, buffers)]
            found = self.run(*arrays, *parameters)
            for each, data, value in zip(results, buffers[len(arrays) :], found if self.outputs else (found,)):
                data[: each.size] = np.ascontiguousarray(value).reshape(-1)

        return Plan(results if self.outputs else results[0], launch)

    def run(self, *arguments: object) -> object:
        """The factorisation; what LAPACK refuses is a LinAlgError."""
        try:
            return self.compute(*arguments)
        except np.linalg.LinAlgError as error:
            raise LinAlgError(f"linalg.{self.name}: {_WHY.get(self.name, str(error))}") from None


_WHY = {
    "inv": "The diagonal element is zero, the inversion could not be completed because the input matrix is singular.",
    "solve": "The solver failed because the input matrix is singular.",
    "cholesky": "The factorization could not be completed because the input is not positive-definite.",
    "eigh": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated eigenvalues.",
    "svd": "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated singular values.",
}


def _array(each: Layout, data: np.ndarray) -> np.ndarray:
    size = each.dtype.itemsize
    return np.ndarray(each.shape, each.storage, data, 0, tuple(s * size for s in each.strides))


def _vectors(shape: tuple, other: tuple) -> tuple:
    return (*np.broadcast_shapes(shape[:-2], other[:-2]), *other[-2:])


def _least(shape: tuple) -> int:
    return min(shape[-2:])


def _slogdet(a: np.ndarray) -> tuple:
    return np.linalg.slogdet(a)


def _svd(a: np.ndarray, full: bool) -> tuple:
    return np.linalg.svd(a, full_matrices=full)


def _solve_triangular(a: np.ndarray, b: np.ndarray, upper: bool, unit: bool) -> np.ndarray:
    """Row by row, all right sides at once: forward for a lower matrix, backward for an upper one."""
    n = a.shape[-1]
    x = np.empty((*np.broadcast_shapes(a.shape[:-2], b.shape[:-2]), *b.shape[-2:]), b.dtype)
    for i in range(n - 1, -1, -1) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        right = b[..., i, :] - np.einsum("...k,...kj->...j", a[..., i, known], x[..., known, :])
        x[..., i, :] = right if unit else right / a[..., i, i, None]
    return x


def _lu(a: np.ndarray) -> tuple:
    """(L and U in one matrix, rows exchanged, counted from 1) by Gaussian elimination with partial pivoting."""
    lu, (m, n) = np.array(a), a.shape[-2:]
    pivots = np.zeros((*a.shape[:-2], min(m, n)), a.dtype)
    for place in np.ndindex(*a.shape[:-2]):
        x = lu[place]
        for k in range(min(m, n)):
            p = k + int(np.argmax(np.abs(x[k:, k])))
            pivots[(*place, k)] = p + 1
            x[[k, p]] = x[[p, k]]
            if x[k, k] != 0:
                x[k + 1 :, k] /= x[k, k]
                x[k + 1 :, k + 1 :] -= np.outer(x[k + 1 :, k], x[k, k + 1 :])
    return lu, pivots


inv = Factorization("inv", "a", "", "", np.linalg.inv, lambda a: a)
solve = Factorization("solve", "a b", "", "", np.linalg.solve, _vectors)
solve_triangular = Factorization("solve_triangular", "a b", "", "upper unit", _solve_triangular, lambda a, b, upper, unit: _vectors(a, b))
cholesky = Factorization("cholesky", "a", "", "", np.linalg.cholesky, lambda a: a)
slogdet = Factorization("slogdet", "a", "sign logabsdet", "", _slogdet, lambda a: (a[:-2], a[:-2]))
det = Factorization("det", "a", "", "", np.linalg.det, lambda a: a[:-2])
qr = Factorization("qr", "a", "q r", "complete", lambda a, complete: np.linalg.qr(a, "complete" if complete else "reduced"),
                   lambda a, complete: ((*a[:-1], a[-2] if complete else _least(a)), (*a[:-2], a[-2] if complete else _least(a), a[-1])))
svd = Factorization("svd", "a", "u s vh", "full", _svd,
                    lambda a, full: ((*a[:-1], a[-2] if full else _least(a)), (*a[:-2], _least(a)), (*a[:-2], a[-1] if full else _least(a), a[-1])))
eigh = Factorization("eigh", "a", "values vectors", "lower", lambda a, lower: np.linalg.eigh(a, "L" if lower else "U"), lambda a, lower: (a[:-1], a))
lu = Factorization("lu", "a", "lu pivots", "", _lu, lambda a: (a, (*a[:-2], _least(a))))


def _inv_gradient(g: object, out: object) -> object:
    return -(out.mT @ g @ out.mT)


def _solve_gradient(g: object, a: object, out: object, layouts: tuple) -> tuple:
    found = solve.apply((a.mT.contiguous(), g.contiguous()))
    return -(found @ out.mT), found


def _triangular_gradient(g: object, a: object, out: object, upper: bool, unit: bool) -> tuple:
    found = solve_triangular.apply((a.mT.contiguous(), g.contiguous()), (not upper, unit))
    product = -(found @ out.mT)
    return (product.triu(1 if unit else 0) if upper else product.tril(-1 if unit else 0)), found


def _cholesky_gradient(g: object, out: object) -> object:
    """Murray, Differentiation of the Cholesky decomposition, 2016: L^-T phi(L^T g) L^-1, symmetric."""
    inner = (out.mT @ g).tril()
    inner = inner - 0.5 * inner.diagonal(0, -2, -1).diag_embed()
    half = solve_triangular.apply((out.mT.contiguous(), inner.contiguous()), (True, False))
    full = solve_triangular.apply((out.mT.contiguous(), half.mT.contiguous()), (True, False)).mT
    return 0.5 * (full + full.mT)


def _slogdet_gradient(grads: list, a: object) -> object:
    return a.new_zeros(a.shape) if grads[1] is None else grads[1].unsqueeze(-1).unsqueeze(-1) * inv.apply((a,)).mT


def _det_gradient(g: object, a: object, out: object) -> object:
    """The transposed cofactors, by the singular values, so that singular matrices have a gradient too."""
    u, s, vh = svd.apply((a,), (True,))
    n = a.shape[-1]
    others = s.unsqueeze(-2).expand((*s.shape[:-1], n, n)).masked_fill(a.new_identity(n), 1).prod(-1)
    sign = det.apply((u,)) * det.apply((vh,))
    return (g * sign).unsqueeze(-1).unsqueeze(-1) * (u * others.unsqueeze(-2)) @ vh


def _qr_gradient(grads: list, q: object, r: object, complete: bool) -> object:
    """Walter and Lehmann, Algorithmic differentiation of linear algebra functions, 2010."""
    rows, columns = q.shape[-2], r.shape[-1]
    if rows < columns:
        raise RuntimeError("linalg.qr: the derivative is not defined for matrices with more columns than rows; differentiate the qr of its first columns")
    if complete and rows > columns:
        raise RuntimeError("linalg.qr: the derivative is not implemented when mode='complete' and the matrix has more rows than columns, as it depends on a choice of q; use mode='reduced'")
    gq, gr = (like.new_zeros(like.shape) if each is None else each for each, like in zip(grads, (q, r)))
    m = r @ gr.mT - gq.mT @ q
    m = m.tril() + m.tril(-1).mT
    right = gq + q @ m
    return solve_triangular.apply((r.contiguous(), right.mT.contiguous()), (True, False)).mT


def _svd_gradient(grads: list, u: object, s: object, vh: object, full: bool) -> object:
    if full and u.shape[-1] != vh.shape[-1]:
        k = s.shape[-1]
        u, vh = u[..., :k], vh[..., :k, :]
        grads = [None if grads[0] is None else grads[0][..., :k], grads[1], None if grads[2] is None else grads[2][..., :k, :]]
    v, n = vh.mT, s.shape[-1]
    eye = s.new_identity(n)
    gap = (s.unsqueeze(-2) - s.unsqueeze(-1)) * (s.unsqueeze(-2) + s.unsqueeze(-1))
    inverse = (1 / gap.masked_fill(eye, 1)).masked_fill(eye, 0)
    total = s.new_zeros((*s.shape, n)) if grads[1] is None else grads[1].diag_embed()
    if grads[0] is not None:
        skew = u.mT @ grads[0]
        total = total + (inverse * (skew - skew.mT)) * s.unsqueeze(-2)
    if grads[2] is not None:
        skew = vh @ grads[2].mT
        total = total + s.unsqueeze(-1) * (inverse * (skew - skew.mT))
    result = u @ total @ vh
    if grads[0] is not None and u.shape[-2] > n:
        left = grads[0] / s.unsqueeze(-2)
        result = result + (left - u @ (u.mT @ left)) @ vh
    if grads[2] is not None and v.shape[-2] > n:
        right = grads[2] / s.unsqueeze(-1)
        result = result + u @ (right - (right @ v) @ vh)
    return result


def _eigh_gradient(grads: list, values: object, vectors: object) -> object:
    n = values.shape[-1]
    eye = values.new_identity(n)
    total = values.new_zeros(vectors.shape) if grads[0] is None else grads[0].diag_embed()
    if grads[1] is not None:
        gap = (values.unsqueeze(-2) - values.unsqueeze(-1)).masked_fill(eye, 1)
        total = total + ((vectors.mT @ grads[1]) / gap).masked_fill(eye, 0)
    return vectors @ total @ vectors.mT


inv.gradients, cholesky.gradients, det.gradients, slogdet.gradients = {"a": _inv_gradient}, {"a": _cholesky_gradient}, {"a": _det_gradient}, {"a": _slogdet_gradient}
solve.gradients, solve_triangular.gradients = {("a", "b"): _solve_gradient}, {("a", "b"): _triangular_gradient}
qr.gradients, svd.gradients, eigh.gradients, lu.differentiable = {"a": _qr_gradient}, {"a": _svd_gradient}, {"a": _eigh_gradient}, False
