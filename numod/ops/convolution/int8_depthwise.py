"""The depthwise convolution of bytes: sums along the channels, or with VNNI words of four taps."""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...kernel import bind
from ...kernel.language import float32, int32, int64, parallel_range, uint8, uint32, uintp
from ...kernel.library.arithmetic import round_small
from ...kernel.registers import depthwise_bytes as depthwise_words
from ...kernel.registers.primitives.integers import depthwise_bytes
from ...kernel.specialize import specialized


def depthwise_convolution(
    x, weight, offset, multiplier, out, taps, sums, images, height, width, channels, out_height, out_width, filters,
    taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high, workers,
):  # fmt: skip
    """As `plain_convolution`, for a filter of one channel for each channel.

    Scratch: taps (KH * KW, C), the filters with channels innermost, and sums (C) for each worker.
    """
    count = taps_y * taps_x
    for task in parallel_range(count):
        for c in range(channels):
            taps[uintp(int64(task) * channels + c)] = weight[uintp(c * count + int64(task))]
    lines, least, most = images * out_height, float32(low - zero), float32(high - zero)
    for worker in parallel_range(workers):
        sums_at = int64(worker) * channels
        for line in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            image, row = line // out_height, line % out_height
            for column in range(out_width):
                for c in range(channels):
                    sums[uintp(sums_at + c)] = offset[uintp(c)]
                for tap in range(count):
                    y, x_at = (
                        row * step_y - pad_y + tap // taps_x * gap_y,
                        column * step_x - pad_x + tap % taps_x * gap_x,
                    )
                    if 0 <= y < height and 0 <= x_at < width:
                        start = ((image * height + y) * width + x_at) * channels
                        for c in range(channels):
                            sums[uintp(sums_at + c)] += int32(x[uintp(start + c)]) * int32(
                                taps[uintp(tap * channels + c)]
                            )
                    else:
                        for c in range(channels):
                            sums[uintp(sums_at + c)] += int32(fill) * int32(taps[uintp(tap * channels + c)])
                target = (line * out_width + column) * filters
                for c in range(channels):
                    value = float32(sums[uintp(sums_at + c)]) * multiplier[uintp(c)]
                    out[uintp(target + c)] = int32(round_small(min(max(value, least), most))) + int32(zero)


def depthwise_words_convolution(
    x, weight, offset, multiplier, out, pixels, words, tap_offsets, added, scales, images, height, width, channels,
    out_height, out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low,
    high, workers,
    *, FLIP, LANES,
):  # fmt: skip
    """As `depthwise_convolution`, by registers of LANES channels and words of four taps.

    Scratch: the padded images, with channels in whole registers, plus FLIP; the filters in words (blocks, tap groups,
    4, LANES / 4); the distance of each tap from the first; added and scales (blocks * LANES).
    """
    count, blocks, lanes = taps_y * taps_x, (channels + LANES - 1) // LANES, LANES // 4
    tap_groups, depth = (count + 3) // 4, blocks * LANES
    tall, wide = height + 2 * pad_y, width + 2 * pad_x
    for tap in range(tap_groups * 4):
        tap_offsets[uintp(tap)] = (tap // taps_x * gap_y * wide + tap % taps_x * gap_x) * depth if tap < count else 0
    for number in range(depth):
        block, vector, lane = number // LANES, number % LANES // lanes, number % lanes
        channel, total = block * LANES + lane // 4 * 16 + vector * 4 + lane % 4, int32(0)
        for group in range(tap_groups):
            word = uint32(0)
            for q in range(4):
                tap = group * 4 + q
                if channel < channels and tap < count:
                    value = int32(weight[uintp(channel * count + tap)])
                    word |= (uint32(value) & uint32(255)) << uint32(q * 8)
                    total += value
            words[uintp(((block * tap_groups + group) * 4 + vector) * lanes + lane)] = word
        added[uintp(number)] = offset[uintp(channel)] - FLIP * total if channel < channels else 0
        scales[uintp(number)] = multiplier[uintp(channel)] if channel < channels else 0.0
    for task in parallel_range(images * tall):
        image, y = int64(task) // tall, int64(task) % tall - pad_y
        for column in range(wide):
            target, at_x = (int64(task) * wide + column) * depth, column - pad_x
            if 0 <= y < height and 0 <= at_x < width:
                source = ((image * height + y) * width + at_x) * channels
                for c in range(channels):
                    pixels[uintp(target + c)] = uint8(int32(x[uintp(source + c)]) + FLIP)
            else:
                for c in range(channels):
                    pixels[uintp(target + c)] = uint8(int32(fill) + FLIP)
    lines = images * out_height
    for worker in parallel_range(workers):
        for line in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            top = (line // out_height * tall + line % out_height * step_y) * wide
            for column in range(out_width):
                for block in range(blocks):
                    depthwise_bytes(
                        pixels, (top + column * step_x) * depth + block * LANES, tap_offsets, 0, tap_groups, words,
                        block * tap_groups * LANES, added, block * LANES, scales, block * LANES, out,
                        (line * out_width + column) * filters + block * LANES, min(LANES, channels - block * LANES),
                        low - zero, high - zero, zero,
                    )  # fmt: skip


def signature_of(x: Layout, *scratch: str, numbers: int) -> str:
    return bind.signature(x, "int8", "int32", "float32", x, *scratch, numbers=numbers)


def depthwise(x: Layout, out: Layout, sizes: tuple, weight: Layout) -> object:
    """The launcher of `depthwise_words_convolution`, or without VNNI of `depthwise_convolution`."""
    if depthwise_words.runs():
        return _depthwise_words(x, out, sizes, weight)
    signature = signature_of(x, "int8", "int32", numbers=len(sizes) + 1)
    work = out.size * weight.shape[1] * weight.shape[2] // 8
    source = specialized(depthwise_convolution)
    run = bind.launcher(x.device, "depthwise_bytes", source, signature, dtypes.float32, work)
    scratch, lines, channels = x.device.backend.scratch, out.shape[0] * out.shape[1], x.shape[3]

    def launch(*arrays: object) -> None:
        workers = min(threads.get_num_threads(), lines)
        parts = (weight.size, np.dtype("int8")), (workers * channels, np.dtype("int32"))
        run(*arrays, *scratch(parts), *sizes, workers)

    return launch


def _depthwise_words(x: Layout, out: Layout, sizes: tuple, weight: Layout) -> object:
    """The launcher of `depthwise_words_convolution`."""
    signature = signature_of(x, "uint8", "uint32", "int64", "int32", "float32", numbers=len(sizes) + 1)
    work, lanes = out.size * weight.shape[1] * weight.shape[2] // 16, depthwise_words.lanes()
    source = specialized(depthwise_words_convolution, FLIP=128 if x.dtype is dtypes.int8 else 0, LANES=lanes)
    run = bind.launcher(x.device, "depthwise_words", source, signature, dtypes.float32, work)
    (images, height, width, channels), (pad_y, pad_x) = x.shape, sizes[11:13]
    depth, tap_groups = -(-channels // lanes) * lanes, -(-weight.shape[1] * weight.shape[2] // 4)
    scratch, lines = x.device.backend.scratch, out.shape[0] * out.shape[1]
    parts = (
        (images * (height + 2 * pad_y) * (width + 2 * pad_x) * depth, np.dtype("uint8")),
        (depth * tap_groups, np.dtype("uint32")), (tap_groups * 4, np.dtype("int64")), (depth, np.dtype("int32")),
        (depth, np.dtype("float32")),
    )  # fmt: skip
    return lambda *arrays: run(*arrays, *scratch(parts), *sizes, min(threads.get_num_threads(), lines))
