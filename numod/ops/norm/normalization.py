"""Normalization by the mean and variance of rows (layer norm, RMS norm) or of channels (batch norm).

Forward and backward are one kernel each; sums are accumulated block by block in float64. If a gradient will itself be
differentiated, it is composed of tensor operations instead.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod, sqrt

import numpy as np

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import cuda, float64, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.library.division import quotient32
from ...kernel.library.rows import moments, row_squares, gradient_sums, write_scaled, write_gradients
from ...kernel.library.cuda_block import row_moments, block_sum
from ...kernel.specialize import specialized
from . import batch_norm_cuda
from ..reduce import register_rows, block_reduce
from ..op import Op, Plan, single_device

_COLUMNS = 128  # neighbouring channels of a task if each channel has one element per image


def row_norm_kernel(x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps):
    """out (rows, n) = (x - mean) * rstd * weight + bias, with mean and variance of each row.

    weight (n) and bias (n) are read if `scaled` and `shifted`. If not `centred`, the mean is taken as 0.
    """
    for task in parallel_range(rows):
        row = int64(task)
        base = row * n
        if centred != 0:
            wide_mean, squares = moments(x, base, n, float64(0), float64(0), float64(0))
        else:
            wide_mean, squares = float64(0), row_squares(x, base, n)
        row_mean = real(wide_mean)
        scale = real(1.0 / sqrt(squares / float64(n) + eps))
        mean[uintp(row)] = row_mean
        rstd[uintp(row)] = scale
        if scaled * shifted != 0:
            for k in range(n):
                out[uintp(base + k)] = (x[uintp(base + k)] - row_mean) * scale * weight[uintp(k)] + bias[uintp(k)]
        else:
            write_scaled(x, out, base, n, row_mean, scale, x.dtype.type(0))
            if scaled != 0:
                for k in range(n):
                    out[uintp(base + k)] *= weight[uintp(k)]
            if shifted != 0:
                for k in range(n):
                    out[uintp(base + k)] += bias[uintp(k)]


def row_norm_gradient_kernel(g, x, weight, mean, rstd, out, partial, rows, n, centred, scaled, summed, workers):
    """out (rows, n) = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)) with gw = g * weight.

    If `summed`, partial (workers, 2, n) = the sums of g * xhat and of g over every `workers`-th row. Writing loops have
    few arrays: with more, LLVM does not check that they do not overlap, and does not vectorise.
    """
    for task in parallel_range(workers):
        partial_at = int64(task) * 2 * n
        for k in range(2 * n):
            partial[uintp(partial_at + k)] = 0
        for row in range(int64(task), rows, workers):
            base = row * n
            row_mean = mean[uintp(row)]
            scale = rstd[uintp(row)]
            sum_g = float64(0)
            sum_gx = float64(0)
            if scaled != 0:
                for low in range(0, n, 512):
                    a = x.dtype.type(0)
                    b = x.dtype.type(0)
                    for k in range(low, min(low + 512, n)):
                        a += g[uintp(base + k)] * weight[uintp(k)]
                        b += g[uintp(base + k)] * weight[uintp(k)] * (x[uintp(base + k)] - row_mean)
                    sum_g += float64(a)
                    sum_gx += float64(b)
            else:
                sum_g, sum_gx = gradient_sums(g, x, base, n, row_mean)
            mean_g = real(sum_g / float64(n)) if centred != 0 else x.dtype.type(0)
            slope = real(sum_gx * float64(scale) * float64(scale) / float64(n))
            if scaled != 0:
                for k in range(n):
                    out[uintp(base + k)] = scale * (
                        g[uintp(base + k)] * weight[uintp(k)] - mean_g - (x[uintp(base + k)] - row_mean) * slope
                    )
            else:
                write_gradients(g, x, out, base, n, row_mean, x.dtype.type(1), scale, mean_g, slope)
            if summed != 0:
                for k in range(n):
                    partial[uintp(partial_at + k)] += g[uintp(base + k)] * (x[uintp(base + k)] - row_mean) * scale
                    partial[uintp(partial_at + n + k)] += g[uintp(base + k)]


def channel_norm_kernel(x, weight, bias, out, mean, var, images, channels, n, scaled, shifted, eps):
    """out (images, channels, n) = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance of each
    channel.
    """
    for task in parallel_range(channels):
        channel = int64(task)
        wide_mean = float64(0)
        squares = float64(0)
        for image in range(images):
            wide_mean, squares = moments(x, (image * channels + channel) * n, n, float64(image * n), wide_mean, squares)
        channel_mean = real(wide_mean)
        mean[uintp(channel)] = channel_mean
        var[uintp(channel)] = squares / float64(images * n)
        scale = real(1.0 / sqrt(squares / float64(images * n) + eps))
        shift = x.dtype.type(0)
        if scaled != 0:
            scale *= weight[uintp(channel)]
        if shifted != 0:
            shift = bias[uintp(channel)]
        for image in range(images - 1, -1, -1):  # the last images are still in the cache
            write_scaled(x, out, (image * channels + channel) * n, n, channel_mean, scale, shift)


def channel_norm_gradient_kernel(g, x, weight, mean, var, out, d_weight, d_bias, images, channels, n, scaled, eps):
    """out = weight * rstd * (g - mean(g) - xhat * mean(g * xhat)); d_weight = sum(g * xhat), d_bias = sum(g) of each
    channel.
    """
    for task in parallel_range(channels):
        channel = int64(task)
        channel_mean = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        sum_g = float64(0)
        sum_gx = float64(0)
        for image in range(images):
            a, b = gradient_sums(g, x, (image * channels + channel) * n, n, channel_mean)
            sum_g += a
            sum_gx += b
        d_bias[uintp(channel)] = sum_g
        d_weight[uintp(channel)] = sum_gx * float64(rstd)
        count = float64(images * n)
        mean_g = real(sum_g / count)
        slope = real(sum_gx * float64(rstd) * float64(rstd) / count)
        scale = rstd
        if scaled != 0:
            scale *= weight[uintp(channel)]
        for image in range(images - 1, -1, -1):
            write_gradients(
                g, x, out, (image * channels + channel) * n, n, channel_mean, x.dtype.type(1), scale, mean_g, slope
            )


def channel_norm_columns(x, weight, bias, out, mean, var, wide, images, channels, n, scaled, shifted, eps, *, COLUMNS):
    """`channel_norm_kernel` for x (images, channels), COLUMNS channels at a time. wide (2, channels) is scratch."""
    for task in parallel_range((channels + COLUMNS - 1) // COLUMNS):
        first = int64(task) * COLUMNS
        last = min(first + COLUMNS, channels)
        for c in range(first, last):
            wide[uintp(c)], wide[uintp(channels + c)] = 0, 0
        for image in range(images):
            for c in range(first, last):
                wide[uintp(c)] += float64(x[uintp(image * channels + c)])
        for c in range(first, last):
            mean[uintp(c)] = wide[uintp(c)] / float64(images)
        for image in range(images):
            for c in range(first, last):
                difference = x[uintp(image * channels + c)] - mean[uintp(c)]
                wide[uintp(channels + c)] += float64(difference * difference)
        for c in range(first, last):
            variance = wide[uintp(channels + c)] / float64(images)
            var[uintp(c)] = variance
            scale = 1.0 / sqrt(variance + eps)
            wide[uintp(c)] = scale * float64(weight[uintp(c)]) if scaled != 0 else scale
            wide[uintp(channels + c)] = bias[uintp(c)] if shifted != 0 else 0.0
        for image in range(images):
            for c in range(first, last):
                out[uintp(image * channels + c)] = (x[uintp(image * channels + c)] - mean[uintp(c)]) * real(
                    wide[uintp(c)]
                ) + real(wide[uintp(channels + c)])


def channel_norm_gradient_columns(
    g, x, weight, mean, var, out, d_weight, d_bias, wide, images, channels, n, scaled, eps, *, COLUMNS
):
    """`channel_norm_gradient_kernel` for x (images, channels), COLUMNS channels at a time. wide is scratch."""
    for task in parallel_range((channels + COLUMNS - 1) // COLUMNS):
        first = int64(task) * COLUMNS
        last = min(first + COLUMNS, channels)
        for c in range(first, last):
            wide[uintp(c)], wide[uintp(channels + c)] = 0, 0
        for image in range(images):
            for c in range(first, last):
                d_out = g[uintp(image * channels + c)]
                wide[uintp(c)] += float64(d_out)
                wide[uintp(channels + c)] += float64(d_out * (x[uintp(image * channels + c)] - mean[uintp(c)]))
        for c in range(first, last):
            rstd = 1.0 / sqrt(float64(var[uintp(c)]) + eps)
            d_bias[uintp(c)] = wide[uintp(c)]
            d_weight[uintp(c)] = wide[uintp(channels + c)] * rstd
            wide[uintp(channels + c)] *= rstd * rstd / float64(images)  # the slope, and then the scale
            wide[uintp(c)] = rstd * float64(weight[uintp(c)]) if scaled != 0 else rstd
        share = real(1.0) / real(images)
        for image in range(images):
            for c in range(first, last):
                element = image * channels + c
                mean_g, slope = d_bias[uintp(c)] * share, real(wide[uintp(channels + c)])
                out[uintp(element)] = real(wide[uintp(c)]) * (
                    g[uintp(element)] - mean_g - (x[uintp(element)] - mean[uintp(c)]) * slope
                )


def row_norm_block(x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps, *, THREADS):
    """`row_norm_kernel` with a block of GPU threads for each row, which is read three times, twice from the cache."""
    shared = shared_array(THREADS, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        row_mean, scale = row_moments(x, row * n, n, eps, shared, thread, THREADS, centred)
        if thread == 0:
            mean[uintp(row)] = row_mean
            rstd[uintp(row)] = scale
        for k in range(thread, n, THREADS):
            value = (x[uintp(row * n + k)] - row_mean) * scale
            value = value * weight[uintp(k)] if scaled != 0 else value
            out[uintp(row * n + k)] = value + bias[uintp(k)] if shifted != 0 else value


def row_norm_gradient_block(
    g, x, weight, mean, rstd, out, partial, rows, n, centred, scaled, summed, workers, *, THREADS
):
    """`row_norm_gradient_kernel` with a block of GPU threads for each worker; threads sum their columns."""
    shared = shared_array(THREADS, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    for worker in range(int64(cuda.blockIdx.x), workers, int64(cuda.gridDim.x)):
        partial_at = worker * 2 * n
        for k in range(thread, 2 * n if summed == 0 else 0, THREADS):
            partial[uintp(partial_at + k)] = 0
        for row in range(worker, rows, workers):
            row_mean = mean[uintp(row)]
            scale = rstd[uintp(row)]
            sum_g = float64(0)
            sum_gx = float64(0)
            for k in range(thread, n, THREADS):
                value = g[uintp(row * n + k)] * weight[uintp(k)] if scaled != 0 else g[uintp(row * n + k)]
                sum_g += float64(value)
                sum_gx += float64(value * (x[uintp(row * n + k)] - row_mean))
            mean_g = real(block_sum(sum_g, shared, thread, THREADS) / float64(n)) if centred != 0 else x.dtype.type(0)
            slope = real(block_sum(sum_gx, shared, thread, THREADS) * float64(scale) * float64(scale) / float64(n))
            for k in range(thread, n, THREADS):
                difference = x[uintp(row * n + k)] - row_mean
                d_out = g[uintp(row * n + k)]
                value = d_out * weight[uintp(k)] if scaled != 0 else d_out
                out[uintp(row * n + k)] = scale * (value - mean_g - difference * slope)
                if summed != 0:
                    d_weight = partial[uintp(partial_at + k)] if row != worker else x.dtype.type(0)
                    d_bias = partial[uintp(partial_at + n + k)] if row != worker else x.dtype.type(0)
                    partial[uintp(partial_at + k)] = d_weight + d_out * difference * scale
                    partial[uintp(partial_at + n + k)] = d_bias + d_out


def channel_norm_block(x, weight, bias, out, mean, var, images, channels, n, scaled, shifted, eps, *, THREADS):
    """`channel_norm_kernel` with a block of GPU threads for each channel."""
    shared = shared_array(THREADS, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    count = images * n
    for channel in range(int64(cuda.blockIdx.x), channels, int64(cuda.gridDim.x)):
        total = float64(0)
        for position in range(thread, count, THREADS):
            image = quotient32(position, n)
            total += float64(x[uintp((image * channels + channel) * n + position - image * n)])
        channel_mean = real(block_sum(total, shared, thread, THREADS) / float64(count))
        total = float64(0)
        for position in range(thread, count, THREADS):
            image = quotient32(position, n)
            difference = x[uintp((image * channels + channel) * n + position - image * n)] - channel_mean
            total += float64(difference * difference)
        variance = block_sum(total, shared, thread, THREADS) / float64(count)
        scale = real(1.0 / sqrt(variance + eps))
        if thread == 0:
            mean[uintp(channel)] = channel_mean
            var[uintp(channel)] = variance
        scale = scale * weight[uintp(channel)] if scaled != 0 else scale
        shift = bias[uintp(channel)] if shifted != 0 else x.dtype.type(0)
        for position in range(thread, count, THREADS):
            image = quotient32(position, n)
            element = (image * channels + channel) * n + position - image * n
            out[uintp(element)] = (x[uintp(element)] - channel_mean) * scale + shift


def channel_norm_gradient_block(
    g, x, weight, mean, var, out, d_weight, d_bias, images, channels, n, scaled, eps, *, THREADS
):
    """`channel_norm_gradient_kernel` with a block of GPU threads for each channel."""
    shared = shared_array(THREADS, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    count = images * n
    for channel in range(int64(cuda.blockIdx.x), channels, int64(cuda.gridDim.x)):
        channel_mean = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        sum_g = float64(0)
        sum_gx = float64(0)
        for position in range(thread, count, THREADS):
            image = quotient32(position, n)
            element = (image * channels + channel) * n + position - image * n
            sum_g += float64(g[uintp(element)])
            sum_gx += float64(g[uintp(element)] * (x[uintp(element)] - channel_mean))
        sum_g = block_sum(sum_g, shared, thread, THREADS)
        sum_gx = block_sum(sum_gx, shared, thread, THREADS)
        if thread == 0:
            d_bias[uintp(channel)] = sum_g
            d_weight[uintp(channel)] = sum_gx * float64(rstd)
        mean_g = real(sum_g / float64(count))
        slope = real(sum_gx * float64(rstd) * float64(rstd) / float64(count))
        scale = rstd * weight[uintp(channel)] if scaled != 0 else rstd
        for position in range(thread, count, THREADS):
            image = quotient32(position, n)
            element = (image * channels + channel) * n + position - image * n
            out[uintp(element)] = scale * (g[uintp(element)] - mean_g - (x[uintp(element)] - channel_mean) * slope)


BLOCK_KERNELS = {row_norm_kernel: row_norm_block, row_norm_gradient_kernel: row_norm_gradient_block}
BLOCK_KERNELS |= {channel_norm_kernel: channel_norm_block, channel_norm_gradient_kernel: channel_norm_gradient_block}
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
        columns = kernel in _BY_COLUMNS and numbers[2] == 1 and not x.device.backend.is_gpu
        tail = () if eps is None else (float(eps),)
        arrays = [x] * (len(arguments) + len(results)) + ["float64"] * columns
        signature = bind.signature(*arrays, numbers=len(numbers), others=["float64"] * len(tail))
        threads = block_reduce.sharing(x, n, most=512) if n < 1 << 31 else 0
        shared = (
            batch_norm_cuda.in_chunks(x, self.name, kernel is channel_norm_gradient_kernel, numbers, tail[0])
            if threads and kernel in _IN_CHUNKS
            else None
        )
        if shared:
            numbers, tail, run = (), (), shared
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
            source = specialized(_BY_COLUMNS[kernel], COLUMNS=_COLUMNS) if columns else specialized(kernel)
            run = bind.launcher(x.device, self.name, source, signature, x.dtype, 4 * x.size, build.FAST_REDUCTION)
        is_tensor, empty, storage = [isinstance(argument, Layout) for argument in arguments], x.device.empty, x.storage
        scratch = [(2 * x.shape[1], np.dtype("float64"))] if columns else []

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
