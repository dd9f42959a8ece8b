"""Kernels of layer, RMS and batch normalization (see `normalization`), and of their gradients."""

from __future__ import annotations

from math import sqrt
from ...kernel.language import cuda, float64, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.library.division import quotient32
from ...kernel.library.rows import moments, row_squares, gradient_sums, write_scaled, write_gradients
from ...kernel.library.cuda_block import row_moments, block_sum


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
