"""Fourier transforms and windows."""

from __future__ import annotations

import math

import numpy as np

import numod

from ...core import Tensor
from ...dtypes import dtype
from ..registry import operator


@operator("DFT", since=17, host="length")
def dft_in_old_version(
    x: Tensor, length: np.ndarray | None = None, *, axis: int = 1, inverse: int = 0, onesided: int = 0
) -> Tensor:
    """Before version 20 the axis is an attribute."""
    return _dft(x, length, axis, inverse, onesided)


@operator("DFT", since=20, host="length axis")
def dft(
    x: Tensor,
    length: np.ndarray | None = None,
    axis: np.ndarray | None = None,
    *,
    inverse: int = 0,
    onesided: int = 0,
) -> Tensor:
    """The discrete Fourier transform along an axis; the last axis has real and imaginary parts, or is 1."""
    return _dft(x, length, -2 if axis is None else int(axis.reshape(())), inverse, onesided)


def _dft(x: Tensor, length: np.ndarray | None, axis: int, inverse: int, onesided: int) -> Tensor:
    axis = axis % x.ndim
    count = None if length is None else int(length.reshape(()))
    is_real = x.shape[-1] == 1
    signal = x.squeeze(-1) if is_real else numod.complex(x[..., 0].contiguous(), x[..., 1].contiguous())
    if inverse and onesided:
        return numod.fft.irfft(signal, count, axis).unsqueeze(-1).to(x.dtype)
    if inverse:
        out = numod.fft.ifft(signal, count, axis)
    elif onesided and is_real:
        out = numod.fft.rfft(signal, count, axis)
    else:
        out = numod.fft.fft(signal, count, axis)
        out = out.narrow(axis, 0, out.shape[axis] // 2 + 1) if onesided else out
    return numod.view_as_real(out.contiguous()).to(x.dtype)


@operator("STFT", since=17, host="step length")
def stft(
    x: Tensor,
    step: np.ndarray,
    window: Tensor | None = None,
    length: np.ndarray | None = None,
    *,
    onesided: int = 1,
) -> Tensor:
    """Transforms of frames, (N, T, 1 or 2) -> (N, frames, frequencies, 2)."""
    size = int(length.reshape(())) if length is not None else window.shape[0] if window is not None else x.shape[-2]
    hop = int(step.reshape(()))
    frames = x.unfold(1, size, hop).movedim(-1, 2)
    frames = frames if window is None else frames * window.reshape(-1, 1)
    return _dft(frames, None, 2, 0, onesided)


def _window(size: np.ndarray, periodic: int, kind: dtype, coefficients: tuple[float, ...]) -> Tensor:
    count = int(size.reshape(()))
    angle = numod.arange(count, dtype=numod.float64) * (2 * math.pi / (count if periodic else max(count - 1, 1)))
    terms = [(-1) ** k * factor * numod.cos(k * angle) for k, factor in enumerate(coefficients)]
    return sum(terms[1:], terms[0]).to(kind)


@operator("HannWindow", since=17, host="size")
def hann_window(size: np.ndarray, *, output_datatype: dtype = numod.float32, periodic: int = 1) -> Tensor:
    """The Hann window."""
    return _window(size, periodic, output_datatype, (0.5, 0.5))


@operator("HammingWindow", since=17, host="size")
def hamming_window(size: np.ndarray, *, output_datatype: dtype = numod.float32, periodic: int = 1) -> Tensor:
    """The Hamming window."""
    return _window(size, periodic, output_datatype, (25 / 46, 21 / 46))


@operator("BlackmanWindow", since=17, host="size")
def blackman_window(size: np.ndarray, *, output_datatype: dtype = numod.float32, periodic: int = 1) -> Tensor:
    """The Blackman window."""
    return _window(size, periodic, output_datatype, (0.42, 0.5, 0.08))


@operator("MelWeightMatrix", since=17, host="bins length rate low high")
def mel_weight_matrix(
    bins: np.ndarray,
    length: np.ndarray,
    rate: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    *,
    output_datatype: dtype = numod.float32,
) -> Tensor:
    """Triangles on the mel scale, (frequencies, bins)."""
    count, spectrum = int(bins), int(length) // 2 + 1
    edges = 2595 * np.log10(1 + np.array([float(low), float(high)]) / 700)
    mels = np.arange(count + 2) * ((edges[1] - edges[0]) / (count + 2)) + edges[0]
    places = ((700 * (10 ** (mels / 2595) - 1)) * (int(length) + 1) // int(rate)).astype(np.int64)
    out = np.zeros((spectrum, count))
    for column in range(count):
        first, top, last = places[column : column + 3]
        if top == first:
            out[top, column] = 1
        for row in range(first, top + 1 if top > first else first):
            out[row, column] = (row - first) / (top - first)
        for row in range(top, last):
            out[row, column] = (last - row) / (last - top)
    return numod.tensor(out.tolist(), dtype=output_datatype)
