"""Fourier transforms and factorizations as PTX (see `test_ptx_machine`)."""

from __future__ import annotations


import pytest

import numod
from numod.ops.linalg import cuda as linalg_cuda

from machine_checks import PTX, check, made, same

pytestmark = PTX


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_fourier_transforms(dtype: numod.dtype) -> None:
    x = made(3, 60, 5).to(dtype)
    check(lambda x: numod.fft.fft(x, dim=1), x, tolerance=1e-3, gradients=False)
    check(lambda x: numod.fft.irfft(x[..., :9], n=17), x.transpose(1, 2), tolerance=1e-3, gradients=False)
    check(
        lambda x: (numod.fft.ifft(x), numod.fft.irfft(x, n=80), numod.fft.rfft(x.real, n=50)),
        x.reshape(15, 60),
        tolerance=1e-3,
        gradients=False,
    )
    check(lambda x: numod.fft.rfft2(x.real), x, tolerance=1e-3, gradients=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_factorizations(dtype: numod.dtype) -> None:
    a, b = made(18, 18).to(dtype), made(18, 3).to(dtype)  # a panel of 16 columns, and 2
    a = a + 1j * made(18, 18).tril() if dtype.is_complex else a
    p = a @ a.mH + 18 * numod.eye(18)
    functions = (
        lambda p, b: numod.linalg.cholesky(p), lambda p, b: numod.linalg.lu_solve(*numod.linalg.lu_factor(p), b),
        lambda p, b: numod.linalg.qr(p[:, :5]),
        lambda p, b: numod.linalg.eigvalsh(p[:4, :4]), lambda p, b: numod.linalg.pinv(p[:5, :3]),
    )  # fmt: skip
    for function in functions:
        check(function, p, b, tolerance=1e-3, gradients=False)


@pytest.mark.parametrize("dtype", [numod.float32, numod.complex64], ids=str)
def test_large_factorizations(dtype: numod.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """With several blocks for a matrix: panels of 32 columns and 5; runs of four rows, of which the last has one."""
    monkeypatch.setattr(linalg_cuda, "_SHARED_COLUMNS", 20)
    monkeypatch.setattr(linalg_cuda, "_JACOBI_ROWS", 4)
    a, b = made(37, 37).to(dtype), made(37, 3).to(dtype)
    a = a + 1j * made(37, 37).tril() if dtype.is_complex else a
    check(lambda p: numod.linalg.cholesky(p), a @ a.mH + numod.eye(37), tolerance=1e-3, gradients=False)
    for matrix in (a[:34], numod.stack((a[:26, :21], a[3:29, :21])))[: 1 if dtype.is_complex else 2]:
        actual, expected = numod.linalg.lu_factor(matrix.cuda()), numod.linalg.lu_factor(matrix)
        same(actual[1], expected[1])
        same(actual[0], expected[0], 1e-3)
    check(lambda a, b: numod.linalg.solve(a, b), a, b, tolerance=1e-3, gradients=False)
    for matrix in (a[:26, :21], numod.stack((a[:21], a[3:24]))[..., :27])[: 1 if dtype.is_complex else 2]:
        values = numod.linalg.svdvals(matrix.to(numod.complex128 if dtype.is_complex else numod.float64))
        u, actual, v = (tensor.cpu() for tensor in numod.linalg.svd(matrix.cuda(), full_matrices=False))
        assert ((actual - values).abs().amax() / values.amax() < 4e-7) and (
            (u * actual.unsqueeze(-2)) @ v - matrix
        ).abs().max() < 2e-5
        assert (u.mH @ u - numod.eye(21)).abs().max() < 1e-5
    for matrix in (a[:21, :21] + a[:21, :21].mH, numod.zeros(21, 21, dtype=dtype), -numod.ones(21, 21, dtype=dtype))[
        : 1 if dtype.is_complex else 3
    ]:
        expected = numod.linalg.eigvalsh(matrix.to(numod.complex128 if dtype.is_complex else numod.float64))
        values, vectors = (tensor.cpu() for tensor in numod.linalg.eigh(matrix.cuda()))
        same(numod.linalg.eigvalsh(matrix.tril().cuda()), values, 1e-5)
        assert (values - expected).abs().max() <= 8e-7 * expected.abs().max()
        assert (matrix @ vectors - vectors * values).abs().max() < 1e-4 and (
            vectors.mH @ vectors - numod.eye(21)
        ).abs().max() < 5e-6
    with pytest.raises(numod.linalg.LinAlgError, match="minor of order 36"):
        numod.linalg.cholesky(numod.diag(numod.cat((numod.ones(35), numod.tensor([-1.0, 1.0])))).to(dtype).cuda())
    for function in (numod.linalg.svdvals, numod.linalg.eigh):
        with pytest.raises(numod.linalg.LinAlgError, match="failed to converge"):
            function(numod.full((21, 21), float("nan"), dtype=dtype).cuda())
