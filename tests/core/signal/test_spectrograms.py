"""Short-time Fourier transforms against frames cut and transformed by NumPy, and against their own inverse."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck

pytestmark = [pytest.mark.on_cuda(simulator=False), pytest.mark.filterwarnings("ignore:A window was not provided")]

RNG = np.random.default_rng(13)
SIGNAL = RNG.standard_normal((2, 50))
WINDOW = numod.hann_window(12, dtype=numod.float64)


def reference(
    signal: np.ndarray, n_fft: int, hop: int, window: np.ndarray, center: bool, mode: str = "reflect"
) -> np.ndarray:
    left = (n_fft - window.size) // 2
    window = np.pad(window, (left, n_fft - window.size - left))
    signal = (
        np.pad(signal, ((0, 0), (n_fft // 2, n_fft // 2)), {"circular": "wrap", "replicate": "edge"}.get(mode, mode))
        if center
        else signal
    )
    frames = [signal[:, start : start + n_fft] * window for start in range(0, signal.shape[1] - n_fft + 1, hop)]
    return np.fft.rfft(np.stack(frames, 1)).swapaxes(1, 2)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "center, mode", [(True, "reflect"), (True, "constant"), (True, "circular"), (True, "replicate"), (False, "reflect")]
)
def test_stft(center: bool, mode: str) -> None:
    result = numod.stft(numod.tensor(SIGNAL), 16, 5, 12, WINDOW, center, mode, return_complex=True)
    np.testing.assert_allclose(result.numpy(), reference(SIGNAL, 16, 5, WINDOW.numpy(), center, mode), atol=1e-12)


def test_defaults_and_forms() -> None:
    x = numod.tensor(SIGNAL)
    plain = x.stft(8, return_complex=True)
    np.testing.assert_allclose(plain.numpy(), reference(SIGNAL, 8, 2, np.ones(8), True), atol=1e-12)
    assert numod.allclose(x.stft(8, normalized=True, return_complex=True) * 8**0.5, plain)
    both = x.stft(8, onesided=False, return_complex=True)
    assert both.shape[1] == 8 and numod.allclose(both[:, :5], plain)
    assert x[0].stft(8, return_complex=True).shape == plain.shape[1:]


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    "options", [{}, {"center": False}, {"normalized": True}, {"onesided": False}, {"win_length": 12}]
)
def test_istft_is_the_inverse(options: dict) -> None:
    window = numod.hann_window(options.get("win_length", 16), dtype=numod.float64) + 0.1
    x = numod.tensor(SIGNAL)
    spectrum = numod.stft(x, 16, 4, window=window, return_complex=True, **options)
    back = (
        numod.istft(spectrum, 16, 4, window=window, **options)
        if "win_length" not in options
        else numod.istft(spectrum, 16, 4, window=window, length=48, **options)
    )
    assert back.shape[-1] >= 44 and numod.allclose(back, x[:, : back.shape[-1]])


@pytest.mark.cpu_only
def test_istft_with_a_complex_window_is_the_inverse() -> None:
    x, window = numod.arange(40.0) * (1 + 0.5j), numod.hann_window(8) * (1 + 1j) + 0.1
    spectrum = numod.stft(x, 8, window=window, return_complex=True, onesided=False)
    assert numod.allclose(numod.istft(spectrum, 8, window=window, onesided=False, return_complex=True), x, atol=1e-4)


def test_gradients() -> None:
    x = numod.tensor(SIGNAL[:1, :20], requires_grad=True)
    assert gradcheck(lambda x: numod.stft(x, 8, 4, return_complex=True).abs(), [x])
    assert gradcheck(lambda x: numod.istft(numod.stft(x, 8, 2, return_complex=True) * (1 + 0.5j), 8, 2), [x])


def test_refusals() -> None:
    x = numod.tensor(SIGNAL)
    for call, message in (
        (lambda: numod.stft(x, 8), "return_complex"), (lambda: numod.stft(x, 8, 0, return_complex=True), "hop_length "
                                                                                                         "> 0"), (lambda: numod.stft(x, 8, window=WINDOW, return_complex=True), "1D window tensor"),
        (lambda: numod.stft(x, 80, center=False, return_complex=True), "0 < n_fft"), (lambda: numod.istft(x, 8), "complex-valued"), (lambda: numod.istft(x.cdouble(), 8), "frequency dimension"),
        (lambda: numod.istft(numod.zeros(5, 3, dtype=numod.cdouble), 8, 8, 4), "window overlap add"),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=message):
            call()


def test_a_missing_window_is_warned_of(warn_always):
    with pytest.warns(UserWarning, match="rectangular window will be applied, which is known to cause"):
        numod.stft(numod.ones(16), 8, return_complex=True)
    spectra = numod.stft(numod.ones(16), 8, window=numod.ones(8), return_complex=True)
    with pytest.warns(UserWarning, match="provide the same window used by stft"):
        numod.istft(spectra, 8)
