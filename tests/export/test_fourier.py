"""Fourier transforms in exported programs: the products that take their place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import numod as torch
from numod.export import Dim, ExportError, aot_compile, export, load_native
from numod.export.fourier import with_products

TRANSFORMS = {
    "fft": torch.fft.fft,
    "ifft": lambda z: torch.fft.ifft(z, norm="ortho"),
    "rfft": lambda z: torch.fft.rfft(z.real),
    "irfft": lambda z: torch.fft.irfft(z, n=2 * z.shape[-1] - 1),
    "fft2": torch.fft.fft2,
    "irfft2": lambda z: torch.fft.irfft2(torch.fft.rfft2(z.real), s=z.shape),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("length", [1, 7, 24, 38])
def test_products_give_what_the_transform_gives(name: str, length: int) -> None:
    torch.manual_seed(length)
    function: Callable = TRANSFORMS[name]
    x = torch.randn(3, length, dtype=torch.complex64)
    program = with_products(export(function, (x,)).program)
    assert not any(step.op.name.startswith("fft_") for step in program.steps)
    got, want = program(x), function(x)
    assert got.shape == want.shape and got.dtype is want.dtype
    np.testing.assert_allclose(got.numpy(), want.numpy(), atol=2e-6 * max(abs(want.numpy()).max(), 1))


@pytest.mark.export
@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_a_spectrum_of_any_batch_is_native_code(tmp_path: Path) -> None:
    captured = export(
        lambda x: torch.fft.rfft(x).abs(), (torch.randn(2, 12),), dynamic_shapes=({0: Dim("batch", max=4)},)
    )
    aot_compile(captured, tmp_path)
    x = torch.randn(4, 12)
    got = load_native(tmp_path).run(x.numpy())
    np.testing.assert_allclose(got, torch.fft.rfft(x).abs().numpy(), atol=1e-5)


def test_lengths_with_a_large_prime_factor_are_reported(tmp_path: Path) -> None:
    captured = export(torch.fft.rfft, (torch.randn(1, 1009),))
    with pytest.raises(
        ExportError, match="fft_r2c is computed by NumPy, since the length has a prime factor above 512"
    ):
        aot_compile(captured, tmp_path)
