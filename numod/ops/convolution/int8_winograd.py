"""The convolution of bytes with 3 x 3 filters by Winograd's F(4x4, 3x3) in integers: equal to the direct sums.

`kernel.registers.byte_winograd` has the method. A tile of 4 x 4 outputs takes a quarter of the products, of numbers
twice as wide. The transformed filters are eight times as large as the filters, so this is for early layers, whose
images are large and whose filters are few. Measured beside direct sums: 0.6 to 0.8 with VNNI, 0.3 to 0.4 with AVX2; of
small images and few channels 0.9, or more, which `_is_faster` leaves to direct sums.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int32, int64, parallel_range, uint32, uintp
from ...kernel.registers import byte_tiles, byte_winograd
from ...kernel.registers.primitives.byte_winograd import (
    byte_winograd_outputs,
    byte_winograd_product,
    byte_winograd_tile,
)
from ...kernel.registers.vectors import host
from ...kernel.scalar import scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .int8_tiled import set_ends

_TILES = 16  # of a block, whose products are computed at a time: they stay in the second-level cache
_MOST_WEIGHTS = 1 << 16  # channels * filters: 5 MB of transformed filters, which stay in the shared cache
_MOST_BEYOND, _MOST_BEYOND_OF_FEW = 1.4, 1.2  # outputs of whole tiles / outputs; of few channels, with VNNI


@scalar
def transformed_tap(first, second, third, i):
    """Element i of G g, for three taps along one axis."""
    outer = first + third
    middle = outer + second if i == 1 else outer - second
    far = first + 4 * third + (2 * second if i == 3 else -2 * second)
    end = 6 * first if i == 0 else 6 * third
    return end if i == 0 or i == 5 else -middle if i < 3 else far


@scalar
def transformed_line(weight, at, channels, j):
    """Element j of g G' for a line of three taps of a channel, `channels` apart from `at` on."""
    return transformed_tap(
        int32(weight[uintp(at)]), int32(weight[uintp(at + channels)]), int32(weight[uintp(at + 2 * channels)]), j
    )


def pack_winograd(weight, packed, filters, channels, *, PANEL, POINTS):
    """Pack G g G' of filters (O, 3, 3, C) in panels (panels, POINTS, C / 2 words, PANEL), and the sums of filters."""
    words = channels // 2
    for task in parallel_range(filters):
        f, total = int64(task), int32(0)
        base, lane, start = f // PANEL * POINTS * words * PANEL, f % PANEL, f * 9 * channels
        for k in range(9 * channels):
            total += int32(weight[uintp(start + k)])
        for point in range(POINTS):
            i, j = point // 6, point % 6
            for word in range(words):
                value = uint32(0)
                for half in range(2):
                    at = start + word * 2 + half
                    number = transformed_tap(
                        transformed_line(weight, at, channels, j),
                        transformed_line(weight, at + 3 * channels, channels, j),
                        transformed_line(weight, at + 6 * channels, channels, j), i,
                    )  # fmt: skip
                    value |= (uint32(int32(number)) & uint32(65535)) << uint32(16 * half)
                packed[uintp(base + (point * words + word) * PANEL + lane)] = int32(value)
        packed[uintp(filters * POINTS * words + f)] = total


