"""Group and instance normalization: by the mean and variance of groups of channels of each image.

x is (images, channels, n). A row is a group of an image; in the kernels, `channels` is the number of channels of a row.
"""

from __future__ import annotations

from math import sqrt

from ...device import Layout
from ...device.layout import layout
from ...kernel.language import cuda, float64, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.library.division import quotient32
from ...kernel.library.rows import moments, gradient_sums, write_scaled, write_gradients
from ...kernel.library.cuda_block import row_moments, block_sum
from .normalization import Norm, composed, planes
from .normalization_kernels import BLOCK_KERNELS
from ..op import Plan


def group_norm_kernel(x, weight, bias, out, mean, rstd, rows, channels, n, groups, scaled, shifted, eps):
    """out = (x - mean) * rstd * weight + bias, with mean and variance of each row."""
    for task in parallel_range(rows):
        row = int64(task)
        first, base = row % groups * channels, row * channels * n
        wide_mean, squares = moments(x, base, channels * n, float64(0), float64(0), float64(0))
        row_mean = real(wide_mean)
        scale = real(1.0 / sqrt(squares / float64(channels * n) + eps))
        mean[uintp(row)] = row_mean
        rstd[uintp(row)] = scale
        for c in range(channels):
            factor = scale * weight[uintp(first + c)] if scaled != 0 else scale
            shift = bias[uintp(first + c)] if shifted != 0 else x.dtype.type(0)
            write_scaled(x, out, base + c * n, n, row_mean, factor, shift)


def group_norm_gradient_kernel(g, x, weight, mean, rstd, out, partial, rows, channels, n, groups, scaled):
    """out = rstd * (gw - mean(gw) - xhat * mean(gw * xhat)) with gw = g * weight; partial (images, 2, all channels) =
    the sums of g * xhat and of g.
    """
    for task in parallel_range(rows):
        row = int64(task)
        first, base = row % groups * channels, row * channels * n
        partial_at = row // groups * 2 * groups * channels + first
        row_mean, scale = mean[uintp(row)], rstd[uintp(row)]
        total, total_x = float64(0), float64(0)
        for c in range(channels):
            sum_g, sum_gx = gradient_sums(g, x, base + c * n, n, row_mean)
            partial[uintp(partial_at + c)] = sum_gx * float64(scale)
            partial[uintp(partial_at + groups * channels + c)] = sum_g
            factor = float64(weight[uintp(first + c)]) if scaled != 0 else float64(1)
            total += sum_g * factor
            total_x += sum_gx * factor
        mean_g = real(total / float64(channels * n))
        slope = real(total_x * float64(scale) * float64(scale) / float64(channels * n))
        for c in range(channels):
            factor = weight[uintp(first + c)] if scaled != 0 else x.dtype.type(1)
            write_gradients(g, x, out, base + c * n, n, row_mean, factor, scale, mean_g, slope)


def group_norm_block(x, weight, bias, out, mean, rstd, rows, channels, n, groups, scaled, shifted, eps, *, THREADS):
    """`group_norm_kernel` with a block of GPU threads for each row."""
    shared = shared_array(THREADS, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), channels * n
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        row_mean, scale = row_moments(x, row * count, count, eps, shared, thread, THREADS, 1)
        if thread == 0:
            mean[uintp(row)] = row_mean
            rstd[uintp(row)] = scale
        for k in range(thread, count, THREADS):
            channel = row % groups * channels + quotient32(k, n)
            value = (x[uintp(row * count + k)] - row_mean) * scale
            value = value * weight[uintp(channel)] if scaled != 0 else value
            out[uintp(row * count + k)] = value + bias[uintp(channel)] if shifted != 0 else value


