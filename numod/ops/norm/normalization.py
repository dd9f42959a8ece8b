"""Normalisation by the mean and variance of rows (layer norm; RMS norm by their squares alone) or of channels (batch
norm), each way in one kernel.

Means and variances are found block by block with wide totals. The gradients are kernels too; where a gradient will
itself be differentiated they are composed of tensor operations instead.
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
from ...kernel.library.rows import moments, row_squares, slope_sums, write_scaled, write_slopes
from ...kernel.library.teams import team_moments, team_sum
from ...kernel.specialize import specialized
from . import batch_norm_cuda
from ..reduce import register_rows, block_reduce
from ..op import Op, Plan, single_device

_COLUMNS = 128  # neighbouring channels that are done together where each has one element an image


def row_norm_kernel(x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps):
    """out (rows, n) = (x - mean) * rstd * weight + bias, with mean and variance of each row; weight and bias are (n) or
    not there.

    If not `centred`, 0 stands for the mean.
    """
    for task in parallel_range(rows):
        row = int64(task)
        base = row * n
        if centred != 0:
            level, squares = moments(x, base, n, float64(0), float64(0), float64(0))
        else:
            level, squares = float64(0), row_squares(x, base, n)
        middle = real(level)
        scale = real(1.0 / sqrt(squares / float64(n) + eps))
        mean[uintp(row)] = middle
        rstd[uintp(row)] = scale
        if scaled * shifted != 0:
            for k in range(n):
                out[uintp(base + k)] = (x[uintp(base + k)] - middle) * scale * weight[uintp(k)] + bias[uintp(k)]
        else:
            write_scaled(x, out, base, n, middle, scale, x.dtype.type(0))
            if scaled != 0:
                for k in range(n):
                    out[uintp(base + k)] *= weight[uintp(k)]
            if shifted != 0:
                for k in range(n):
                    out[uintp(base + k)] += bias[uintp(k)]


def row_norm_gradient_kernel(g, x, weight, mean, rstd, out, partial, rows, n, centred, scaled, summed, workers):
    """out (rows, n) = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)) with gw = g * weight.

    If `summed`, partial (workers, 2, n) = g * xhat and g, each summed over every `workers`-th row. Loops that write are
    kept short: with more arrays in one, LLVM would not check that they lie apart, and not vectorise.
    """
    for task in parallel_range(workers):
        mine = int64(task) * 2 * n
        for k in range(2 * n):
            partial[uintp(mine + k)] = 0
        for row in range(int64(task), rows, workers):
            base = row * n
            middle = mean[uintp(row)]
            scale = rstd[uintp(row)]
            first = float64(0)
            second = float64(0)
            if scaled != 0:
                for low in range(0, n, 512):
                    a = x.dtype.type(0)
                    b = x.dtype.type(0)
                    for k in range(low, min(low + 512, n)):
                        a += g[uintp(base + k)] * weight[uintp(k)]
                        b += g[uintp(base + k)] * weight[uintp(k)] * (x[uintp(base + k)] - middle)
                    first += float64(a)
                    second += float64(b)
            else:
                first, second = slope_sums(g, x, base, n, middle)
            level = real(first / float64(n)) if centred != 0 else x.dtype.type(0)
            slope = real(second * float64(scale) * float64(scale) / float64(n))
            if scaled != 0:
                for k in range(n):
                    out[uintp(base + k)] = scale * (
                        g[uintp(base + k)] * weight[uintp(k)] - level - (x[uintp(base + k)] - middle) * slope
                    )
            else:
                write_slopes(g, x, out, base, n, middle, x.dtype.type(1), scale, level, slope)
            if summed != 0:
                for k in range(n):
                    partial[uintp(mine + k)] += g[uintp(base + k)] * (x[uintp(base + k)] - middle) * scale
                    partial[uintp(mine + n + k)] += g[uintp(base + k)]


def channel_norm_kernel(x, weight, bias, out, mean, var, images, channels, n, scaled, shifted, eps):
    """out (images, channels, n) = (x - mean) / sqrt(var + eps) * weight + bias, with mean and variance of each
    channel.
    """
    for task in parallel_range(channels):
        channel = int64(task)
        level = float64(0)
        squares = float64(0)
        for image in range(images):
            level, squares = moments(x, (image * channels + channel) * n, n, float64(image * n), level, squares)
        middle = real(level)
        mean[uintp(channel)] = middle
        var[uintp(channel)] = squares / float64(images * n)
        scale = real(1.0 / sqrt(squares / float64(images * n) + eps))
        shift = x.dtype.type(0)
        if scaled != 0:
            scale *= weight[uintp(channel)]
        if shifted != 0:
            shift = bias[uintp(channel)]
        for image in range(images - 1, -1, -1):  # what was read last is still in the cache
            write_scaled(x, out, (image * channels + channel) * n, n, middle, scale, shift)


def channel_norm_gradient_kernel(g, x, weight, mean, var, out, d_weight, d_bias, images, channels, n, scaled, eps):
    """out = weight * rstd * (g - mean(g) - xhat * mean(g * xhat)); d_weight = sum(g * xhat), d_bias = sum(g) of each
    channel.
    """
    for task in parallel_range(channels):
        channel = int64(task)
        middle = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        first = float64(0)
        second = float64(0)
        for image in range(images):
            a, b = slope_sums(g, x, (image * channels + channel) * n, n, middle)
            first += a
            second += b
        d_bias[uintp(channel)] = first
        d_weight[uintp(channel)] = second * float64(rstd)
        count = float64(images * n)
        level = real(first / count)
        slope = real(second * float64(rstd) * float64(rstd) / count)
        scale = rstd
        if scaled != 0:
            scale *= weight[uintp(channel)]
        for image in range(images - 1, -1, -1):
            write_slopes(g, x, out, (image * channels + channel) * n, n, middle, x.dtype.type(1), scale, level, slope)


def channel_norm_columns(x, weight, bias, out, mean, var, wide, images, channels, n, scaled, shifted, eps, *, COLUMNS):
    """`channel_norm_kernel` of x (images, channels): neighbouring channels at a time. wide (2, channels) holds their
    totals.
    """
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
                part = x[uintp(image * channels + c)] - mean[uintp(c)]
                wide[uintp(channels + c)] += float64(part * part)
        for c in range(first, last):
            spread = wide[uintp(channels + c)] / float64(images)
            var[uintp(c)] = spread
            scale = 1.0 / sqrt(spread + eps)
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
    """`channel_norm_gradient_kernel` likewise."""
    for task in parallel_range((channels + COLUMNS - 1) // COLUMNS):
        first = int64(task) * COLUMNS
        last = min(first + COLUMNS, channels)
        for c in range(first, last):
            wide[uintp(c)], wide[uintp(channels + c)] = 0, 0
        for image in range(images):
            for c in range(first, last):
                given = g[uintp(image * channels + c)]
                wide[uintp(c)] += float64(given)
                wide[uintp(channels + c)] += float64(given * (x[uintp(image * channels + c)] - mean[uintp(c)]))
        for c in range(first, last):
            rstd = 1.0 / sqrt(float64(var[uintp(c)]) + eps)
            d_bias[uintp(c)] = wide[uintp(c)]
            d_weight[uintp(c)] = wide[uintp(channels + c)] * rstd
            wide[uintp(channels + c)] *= rstd * rstd / float64(images)  # the slope, and then the scale
            wide[uintp(c)] = rstd * float64(weight[uintp(c)]) if scaled != 0 else rstd
        share = real(1.0) / real(images)
        for image in range(images):
            for c in range(first, last):
                at = image * channels + c
                level, slope = d_bias[uintp(c)] * share, real(wide[uintp(channels + c)])
                out[uintp(at)] = real(wide[uintp(c)]) * (g[uintp(at)] - level - (x[uintp(at)] - mean[uintp(c)]) * slope)


def row_norm_block(x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps, *, TEAM):
    """`row_norm_kernel` by a block of GPU threads for each row, which is read three times, twice of them from the
    cache.
    """
    shared = shared_array(TEAM, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        middle, scale = team_moments(x, row * n, n, eps, shared, thread, TEAM, centred)
        if thread == 0:
            mean[uintp(row)] = middle
            rstd[uintp(row)] = scale
        for k in range(thread, n, TEAM):
            value = (x[uintp(row * n + k)] - middle) * scale
            value = value * weight[uintp(k)] if scaled != 0 else value
            out[uintp(row * n + k)] = value + bias[uintp(k)] if shifted != 0 else value


def row_norm_gradient_block(g, x, weight, mean, rstd, out, partial, rows, n, centred, scaled, summed, workers, *, TEAM):
    """`row_norm_gradient_kernel` likewise: a block is a worker, whose threads keep the sums of their columns."""
    shared = shared_array(TEAM, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    for worker in range(int64(cuda.blockIdx.x), workers, int64(cuda.gridDim.x)):
        mine = worker * 2 * n
        for k in range(thread, 2 * n if summed == 0 else 0, TEAM):
            partial[uintp(mine + k)] = 0
        for row in range(worker, rows, workers):
            middle = mean[uintp(row)]
            scale = rstd[uintp(row)]
            first = float64(0)
            second = float64(0)
            for k in range(thread, n, TEAM):
                value = g[uintp(row * n + k)] * weight[uintp(k)] if scaled != 0 else g[uintp(row * n + k)]
                first += float64(value)
                second += float64(value * (x[uintp(row * n + k)] - middle))
            level = real(team_sum(first, shared, thread, TEAM) / float64(n)) if centred != 0 else x.dtype.type(0)
            slope = real(team_sum(second, shared, thread, TEAM) * float64(scale) * float64(scale) / float64(n))
            for k in range(thread, n, TEAM):
                apart = x[uintp(row * n + k)] - middle
                given = g[uintp(row * n + k)]
                value = given * weight[uintp(k)] if scaled != 0 else given
                out[uintp(row * n + k)] = scale * (value - level - apart * slope)
                if summed != 0:
                    old = partial[uintp(mine + k)] if row != worker else x.dtype.type(0)
                    other = partial[uintp(mine + n + k)] if row != worker else x.dtype.type(0)
                    partial[uintp(mine + k)] = old + given * apart * scale
                    partial[uintp(mine + n + k)] = other + given


def channel_norm_block(x, weight, bias, out, mean, var, images, channels, n, scaled, shifted, eps, *, TEAM):
    """`channel_norm_kernel` by a block of GPU threads for each channel, whose elements they take in the order of
    memory.
    """
    shared = shared_array(TEAM, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    count = images * n
    for channel in range(int64(cuda.blockIdx.x), channels, int64(cuda.gridDim.x)):
        total = float64(0)
        for p in range(thread, count, TEAM):
            image = quotient32(p, n)
            total += float64(x[uintp((image * channels + channel) * n + p - image * n)])
        middle = real(team_sum(total, shared, thread, TEAM) / float64(count))
        total = float64(0)
        for p in range(thread, count, TEAM):
            image = quotient32(p, n)
            part = x[uintp((image * channels + channel) * n + p - image * n)] - middle
            total += float64(part * part)
        spread = team_sum(total, shared, thread, TEAM) / float64(count)
        scale = real(1.0 / sqrt(spread + eps))
        if thread == 0:
            mean[uintp(channel)] = middle
            var[uintp(channel)] = spread
        scale = scale * weight[uintp(channel)] if scaled != 0 else scale
        shift = bias[uintp(channel)] if shifted != 0 else x.dtype.type(0)
        for p in range(thread, count, TEAM):
            image = quotient32(p, n)
            at = (image * channels + channel) * n + p - image * n
            out[uintp(at)] = (x[uintp(at)] - middle) * scale + shift


def channel_norm_gradient_block(
    g, x, weight, mean, var, out, d_weight, d_bias, images, channels, n, scaled, eps, *, TEAM
):
    """`channel_norm_gradient_kernel` likewise."""
    shared = shared_array(TEAM, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    count = images * n
    for channel in range(int64(cuda.blockIdx.x), channels, int64(cuda.gridDim.x)):
        middle = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        first = float64(0)
        second = float64(0)
        for p in range(thread, count, TEAM):
            image = quotient32(p, n)
            at = (image * channels + channel) * n + p - image * n
            first += float64(g[uintp(at)])
            second += float64(g[uintp(at)] * (x[uintp(at)] - middle))
        first = team_sum(first, shared, thread, TEAM)
        second = team_sum(second, shared, thread, TEAM)
        if thread == 0:
            d_bias[uintp(channel)] = first
            d_weight[uintp(channel)] = second * float64(rstd)
        level = real(first / float64(count))
        slope = real(second * float64(rstd) * float64(rstd) / float64(count))
        scale = rstd * weight[uintp(channel)] if scaled != 0 else rstd
        for p in range(thread, count, TEAM):
            image = quotient32(p, n)
            at = (image * channels + channel) * n + p - image * n
            out[uintp(at)] = scale * (g[uintp(at)] - level - (x[uintp(at)] - middle) * slope)


TEAMS = {row_norm_kernel: row_norm_block, row_norm_gradient_kernel: row_norm_gradient_block}
TEAMS |= {channel_norm_kernel: channel_norm_block, channel_norm_gradient_kernel: channel_norm_gradient_block}
_PARTED = channel_norm_kernel, channel_norm_gradient_kernel
_BY_COLUMNS = {channel_norm_kernel: channel_norm_columns, channel_norm_gradient_kernel: channel_norm_gradient_columns}


class Norm(Op):
    """Base: dense x, and weight and bias of one dtype with it, either of which may be None; parameter `eps`."""

    parameters = ("eps",)

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
        """A plan whose missing tensors are arrays nobody reads.

        On a GPU `rows` blocks of threads share n elements each, if those are many.
        """
        columns = kernel in _BY_COLUMNS and numbers[2] == 1 and not x.device.backend.is_gpu
        tail = () if eps is None else (float(eps),)
        arrays = [x] * (len(arguments) + len(results)) + ["float64"] * columns
        signature = bind.signature(*arrays, numbers=len(numbers), others=["float64"] * len(tail))
        threads = block_reduce.sharing(x, n, most=512) if n < 1 << 31 else 0
        shared = (
            batch_norm_cuda.in_parts(x, self.name, kernel is channel_norm_gradient_kernel, numbers, tail[0])
            if threads and kernel in _PARTED
            else None
        )
        if shared:
            numbers, tail, run = (), (), shared
        elif threads:
            run = block_reduce.launcher(
                x, self.name, register_rows.form(TEAMS[kernel], n, threads), signature, rows, threads
            )
        else:
            source = specialized(_BY_COLUMNS[kernel], COLUMNS=_COLUMNS) if columns else specialized(kernel)
            run = bind.launcher(x.device, self.name, source, signature, x.dtype, 4 * x.size, build.FAST_REDUCTION)
        there, empty, storage = [isinstance(argument, Layout) for argument in arguments], x.device.empty, x.storage
        own = [(2 * x.shape[1], np.dtype("float64"))] if columns else []

        def launch(*buffers: object) -> None:
            given, made = iter(buffers[: sum(there)]), buffers[sum(there) :]
            inputs = [next(given) if each else empty(1, storage) for each in there]
            run(*inputs, *made, *[empty(*each) for each in own], *numbers, *tail)

        return Plan(results, launch)

    def _check(self, x: Layout, *others: object) -> None:
        if not x.dtype.is_floating_point:
            raise NotImplementedError(
                f"\"{self.name}\" not implemented for '{x.dtype.short}'; convert first, for example with "
                ".to(numod.float32)"
            )
        single_device(self.name, [each for each in (x, *others) if isinstance(each, Layout)])
        if any(isinstance(each, Layout) and each.dtype is not x.dtype for each in others):
            raise RuntimeError(
                f"{self.name}: expected scalar type {x.dtype.short} for weight and bias, as the input has; convert "
                "with .to()"
            )


def planes(x: Layout) -> tuple[int, int, int]:
    """(images, channels, elements of each) of x (images, channels, ...)."""
    return (*x.shape[:2], prod(x.shape[2:]))


class RowNorm(Norm):
    """(out, mean, rstd) of x (..., n), whose other dimensions are rows. If not `centred`, 0 stands for the mean."""

    takes = "x[*l n]:f weight?[n] bias?[n]; eps=number"
    inputs, outputs = ("x", "weight", "bias"), ("out", "mean", "rstd")
    results_with_gradient = 1

    def __init__(self, name: str, centred: bool) -> None:
        super().__init__(name)
        self.centred, self.slopes = centred, RowNormGradient(f"{name}_gradient", centred)

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
                return composed(g, x, weight, eps, (-1,), tuple(range(x.ndim - 1)), lambda each: each, centred)
            summed = "weight" in wanted or "bias" in wanted
            d_x, partial = self.slopes.apply((g, x, weight, mean, rstd), (summed,))
            return (
                (d_x, *(partial.sum(0) if partial.shape[0] > 1 else partial.select(0, 0)).unbind())
                if summed
                else (d_x, None, None)
            )

        self.gradients = {self.inputs: gradients}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, weight, bias = arguments
        self._check(x, weight, bias)
        rows, n = prod(x.shape[:-1]), x.shape[-1]
        results = (layout(x.shape, x.dtype, x.device), *[layout((rows,), x.dtype, x.device)] * 2)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        numbers = rows, n, int(self.centred), int(isinstance(weight, Layout)), int(isinstance(bias, Layout))
        return self._launch(row_norm_kernel, x, arguments, results, numbers, parameters[0], rows, n)


class RowNormGradient(Norm):
    """(dx, partial) of RowNorm: partial (workers, 2, n) holds parts of dweight and dbias, if parameter `summed`, else
    zeros.
    """

    takes = "given[*l n]:f x[*l n] weight?[n] mean[r] rstd[r]; summed=flag"
    inputs, outputs, parameters, differentiable = (
        ("given", "x", "weight", "mean", "rstd"),
        ("dx", "partial"),
        ("summed",),
        False,
    )

    def __init__(self, name: str, centred: bool) -> None:
        super().__init__(name)
        self.centred = centred

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return (
            None if sizes["r"] == prod(sizes["l"]) else f"mean must have {prod(sizes['l'])} elements, got {sizes['r']}"
        )

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        _, x, weight, *_ = arguments
        rows, n = prod(x.shape[:-1]), x.shape[-1]
        workers = max(1, min(1024, rows // 2) if x.device.backend.is_gpu else min(16, rows // 8) if rows > 64 else 1)
        results = layout(x.shape, x.dtype, x.device), layout((workers, 2, n), x.dtype, x.device)
        numbers = rows, n, int(self.centred), int(isinstance(weight, Layout)), int(parameters[0]), workers
        return self._launch(row_norm_gradient_kernel, x, arguments, results, numbers, None, workers, n)


class ChannelNorm(Norm):
    """(out, mean, var) of x (images, channels, ...); var is that of the batch, over its count."""

    takes = "x[n c *s]:f weight?[c] bias?[c]; eps=number"
    inputs, outputs = ("x", "weight", "bias"), ("out", "mean", "var")
    results_with_gradient = 1

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, weight, bias = arguments
        self._check(x, weight, bias)
        results = (layout(x.shape, x.dtype, x.device), *[layout((x.shape[1],), x.dtype, x.device)] * 2)
        images, channels, n = planes(x)
        numbers = images, channels, n, int(isinstance(weight, Layout)), int(isinstance(bias, Layout))
        return self._launch(channel_norm_kernel, x, arguments, results, numbers, parameters[0], channels, images * n)


class ChannelNormGradient(Norm):
    """(dx, dweight, dbias) of ChannelNorm."""

    takes = "given[n c *s]:f x[n c *s] weight?[c] mean[c] var[c]; eps=number"
    inputs, outputs, differentiable = ("given", "x", "weight", "mean", "var"), ("dx", "dweight", "dbias"), False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        _, x, weight, *_ = arguments
        results = (layout(x.shape, x.dtype, x.device), *[layout((x.shape[1],), x.dtype, x.device)] * 2)
        images, channels, n = planes(x)
        numbers = images, channels, n, int(isinstance(weight, Layout))
        return self._launch(
            channel_norm_gradient_kernel, x, arguments, results, numbers, parameters[0], channels, images * n
        )


def _channel_gradients(
    grads: list, x: object, weight: object, mean: object, var: object, eps: float, recording: bool
) -> tuple:
    g = grads[0].contiguous()
    if not recording:
        return channel_norm_gradient.apply((g, x, weight, mean, var), (eps,))
    others = (0, *range(2, x.ndim))
    return composed(g, x, weight, eps, others, others, lambda each: each.reshape((-1, *(1,) * (x.ndim - 2))))


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
    """The same gradients in tensor operations: over dimensions `reduced` for the statistics, `summed` for weight and
    bias.
    """
    apart = x - x.mean(reduced, keepdim=True) if centred else x
    rstd = ((apart * apart).mean(reduced, keepdim=True) + eps).rsqrt()
    hat = apart * rstd
    scaled = g if weight is None else g * shaped(weight)
    level = scaled.mean(reduced, keepdim=True) if centred else 0.0
    d_x = rstd * (scaled - level - hat * (scaled * hat).mean(reduced, keepdim=True))
    return d_x, *[each.sum(summed) if summed else each for each in (g * hat, g)]


row_norm, rms_norm = RowNorm("row_norm", True), RowNorm("rms_norm", False)
row_norm_gradient, rms_norm_gradient = row_norm.slopes, rms_norm.slopes
channel_norm, channel_norm_gradient = ChannelNorm("channel_norm"), ChannelNormGradient("channel_norm_gradient")
channel_norm.gradients = {("x", "weight", "bias"): _channel_gradients}
