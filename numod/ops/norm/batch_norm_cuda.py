"""Batch norm on a GPU with several blocks of threads per channel: a first kernel sums chunks of channels, a second one
combines these sums and writes the results.

One block per channel (`normalization_kernels.channel_norm_block`) leaves most of a GPU idle: ResNet's first layer has
64 channels, an H200 has 132 multiprocessors.

A block's threads walk through a chunk in steps of THREADS elements. A division per element would take longer than its
load, so addresses are incremented: `element`, the address, by `step`, and by `wrap` as well when `offset`, the position
within an image's n elements, passes n.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from ...device import Layout
from ...kernel.language import cuda, float64, int64, real, SHARED, shared_array, uintp
from ...kernel.library.cuda_block import block_sum
from ..reduce import block_reduce


def sums_block(x, chunk_sums, images, channels, n, chunk, chunks, *, THREADS):
    """chunk_sums (channels, chunks, 2) = the mean of `chunk` elements of x (images, channels, n), and their sum of
    squares about it.
    """
    shared = shared_array(THREADS, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), images * n
    step, offset_step, wrap = THREADS // n * channels * n + THREADS % n, THREADS % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        stop = min(start + chunk, count)
        image = (start + thread) // n
        start_offset = start + thread - image * n
        base = (image * channels + channel) * n + start_offset
        element, offset, total = base, start_offset, float64(0)
        for _ in range(start + thread, stop, THREADS):
            total += float64(x[uintp(element)])
            element, offset = element + step, offset + offset_step
            if offset >= n:
                element, offset = element + wrap, offset - n
        chunk_mean = block_sum(total, shared, thread, THREADS) / float64(stop - start)
        element, offset, total = base, start_offset, float64(0)
        for _ in range(start + thread, stop, THREADS):
            difference = float64(x[uintp(element)]) - chunk_mean
            total += difference * difference
            element, offset = element + step, offset + offset_step
            if offset >= n:
                element, offset = element + wrap, offset - n
        total = block_sum(total, shared, thread, THREADS)
        if thread == 0:
            chunk_sums[uintp(2 * task)], chunk_sums[uintp(2 * task + 1)] = chunk_mean, total


def norm_block(
    x, weight, bias, out, mean, var, chunk_sums, images, channels, n, scaled, shifted, chunk, chunks, eps, *, THREADS
):
    """out (images, channels, n) = (x - mean) / sqrt(var + eps) * weight + bias, from the chunk_sums of `sums_block`."""
    thread, count = int64(cuda.threadIdx.x), images * n
    step, offset_step, wrap = THREADS // n * channels * n + THREADS % n, THREADS % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        stop = min(start + chunk, count)
        wide_mean, squares = float64(0), float64(0)
        for k in range(chunks):
            wide_mean += chunk_sums[uintp(2 * (channel * chunks + k))] * float64(min(chunk, count - k * chunk))
        wide_mean = wide_mean / float64(count)
        for k in range(chunks):
            difference = chunk_sums[uintp(2 * (channel * chunks + k))] - wide_mean
            squares += chunk_sums[uintp(2 * (channel * chunks + k) + 1)] + difference * difference * float64(
                min(chunk, count - k * chunk)
            )
        channel_mean, variance = real(wide_mean), squares / float64(count)
        scale = real(1.0 / sqrt(variance + eps))
        if (thread == 0) & (start == 0):
            mean[uintp(channel)], var[uintp(channel)] = channel_mean, variance
        scale = scale * weight[uintp(channel)] if scaled != 0 else scale
        shift = bias[uintp(channel)] if shifted != 0 else x.dtype.type(0)
        image = (start + thread) // n
        offset = start + thread - image * n
        element = (image * channels + channel) * n + offset
        for _ in range(start + thread, stop, THREADS):
            out[uintp(element)] = (x[uintp(element)] - channel_mean) * scale + shift
            element, offset = element + step, offset + offset_step
            if offset >= n:
                element, offset = element + wrap, offset - n


def gradient_sums_block(g, x, mean, chunk_sums, images, channels, n, chunk, chunks, *, THREADS):
    """chunk_sums (channels, chunks, 2) = sums of g, and of g * (x - mean)."""
    shared = shared_array(THREADS, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), images * n
    step, offset_step, wrap = THREADS // n * channels * n + THREADS % n, THREADS % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        image = (start + thread) // n
        offset = start + thread - image * n
        element = (image * channels + channel) * n + offset
        sum_g, sum_gx, channel_mean = float64(0), float64(0), mean[uintp(channel)]
        for _ in range(start + thread, min(start + chunk, count), THREADS):
            sum_g += float64(g[uintp(element)])
            sum_gx += float64(g[uintp(element)] * (x[uintp(element)] - channel_mean))
            element, offset = element + step, offset + offset_step
            if offset >= n:
                element, offset = element + wrap, offset - n
        sum_g = block_sum(sum_g, shared, thread, THREADS)
        sum_gx = block_sum(sum_gx, shared, thread, THREADS)
        if thread == 0:
            chunk_sums[uintp(2 * task)], chunk_sums[uintp(2 * task + 1)] = sum_g, sum_gx


def gradient_block(
    g, x, weight, mean, var, out, d_weight, d_bias, chunk_sums, images, channels, n, scaled, chunk, chunks, eps, *,
    THREADS,
):  # fmt: skip
    """`normalization_kernels.channel_norm_gradient_kernel`, from the chunk_sums of `gradient_sums_block`."""
    thread, count = int64(cuda.threadIdx.x), images * n
    step, offset_step, wrap = THREADS // n * channels * n + THREADS % n, THREADS % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        sum_g, sum_gx = float64(0), float64(0)
        for k in range(chunks):
            sum_g += chunk_sums[uintp(2 * (channel * chunks + k))]
            sum_gx += chunk_sums[uintp(2 * (channel * chunks + k) + 1)]
        channel_mean = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        if (thread == 0) & (start == 0):
            d_bias[uintp(channel)], d_weight[uintp(channel)] = sum_g, sum_gx * float64(rstd)
        mean_g = real(sum_g / float64(count))
        slope = real(sum_gx * float64(rstd) * float64(rstd) / float64(count))
        scale = rstd * weight[uintp(channel)] if scaled != 0 else rstd
        image = (start + thread) // n
        offset = start + thread - image * n
        element = (image * channels + channel) * n + offset
        for _ in range(start + thread, min(start + chunk, count), THREADS):
            out[uintp(element)] = scale * (g[uintp(element)] - mean_g - (x[uintp(element)] - channel_mean) * slope)
            element, offset = element + step, offset + offset_step
            if offset >= n:
                element, offset = element + wrap, offset - n


def launch_in_chunks(x: Layout, name: str, backward: bool, numbers: tuple[int, ...], eps: float) -> Callable | None:
    """The launch of `channel_norm` or its gradient by two kernels; None if one block per channel is enough."""
    images, channels, n, *flags = numbers
    count = images * n
    threads, chunks = block_reduce.sharing(x, count), x.device.backend.chunks(channels, count, True)
    if not threads or chunks < 2:
        return None
    chunk = -(-count // chunks)
    chunks = -(-count // chunk)  # no chunk is empty
    wide, shape = np.dtype(np.float64), (images, channels, n)
    sums = _launcher(
        x,
        name,
        gradient_sums_block if backward else sums_block,
        3 if backward else 1,
        5,
        "",
        channels * chunks,
        threads,
    )
    write = _launcher(
        x,
        name,
        gradient_block if backward else norm_block,
        8 if backward else 6,
        5 + len(flags),
        ", float64",
        channels * chunks,
        threads,
    )

    def launch(*arrays: object) -> None:
        chunk_sums = x.device.empty(2 * channels * chunks, wide)
        read = (arrays[0], arrays[1], arrays[3]) if backward else arrays[:1]
        sums(*read, chunk_sums, *shape, chunk, chunks)
        write(*arrays, chunk_sums, *shape, *flags, chunk, chunks, eps)

    return launch


def _launcher(
    x: Layout, name: str, kernel: Callable, arrays: int, numbers: int, tail: str, blocks: int, threads: int
) -> Callable:
    signature = ", ".join([f"{x.storage.name}[]"] * arrays + ["float64[]"] + ["int64"] * numbers) + tail
    return block_reduce.launcher(x, name, kernel, signature, blocks, threads)