def group_norm_gradient_block(g, x, weight, mean, rstd, out, partial, rows, channels, n, groups, scaled, *, THREADS):
    """`group_norm_gradient_kernel` with a block of GPU threads for each row."""
    shared = shared_array(THREADS, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), channels * n
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        first, base = row % groups * channels, row * count
        partial_at = row // groups * 2 * groups * channels + first
        row_mean, scale = mean[uintp(row)], rstd[uintp(row)]
        total, total_x = float64(0), float64(0)
        for c in range(channels):
            sum_g, sum_gx = float64(0), float64(0)
            for k in range(base + c * n + thread, base + (c + 1) * n, THREADS):
                sum_g += float64(g[uintp(k)])
                sum_gx += float64(g[uintp(k)] * (x[uintp(k)] - row_mean))
            sum_g = block_sum(sum_g, shared, thread, THREADS)
            sum_gx = block_sum(sum_gx, shared, thread, THREADS)
            if thread == 0:
                partial[uintp(partial_at + c)] = sum_gx * float64(scale)
                partial[uintp(partial_at + groups * channels + c)] = sum_g
            factor = float64(weight[uintp(first + c)]) if scaled != 0 else float64(1)
            total += sum_g * factor
            total_x += sum_gx * factor
        mean_g = real(total / float64(count))
        slope = real(total_x * float64(scale) * float64(scale) / float64(count))
        for k in range(thread, count, THREADS):
            d_out = g[uintp(base + k)] * weight[uintp(first + quotient32(k, n))] if scaled != 0 else g[uintp(base + k)]
            out[uintp(base + k)] = scale * (d_out - mean_g - (x[uintp(base + k)] - row_mean) * slope)


BLOCK_KERNELS |= {group_norm_kernel: group_norm_block, group_norm_gradient_kernel: group_norm_gradient_block}


class GroupNorm(Norm):
    """(out, mean, rstd) of x (images, channels, ...), weight and bias (channels); mean and rstd (images * groups)."""

    takes = "x[n c *s]:f weight?[c] bias?[c]; groups=1.. eps=number"
    inputs, outputs, attributes = ("x", "weight", "bias"), ("out", "mean", "rstd"), ("groups", "eps")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None
            if sizes["c"] % attributes[0] == 0
            else f"attribute 'groups' must divide {sizes['c']} channels, got {attributes[0]}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight, bias = arguments
        self._check(x, weight, bias)
        groups, eps = attributes
        images, channels, n = planes(x)
        rows, channels = images * groups, channels // groups
        results = (layout(x.shape, x.dtype, x.device), *[layout((rows,), x.dtype, x.device)] * 2)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        numbers = rows, channels, n, groups, int(isinstance(weight, Layout)), int(isinstance(bias, Layout))
        return self._launch(group_norm_kernel, x, arguments, results, numbers, eps, rows, channels * n)


class GroupNormGradient(Norm):
    """(dx, partial) of GroupNorm: partial (images, 2, channels) has the terms of dweight and dbias for each image."""

    takes = "d_out[n c *s]:f x[n c *s] weight?[c] mean[r] rstd[r]; groups=1.."
    inputs = ("d_out", "x", "weight", "mean", "rstd")
    outputs = ("dx", "partial")
    attributes = ("groups",)
    differentiable = False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        if sizes["c"] % attributes[0]:
            return f"attribute 'groups' must divide {sizes['c']} channels, got {attributes[0]}"
        return (
            None
            if sizes["r"] == sizes["n"] * attributes[0]
            else f"mean must have {sizes['n'] * attributes[0]} elements, got {sizes['r']}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        _, x, weight, *_ = arguments
        (groups,) = attributes
        images, channels, n = planes(x)
        rows, channels = images * groups, channels // groups
        results = layout(x.shape, x.dtype, x.device), layout((x.shape[0], 2, x.shape[1]), x.dtype, x.device)
        return self._launch(
            group_norm_gradient_kernel,
            x,
            arguments,
            results,
            (rows, channels, n, groups, int(isinstance(weight, Layout))),
            None,
            rows,
            channels * n,
        )


def _gradients(
    grads: list,
    x: object,
    weight: object,
    mean: object,
    rstd: object,
    groups: int,
    eps: float,
    wanted: tuple,
    recording: bool,
) -> tuple:
    """Gradients by the kernel, or composed of tensor operations if they will be differentiated."""
    g = grads[0].contiguous()
    if recording:
        images, channels, n = planes(x._layout)
        grouped = (images, groups, channels // groups, n)
        d_x, *others = composed(
            g.reshape(grouped),
            x.reshape(grouped),
            weight,
            eps,
            (2, 3),
            (0, 3),
            lambda weight: weight.reshape(1, *grouped[1:3], 1),
        )
        return (d_x.reshape(x.shape), *(gradient.reshape(channels) for gradient in others))
    d_x, partial = group_norm_gradient.apply((g, x, weight, mean, rstd), (groups,))
    return (d_x, *partial.sum(0).unbind()) if "weight" in wanted or "bias" in wanted else (d_x, None, None)


group_norm, group_norm_gradient = GroupNorm("group_norm"), GroupNormGradient("group_norm_gradient")
group_norm.gradients = {("x", "weight", "bias"): _gradients}
