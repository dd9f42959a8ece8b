"""Normalization by the mean and variance of rows (layer norm, RMS norm) or of channels (batch norm).

Forward and backward are one kernel each; sums are accumulated block by block in float64. If a gradient will itself be
differentiated, it is composed of tensor operations instead.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.specialize import specialized
from . import batch_norm_cuda
from ..reduce import register_rows, block_reduce
from ..op import Op, Plan, single_device
from .normalization_kernels import (
    BLOCK_KERNELS,
    channel_norm_columns,
    channel_norm_gradient_columns,
    channel_norm_gradient_kernel,
    channel_norm_kernel,
    row_norm_gradient_kernel,
    row_norm_kernel,
)

_COLUMNS = 128  # neighbouring channels of a task if each channel has one element per image


_IN_CHUNKS = channel_norm_kernel, channel_norm_gradient_kernel
_BY_COLUMNS = {channel_norm_kernel: channel_norm_columns, channel_norm_gradient_kernel: channel_norm_gradient_columns}


class Norm(Op):
    """Base: dense x, and weight and bias of the same dtype or None; attribute `eps`."""

    attributes = ("eps",)

    def _launch(
        self,
        kernel: Callable,
        x: Layout,
        arguments: tuple,
        results: tuple[Layout, ...],
        numbers: tuple,
        eps: float | None,
        rows: int,
        n: int,
    ) -> Plan:
        """A plan for a kernel; tensors that are None are passed as arrays that are not read.

        On a GPU, `rows` blocks of threads work on n elements each, if n is large enough.
        """
        by_columns = kernel in _BY_COLUMNS and numbers[2] == 1 and not x.device.backend.is_gpu
        tail = () if eps is None else (float(eps),)
        arrays = [x] * (len(arguments) + len(results)) + ["float64"] * by_columns
        signature = bind.signature(*arrays, numbers=len(numbers), others=["float64"] * len(tail))
        threads = block_reduce.sharing(x, n, most=512) if n < 1 << 31 else 0
        chunked = (
            batch_norm_cuda.launch_in_chunks(x, self.name, kernel is channel_norm_gradient_kernel, numbers, tail[0])
            if threads and kernel in _IN_CHUNKS
            else None
        )
        if chunked:
            numbers, tail, run = (), (), chunked
        elif threads:
            run = block_reduce.launcher(
                x,
                self.name,
                register_rows.register_variant(BLOCK_KERNELS[kernel], n, threads),
                signature,
                rows,
                threads,
            )
        else:
            source = specialized(_BY_COLUMNS[kernel], COLUMNS=_COLUMNS) if by_columns else specialized(kernel)
            run = bind.launcher(x.device, self.name, source, signature, x.dtype, 4 * x.size, build.FAST_REDUCTION)
        is_tensor, empty, storage = [isinstance(argument, Layout) for argument in arguments], x.device.empty, x.storage
        scratch = [(2 * x.shape[1], np.dtype("float64"))] if by_columns else []

        def launch(*buffers: object) -> None:
            tensors, results = iter(buffers[: sum(is_tensor)]), buffers[sum(is_tensor) :]
            inputs = [next(tensors) if present else empty(1, storage) for present in is_tensor]
            run(*inputs, *results, *[empty(*size) for size in scratch], *numbers, *tail)

        return Plan(results, launch)

    def _check(self, x: Layout, *others: object) -> None:
        if not x.dtype.is_floating_point:
            raise NotImplementedError(
                f"\"{self.name}\" not implemented for '{x.dtype.short}'; convert first, for example with "
                ".to(numod.float32)"
            )
        others = [other for other in others if isinstance(other, Layout)]
        single_device(self.name, [x, *others])
        if any(other.dtype is not x.dtype for other in others):
            raise RuntimeError(
                f"{self.name}: expected scalar type {x.dtype.short} for weight and bias, as the input has; convert "
                "with .to()"
            )


def planes(x: Layout) -> tuple[int, int, int]:
    """(images, channels, elements of each) of x (images, channels, ...)."""
    return (*x.shape[:2], prod(x.shape[2:]))


class RowNorm(Norm):
    """(out, mean, rstd) of x (..., n), normalized along n. If not `centred`, the mean is taken as 0."""

    takes = "x[*l n]:f weight?[n] bias?[n]; eps=number"
    inputs, outputs = ("x", "weight", "bias"), ("out", "mean", "rstd")
    results_with_gradient = 1

    def __init__(self, name: str, centred: bool) -> None:
        super().__init__(name)
        self.centred, self.gradient = centred, RowNormGradient(f"{name}_gradient", centred)

        def gradients(
            grads: list,
            x: object,
            weight: object,
            mean: object,
            rstd: object,
            eps: float,
            wanted: tuple,
            recording: bool,
        ) -> tuple:
            g = grads[0].contiguous()
            if recording:
                return composed(g, x, weight, eps, (-1,), tuple(range(x.ndim - 1)), lambda weight: weight, centred)
            summed = "weight" in wanted or "bias" in wanted
            d_x, partial = self.gradient.apply((g, x, weight, mean, rstd), (summed,))
            return (
                (d_x, *(partial.sum(0) if partial.shape[0] > 1 else partial.select(0, 0)).unbind())
                if summed
                else (d_x, None, None)
            )

        self.gradients = {self.inputs: gradients}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, bias = arguments
        self._check(x, weight, bias)
        rows, n = prod(x.shape[:-1]), x.shape[-1]
        results = (layout(x.shape, x.dtype, x.device), *[layout((rows,), x.dtype, x.device)] * 2)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        numbers = rows, n, int(self.centred), int(isinstance(weight, Layout)), int(isinstance(bias, Layout))
        return self._launch(row_norm_kernel, x, arguments, results, numbers, attributes[0], rows, n)


class RowNormGradient(Norm):
    """(dx, partial) of RowNorm: partial (workers, 2, n) has partial sums of dweight and dbias if `summed`, else 0."""

    takes = "d_out[*l n]:f x[*l n] weight?[n] mean[r] rstd[r]; summed=flag"
    inputs = ("d_out", "x", "weight", "mean", "rstd")
    outputs = ("dx", "partial")
    attributes = ("summed",)
    differentiable = False

    def __init__(self, name: str, centred: bool) -> None:
        super().__init__(name)
        self.centred = centred

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None if sizes["r"] == prod(sizes["l"]) else f"mean must have {prod(sizes['l'])} elements, got {sizes['r']}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        _, x, weight, *_ = arguments
        rows, n = prod(x.shape[:-1]), x.shape[-1]
        workers = max(1, min(1024, rows // 2) if x.device.backend.is_gpu else min(16, rows // 8) if rows > 64 else 1)
        results = layout(x.shape, x.dtype, x.device), layout((workers, 2, n), x.dtype, x.device)
        numbers = rows, n, int(self.centred), int(isinstance(weight, Layout)), int(attributes[0]), workers
        return self._launch(row_norm_gradient_kernel, x, arguments, results, numbers, None, workers, n)


class ChannelNorm(Norm):
    """(out, mean, var) of x (images, channels, ...); var is the biased variance of the batch."""

    takes = "x[n c *s]:f weight?[c] bias?[c]; eps=number"
    inputs, outputs = ("x", "weight", "bias"), ("out", "mean", "var")
    results_with_gradient = 1

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, bias = arguments
        self._check(x, weight, bias)
        results = (layout(x.shape, x.dtype, x.device), *[layout((x.shape[1],), x.dtype, x.device)] * 2)
        images, channels, n = planes(x)
        numbers = images, channels, n, int(isinstance(weight, Layout)), int(isinstance(bias, Layout))
        return self._launch(channel_norm_kernel, x, arguments, results, numbers, attributes[0], channels, images * n)


class ChannelNormGradient(Norm):
    """(dx, dweight, dbias) of ChannelNorm."""

    takes = "d_out[n c *s]:f x[n c *s] weight?[c] mean[c] var[c]; eps=number"
    inputs, outputs, differentiable = ("d_out", "x", "weight", "mean", "var"), ("dx", "dweight", "dbias"), False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        _, x, weight, *_ = arguments
        results = (layout(x.shape, x.dtype, x.device), *[layout((x.shape[1],), x.dtype, x.device)] * 2)
        images, channels, n = planes(x)
        numbers = images, channels, n, int(isinstance(weight, Layout))
        return self._launch(
            channel_norm_gradient_kernel, x, arguments, results, numbers, attributes[0], channels, images * n
        )


def _channel_gradients(
    grads: list, x: object, weight: object, mean: object, var: object, eps: float, recording: bool
) -> tuple:
    g = grads[0].contiguous()
    if not recording:
        return channel_norm_gradient.apply((g, x, weight, mean, var), (eps,))
    others = (0, *range(2, x.ndim))
    return composed(g, x, weight, eps, others, others, lambda weight: weight.reshape((-1, *(1,) * (x.ndim - 2))))


def composed(
    g: object,
    x: object,
    weight: object,
    eps: float,
    reduced: tuple,
    summed: tuple,
    shaped: Callable,
    centred: bool = True,
) -> tuple:
    """(d_x, d_weight, d_bias) in tensor operations. Statistics are over dimensions `reduced`, the gradients of weight
    and bias are sums over `summed`; `shaped` reshapes weight to broadcast.
    """
    centered = x - x.mean(reduced, keepdim=True) if centred else x
    rstd = ((centered * centered).mean(reduced, keepdim=True) + eps).rsqrt()
    x_hat = centered * rstd
    g_scaled = g if weight is None else g * shaped(weight)
    g_mean = g_scaled.mean(reduced, keepdim=True) if centred else 0.0
    d_x = rstd * (g_scaled - g_mean - x_hat * (g_scaled * x_hat).mean(reduced, keepdim=True))
    return d_x, *[terms.sum(summed) if summed else terms for terms in (g * x_hat, g)]


row_norm, rms_norm = RowNorm("row_norm", True), RowNorm("rms_norm", False)
row_norm_gradient, rms_norm_gradient = row_norm.gradient, rms_norm.gradient
channel_norm, channel_norm_gradient = ChannelNorm("channel_norm"), ChannelNormGradient("channel_norm_gradient")
channel_norm.gradients = {("x", "weight", "bias"): _channel_gradients}
