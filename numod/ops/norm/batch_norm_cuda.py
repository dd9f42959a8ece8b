"""Normalization of channels that many blocks of GPU threads share: first the sums of a channel's parts, then the
results, from all parts' sums.

One block per channel (`normalization.channel_norm_block`) leaves most of a GPU idle: ResNet's first layer has 64
channels, an H200 132 multiprocessors for several blocks each. An element's address is counted on from the last one's; a
division for each element would take longer than its load.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt

import numpy as np

from ...device import Layout
from ...kernel.language import cuda, float64, int64, real, SHARED, shared_array, uintp
from ...kernel.library.teams import team_sum
from ..reduce import block_reduce


def sums_block(x, parts, images, channels, n, chunk, chunks, *, TEAM):
    """parts (channels, chunks, 2) = mean, and squared distances from it, of `chunk` elements each of x (images,
    channels, n).
    """
    shared = shared_array(TEAM, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), images * n
    jump, rest, wrap = TEAM // n * channels * n + TEAM % n, TEAM % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        stop = min(start + chunk, count)
        image = (start + thread) // n
        first = start + thread - image * n
        base = (image * channels + channel) * n + first
        at, offset, total = base, first, float64(0)
        for _ in range(start + thread, stop, TEAM):
            total += float64(x[uintp(at)])
            at, offset = at + jump, offset + rest
            if offset >= n:
                at, offset = at + wrap, offset - n
        middle = team_sum(total, shared, thread, TEAM) / float64(stop - start)
        at, offset, total = base, first, float64(0)
        for _ in range(start + thread, stop, TEAM):
            part = float64(x[uintp(at)]) - middle
            total += part * part
            at, offset = at + jump, offset + rest
            if offset >= n:
                at, offset = at + wrap, offset - n
        total = team_sum(total, shared, thread, TEAM)
        if thread == 0:
            parts[uintp(2 * task)], parts[uintp(2 * task + 1)] = middle, total


def norm_block(
    x, weight, bias, out, mean, var, parts, images, channels, n, scaled, shifted, chunk, chunks, eps, *, TEAM
):
    """out (images, channels, n) = (x - mean) / sqrt(var + eps) * weight + bias, from `sums_block`'s parts."""
    thread, count = int64(cuda.threadIdx.x), images * n
    jump, rest, wrap = TEAM // n * channels * n + TEAM % n, TEAM % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        stop = min(start + chunk, count)
        level, squares = float64(0), float64(0)
        for k in range(chunks):
            level += parts[uintp(2 * (channel * chunks + k))] * float64(min(chunk, count - k * chunk))
        level = level / float64(count)
        for k in range(chunks):
            apart = parts[uintp(2 * (channel * chunks + k))] - level
            squares += parts[uintp(2 * (channel * chunks + k) + 1)] + apart * apart * float64(
                min(chunk, count - k * chunk)
            )
        middle, spread = real(level), squares / float64(count)
        scale = real(1.0 / sqrt(spread + eps))
        if (thread == 0) & (start == 0):
            mean[uintp(channel)], var[uintp(channel)] = middle, spread
        scale = scale * weight[uintp(channel)] if scaled != 0 else scale
        shift = bias[uintp(channel)] if shifted != 0 else x.dtype.type(0)
        image = (start + thread) // n
        offset = start + thread - image * n
        at = (image * channels + channel) * n + offset
        for _ in range(start + thread, stop, TEAM):
            out[uintp(at)] = (x[uintp(at)] - middle) * scale + shift
            at, offset = at + jump, offset + rest
            if offset >= n:
                at, offset = at + wrap, offset - n


