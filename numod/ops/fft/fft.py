"""Discrete Fourier transforms: by `fourier_rows` those that it takes, others by NumPy's pocketfft, and on a GPU by
`fourier_stages`. Inputs are dense; float32 stays float32. Arguments are worked out in `core.fourier`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...device import Layout
from ...device.layout import layout
from . import cpu as fourier_rows, cuda_stages
from ..op import Op, Plan

# the scale of a transform, under the name the transform the other way has for it
ADJOINT = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


class Transform(Op):
    """`compute(array, out, dims, norm, ways, *rest)` along dimensions `dims`; `length(size of the last of them, *rest)`
    what that becomes. `ways` are functions of buffers that transform along a dimension.

    `norm` is NumPy's: which way is divided by the number of elements, "forward", "backward", or both by its root,
    "ortho".
    """

    inputs, upcasts_half = ("x",), False

    def __init__(
        self, name: str, rest: str, compute: Callable, length: Callable, complex_result: bool, gradient: Callable
    ) -> None:
        super().__init__(name)
        self.parameters = ("dims", "norm", *rest.split())
        self.compute, self.length, self.complex_result, self.gradients = (
            compute,
            length,
            complex_result,
            {"x": gradient},
        )

    @property
    def takes(self) -> str:
        """As `Op.takes`."""
        return f"x[*s]:{'f' if self is half_spectrum else 'c'}; dims=axis^* norm=forward|backward|ortho" + {
            "inverse": " inverse=flag",
            "n": " n=1..",
        }.get(self.parameters[-1], "")

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        (x,), (dims, *_) = arguments, parameters
        if not x.ndim or not dims or len(set(dims)) < len(dims):
            return f"attribute 'dims' must be dimensions of x, each once, got {dims}"
        if self is from_half and parameters[2] // 2 + 1 != x.shape[dims[-1]]:
            return (
                f"attribute 'n' must fit the {x.shape[dims[-1]]} elements of dimension {dims[-1]}, got {parameters[2]}"
            )
        return None

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        dims, norm, *rest = parameters
        shape = list(x.shape)
        shape[dims[-1]] = self.length(shape[dims[-1]], *rest)
        out = layout(tuple(shape), x.dtype.to_complex() if self.complex_result else x.dtype.to_real(), x.device)
        inverse = rest[0] if self is complex_transform else self is from_half
        if x.device.type == "cuda":
            return Plan(out, cuda_stages.launch(x, out, dims, norm, inverse) if out.size else lambda *_: None)

        ways = self._ways(x, dims, norm, bool(inverse), shape[dims[-1]]) if out.size else {}

        def launch(source: np.ndarray, target: np.ndarray) -> None:
            if out.size:
                self.compute(
                    source[: x.size].reshape(x.shape), target[: out.size].reshape(shape), dims, norm, ways, *rest
                )

        return Plan(out, launch)

    def _ways(self, x: Layout, dims: tuple, norm: str, inverse: bool, length: int) -> dict[int, Callable]:
        """The compiled transforms along single dimensions, of those that have one; the last one's result has `length`
        elements there.
        """
        shape, found, (*others, last) = list(x.shape), {}, dims
        if self is complex_transform:
            others = dims
        elif last == x.ndim - 1:
            n = length if self is from_half else shape[last]
            found[last] = fourier_rows.real_rows(
                x.dtype, x.device, prod(shape[:-1]), n, inverse, cuda_stages.scale_of(n, norm, inverse)
            )
        if self is half_spectrum:
            shape[last] = length
        for d in others:
            sizes = prod(shape[:d]), shape[d], prod(shape[d + 1 :])
            found[d] = fourier_rows.complex_rows(
                x.dtype.to_complex(), x.device, *sizes, inverse, cuda_stages.scale_of(shape[d], norm, inverse)
            )
        return {d: way for d, way in found.items() if way}


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


def _fftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, ways: dict, inverse: bool) -> None:
    """One dimension at a time, as NumPy's function for several does, which takes some 10 us more."""
    for d in reversed(dims):
        if d in ways:
            ways[d](x.reshape(-1), out.reshape(-1))
            x = out
        else:
            x = (np.fft.ifft if inverse else np.fft.fft)(x, axis=d, norm=norm, out=out)


def _rfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, ways: dict) -> None:
    *others, last = dims
    if last in ways:
        ways[last](x.reshape(-1), out.reshape(-1))
    else:
        np.fft.rfft(x, axis=last, norm=norm, out=out)
    _fftn(out, out, others, norm, ways, False)


def _irfftn(x: np.ndarray, out: np.ndarray, dims: tuple, norm: str, ways: dict, n: int) -> None:
    between = np.empty_like(x) if len(dims) > 1 else x
    _fftn(x, between, dims[:-1], norm, ways, True)
    if dims[-1] in ways:
        ways[dims[-1]](between.reshape(-1), out.reshape(-1))
    else:
        np.fft.irfft(between, n, axis=dims[-1], norm=norm, out=out)


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
