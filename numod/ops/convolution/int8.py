"""The convolution of int8 or uint8 images with int8 filters, with a requantizing epilogue, for quantised networks.

Images are (N, H, W, C) and filters (O, KH, KW, C / groups), channels innermost: the bytes under a filter's row are
contiguous. Patches become the rows of a product of register tiles (`kernel.registers.byte_tiles`); depthwise
convolutions are sums along the channels. Sums are exact in 32 bits. One-dimensional images have H = 1.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, target, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import float32, int32, int64, parallel_range, uint8, uint32, uintp
from ...kernel.library.arithmetic import round_small
from ...kernel.library.panels import pack_words
from ...kernel.library.requantize import scaled_by_float, scaled_by_integers
from ...kernel.registers import byte_tiles
from ...kernel.registers import depthwise_bytes as depthwise_words
from ...kernel.registers.primitives.integers import byte_few_rows, byte_rows, depthwise_bytes
from ...kernel.scalar import shared_scalar
from ...kernel.specialize import specialized
from ..op import Op, Packing, Plan, single_device
from ..matmul.int8_linear import tile_shape
from ..packed_weights import with_packed_weight

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


def scalar_convolution(
    x, weight, offset, multiplier, out, images, height, width, channels, out_height, out_width, filters, taps_y, taps_x,
    step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    *, scaled,
):  # fmt: skip
    """As `plain_convolution`, for processors without vectors: few instructions, with 32-bit indices, and no scratch.

    Taps from `first` to `last` are inside of the image. `scaled` is a function of `requantize`.
    """
    tall, wide, out_wide, depth = int32(height), int32(width), int32(out_width), int32(channels // groups)
    filters_each, line, row_size = int32(filters // groups), int32(taps_x * depth), int32(width * channels)
    pixel_size, step, tap_step = int32(channels), int32(step_x), int32(gap_x * channels)
    gap, line_gap, padding, outer = int32(gap_x), int32(gap_y), int32(pad_x), int32(fill)
    least, most, middle = int32(low - zero), int32(high - zero), int32(zero)
    for task in parallel_range(images * out_height):
        image_at = int32(int64(task) // out_height * tall * row_size)
        top, target = int32(int64(task) % out_height * step_y - pad_y), int32(int64(task) * out_wide * filters)
        for column in range(out_wide):
            left, first, last = int32(column * step - padding), int32(0), int32(taps_x)
            while first < last and int32(left + int32(first * gap)) < int32(0):
                first = int32(first + 1)
            while last > first and int32(left + int32(int32(last - 1) * gap)) >= wide:
                last = int32(last - 1)
            weight_at, f, channel = int32(0), int32(0), int32(0)
            for _ in range(int32(groups)):
                start = int32(image_at + int32(int32(left * pixel_size) + channel))
                for _ in range(filters_each):
                    total, y = int32(offset[uintp(f)]), top
                    for _ in range(int32(taps_y)):
                        begin, end, outside = int32(0), int32(0), int32(0)
                        if int32(0) <= y and y < tall:
                            begin, end = int32(first * depth), int32(last * depth)
                            source = int32(start + int32(y * row_size))
                            if groups == 1 and gap_x == 1:  # the line is contiguous
                                for k in range(begin, end):
                                    product = int32(x[uintp(int32(source + k))]) * int32(
                                        weight[uintp(int32(weight_at + k))]
                                    )
                                    total = int32(total + product)
                            else:
                                for c in range(depth):
                                    at = int32(int32(source + c) + int32(first * tap_step))
                                    for k in range(int32(begin + c), end, depth):
                                        total = int32(
                                            total + int32(x[uintp(at)]) * int32(weight[uintp(int32(weight_at + k))])
                                        )
                                        at = int32(at + tap_step)
                        for k in range(begin):
                            outside = int32(outside + weight[uintp(int32(weight_at + k))])
                        for k in range(end, line):
                            outside = int32(outside + weight[uintp(int32(weight_at + k))])
                        total = int32(total + int32(outer * outside))
                        weight_at, y = int32(weight_at + line), int32(y + line_gap)
                    out[uintp(target)] = scaled(total, multiplier[uintp(f)], least, most) + middle
                    f, target = int32(f + 1), int32(target + 1)
                channel = int32(channel + depth)


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


def pack_filters(weight, packed, filters, taps_y, line, groups, *, GROUP, MASK, PANEL):
    """Pack filters (O, KH, line) of each group into panels (groups, panels, words, PANEL), followed by their sums."""
    line_words, filters_each = (line + GROUP - 1) // GROUP, filters // groups
    words, padded = taps_y * line_words, (filters_each + PANEL - 1) // PANEL * PANEL
    for task in parallel_range(groups * padded):
        group, j, total = int64(task) // padded, int64(task) % padded, int32(0)
        base, lane = (group * padded + j // PANEL * PANEL) * words, j % PANEL
        if j < filters_each:
            for ky in range(taps_y):
                start = ((group * filters_each + j) * taps_y + ky) * line
                pack_words(weight, start, 1, line, packed, base + ky * line_words * PANEL + lane, PANEL, GROUP, MASK, 0)
                for k in range(line):
                    total += int32(weight[uintp(start + k)])
        else:
            for k in range(words):
                packed[uintp(base + k * PANEL + lane)] = 0
        packed[uintp(groups * padded * words + int64(task))] = total


@shared_scalar
def set_ends(offset, multiplier, packed, sums_at, added, scales, at, first, count, padded, flip):
    """added, scales (padded) = the offsets and multipliers of `count` filters from `first` on, with zeros after them.

    `flip` is added to the bytes of the images, which is taken back from the offsets.
    """
    for j in range(count):
        added[uintp(at + j)] = offset[uintp(first + j)] - flip * packed[uintp(sums_at + at + j)]
        scales[uintp(at + j)] = multiplier[uintp(first + j)]
    for j in range(count, padded):
        added[uintp(at + j)], scales[uintp(at + j)] = 0, 0.0


def direct_convolution(
    x, offset, multiplier, right, out, pixels, added, scales, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    workers,
    *, FLIP, GROUP, PANEL, TILE_ROWS, part, tile,
):  # fmt: skip
    """As `plain_convolution`, for one group and adjacent taps: tiles read the padded images where they are.

    A line of a filter may end within a word: the word's other numbers are those of the next pixel, times zeros.

    `right` are packed filters. Scratch: the padded images, with FLIP added, and a word; added and scales (panels *
    PANEL).
    """
    tall, wide = height + 2 * pad_y, width + 2 * pad_x
    line, edge = wide * channels, pad_x * channels
    depth, panels = (taps_x * channels + GROUP - 1) // GROUP, (filters + PANEL - 1) // PANEL
    padded = panels * PANEL
    set_ends(offset, multiplier, right, padded * taps_y * depth, added, scales, 0, 0, filters, padded, FLIP)
    around = part(int32(fill) + FLIP)
    for q in range(GROUP):
        pixels[uintp(images * tall * line + q)] = 0
    for task in parallel_range(images * tall):
        image, y = int64(task) // tall, int64(task) % tall - pad_y
        start = int64(task) * line
        if 0 <= y < height:
            for k in range(edge):
                pixels[uintp(start + k)] = around
                pixels[uintp(start + line - 1 - k)] = around
            source = (image * height + y) * width * channels
            for k in range(width * channels):
                pixels[uintp(start + edge + k)] = part(int32(x[uintp(source + k)]) + FLIP)
        else:
            for k in range(line):
                pixels[uintp(start + k)] = around
    lines = images * out_height
    for worker in parallel_range(workers):
        # panels are the outer loop: the filters of deep layers are larger than their images
        for panel in range(panels):
            for row in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
                top = (row // out_height * tall + row % out_height * step_y) * line
                for column in range(0, out_width, TILE_ROWS):
                    tile(
                        pixels, top + column * step_x * channels, step_x * channels, gap_y * line, right,
                        panel * taps_y * depth * PANEL, added, panel * PANEL, scales, panel * PANEL, out,
                        (row * out_width + column) * filters + panel * PANEL, filters, depth, taps_y,
                        min(TILE_ROWS, out_width - column), min(PANEL, filters - panel * PANEL), low - zero,
                        high - zero, zero,
                    )  # fmt: skip


def patch_convolution(
    x, offset, multiplier, right, out, left, edge, added, scales, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high, run,
    workers,
    *, FLIP, GROUP, MASK, OFFSET, PANEL, TILE_ROWS, tile,
):  # fmt: skip
    """As `plain_convolution`, for all others: patches are copied into rows of words.

    Scratch: added and scales for each group as in `direct_convolution`, and for each worker left (run, words), the
    patches of `run` pixels, and edge (KW * C / groups), a line of a patch.
    """
    depth, filters_each = channels // groups, filters // groups
    line = taps_x * depth
    line_words = (line + GROUP - 1) // GROUP
    words, panels = taps_y * line_words, (filters_each + PANEL - 1) // PANEL
    pixels = images * out_height * out_width
    runs = (pixels + run - 1) // run
    padded = panels * PANEL
    for task in parallel_range(groups):
        at, first_filter = int64(task) * padded, int64(task) * filters_each
        set_ends(
            offset, multiplier, right, groups * padded * words, added, scales, at, first_filter, filters_each, padded,
            OFFSET,
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
                        first_x, target_at = pixel % out_width * step_x - pad_x, left_at + p * words + ky * line_words
                        is_inside = 0 <= y < height and 0 <= first_x and first_x + taps_x <= width
                        if is_inside and gap_x == 1 and groups == 1:  # the line is contiguous
                            pack_words(x, base + first_x * channels, 1, line, left, target_at, 1, GROUP, MASK, FLIP)
                        else:
                            for kx in range(taps_x):
                                at_x = first_x + kx * gap_x
                                if 0 <= y < height and 0 <= at_x < width:
                                    for c in range(depth):
                                        edge[uintp(edge_at + kx * depth + c)] = x[uintp(base + at_x * channels + c)]
                                else:
                                    for c in range(depth):
                                        edge[uintp(edge_at + kx * depth + c)] = fill
                            pack_words(edge, edge_at, 1, line, left, target_at, 1, GROUP, MASK, FLIP)
                for panel in range(panels):
                    at, target = group * panels + panel, group * filters_each + panel * PANEL
                    for i in range(0, count, TILE_ROWS):
                        tile(
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
    differentiable, packs_weight = False, True

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

    def shapes(self, arguments: tuple, attributes: tuple) -> tuple[Layout, tuple[int, ...]]:
        """(the layout of the result, the numbers of the kernels)."""
        x, weight = arguments[:2]
        (stride, padding, dilation, groups, *limits), (n, h, w, c), (o, *taps, d) = attributes, x.shape, weight.shape
        if c != d * groups or o % groups:
            raise RuntimeError(
                f"quantized convolution: filters for {d * groups} channels ({groups} groups) do not "
                f"fit an input with {c} channels"
            )
        for name, row in zip(self.inputs[2:4], arguments[2:4]):
            if row.shape != (o,):
                raise RuntimeError(f"quantized convolution: expected {name} of shape {(o,)}, got {tuple(row.shape)}")
        out_sizes = [
            (size + 2 * pad - gap * (tap - 1) - 1) // step + 1
            for size, pad, gap, tap, step in zip((h, w), padding, dilation, taps, stride)
        ]
        if min(out_sizes) < 1:
            raise RuntimeError(f"quantized convolution: a kernel of {taps} is larger than the padded input {(h, w)}")
        out = layout((n, *out_sizes, o), x.dtype, single_device(self.name, list(arguments)))
        return out, (n, h, w, c, *out_sizes, o, *taps, *stride, *padding, *dilation, groups, *limits)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, weight), groups, (out, sizes) = arguments[:2], attributes[3], self.shapes(arguments, attributes)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        if x.device.type != "cpu" or not target.has_vectors():
            scaled = scaled_by_float if target.has_floats() else scaled_by_integers
            is_plain = x.device.type != "cpu"
            source = specialized(plain_convolution) if is_plain else specialized(scalar_convolution, scaled=scaled)
            signature, work = (
                _signature(x, numbers=len(sizes)),
                out.size * weight.shape[1] * weight.shape[2] * weight.shape[3] // 4,
            )
            return Plan(out, bind.launcher(x.device, "plain_bytes_2d", source, signature, dtypes.float32, work), sizes)
        if _is_depthwise(x, weight, groups):
            return Plan(out, _depthwise(x, out, sizes, weight))
        run, parts = _tiled(self.name, x, out, sizes, weight, self.packs_weight)
        form = byte_tiles.group(), tile_shape(weight.shape[0] // groups, self.packs_weight).panel
        pack = _packer(weight, groups, form) if self.packs_weight else None
        return Plan(out, with_packed_weight(run, parts, x.device, pack))

    def prepack(self, arguments: tuple, attributes: tuple) -> Packing | None:
        """Pack the filters, unless they are depthwise ones."""
        x, weight, groups = *arguments[:2], attributes[3]
        if x.device.type != "cpu" or _is_depthwise(x, weight, groups):
            return None
        form = self.packing_attributes(weight, attributes)
        return Packing(1, pack_byte_filters, form, packed_byte_convolution, needs_vectors=True)

    def packing_attributes(self, weight: Layout, attributes: tuple, machine: target.Machine | None = None) -> tuple:
        """See `Op.packing_attributes`."""
        groups = attributes[3]
        return groups, *byte_tiles.packed_format(weight.shape[0] // groups, machine=machine)


class PackedByteConvolution(ByteConvolution):
    """`byte_convolution` with a further input, the filters packed by `pack_byte_filters`, which the kernels read."""

    takes = None  # the packed layout depends on the processor, so it is not saved in files
    inputs = (*ByteConvolution.inputs, "packed")
    portable = packs_weight = False

    def prepack(self, arguments: tuple, attributes: tuple) -> None:
        """The filters are packed already."""


class PackByteFilters(Op):
    """Pack filters (O, KH, KW, C / groups) of int8 in panels, in a `byte_tiles.packed_format`. CPU only."""

    inputs, attributes = ("weight",), ("groups", "group", "panel")
    differentiable = portable = False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (weight,), (groups, *form) = arguments, attributes
        run, sizes, count = _packer(weight, groups, form)
        return Plan(layout((count,), dtypes.int32, weight.device), run, sizes)


def _is_depthwise(x: Layout, weight: Layout, groups: int) -> bool:
    return groups == x.shape[3] == weight.shape[0] and x.shape[3] > 1


def _padded_filters(weight: Layout, groups: int, panel: int) -> int:
    return -(-weight.shape[0] // groups // panel) * panel * groups


def _packer(weight: Layout, groups: int, form: tuple[int, int]) -> tuple:
    """The launcher of `pack_filters`, its numbers, and the words that it fills, in a `packed_format`."""
    (group, panel), (filters, taps_y, taps_x, depth) = form, weight.shape
    constants = {"GROUP": group, "MASK": byte_tiles.number_mask(group), "PANEL": panel}
    signature = bind.signature("int8", "int32", numbers=4)
    source = specialized(pack_filters, **constants)
    run = bind.launcher(weight.device, "pack_byte_filters", source, signature, dtypes.float32, weight.size // 4)
    count = _padded_filters(weight, groups, panel) * (taps_y * -(-taps_x * depth // group) + 1)
    return run, (filters, taps_y, taps_x * depth, groups), count


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


def _rows_of_a_line(shape: byte_tiles.Shape, width: int) -> dict:
    """The tile that computes the fewest pixels beyond a line of the result."""
    few = byte_tiles.SMALL_IMAGE_ROWS
    if for_all_sizes.get() or shape.rows <= few or -(-width // few) * few >= -(-width // shape.rows) * shape.rows:
        return {}
    return {"TILE_ROWS": few, "tile": byte_few_rows[shape.vectors]}


def _tiled(name: str, x: Layout, out: Layout, sizes: tuple, weight: Layout, packs_weight: bool) -> tuple:
    """The launcher of `direct_convolution` or `patch_convolution`, and a function of its scratch memory."""
    (images, height, width, channels), (filters, taps_y, taps_x, depth), groups = x.shape, weight.shape, sizes[15]
    shape, group = tile_shape(filters // groups, packs_weight), byte_tiles.group()
    pad_y, pad_x, gap_x = sizes[11], sizes[12], sizes[14]
    flipped = group == 4 and x.dtype is dtypes.int8
    constants = {"TILE_ROWS": shape.rows, "PANEL": shape.panel, "GROUP": group, "tile": byte_rows[shape.vectors]}
    words, padded = taps_y * -(-taps_x * depth // group), _padded_filters(weight, groups, shape.panel)
    added_and_scales = (padded, np.dtype("int32")), (padded, np.dtype("float32"))
    work, pixels = out.size * words // 4, out.size // filters
    inputs = x, "int32", "float32", "int32", x
    if groups == 1 and (gap_x == 1 or taps_x == 1):
        part = byte_tiles.number_type()
        constants |= _rows_of_a_line(shape, out.shape[2])
        source = specialized(direct_convolution, FLIP=128 if flipped else 0, part=part, **constants)
        signature = bind.signature(*inputs, part.name, "int32", "float32", numbers=len(sizes) + 1)
        run_direct = bind.launcher(x.device, f"{name}_direct", source, signature, dtypes.float32, work)
        padded_size = images * (height + 2 * pad_y) * (width + 2 * pad_x) * channels + group

        def launch_direct(*arrays: object) -> None:
            run_direct(*arrays, *sizes, min(threads.get_num_threads(), images * out.shape[1]))

        return launch_direct, lambda: ((padded_size, part), *added_and_scales)
    constants |= {"MASK": byte_tiles.number_mask(group)}
    constants |= {"FLIP": 0x80808080 if flipped else 0, "OFFSET": 128 if flipped else 0}
    word = np.dtype("uint32")
    source = specialized(patch_convolution, **constants)
    signature = bind.signature(*inputs, "uint32", x.dtype.name, "int32", "float32", numbers=len(sizes) + 2)
    run_patches = bind.launcher(x.device, f"{name}_patches", source, signature, dtypes.float32, work)
    run = min(-(-pixels // shape.rows), max(1, _CACHE // (words * 4 * shape.rows))) * shape.rows

    def workers() -> int:
        return min(threads.get_num_threads(), -(-pixels // run))

    def parts() -> tuple:
        line = workers() * taps_x * depth, np.dtype(x.dtype.name)
        return (workers() * run * words, word), line, *added_and_scales

    return lambda *arrays: run_patches(*arrays, *sizes, run, workers()), parts


byte_convolution, packed_byte_convolution = (
    ByteConvolution("byte_convolution"), PackedByteConvolution("packed_byte_convolution"),
)  # fmt: skip
pack_byte_filters = PackByteFilters("pack_byte_filters")
