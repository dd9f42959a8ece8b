"""Fourier transforms under the names of `torch.fft`, and short-time ones. The ops are in `ops.fft.fft`.

`n` and `s`: sizes to which dimensions are cut or filled with zeros. `norm`: "backward" (the inverse is divided by the
number of elements; the default), "ortho" (both by its root) or "forward". Integers are transformed as the default
float.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ... import dtypes
from ...device.device import Device
from ...dtypes import dtype as DType
from ...errors import SINGLE_INT, normalize_dim, plain
from ...ops.fft import fft as op
from ..apply import apply
from ..math.complexes import conj_
from ..create.creation import factory, zeros
from ..convert.copies import contiguous, to
from ..create.ranges import arange
from ..index.selection import roll
from ..shape.joining import cat
from ..shape.parts import narrow
from ..tensor import Tensor

NAMES = """fft ifft rfft irfft hfft ihfft fft2 ifft2 rfft2 irfft2 hfft2 ihfft2 fftn ifftn rfftn irfftn hfftn
    ihfftn fftfreq rfftfreq fftshift ifftshift"""
Sizes = Sequence[int] | int | None


def _complex(x: Tensor, dims: tuple, norm: str, inverse: bool) -> Tensor:
    return apply(op.complex_transform, (contiguous(to(x, x.dtype.to_complex())),), (dims, norm, inverse))


def _to_half(name: str, x: Tensor, dims: tuple, norm: str) -> Tensor:
    if x.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {x.dtype.short}")
    return apply(op.half_spectrum, (contiguous(x),), (dims, norm))


def _from_half(x: Tensor, dims: tuple, norm: str, n: int) -> Tensor:
    return apply(op.from_half, (contiguous(to(x, x.dtype.to_complex())),), (dims, norm, n))


def _norm(norm: str | None) -> str:
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    return norm or "backward"


def _prepared(
    name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None, half: bool = False
) -> tuple[Tensor, tuple, str, int]:
    """(tensor resized to `s`, dimensions, norm, last size of the result); with `half` the input is half a spectrum."""
    if not isinstance(input, Tensor):
        raise TypeError(f"fft_{name}(): argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    if input.dtype.compute is not input.dtype:
        raise RuntimeError(f"Unsupported dtype {input.dtype.short}; convert first, for example with .float()")
    input = input if input.dtype.differentiable else to(input, dtypes.get_default_dtype())
    dims, sizes = _dims(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    last = 2 * (input.shape[dims[-1]] - 1) if half else input.shape[dims[-1]]
    last = last if sizes[-1] in (None, -1) else sizes[-1]
    lengths = [input.shape[d] if n in (None, -1) else n for d, n in zip(dims, sizes)]
    if half:
        lengths[-1] = last // 2 + 1
    if last < 1 or min(lengths) < 1:
        raise RuntimeError(f"Invalid number of data points ({min(last, *lengths)}) specified")
    return _resized(input, dims, lengths), dims, _norm(norm), last


def _dims(input: Tensor, s: Sizes, dim: Sizes) -> tuple[tuple[int, ...], tuple]:
    """The dimensions, counted from the front, and the requested sizes, None where there is none."""
    sizes = None if s is None else (plain(s),) if isinstance(s, SINGLE_INT) else tuple(s)
    if dim is None:
        if sizes is not None and len(sizes) > input.ndim:
            raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions.")
        dim = tuple(range(input.ndim - len(sizes), input.ndim)) if sizes is not None else tuple(range(input.ndim))
    dims = tuple(normalize_dim(d, input.ndim) for d in ((dim,) if isinstance(dim, SINGLE_INT) else dim))
    if len(set(dims)) != len(dims):
        raise RuntimeError("FFT dims must be unique")
    if sizes is not None and len(sizes) != len(dims):
        raise RuntimeError("When given, dim and shape arguments must have the same length")
    return dims, sizes or (None,) * len(dims)


def _resized(x: Tensor, dims: tuple, sizes: list[int]) -> Tensor:
    for d, n in zip(dims, sizes):
        if n < x.shape[d]:
            x = narrow(x, d, 0, n)
        elif n > x.shape[d]:
            x = cat((x, zeros((*x.shape[:d], n - x.shape[d], *x.shape[d + 1 :]), dtype=x.dtype, device=x.device)), d)
    return x


def _fftn(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    if isinstance(input, Tensor) and not _dims(input, s, dim)[0]:  # over no dimension each element is its own transform
        return to(
            input, (input.dtype if input.dtype.differentiable else dtypes.get_default_dtype()).to_complex()
        ).clone()
    x, dims, norm, _ = _prepared(name, input, s, dim, norm)
    return _complex(x, dims, norm, name[0] == "i")


def _rfftn(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    x, dims, norm, _ = _prepared(name, input, s, dim, norm)
    return _to_half(name, x, dims, norm)


def _irfftn(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    return _from_half(*_prepared(name, input, s, dim, norm, half=True))


def _hfftn(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    x, dims, norm, n = _prepared(name, input, s, dim, norm, half=True)
    return _from_half(conj_(x), dims, op.ADJOINT[norm], n)


def _ihfftn(name: str, input: Tensor, s: Sizes, dim: Sizes, norm: str | None) -> Tensor:
    x, dims, norm, _ = _prepared(name, input, s, dim, norm)
    return conj_(_to_half(name, x, dims, op.ADJOINT[norm]))


def _example(name: str) -> str:
    """The example in a transform's docstring, for sizes of 4. Transforms of real input have 4 // 2 + 1 results."""
    sizes = {"2": "4, 4", "n": "2, 4, 4"}.get(name[-1], "4")
    last = {"rfft": 3, "ihfft": 3, "irfft": 6, "hfft": 6}.get(name.rstrip("2n"), 4)
    dtype = ", dtype=torch.complex64" if last == 6 else ""
    return f"""Example:

    >>> torch.fft.{name}(torch.ones({sizes}{dtype})).shape
    numod.Size([{sizes[:-1]}{last}])
"""


