"""Window functions for signal processing: cosine sums, the triangle, and Kaiser's window.

Their shapes are functions of x from 0 to 1.
"""

from __future__ import annotations

from collections.abc import Callable
from math import pi

from ... import dtypes
from ...dtypes import dtype as DType
from ...ops import special as s, table as t
from ..arguments import is_whole
from .creation import factory, full, ones
from .ranges import arange
from ..tensor import Tensor

FUNCTIONS = "hann_window hamming_window blackman_window bartlett_window kaiser_window"


def _window(
    name: str, size: int, periodic: bool, shape: Callable, dtype: DType | None, device: object, requires_grad: bool
) -> Tensor:
    """`size` samples of shape(x) for x from 0 to 1; a periodic window drops the last of size + 1 samples."""
    if not isinstance(periodic, bool):
        raise TypeError(f"{name}(): argument 'periodic' (position 2) must be bool, not {type(periodic).__name__}")
    if not is_whole(size):
        raise TypeError(f"{name}(): argument 'window_length' (position 1) must be int, not {type(size).__name__}")
    if size < 0:
        raise RuntimeError(f"{name} requires non-negative window_length, got window_length={size}")
    dtype = dtype or dtypes.get_default_dtype()
    if not dtype.is_floating_point:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {dtype}")
    if size <= 1:
        result = ones(size, dtype=dtype, device=device)
    else:
        result = shape(arange(size, dtype=dtypes.float64, device=device) / (size if periodic else size - 1)).to(dtype)
    return result.requires_grad_() if requires_grad else result


def cosines(*weights: float) -> Callable:
    """The sum of weights[k] cos(2 pi k x)."""

    def shape(x: Tensor) -> Tensor:
        total = full(x.shape, weights[0], dtype=x.dtype, device=x.device)
        for k, weight in enumerate(weights[1:], 1):
            total = total + weight * t.cos(2 * pi * k * x)
        return total

    return shape


def triangle(x: Tensor) -> Tensor:
    """1 - |2 x - 1|."""
    return 1 - t.abs(2 * x - 1)


def kaiser(beta: float) -> Callable:
    """I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta)."""

    def shape(x: Tensor) -> Tensor:
        inner = t.sqrt((1 - t.square(2 * x - 1)).clamp(min=0.0)) * beta
        return s.i0(inner) / s.i0(full((), float(beta), dtype=x.dtype, device=x.device))

    return shape


@factory
def hann_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hann's window: (1 - cos(2 pi x)) / 2.

    Example:

        >>> torch.hann_window(4)
        tensor([0.0000, 0.5000, 1.0000, 0.5000])
    """
    return _window("hann_window", window_length, periodic, cosines(0.5, -0.5), dtype, device, requires_grad)


@factory
def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    """Hamming's window: alpha - beta cos(2 pi x).

    Example:

        >>> torch.hamming_window(4)
        tensor([0.0800, 0.5400, 1.0000, 0.5400])
    """
    return _window("hamming_window", window_length, periodic, cosines(alpha, -beta), dtype, device, requires_grad)


@factory
def blackman_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    """Blackman's window: 0.42 - 0.5 cos(2 pi x) + 0.08 cos(4 pi x).

    Example:

        >>> torch.blackman_window(5, periodic=False)[2]
        tensor(1.)
    """
    return _window("blackman_window", window_length, periodic, cosines(0.42, -0.5, 0.08), dtype, device, requires_grad)


@factory
def bartlett_window(
    window_length: int,
    periodic: bool = True,
    *,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    """The triangle: 1 - |2 x - 1|.

    Example:

        >>> torch.bartlett_window(4, periodic=False)
        tensor([0.0000, 0.6667, 0.6667, 0.0000])
    """
    return _window("bartlett_window", window_length, periodic, triangle, dtype, device, requires_grad)


@factory
def kaiser_window(
    window_length: int,
    periodic: bool = True,
    beta: float = 12.0,
    *,
    dtype: DType | None = None,
    device: object = None,
    requires_grad: bool = False,
) -> Tensor:
    """Kaiser's window: I0(beta sqrt(1 - (2 x - 1)^2)) / I0(beta).

    Example:

        >>> torch.kaiser_window(5, periodic=False)[2]
        tensor(1.)
    """
    return _window("kaiser_window", window_length, periodic, kaiser(beta), dtype, device, requires_grad)
