"""Short-time Fourier transforms: of a signal's windowed frames, and back."""

from __future__ import annotations

from ... import dtypes
from ...errors import warn_caller_once
from ...ops import table as t
from ..math.complexes import real_, view_as_real
from ..create.creation import ones
from .fourier import fft, ifft, irfft, rfft
from ..create.ranges import arange
from ..shape.reshaping import unfold
from ..index.selection import index_select
from ..shape.joining import pad_constant
from ..shape.shapes import reshape, transpose
from ..tensor import Tensor

BOTH = "stft istft"


def stft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:
    """Transforms of windowed frames of `n_fft` samples, `hop_length` apart: (T,) or (B, T) -> (B, frequencies, frames).

    Complex, or pairs of real numbers if `return_complex` is False.

    `center` pads half a frame at both ends by `pad_mode`; `normalized` divides by the root of n_fft; `onesided`
    (default for real signals) keeps half.

    Example:

        >>> torch.stft(torch.ones(16), n_fft=8, window=torch.ones(8), return_complex=True).shape
        numod.Size([5, 9])
    """
    if return_complex is None and not input.is_complex() and (window is None or not window.is_complex()):
        raise RuntimeError(
            "stft requires the return_complex parameter be given for real inputs, and "
            "will further require that return_complex=True in a future PyTorch release."
        )
    if window is None:
        warn_caller_once(
            "A window was not provided. A rectangular window will be applied, which is known to cause spectral "
            "leakage; use one such as hann_window, or pass window=ones(win_length) to keep the rectangular one."
        )
    hop, width = _sizes("stft", n_fft, hop_length, win_length, window)
    if input.ndim not in (1, 2):
        raise RuntimeError(
            f"stft(): expected a 1D or 2D tensor, but got a {input.ndim}D tensor of shape {list(input.shape)}"
        )
    signal = input if input.ndim == 2 else input.unsqueeze(0)
    signal = _padded(signal, n_fft // 2, pad_mode) if center else signal
    if not 0 < n_fft <= signal.shape[-1]:
        raise RuntimeError(f"stft(): expected 0 < n_fft < {signal.shape[-1]}, but got n_fft={n_fft}")
    frames = unfold(signal, -1, n_fft, hop) * _frame(window, width, n_fft, input)
    half = not frames.is_complex() if onesided is None else onesided
    norm = "ortho" if normalized else "backward"
    spectrum = transpose(rfft(frames, norm=norm) if half else fft(frames, norm=norm), -1, -2)
    spectrum = spectrum if input.ndim == 2 else spectrum.squeeze(0)
    return view_as_real(spectrum) if return_complex is False else spectrum


def istft(
    input: Tensor,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Tensor | None = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Tensor:
    """The signal of a short-time transform: overlapping frames are added and divided by the windows' squares (Griffin
    and Lim, 1984).

    Example:

        >>> x = torch.randn(64)
        >>> window = torch.hann_window(16)
        >>> spectrum = torch.stft(x, 16, window=window, return_complex=True)
        >>> torch.allclose(torch.istft(spectrum, 16, window=window, length=64), x, atol=1e-5)
        True
    """
    if not input.is_complex():
        raise RuntimeError(
            "istft requires a complex-valued input tensor matching the output from stft with return_complex=True."
        )
    if window is None:
        warn_caller_once(
            "A window was not provided. A rectangular window will be applied. Please provide the same window used by "
            "stft to make the inversion lossless; pass window=ones(win_length) for the rectangular one."
        )
    hop, width = _sizes("istft", n_fft, hop_length, win_length, window)
    half = input.shape[-2] != n_fft if onesided is None else onesided
    if input.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        raise RuntimeError(
            f"istft: expected the frequency dimension (3rd to the last) of the input tensor to match n_fft={n_fft}, "
            f"but got {input.shape[-2]}"
        )
    spectra = transpose(input if input.ndim == 3 else input.unsqueeze(0), -1, -2)
    norm = "ortho" if normalized else "backward"
    frames = (
        ifft(spectra, norm=norm)
        if return_complex and not half
        else irfft(spectra[..., : n_fft // 2 + 1], n_fft, norm=norm)
    )
    shape = _frame(window, width, n_fft, real_(input).detach())
    count = frames.shape[1]
    total, start = n_fft + hop * (count - 1), n_fft // 2 if center else 0
    places = reshape(arange(count, device=input.device).unsqueeze(1) * hop + arange(n_fft, device=input.device), (-1,))
    signal = _overlapped(frames * shape, places, total)
    envelope = _overlapped((shape * shape).expand(1, count, n_fft), places, total)
    if length is None:
        end = total - start if center else total
    else:
        end = start + length
    signal, envelope = signal[:, start : min(end, total)], envelope[:, start : min(end, total)]
    if envelope.numel() and envelope.detach().abs().min()._observe() < 1e-11:
        raise RuntimeError(
            "istft(): window overlap add min: 1; the windows leave samples out, so that "
            "no signal is determined there; choose a smaller hop_length or another window"
        )
    signal = signal / envelope
    if length is not None and signal.shape[-1] < length:
        signal = pad_constant(signal, (0, length - signal.shape[-1]))
    return signal if input.ndim == 3 else signal.squeeze(0)


def _sizes(name: str, n_fft: int, hop: int | None, width: int | None, window: Tensor | None) -> tuple[int, int]:
    """The step between frames and the window's width, n_fft / 4 and n_fft by default."""
    hop, width = n_fft // 4 if hop is None else hop, n_fft if width is None else width
    if hop <= 0:
        raise RuntimeError(f"{name}(): expected hop_length > 0, but got hop_length={hop}")
    if not 0 < width <= n_fft:
        raise RuntimeError(f"{name}(): expected 0 < win_length <= n_fft, but got win_length={width}")
    if window is not None and (window.ndim != 1 or window.shape[0] != width):
        raise RuntimeError(
            f"{name}(): expected a 1D window tensor of size equal to win_length={width}, but got window with size "
            f"{list(window.shape)}"
        )
    return hop, width


def _frame(window: Tensor | None, width: int, n_fft: int, like: Tensor) -> Tensor:
    """The window in the middle of n_fft samples."""
    if window is None:
        window = ones(
            width,
            dtype=like.dtype.to_real() if like.dtype.differentiable else dtypes.get_default_dtype(),
            device=like.device,
        )
    left = (n_fft - width) // 2
    return window if width == n_fft else pad_constant(window, (left, n_fft - width - left))


def _padded(signal: Tensor, by: int, mode: str) -> Tensor:
    """The signal with `by` samples more at both ends."""
    n = signal.shape[-1]
    if mode == "constant":
        return pad_constant(signal, (by, by))
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"Unrecognised padding mode {mode}; expected 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if mode == "reflect" and by >= n:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({by}, {by}) at "
            f"dimension 2 of input {list(signal.shape)}"
        )
    places = arange(-by, n + by, device=signal.device)
    if mode == "reflect":
        places = (n - 1) - (n - 1 - places.abs()).abs()
    else:
        places = places.clamp(0, n - 1) if mode == "replicate" else t.remainder(places, n)
    return index_select(signal, -1, places)


def _overlapped(frames: Tensor, places: Tensor, total: int) -> Tensor:
    """The sum of frames (B, count, n) at their places in a signal (B, total)."""
    return frames.new_zeros((frames.shape[0], total)).index_add(1, places, reshape(frames, (frames.shape[0], -1)))