def gradient_sums_block(g, x, mean, parts, images, channels, n, chunk, chunks, *, TEAM):
    """parts (channels, chunks, 2) = sums of g, and of g * (x - mean)."""
    shared = shared_array(TEAM, float64, SHARED)
    thread, count = int64(cuda.threadIdx.x), images * n
    jump, rest, wrap = TEAM // n * channels * n + TEAM % n, TEAM % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        image = (start + thread) // n
        offset = start + thread - image * n
        at = (image * channels + channel) * n + offset
        first, second, middle = float64(0), float64(0), mean[uintp(channel)]
        for _ in range(start + thread, min(start + chunk, count), TEAM):
            first += float64(g[uintp(at)])
            second += float64(g[uintp(at)] * (x[uintp(at)] - middle))
            at, offset = at + jump, offset + rest
            if offset >= n:
                at, offset = at + wrap, offset - n
        first = team_sum(first, shared, thread, TEAM)
        second = team_sum(second, shared, thread, TEAM)
        if thread == 0:
            parts[uintp(2 * task)], parts[uintp(2 * task + 1)] = first, second


def gradient_block(
    g, x, weight, mean, var, out, d_weight, d_bias, parts, images, channels, n, scaled, chunk, chunks, eps, *, TEAM
):
    """`normalization.channel_norm_gradient_kernel` from `gradient_sums_block`'s parts."""
    thread, count = int64(cuda.threadIdx.x), images * n
    jump, rest, wrap = TEAM // n * channels * n + TEAM % n, TEAM % n, (channels - 1) * n
    for task in range(int64(cuda.blockIdx.x), channels * chunks, int64(cuda.gridDim.x)):
        channel, start = task // chunks, task % chunks * chunk
        first, second = float64(0), float64(0)
        for k in range(chunks):
            first += parts[uintp(2 * (channel * chunks + k))]
            second += parts[uintp(2 * (channel * chunks + k) + 1)]
        middle = mean[uintp(channel)]
        rstd = real(1.0 / sqrt(float64(var[uintp(channel)]) + eps))
        if (thread == 0) & (start == 0):
            d_bias[uintp(channel)], d_weight[uintp(channel)] = first, second * float64(rstd)
        level = real(first / float64(count))
        slope = real(second * float64(rstd) * float64(rstd) / float64(count))
        scale = rstd * weight[uintp(channel)] if scaled != 0 else rstd
        image = (start + thread) // n
        offset = start + thread - image * n
        at = (image * channels + channel) * n + offset
        for _ in range(start + thread, min(start + chunk, count), TEAM):
            out[uintp(at)] = scale * (g[uintp(at)] - level - (x[uintp(at)] - middle) * slope)
            at, offset = at + jump, offset + rest
            if offset >= n:
                at, offset = at + wrap, offset - n


def in_parts(x: Layout, name: str, backward: bool, numbers: tuple[int, ...], eps: float) -> Callable | None:
    """The launch of `channel_norm` (or of its gradient) by two kernels, of its tensors and `numbers`; None where one
    block a channel is enough.
    """
    images, channels, n, *flags = numbers
    count = images * n
    threads, chunks = block_reduce.sharing(x, count), x.device.backend.chunks(channels, count, True)
    if not threads or chunks < 2:
        return None
    chunk = -(-count // chunks)
    chunks = -(-count // chunk)  # none is empty
    wide, shape = np.dtype(np.float64), (images, channels, n)
    sums = _launcher(
        x, name, gradient_sums_block if backward else sums_block, 3 if backward else 1, 5, "", channels * chunks, threads
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
        parts = x.device.empty(2 * channels * chunks, wide)
        read = (arrays[0], arrays[1], arrays[3]) if backward else arrays[:1]
        sums(*read, parts, *shape, chunk, chunks)
        write(*arrays, parts, *shape, *flags, chunk, chunks, eps)

    return launch


def _launcher(
    x: Layout, name: str, kernel: Callable, arrays: int, numbers: int, tail: str, blocks: int, threads: int
) -> Callable:
    signature = ", ".join([f"{x.storage.name}[]"] * arrays + ["float64[]"] + ["int64"] * numbers) + tail
    return block_reduce.launcher(x, name, kernel, signature, blocks, threads)
