"""The convolution of bytes as a product of register tiles (`kernel.registers.byte_tiles`): all but depthwise ones."""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, threads
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int32, int64, parallel_range, uintp
from ...kernel.library.panels import pack_words
from ...kernel.registers import byte_tiles
from ...kernel.registers.primitives.integers import byte_few_rows, byte_rows
from ...kernel.scalar import shared_scalar
from ...kernel.specialize import specialized
from ..matmul.int8_linear import tile_shape
from .int8_packing import padded_filters

_CACHE = 1 << 15  # bytes of patches that a worker multiplies at a time


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


def _rows_of_a_line(shape: byte_tiles.Shape, width: int) -> dict:
    """The tile that computes the fewest pixels beyond a line of the result."""
    few = byte_tiles.SMALL_IMAGE_ROWS
    if for_all_sizes.get() or shape.rows <= few or -(-width // few) * few >= -(-width // shape.rows) * shape.rows:
        return {}
    return {"TILE_ROWS": few, "tile": byte_few_rows[shape.vectors]}


def tiled(name: str, x: Layout, out: Layout, sizes: tuple, weight: Layout, packs_weight: bool) -> tuple:
    """The launcher of `direct_convolution` or `patch_convolution`, and a function of its scratch memory."""
    (images, height, width, channels), (filters, taps_y, taps_x, depth), groups = x.shape, weight.shape, sizes[15]
    shape, group = tile_shape(filters // groups, packs_weight), byte_tiles.group()
    pad_y, pad_x, gap_x = sizes[11], sizes[12], sizes[14]
    flipped = group == 4 and x.dtype is dtypes.int8
    constants = {"TILE_ROWS": shape.rows, "PANEL": shape.panel, "GROUP": group, "tile": byte_rows[shape.vectors]}
    words, padded = taps_y * -(-taps_x * depth // group), padded_filters(weight, groups, shape.panel)
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

    def parts() -> tuple:
        workers = min(threads.get_num_threads(), -(-pixels // run))
        return (workers * run * words, word), (workers * taps_x * depth, np.dtype(x.dtype.name)), *added_and_scales

    def launch_patches(*arrays: object) -> None:
        workers = arrays[-3].size // (taps_x * depth)  # another thread may have set the number of threads since
        run_patches(*arrays, *sizes, run, workers)

    return launch_patches, parts
