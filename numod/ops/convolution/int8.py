"""The convolution of int8 or uint8 images with int8 filters, with a requantizing epilogue, for quantised networks.

Images are (N, H, W, C) and filters (O, KH, KW, C / groups), channels innermost: the bytes under a filter's row are
contiguous. Patches become the rows of a product of register tiles (`kernel.registers.byte_tiles`); depthwise
convolutions are sums along the channels. Sums are exact in 32 bits. One-dimensional images have H = 1.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import float32, int32, int64, parallel_range, uint8, uint32, uintp
from ...kernel.library.arithmetic import round_small
from ...kernel.library.panels import pack_words
from ...kernel.registers import byte_tiles
from ...kernel.registers import depthwise_bytes as depthwise_words
from ...kernel.registers.primitives import byte_rows, depthwise_bytes
from ...kernel.scalar import shared_scalar
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device

_CACHE = 1 << 15  # bytes of patches that a worker multiplies at a time


def plain_convolution(
    x, weight, offset, multiplier, out, images, height, width, channels, out_height, out_width, filters, taps_y, taps_x,
    step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
):  # fmt: skip
    """out (N, OH, OW, O) = the integers of the convolution of x, element by element. Pixels outside are `fill`."""
    depth = channels // groups
    for task in parallel_range(images * out_height * out_width * filters):
        index, total = int64(task), int32(0)
        f, pixel = index % filters, index // filters
        column, row, image = pixel % out_width, pixel // out_width % out_height, pixel // (out_width * out_height)
        for tap in range(taps_y * taps_x):
            y, x_at = row * step_y - pad_y + tap // taps_x * gap_y, column * step_x - pad_x + tap % taps_x * gap_x
            inside = 0 <= y < height and 0 <= x_at < width
            start = ((image * height + y) * width + x_at) * channels + f // (filters // groups) * depth
            for c in range(depth):
                value = int32(x[start + c]) if inside else int32(fill)
                total += value * int32(weight[(f * taps_y * taps_x + tap) * depth + c])
        value = float32(total + offset[f]) * multiplier[f]
        out[index] = int32(round_small(min(max(value, float32(low - zero)), float32(high - zero)))) + int32(zero)


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


@shared_scalar
def pack_filters(
    weight, offset, multiplier, first, right, right_at, added, scales, ends_at, filters, taps_y, line, flip, group,
    mask, panel,
):  # fmt: skip
    """Pack filters (O, KH, line) from `first` on into panels (words, panel), with offsets and multipliers.

    `flip` is added to the bytes of the other factor, which is taken back from the offsets.
    """
    line_words = (line + group - 1) // group
    words = taps_y * line_words
    for j in range((filters + panel - 1) // panel * panel):
        base, lane = right_at + j // panel * words * panel, j % panel
        total = int32(0)
        if j < filters:
            for ky in range(taps_y):
                start = ((first + j) * taps_y + ky) * line
                pack_words(weight, start, 1, line, right, base + ky * line_words * panel + lane, panel, group, mask, 0)
                for k in range(line if flip else 0):
                    total += int32(weight[uintp(start + k)])
            added[uintp(ends_at + j)] = offset[uintp(first + j)] - flip * total
            scales[uintp(ends_at + j)] = multiplier[uintp(first + j)]
        else:
            added[uintp(ends_at + j)], scales[uintp(ends_at + j)] = 0, 0.0
            for k in range(words):
                right[uintp(base + k * panel + lane)] = 0


def direct_convolution(
    x, weight, offset, multiplier, out, right, image_words, added, scales, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    workers,
    *, FLIP, GROUP, MASK, OFFSET, PANEL, TILE_ROWS,
):  # fmt: skip
    """As `plain_convolution`, for a group of channels in whole words and adjacent taps: tiles read the padded images.

    Scratch: right (panels, words, PANEL), added and scales (panels * PANEL), and the padded images in words.
    """
    pixel_words = channels // GROUP
    tall, wide = height + 2 * pad_y, width + 2 * pad_x
    line = wide * pixel_words
    depth, panels = taps_x * pixel_words, (filters + PANEL - 1) // PANEL
    pack_filters(
        weight, offset, multiplier, 0, right, 0, added, scales, 0, filters, taps_y, taps_x * channels, OFFSET, GROUP,
        MASK, PANEL,
    )  # fmt: skip
    around = uint32(0)
    for q in range(GROUP):
        around |= (uint32(fill) & uint32(MASK)) << uint32(q * (32 // GROUP))
    around = around ^ uint32(FLIP)
    for task in parallel_range(images * tall):
        image, y = int64(task) // tall, int64(task) % tall - pad_y
        start = int64(task) * line
        if 0 <= y < height:
            for k in range(pad_x * pixel_words):
                image_words[uintp(start + k)] = around
                image_words[uintp(start + line - 1 - k)] = around
            source = (image * height + y) * width * channels
            pack_words(x, source, 1, width * channels, image_words, start + pad_x * pixel_words, 1, GROUP, MASK, FLIP)
        else:
            for k in range(line):
                image_words[uintp(start + k)] = around
    lines = images * out_height
    for worker in parallel_range(workers):
        for row in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            top = (row // out_height * tall + row % out_height * step_y) * line
            for panel in range(panels):
                for column in range(0, out_width, TILE_ROWS):
                    byte_rows(
                        image_words, top + column * step_x * pixel_words, step_x * pixel_words, gap_y * line, right,
                        panel * taps_y * depth * PANEL, added, panel * PANEL, scales, panel * PANEL, out,
                        (row * out_width + column) * filters + panel * PANEL, filters, depth, taps_y,
                        min(TILE_ROWS, out_width - column), min(PANEL, filters - panel * PANEL), low - zero,
                        high - zero, zero,
                    )  # fmt: skip


def patch_convolution(
    x, weight, offset, multiplier, out, right, left, edge, added, scales, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high, run,
    workers,
    *, FLIP, GROUP, MASK, OFFSET, PANEL, TILE_ROWS,
):  # fmt: skip
    """As `plain_convolution`, for all others: patches are copied into rows of words.

    Scratch: right, added and scales for each group as in `direct_convolution`, and for each worker left (run, words),
    the patches of `run` pixels, and edge (KW * C / groups), a line of a patch.
    """
    depth, filters_each = channels // groups, filters // groups
    line = taps_x * depth
    line_words = (line + GROUP - 1) // GROUP
    words, panels = taps_y * line_words, (filters_each + PANEL - 1) // PANEL
    pixels = images * out_height * out_width
    runs = (pixels + run - 1) // run
    for task in parallel_range(groups):
        start, at = int64(task) * filters_each, int64(task) * panels * PANEL
        pack_filters(
            weight, offset, multiplier, start, right, at * words, added, scales, at, filters_each, taps_y, line, OFFSET,
            GROUP, MASK, PANEL,
        )  # fmt: skip
    for worker in parallel_range(workers):
        left_at, edge_at = int64(worker) * run * words, int64(worker) * line
        for block in range(int64(worker) * runs // workers, (int64(worker) + 1) * runs // workers):
            first = block * run
            count = min(run, pixels - first)
            for group in range(groups):
                for p in range(count):
                    pixel = first + p
                    row, image = pixel // out_width % out_height, pixel // (out_width * out_height)
                    for ky in range(taps_y):
                        y = row * step_y - pad_y + ky * gap_y
                        base = (image * height + y) * width * channels + group * depth
                        for kx in range(taps_x):
                            at_x = pixel % out_width * step_x - pad_x + kx * gap_x
                            if 0 <= y < height and 0 <= at_x < width:
                                for c in range(depth):
                                    edge[uintp(edge_at + kx * depth + c)] = x[uintp(base + at_x * channels + c)]
                            else:
                                for c in range(depth):
                                    edge[uintp(edge_at + kx * depth + c)] = fill
                        pack_words(
                            edge, edge_at, 1, line, left, left_at + p * words + ky * line_words, 1, GROUP, MASK, FLIP
                        )
                for panel in range(panels):
                    at, target = group * panels + panel, group * filters_each + panel * PANEL
                    for i in range(0, count, TILE_ROWS):
                        byte_rows(
                            left, left_at + i * words, words, 0, right, at * words * PANEL, added, at * PANEL, scales,
                            at * PANEL, out, (first + i) * filters + target, filters, words, 1,
                            min(TILE_ROWS, count - i), min(PANEL, filters_each - panel * PANEL), low - zero,
                            high - zero, zero,
                        )  # fmt: skip


class ByteConvolution(Op):
    """x (N, H, W, C) of int8 or uint8, filters (O, KH, KW, C / groups) of int8 -> (N, OH, OW, O) of x's dtype.

    The result is round((sum + offset) * multiplier) + zero in [low, high], for the sum of products of integers; pixels
    outside are `fill`, the zero point of x. `offset` has the bias and the products with zero points.
    """

    takes = (
        "x[n h w c]:any weight[o k l d]:int8 offset[o]:int32 multiplier[o]:float32; "
        "stride=1..^2 padding=0..^2 dilation=1..^2 groups=1.. fill=int zero=int low=int high=int"
    )
    inputs = "x", "weight", "offset", "multiplier"
    attributes = "stride", "padding", "dilation", "groups", "fill", "zero", "low", "high"
    differentiable = False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        groups = attributes[3]
        if arguments[0].dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'x' must be of int8 or uint8, got {arguments[0].dtype}"
        if sizes["c"] != sizes["d"] * groups or sizes["o"] % groups:
            return f"filters {arguments[1].shape} in {groups} groups do not fit images {arguments[0].shape}"
        limits = dtypes.iinfo(arguments[0].dtype)
        if any(not limits.min <= number <= limits.max for number in attributes[4:]):
            return f"fill, zero, low and high must be integers of {arguments[0].dtype}, got {attributes[4:]}"
        return None

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, weight = arguments[:2]
        (stride, padding, dilation, groups, *limits), (n, h, w, c), (o, *taps, _) = attributes, x.shape, weight.shape
        out_sizes = [
            (size + 2 * pad - gap * (tap - 1) - 1) // step + 1
            for size, pad, gap, tap, step in zip((h, w), padding, dilation, taps, stride)
        ]
        if min(out_sizes) < 1:
            raise RuntimeError(f"quantized convolution: a kernel of {taps} is larger than the padded input {(h, w)}")
        out = layout((n, *out_sizes, o), x.dtype, single_device(self.name, list(arguments)))
        sizes = (n, h, w, c, *out_sizes, o, *taps, *stride, *padding, *dilation, groups, *limits)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        if x.device.type != "cpu":
            source, signature = specialized(plain_convolution), _signature(x, numbers=len(sizes))
            work = out.size * taps[0] * taps[1] * weight.shape[3] // 4
            return Plan(out, bind.launcher(x.device, "plain_bytes_2d", source, signature, dtypes.float32, work), sizes)
        is_depthwise = groups == c == o and x.shape[3] > 1
        return Plan(out, (_depthwise if is_depthwise else _tiled)(x, out, sizes, weight))


def _signature(x: Layout, *scratch: str, numbers: int) -> str:
    return bind.signature(x, "int8", "int32", "float32", x, *scratch, numbers=numbers)


def _depthwise(x: Layout, out: Layout, sizes: tuple, weight: Layout) -> object:
    """The launcher of `depthwise_words_convolution`, or without VNNI of `depthwise_convolution`."""
    if depthwise_words.runs():
        return _depthwise_words(x, out, sizes, weight)
    signature = _signature(x, "int8", "int32", numbers=len(sizes) + 1)
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
    signature = _signature(x, "uint8", "uint32", "int64", "int32", "float32", numbers=len(sizes) + 1)
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


def _tiled(x: Layout, out: Layout, sizes: tuple, weight: Layout) -> object:
    """The launcher of `direct_convolution` or `patch_convolution`."""
    shape, group = byte_tiles.shape(), byte_tiles.group()
    (images, height, width, channels), (filters, taps_y, taps_x, depth), groups = x.shape, weight.shape, sizes[15]
    pad_y, pad_x, gap_x = sizes[11], sizes[12], sizes[14]
    flipped = group == 4 and x.dtype is dtypes.int8
    constants = {"TILE_ROWS": shape.rows, "PANEL": shape.panel, "GROUP": group, "MASK": 255 if group == 4 else 65535}
    constants |= {"FLIP": 0x80808080 if flipped else 0, "OFFSET": 128 if flipped else 0}
    words = taps_y * -(-taps_x * depth // group)
    padded = -(-filters // groups // shape.panel) * shape.panel * groups
    packed, word, scratch = padded * words, np.dtype("uint32"), x.device.backend.scratch
    ends = (padded, np.dtype("int32")), (padded, np.dtype("float32"))
    work, pixels = out.size * words // 4, out.size // filters
    if groups == 1 and channels % group == 0 and (gap_x == 1 or taps_x == 1):
        source = specialized(direct_convolution, **constants)
        signature = _signature(x, "uint32", "uint32", "int32", "float32", numbers=len(sizes) + 1)
        run_direct = bind.launcher(x.device, "convolve_bytes", source, signature, dtypes.float32, work)
        image_words = images * (height + 2 * pad_y) * (width + 2 * pad_x) * channels // group

        def launch_direct(*arrays: object) -> None:
            workers = min(threads.get_num_threads(), images * out.shape[1])
            run_direct(*arrays, *scratch(((packed, word), (image_words, word), *ends)), *sizes, workers)

        return launch_direct
    source = specialized(patch_convolution, **constants)
    signature = _signature(x, "uint32", "uint32", x.dtype.name, "int32", "float32", numbers=len(sizes) + 2)
    run_patches = bind.launcher(x.device, "convolve_byte_patches", source, signature, dtypes.float32, work)
    run = min(-(-pixels // shape.rows), max(1, _CACHE // (words * 4 * shape.rows))) * shape.rows

    def launch_patches(*arrays: object) -> None:
        workers = min(threads.get_num_threads(), -(-pixels // run))
        parts = (packed, word), (workers * run * words, word), (workers * taps_x * depth, np.dtype(x.dtype.name))
        run_patches(*arrays, *scratch((*parts, *ends)), *sizes, run, workers)

    return launch_patches


byte_convolution = ByteConvolution("byte_convolution")
