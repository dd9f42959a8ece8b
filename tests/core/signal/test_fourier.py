"""Fourier transforms against NumPy's and against their definition; gradients against differences.

On the CPU, where they are.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod import fft
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)

RNG = np.random.default_rng(12)
REAL = RNG.standard_normal((3, 4, 5))
COMPLEX = REAL + 1j * RNG.standard_normal(REAL.shape)
ONE = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def input_of(name: str) -> np.ndarray:
    return REAL if name.startswith(("rfft", "ihfft")) else COMPLEX


@pytest.mark.parametrize("norm", [None, "ortho", "forward"])
@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name: str, norm: str | None) -> None:
    for n, dim in ((None, -1), (4, -1), (9, 1), (None, 0)):
        result = getattr(fft, name)(numod.tensor(input_of(name)), n, dim, norm)
        np.testing.assert_allclose(
            result.numpy(), getattr(np.fft, name)(input_of(name), n, dim, norm), rtol=1e-12, atol=1e-13
        )


@pytest.mark.parametrize("name", ["fft", "ifft", "rfft", "irfft"])
def test_more_dimensions(name: str) -> None:
    x, array = numod.tensor(input_of(name)), input_of(name)
    np.testing.assert_allclose(getattr(fft, f"{name}2")(x).numpy(), getattr(np.fft, f"{name}2")(array), atol=1e-12)
    np.testing.assert_allclose(
        getattr(fft, f"{name}n")(x, norm="ortho").numpy(), getattr(np.fft, f"{name}n")(array, norm="ortho"), atol=1e-12
    )
    np.testing.assert_allclose(
        getattr(fft, f"{name}n")(x, (6, 3), (0, 2)).numpy(),
        getattr(np.fft, f"{name}n")(array, (6, 3), (0, 2)),
        atol=1e-12,
    )


def test_the_definition() -> None:
    n = 7
    k = np.arange(n)
    matrix = np.exp(-2j * np.pi * np.outer(k, k) / n)
    x = RNG.standard_normal(n)
    np.testing.assert_allclose(fft.fft(numod.tensor(x)).numpy(), matrix @ x, atol=1e-12)
    np.testing.assert_allclose(
        fft.hfft(numod.tensor(COMPLEX[0, 0]), 8).numpy(),
        fft.irfft(numod.tensor(COMPLEX[0, 0].conj()), 8).numpy() * 8,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        fft.hfft2(numod.tensor(COMPLEX)).numpy(),
        fft.irfft2(numod.tensor(COMPLEX.conj()), norm="forward").numpy(),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        fft.ihfftn(numod.tensor(REAL)).numpy(), np.fft.rfftn(REAL, norm="forward").conj(), atol=1e-12
    )


def test_float32_stays_float32_and_integers_become_floats() -> None:
    x = numod.tensor(REAL, dtype=numod.float32)
    assert fft.rfft(x).dtype is fft.fft(x).dtype is numod.complex64 and fft.irfft(fft.rfft(x)).dtype is numod.float32
    assert fft.fft(numod.arange(4)).dtype is numod.complex64
    assert numod.allclose(fft.irfft(fft.rfft(x), x.shape[-1]), x, atol=1e-6)
    assert numod.allclose(fft.ifft2(fft.fft2(x)).real, x, atol=1e-6)
    assert fft.fft(x.transpose(0, 2), dim=0).numpy() == pytest.approx(fft.fft(x).numpy().transpose(2, 1, 0), abs=1e-5)


@pytest.mark.parametrize("name", [*ONE, "rfft2", "irfftn"])
def test_gradients(name: str) -> None:
    function, array = getattr(fft, name), input_of(name)[:1, :3]
    x = numod.tensor(array, requires_grad=True)
    assert gradcheck(lambda x: function(x, norm="ortho"), [x])
    if name in ONE:
        assert (
            gradcheck(lambda x: function(x, 4), [x])
            and gradcheck(lambda x: function(x, 6) ** 2, [x])
            and gradgradcheck(lambda x: function(x) ** 2, [x])
        )


def test_frequencies_and_shifts() -> None:
    for n in (5, 6):
        np.testing.assert_allclose(fft.fftfreq(n, 0.5).numpy(), np.fft.fftfreq(n, 0.5), rtol=1e-6)
        np.testing.assert_allclose(
            fft.rfftfreq(n, 0.5, dtype=numod.float64).numpy(), np.fft.rfftfreq(n, 0.5), rtol=1e-12
        )
    x = numod.tensor(REAL)
    np.testing.assert_array_equal(fft.fftshift(x).numpy(), np.fft.fftshift(REAL))
    np.testing.assert_array_equal(fft.ifftshift(x, dim=(1, 2)).numpy(), np.fft.ifftshift(REAL, (1, 2)))


def test_refusals() -> None:
    x = numod.tensor(REAL)
    for call, error, message in (
        (lambda: fft.rfft(x.cdouble()), RuntimeError, "expects a real input tensor"), (lambda: fft.fft(x, 0), RuntimeError, "Invalid number of data points"),
        (lambda: fft.fft(x, norm="both"), RuntimeError, "Invalid normalization mode"), (lambda: fft.fftn(x, dim=(0, 0)), RuntimeError, "unique"), (lambda: fft.fft(x, dim=3), IndexError, "out of range"),
        (lambda: fft.fft(x.half()), RuntimeError, "Unsupported dtype Half"), (lambda: fft.fft([1.0]), TypeError, "must be Tensor"), (lambda: fft.fftn(x, (2,), (0, 1)), RuntimeError, "same length"),
    ):  # fmt: skip
        with pytest.raises(error, match=message):
            call()


def test_out() -> None:
    out = numod.zeros(REAL.shape, dtype=numod.complex128)
    assert fft.fft(numod.tensor(REAL), out=out) is out and out.abs().sum() > 0


def test_compiled() -> None:
    def mixed(x):
        return fft.fft(fft.fft(x, dim=-1), dim=-2).real.relu() + 1

    compiled, x = numod.compile(mixed), numod.randn(2, 4, 6)
    for _ in range(2):
        assert numod.allclose(compiled(x), mixed(x), atol=1e-5)