def _family(name: str, transform: Callable, summary: str) -> tuple[Callable, Callable, Callable]:
    """The transform along one dimension, along two, and along any."""

    def one(input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
        if n == -1:  # "as it is" only where there is a size for each of several dimensions
            raise RuntimeError("Invalid number of data points (-1) specified")
        return transform(name, input, n, dim, norm)

    def two(input: Tensor, s: Sizes = None, dim: Sizes = (-2, -1), norm: str | None = None) -> Tensor:
        return transform(f"{name}2", input, s, dim, norm)

    def many(input: Tensor, s: Sizes = None, dim: Sizes = None, norm: str | None = None) -> Tensor:
        return transform(f"{name}n", input, s, dim, norm)

    for function, function_name, where in (
        (one, name, "a dimension"),
        (two, f"{name}2", "two dimensions"),
        (many, f"{name}n", "dimensions, all by default"),
    ):
        function.__name__ = function.__qualname__ = function_name
        function.__doc__ = f"{summary}, along {where}.\n\n{_example(function_name)}"
    return one, two, many


fft, fft2, fftn = _family("fft", _fftn, "The discrete Fourier transform of real or complex numbers")
ifft, ifft2, ifftn = _family("ifft", _fftn, "The inverse of the discrete Fourier transform")
rfft, rfft2, rfftn = _family(
    "rfft", _rfftn, "The discrete Fourier transform of real numbers, at its n // 2 + 1 non-negative frequencies"
)
irfft, irfft2, irfftn = _family("irfft", _irfftn, "The inverse of rfft: n real numbers from n // 2 + 1 frequencies")
hfft, hfft2, hfftn = _family("hfft", _hfftn, "The real transform of a Hermitian sequence, given by its first half")
ihfft, ihfft2, ihfftn = _family("ihfft", _ihfftn, "The inverse of hfft")


@factory
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of fft's n results, in cycles per unit, for samples `d` apart.

    Example:

        >>> torch.fft.fftfreq(4)
        tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
    """
    places = arange(n, dtype=dtype or dtypes.get_default_dtype(), device=device)
    places = places - n * (places >= (n + 1) // 2).to(places.dtype)
    return (places / (n * d)).requires_grad_(requires_grad)


@factory
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    dtype: DType | None = None,
    device: Device | str | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """Frequencies of rfft's n // 2 + 1 results.

    Example:

        >>> torch.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    return (arange(n // 2 + 1, dtype=dtype or dtypes.get_default_dtype(), device=device) / (n * d)).requires_grad_(
        requires_grad
    )


def fftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """Frequency 0 moved to the middle.

    Example:

        >>> torch.fft.fftshift(torch.arange(4))
        tensor([2, 3, 0, 1])
    """
    dims = _dims(input, None, dim)[0]
    return roll(input, [input.shape[d] // 2 for d in dims], dims)


def ifftshift(input: Tensor, dim: Sizes = None) -> Tensor:
    """The inverse of fftshift.

    Example:

        >>> torch.fft.ifftshift(torch.arange(4))
        tensor([2, 3, 0, 1])
    """
    dims = _dims(input, None, dim)[0]
    return roll(input, [(input.shape[d] + 1) // 2 for d in dims], dims)
