"""`numod.signal.windows`: window functions of M samples, symmetric by default.

Without `sym` they are the first M samples of a symmetric window of M + 1, for periodic signals. n counts the samples
from 0, and N is the last index of the symmetric window. Raises ValueError for M < 0 and non-floating dtypes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from math import pi

from ..core.create import windows
from ..core.create.creation import ones
from ..core.create.ranges import arange
from ..core.tensor import Tensor
from ..dtypes import dtype as DType, float32, float64, get_default_dtype
from ..ops import table as t

__all__ = [
    "bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
    "hann", "kaiser", "nuttall",
]  # fmt: skip


def _window(shape: Callable) -> Callable:
    """The window function for a shape, a function of n and N in float64."""

    @functools.wraps(shape)
    def window(
        M: int,
        *,
        sym: bool = True,
        dtype: DType | None = None,
        device: object = None,
        requires_grad: bool = False,
        **options: object,
    ) -> Tensor:
        dtype = dtype or get_default_dtype()
        if M < 0:
            raise ValueError(f"{shape.__name__} requires non-negative window length, got M={M}")
        if dtype not in (float32, float64):
            raise ValueError(f"{shape.__name__} expects float32 or float64 dtypes, got: {dtype}")
        values = shape(arange(M, dtype=float64, device=device), M if M > 1 and not sym else M - 1, **options)
        values = values if M > 1 else ones(M, device=device)
        return values.to(dtype).requires_grad_(requires_grad)

    return window


def _positive(name: str, window: str, value: float) -> None:
    if value <= 0:
        raise ValueError(f"{window}: {name} must be positive, got: {value} instead.")


@_window
def exponential(n: Tensor, N: int, *, center: float | None = None, tau: float = 1.0) -> Tensor:
    """exp(-|n - center| / tau). Symmetric windows have their own center and accept no other."""
    _positive("Tau", "exponential", tau)
    if center is not None and n.numel() == N + 1:
        raise ValueError("Center must be None for symmetric windows")
    return t.exp(-abs(n - (N / 2 if center is None else center)) / tau)


@_window
def cosine(n: Tensor, N: int) -> Tensor:
    """sin(pi (n + 1/2) / (N + 1)): half a period of the sine."""
    return t.sin((n + 0.5) * (pi / max(N + 1, 1)))


@_window
def gaussian(n: Tensor, N: int, *, std: float = 1.0) -> Tensor:
    """exp(-((n - N / 2) / std)^2 / 2)."""
    _positive("Standard deviation", "gaussian", std)
    return t.exp(-0.5 * t.square((n - N / 2) / std))


@_window
def kaiser(n: Tensor, N: int, *, beta: float = 12.0) -> Tensor:
    """I0(beta sqrt(1 - (2 n / N - 1)^2)) / I0(beta)."""
    if beta < 0:
        raise ValueError(f"kaiser: beta must be non-negative, got: {beta} instead.")
    return windows.kaiser(beta)(n / max(N, 1))


def _cosines(n: Tensor, N: int, a: Iterable[float]) -> Tensor:
    """The sum of (-1)^k a[k] cos(2 pi k n / N)."""
    weights = list(a) if isinstance(a, Iterable) else a
    if not isinstance(weights, list):
        raise TypeError("Coefficients must be a list/tuple")
    if not weights:
        raise ValueError("Coefficients cannot be empty")
    return windows.cosines(*[(-1) ** k * weight for k, weight in enumerate(weights)])(n / max(N, 1))


@_window
def general_cosine(n: Tensor, N: int, *, a: Iterable[float]) -> Tensor:
    """The sum of (-1)^k a[k] cos(2 pi k n / N)."""
    return _cosines(n, N, a)


@_window
def general_hamming(n: Tensor, N: int, *, alpha: float = 0.54) -> Tensor:
    """alpha - (1 - alpha) cos(2 pi n / N)."""
    return _cosines(n, N, [alpha, 1 - alpha])


@_window
def hamming(n: Tensor, N: int) -> Tensor:
    """0.54 - 0.46 cos(2 pi n / N)."""
    return _cosines(n, N, [0.54, 0.46])


@_window
def hann(n: Tensor, N: int) -> Tensor:
    """(1 - cos(2 pi n / N)) / 2."""
    return _cosines(n, N, [0.5, 0.5])


@_window
def blackman(n: Tensor, N: int) -> Tensor:
    """0.42 - 0.5 cos(2 pi n / N) + 0.08 cos(4 pi n / N)."""
    return _cosines(n, N, [0.42, 0.5, 0.08])


@_window
def nuttall(n: Tensor, N: int) -> Tensor:
    """Four cosines with the smallest side lobes. Nuttall, Some windows with very good sidelobe behavior, 1981."""
    return _cosines(n, N, [0.3635819, 0.4891775, 0.1365995, 0.0106411])


@_window
def bartlett(n: Tensor, N: int) -> Tensor:
    """The triangle: 1 - |2 n / N - 1|."""
    return windows.triangle(n / max(N, 1))
