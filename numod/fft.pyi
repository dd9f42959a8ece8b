# Written by tests/stubs.py: signatures of what tables add to this module at import.
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import numpy as np

from .device.layout import Size as _Size
from .device.device import Device as _device
from .dtypes import dtype as _dtype
from .formats import layout as _layout, memory_format as _memory_format
from .core.tensor import Tensor

def fft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real or complex numbers, along a dimension."""
def ifft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the discrete Fourier transform, along a dimension."""
def rfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real numbers, at its n // 2 + 1 non-negative frequencies, along a dimension."""
def irfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of rfft: n real numbers from n // 2 + 1 frequencies, along a dimension."""
def hfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real transform of a Hermitian sequence, given by its first half, along a dimension."""
def ihfft(input: Tensor, n: _int | None = None, dim: _int = -1, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of hfft, along a dimension."""
def fft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real or complex numbers, along two dimensions."""
def ifft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the discrete Fourier transform, along two dimensions."""
def rfft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real numbers, at its n // 2 + 1 non-negative frequencies, along two dimensions."""
def irfft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of rfft: n real numbers from n // 2 + 1 frequencies, along two dimensions."""
def hfft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real transform of a Hermitian sequence, given by its first half, along two dimensions."""
def ihfft2(input: Tensor, s: Sequence[_int] | None = None, dim: Sequence[_int] = ..., norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of hfft, along two dimensions."""
def fftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real or complex numbers, along dimensions, all by default."""
def ifftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of the discrete Fourier transform, along dimensions, all by default."""
def rfftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The discrete Fourier transform of real numbers, at its n // 2 + 1 non-negative frequencies, along dimensions, all by default."""
def irfftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of rfft: n real numbers from n // 2 + 1 frequencies, along dimensions, all by default."""
def hfftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The real transform of a Hermitian sequence, given by its first half, along dimensions, all by default."""
def ihfftn(input: Tensor, s: Sequence[_int] | None = None, dim: _int | Sequence[_int] | None = None, norm: str | None = None, *, out: Tensor | None = None) -> Tensor:
    """The inverse of hfft, along dimensions, all by default."""
@overload
def fftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Frequencies of fft's n results, in cycles per unit, for samples `d` apart."""
@overload
def fftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = None) -> Tensor:
    """Frequencies of fft's n results, in cycles per unit, for samples `d` apart."""
@overload
def rfftfreq(n: _int, d: _float = 1.0, *, out: Tensor | None = None, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, requires_grad: _bool = False) -> Tensor:
    """Frequencies of rfft's n // 2 + 1 results."""
@overload
def rfftfreq(n: _int, d: _float = 1.0, *, dtype: _dtype | None = None, layout: _layout | None = None, device: _device | str | _int | None = None, pin_memory: _bool | None = None) -> Tensor:
    """Frequencies of rfft's n // 2 + 1 results."""
def fftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """Frequency 0 moved to the middle."""
def ifftshift(input: Tensor, dim: _int | Sequence[_int] | None = None) -> Tensor:
    """The inverse of fftshift."""
