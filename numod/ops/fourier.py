"""Discrete Fourier transforms by NumPy's pocketfft, and on a GPU by `fourier_stages`. Inputs are dense; float32 stays float32. Arguments
are worked out in `core.fourier`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..device.layout import layout
from . import fourier_stages
from .op import Op, Plan

ADJOINT = {"backward": "forward", "ortho": "ortho", "forward": "backward"}  # the scale of a transform, under the name the transform the other way has for it


class Transform(Op):
    """`compute(array, out, dims, norm, *rest)` along dimensions `dims`; `length(size of the last of them, *rest)` what that becomes.

    `norm` is NumPy's: which way is divided by the number of elements, "forward", "backward", or both by its root, "ortho".
    """

    inputs, widens = ("x",), False

    def __init__(self, name: str, rest: str, compute: Callable, length: Callable, complex_result: bool, gradient: Callable) -> None:
        super().__init__(name)
        self.parameters = ("dims", "norm", *rest.split())
        self.compute, self.length, self.complex_result, self.gradients = compute, length, complex_result, {"x": gradient}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        dims, norm, *rest = parameters
        shape = list(x.shape)
        shape[dims[-1]] = self.length(shape[dims[-1]], *rest)
        out = layout(tuple(shape), x.dtype.to_complex() if self.complex_result else x.dtype.to_real(), x.device)
        if x.device.type == "cuda":
            inverse = rest[0] if self is complex_transform else self is from_half
            return Plan(out, fourier_stages.launch(x, out, dims, norm, inverse) if out.size else lambda *_: None)

        def launch(source: np.ndarray, target: np.ndarray) -> None:
            if out.size:
                self.compute(source[: x.size].reshape(x.shape), target[: out.size].reshape(shape), dims, norm, *rest)

        return Plan(out, launch)


def _real_backward(g: object, layout: object, dims: tuple, norm: str) -> object:
    """The adjoint of keeping half of a spectrum: the other half is zero."""
    whole = list(g.shape)
    whole[dims[-1]] = layout.shape[dims[-1]]
    spectrum = g.new_zeros(whole)
    spectrum.narrow(dims[-1], 0, g.shape[dims[-1]]).copy_(g)
    return complex_transform.apply((spectrum,), (dims, ADJOINT[norm], True)).real


def _half_backward(g: object, layout: object, dims: tuple, norm: str) -> object:
    """The adjoint of taking the other half for granted: what is in both halves counts twice."""
    half = half_spectrum.apply((g.contiguous(),), (dims, ADJOINT[norm])).clone()
    last, n = dims[-1], g.shape[dims[-1]]
    twice = n - half.shape[last]
    weights = half.new_ones(half.shape[last], dtype=half.dtype.to_real())
    weights[1 : 1 + twice] = 2
    return half * weights.reshape([-1 if d == last else 1 for d in range(half.ndim)])


def _fftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, inverse: bool) -> None:
    """One dimension at a time, as NumPy's function for several does, which takes some 10 us more."""
    for d in reversed(dims):
        x = (np.fft.ifft if inverse else np.fft.fft)(x, axis=d, norm=norm, out=out)


def _rfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str) -> None:
    np.fft.rfft(x, axis=dims[-1], norm=norm, out=out)
    _fftn(out, out, dims[:-1], norm, False)


def _irfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, n: int) -> None:
    for d in dims[:-1]:
        x = np.fft.ifft(x, axis=d, norm=norm)
    np.fft.irfft(x, n, axis=dims[-1], norm=norm, out=out)


complex_transform = Transform(
    "fft_c2c", "inverse", _fftn, lambda n, inverse: n, True,
    lambda g, dims, norm, inverse: complex_transform.apply((g.contiguous(),), (dims, ADJOINT[norm], not inverse)),
)
half_spectrum = Transform("fft_r2c", "", _rfftn, lambda n: n // 2 + 1, True, _real_backward)
from_half = Transform("fft_c2r", "n", _irfftn, lambda size, n: n, False, _half_backward)
