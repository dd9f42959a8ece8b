"""Vectorised Fourier transforms against NumPy's in float64: lengths, rows that do not fill a register, directions,
scales, in place.
"""

from __future__ import annotations

import numpy as np
import pytest
from selection import pairwise

import numod
from numod.kernel.registers import tiles
from numod.ops.fft import cpu

pytestmark = pytest.mark.on_cuda(simulator=False)

LANES = tiles.host().lanes(4)
PRECISION = [("float32", 1e-6), ("float64", 1e-14)]


def drawn(*shape: int) -> np.ndarray:
    generator = np.random.default_rng(sum(shape))
    return generator.standard_normal(shape) + 1j * generator.standard_normal(shape)


def complex_of(kind: str) -> str:
    return {"float32": "complex64", "float64": "complex128"}[kind]


def close(result: numod.Tensor, expected: np.ndarray, tolerance: float) -> bool:
    return (
        result.shape == expected.shape and np.abs(result.numpy() - expected).max() < tolerance * np.abs(expected).max()
    )


@pytest.mark.parametrize("n, norm, precision", pairwise(
    [LANES // 2, LANES, 2 * LANES, 64, 400, 4096, 8192, 840, 11 * LANES], ["backward", "ortho", "forward"], PRECISION,
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_complex_rows_and_columns(n: int, norm: str, precision: tuple[str, float]) -> None:
    kind, tolerance = precision
    for shape, dim in (((LANES, n), 1), ((LANES + 3, n), 1), ((n, LANES), 0), ((2, n, LANES + 5), 1), ((3, n), 1)):
        x = drawn(*shape).astype(complex_of(kind))
        for transform in ("fft", "ifft"):
            result = getattr(numod.fft, transform)(numod.from_numpy(x), dim=dim, norm=norm)
            assert close(result, getattr(np.fft, transform)(x.astype(np.complex128), axis=dim, norm=norm), tolerance)
            assert result.dtype is getattr(numod, complex_of(kind))


@pytest.mark.parametrize("n, norm, precision", pairwise(
    [LANES, 2 * LANES, 4 * LANES, 256, 400, 8192, 480, 7 * LANES, 20], ["backward", "ortho", "forward"], PRECISION,
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_real_rows(n: int, norm: str, precision: tuple[str, float]) -> None:
    kind, tolerance = precision
    for rows in (LANES, 2 * LANES + 3, 2):
        x, half = drawn(rows, n).real.astype(kind), drawn(rows, n // 2 + 1).astype(complex_of(kind))
        assert close(
            numod.fft.rfft(numod.from_numpy(x), norm=norm), np.fft.rfft(x.astype(np.float64), norm=norm), tolerance
        )
        assert close(
            numod.fft.irfft(numod.from_numpy(half), norm=norm),
            np.fft.irfft(half.astype(np.complex128), norm=norm),
            tolerance,
        )


@pytest.mark.parametrize("shape", [(16, 64), (LANES + 1, 32), (3, 32, LANES + 2), (2, 16, 33)])
def test_several_dimensions(shape: tuple) -> None:
    """The second dimension is transformed in place, where groups of rows may overlap."""
    x = drawn(*shape)
    for transform in ("fft2", "ifft2", "fftn", "ifftn"):
        assert close(getattr(numod.fft, transform)(numod.from_numpy(x)), getattr(np.fft, transform)(x), 1e-13)
    half = numod.fft.rfftn(numod.from_numpy(x.real))
    assert close(half, np.fft.rfftn(x.real), 1e-13)
    assert close(numod.fft.irfftn(half, s=shape), x.real, 1e-13)


def test_rows_do_not_touch_each_other() -> None:
    x = drawn(2 * LANES, 64).real.astype(np.float32)
    x[1], x[2], x[3, 5] = 0, x[2] * 1e12, np.nan
    for result in (numod.fft.rfft(numod.from_numpy(x)), numod.fft.fft(numod.from_numpy(x))[:, :33]):
        result, expected = result.numpy(), np.fft.rfft(x.astype(np.float64))
        assert not result[1].any() and np.isnan(result[3]).all()
        others = [0, *range(4, 2 * LANES)]
        assert np.abs(result[others] - expected[others]).max() < 1e-4


@pytest.mark.cpu_only
def test_imaginary_parts_that_a_real_result_has_not() -> None:
    half = drawn(LANES, 33)
    real = half.copy()
    real[:, [0, -1]] = real[:, [0, -1]].real
    assert numod.equal(numod.fft.irfft(numod.from_numpy(half)), numod.fft.irfft(numod.from_numpy(real)))


def test_threads_share_groups() -> None:
    x, before = numod.from_numpy(drawn(40 * LANES, 512).astype(np.complex64)), numod.get_num_threads()
    try:
        result = []
        for count in (1, 2):
            numod.set_num_threads(count)
            result.append((numod.fft.fft(x), numod.fft.fft(x, dim=0), numod.fft.rfft(x.real.contiguous())))
    finally:
        numod.set_num_threads(before)
    assert all(numod.equal(a, b) for a, b in zip(*result))


@pytest.mark.cpu_only
def test_shapes_left_to_numpy() -> None:
    device, kind = numod.device("cpu"), numod.complex64
    assert cpu.complex_rows(kind, device, LANES, 64, 1, False, 1.0)
    for rows, n in ((LANES - 1, 64), (LANES, 11 * LANES), (LANES, 8192), (LANES, LANES // 2)):
        assert cpu.complex_rows(kind, device, rows, n, 1, False, 1.0) is None
    assert cpu.real_rows(numod.float32, device, LANES, 65, False, 1.0) is None


def test_compiled_functions_and_gradients() -> None:
    x = numod.from_numpy(drawn(LANES, 32)).requires_grad_()
    function = lambda x: numod.fft.ifft(numod.fft.fft(x) * 2.0, dim=0).abs()  # noqa: E731
    assert numod.autograd.gradcheck(function, (x,))
    assert numod.allclose(numod.compile(function)(x), function(x))