def winograd_convolution(
    x, offset, multiplier, right, out, pixels, tiles, sums, added, scales, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    workers,
    *, FLIP, LANES, PANEL, POINTS, ROWS, TILES,
):  # fmt: skip
    """As `scalar_convolution`, for 3 x 3 filters that `pack_winograd` packed.

    Scratch: the padded images as signed bytes, whole tiles of them; the transformed tiles (POINTS, workers * TILES, C)
    of a round of blocks, one block for a worker; for each worker sums (POINTS, TILES, PANEL); added and scales
    (filters). The points are a line of the cache further apart, since whole pages would share lines.
    """
    high_tiles, wide_tiles = (out_height + 3) // 4, (out_width + 3) // 4
    tall, wide, count = high_tiles * 4 + 2, wide_tiles * 4 + 2, images * high_tiles * wide_tiles
    words, panels, round_size = channels // 2, filters // PANEL, workers * TILES
    plane, step = round_size * channels + 32, TILES * PANEL + 16
    set_ends(offset, multiplier, right, filters * POINTS * words, added, scales, 0, 0, filters, filters, FLIP)
    around = int32(fill) + FLIP
    for task in parallel_range(images * tall):
        image, y = int64(task) // tall, int64(task) % tall - pad_y
        start, source = int64(task) * wide * channels, (image * height + y) * width * channels
        first, last = pad_x * channels, (pad_x + width) * channels
        if y < 0 or y >= height:
            first = last = wide * channels
        for k in range(first):
            pixels[uintp(start + k)] = around
        for k in range(first, last):
            pixels[uintp(start + k)] = int32(x[uintp(source + k - first)]) + FLIP
        for k in range(last, wide * channels):
            pixels[uintp(start + k)] = around
    for begin in range(0, count, round_size):
        end = min(begin + round_size, count)
        for task in parallel_range(end - begin):
            tile = begin + int64(task)
            line = tile // wide_tiles // high_tiles * tall + tile // wide_tiles % high_tiles * 4
            at = (line * wide + tile % wide_tiles * 4) * channels
            for c in range(0, channels, 2 * LANES):
                byte_winograd_tile(
                    pixels, at + c, wide * channels, channels, tiles, int64(task) * channels + c, plane
                )  # fmt: skip
        blocks = (end - begin + TILES - 1) // TILES
        tasks = blocks * panels
        for worker in parallel_range(workers):
            sums_at = int64(worker) * POINTS * step
            for task in range(int64(worker) * tasks // workers, (int64(worker) + 1) * tasks // workers):
                panel, block_at = task // blocks, task % blocks * TILES
                size = min(TILES, end - begin - block_at)
                for point in range(POINTS):
                    for i in range(0, size, ROWS):
                        byte_winograd_product(
                            tiles, point * plane + (block_at + i) * channels, channels, right,
                            (panel * POINTS + point) * words * PANEL, sums, sums_at + point * step + i * PANEL, words,
                            min(ROWS, size - i),
                        )  # fmt: skip
                for i in range(size):
                    tile = begin + block_at + i
                    y, column = tile // wide_tiles % high_tiles * 4, tile % wide_tiles * 4
                    line = tile // wide_tiles // high_tiles * out_height + y
                    for j in range(0, PANEL, LANES):
                        f = panel * PANEL + j
                        byte_winograd_outputs(
                            sums, sums_at + i * PANEL + j, step, added, f, scales, f, out,
                            (line * out_width + column) * filters + f, out_width * filters, filters, out_height - y,
                            out_width - column, low - zero, high - zero, zero,
                        )  # fmt: skip


class PackByteWinograd(Op):
    """Pack filters (O, 3, 3, C) of int8 as `pack_winograd` does. CPU only."""

    inputs, differentiable, portable = ("weight",), False, False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,) = arguments
        filters, _, _, channels = weight.shape
        constants = {"PANEL": byte_winograd.panel(), "POINTS": byte_winograd.POINTS}
        run = bind.launcher(
            weight.device, "pack_byte_winograd", specialized(pack_winograd, **constants),
            bind.signature("int8", "int32", numbers=2), dtypes.float32, weight.size * 4,
        )  # fmt: skip
        count = filters * (byte_winograd.POINTS * channels // 2 + 1)
        return Plan(layout((count,), dtypes.int32, weight.device), run, (filters, channels))


pack_byte_winograd = PackByteWinograd("pack_byte_winograd")


def uses_winograd(x: Layout, weight: Layout, attributes: tuple) -> bool:
    """Whether this is the faster method, and exact."""
    stride, padding, dilation, groups = attributes[:4]
    filters, *taps, channels = weight.shape
    if (*taps, *stride, *dilation, groups) != (3, 3, 1, 1, 1, 1, 1) or for_all_sizes.get():
        return False
    pixels = x.shape[0], *(size + 2 * pad - 2 for size, pad in zip(x.shape[1:3], padding))
    return (
        byte_winograd.runs()
        and channels % host().lanes(2) == filters % byte_winograd.panel() == 0
        and channels <= byte_winograd.MOST_CHANNELS
        and channels * filters <= _MOST_WEIGHTS
        and _is_faster(pixels, channels, filters)
    )


def _is_faster(pixels: tuple[int, int, int], channels: int, filters: int) -> bool:
    """Whether this takes less time than direct sums, which take twice as long without VNNI.

    Transforms take the time of few channels, and reading the transformed filters that of few tiles.
    """
    tiles, count = pixels[0] * -(-pixels[1] // 4) * -(-pixels[2] // 4), prod(pixels)
    if byte_tiles.products() != byte_tiles.VNNI:
        return tiles >= 4 and count * channels * filters >= 1 << 17 and 16 * tiles <= _MOST_BEYOND * count
    beyond = _MOST_BEYOND if channels >= 96 else _MOST_BEYOND_OF_FEW
    return tiles >= 16 and count * channels * filters >= 1 << 20 and 16 * tiles <= beyond * count


def winograd(name: str, x: Layout, out: Layout, sizes: tuple) -> tuple:
    """The launcher of `winograd_convolution`, and a function of its scratch memory."""
    constants = {
        "FLIP": -128 if x.dtype is dtypes.uint8 else 0, "LANES": host().lanes(4), "PANEL": byte_winograd.panel(),
        "POINTS": byte_winograd.POINTS, "ROWS": byte_winograd.ROWS, "TILES": _TILES,
    }  # fmt: skip
    scratch = "int8", "int16", "int32", "int32", "float32"
    signature = bind.signature(x, "int32", "float32", "int32", x, *scratch, numbers=len(sizes) + 1)
    (images, height, width, filters), channels = out.shape, x.shape[3]
    source, work = specialized(winograd_convolution, **constants), out.size * channels * 9 // 32
    run = bind.launcher(x.device, name, source, signature, dtypes.float32, work)
    high, wide = -(-height // 4), -(-width // 4)
    tasks = -(-images * high * wide // _TILES) * (filters // byte_winograd.panel())
    sums_size = byte_winograd.POINTS * (_TILES * byte_winograd.panel() + 16)

    def parts() -> tuple:
        workers = min(threads.get_num_threads(), tasks)
        counts = (
            images * (4 * high + 2) * (4 * wide + 2) * channels,
            byte_winograd.POINTS * (workers * _TILES * channels + 32), workers * sums_size, filters, filters,
        )  # fmt: skip
        return tuple((count, np.dtype(kind)) for count, kind in zip(counts, scratch))

    def launch(*arrays: object) -> None:
        workers = arrays[-3].size // sums_size  # another thread may have set the number of threads since
        run(*arrays, *sizes, workers)

    return launch, parts
