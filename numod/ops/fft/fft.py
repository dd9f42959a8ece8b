"""Discrete Fourier transforms: on the CPU by `cpu` where it can, else by NumPy's pocketfft; on a GPU by `cuda_stages`.

Inputs are dense; float32 stays float32. `core.signal.fourier` normalises arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...device import Layout
from ...device.layout import layout
from . import cpu as cpu_kernels, cuda_stages
from ..op import Op, Plan

# the norm of the adjoint transform, by the norm of a transform
ADJOINT = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


class Transform(Op):
    """A transform along dimensions `dims`, by `compute(array, out, dims, norm, row_transforms, *rest)`.

    `length(size of the last dimension, *rest)` is the size of this dimension in the result. `row_transforms` are
    compiled functions of buffers that transform along one dimension. `norm` is NumPy's: the direction that is divided
    by the number of elements, "forward" or "backward", or "ortho", which divides both by its root.
    """

    inputs, upcasts_half = ("x",), False

    def __init__(
        self, name: str, rest: str, compute: Callable, length: Callable, complex_result: bool, gradient: Callable
    ) -> None:
        super().__init__(name)
        self.attributes = ("dims", "norm", *rest.split())
        self.compute = compute
        self.length = length
        self.complex_result = complex_result
        self.gradients = {"x": gradient}

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return f"x[*s]:{'f' if self is half_spectrum else 'c'}; dims=axis^* norm=forward|backward|ortho" + {
            "inverse": " inverse=flag",
            "n": " n=1..",
        }.get(self.attributes[-1], "")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        (x,), (dims, *_) = arguments, attributes
        if not x.ndim or not dims or len(set(dims)) < len(dims):
            return f"attribute 'dims' must be dimensions of x, each once, got {dims}"
        if self is from_half and attributes[2] // 2 + 1 != x.shape[dims[-1]]:
            return (
                f"attribute 'n' must fit the {x.shape[dims[-1]]} elements of dimension {dims[-1]}, got {attributes[2]}"
            )
        return None

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        dims, norm, *rest = attributes
        shape = list(x.shape)
        shape[dims[-1]] = self.length(shape[dims[-1]], *rest)
        out = layout(tuple(shape), x.dtype.to_complex() if self.complex_result else x.dtype.to_real(), x.device)
        inverse = rest[0] if self is complex_transform else self is from_half
        if x.device.type == "cuda":
            return Plan(out, cuda_stages.launch(x, out, dims, norm, inverse) if out.size else lambda *_: None)

        row_transforms = self._row_transforms(x, dims, norm, bool(inverse), shape[dims[-1]]) if out.size else {}

        def launch(source: np.ndarray, target: np.ndarray) -> None:
            if out.size:
                self.compute(
                    source[: x.size].reshape(x.shape),
                    target[: out.size].reshape(shape),
                    dims,
                    norm,
                    row_transforms,
                    *rest,
                )

        return Plan(out, launch)

    def _row_transforms(self, x: Layout, dims: tuple, norm: str, inverse: bool, length: int) -> dict[int, Callable]:
        """The compiled transforms by dimension, where there are any. The result has `length` elements along the last
        dimension.
        """
        shape, transforms, (*others, last) = list(x.shape), {}, dims
        if self is complex_transform:
            others = dims
        elif last == x.ndim - 1:
            n = length if self is from_half else shape[last]
            transforms[last] = cpu_kernels.real_rows(
                x.dtype, x.device, prod(shape[:-1]), n, inverse, cuda_stages.scale_of(n, norm, inverse)
            )
        if self is half_spectrum:
            shape[last] = length
        for d in others:
            sizes = prod(shape[:d]), shape[d], prod(shape[d + 1 :])
            transforms[d] = cpu_kernels.complex_rows(
                x.dtype.to_complex(), x.device, *sizes, inverse, cuda_stages.scale_of(shape[d], norm, inverse)
            )
        return {d: transform for d, transform in transforms.items() if transform}


def _real_backward(g: object, layout: object, dims: tuple, norm: str) -> object:
    """The adjoint of keeping half of a spectrum: the other half is zero."""
    full_shape = list(g.shape)
    full_shape[dims[-1]] = layout.shape[dims[-1]]
    spectrum = g.new_zeros(full_shape)
    spectrum.narrow(dims[-1], 0, g.shape[dims[-1]]).copy_(g)
    return complex_transform.apply((spectrum,), (dims, ADJOINT[norm], True)).real


def _half_backward(g: object, layout: object, dims: tuple, norm: str) -> object:
    """The adjoint of implying the other half of a spectrum: frequencies that stand for two count twice."""
    half = half_spectrum.apply((g.contiguous(),), (dims, ADJOINT[norm])).clone()
    last, n = dims[-1], g.shape[dims[-1]]
    doubled = n - half.shape[last]
    weights = half.new_ones(half.shape[last], dtype=half.dtype.to_real())
    weights[1 : 1 + doubled] = 2
    return half * weights.reshape([-1 if d == last else 1 for d in range(half.ndim)])


def _fftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, row_transforms: dict, inverse: bool) -> None:
    """Transform one dimension at a time, as np.fft.fftn does, without its 10 us of overhead."""
    for d in reversed(dims):
        if d in row_transforms:
            row_transforms[d](x.reshape(-1), out.reshape(-1))
            x = out
        else:
            x = (np.fft.ifft if inverse else np.fft.fft)(x, axis=d, norm=norm, out=out)


def _rfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, row_transforms: dict) -> None:
    *others, last = dims
    if last in row_transforms:
        row_transforms[last](x.reshape(-1), out.reshape(-1))
    else:
        np.fft.rfft(x, axis=last, norm=norm, out=out)
    _fftn(out, out, others, norm, row_transforms, False)


def _irfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, row_transforms: dict, n: int) -> None:
    spectrum = np.empty_like(x) if len(dims) > 1 else x
    _fftn(x, spectrum, dims[:-1], norm, row_transforms, True)
    if dims[-1] in row_transforms:
        row_transforms[dims[-1]](spectrum.reshape(-1), out.reshape(-1))
    else:
        np.fft.irfft(spectrum, n, axis=dims[-1], norm=norm, out=out)


complex_transform = Transform(
    "fft_c2c",
    "inverse",
    _fftn,
    lambda n, inverse: n,
    True,
    lambda g, dims, norm, inverse: complex_transform.apply((g.contiguous(),), (dims, ADJOINT[norm], not inverse)),
)
half_spectrum = Transform("fft_r2c", "", _rfftn, lambda n: n // 2 + 1, True, _real_backward)
from_half = Transform("fft_c2r", "n", _irfftn, lambda size, n: n, False, _half_backward)
