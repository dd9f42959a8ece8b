"""Device functions of Winograd's F(2x2, 3x3): tiles of 4 x 4 elements, two apart, give 2 x 2 outputs each.

`kernel.registers.winograd` has the transforms.

A transformed tile or kernel has 16 components. For each component the convolution is a matrix product: products
(features, tiles) = taps (features, depth) @ tiles (depth, tiles), where the depth is the channels. Tiles are numbered along the
rows of all images: an image has `high` rows of `wide` tiles.
"""

from __future__ import annotations

from ..language import address_of, uintp
from ..registers.primitives.images import (
    combine_lines,
    transform_lines,
    transform_outputs,
    transform_pixels,
    transform_taps,
)
from ..registers.primitives.tiles import column2, column3, copy_line, tall_column1
from ..scalar import scalar, shared_scalar
from .planes import load_transposed


@scalar
def transform_kernels(weight, base, row_step, depth_step, depth, taps, at, step, rows, lanes):
    """taps (16, depth, rows) = the transformed kernels of some rows.

    Components are `step` apart in `taps`; kernels are row_step and depth_step apart in `weight`.
    """
    for k in range(depth):
        for row in range(0, rows, lanes):
            transform_taps(weight, base + row * row_step + k * depth_step, row_step, taps, at + k * rows + row, step)


@shared_scalar
def transform_input(
    x, base, image_step, first, row_count, high, wide, height, width, pad_h, pad_w, padded_lines, lines_at, line, tiles,
    at, step, lanes,
):  # fmt: skip
    """tiles (16, row_count * wide) = the transformed tiles of one channel, `row_count` rows of them from row
    `first` on. `padded_lines` is scratch memory for lines with padding.
    """
    row = first
    while row < first + row_count:
        top = row % high
        count = min(high - top, first + row_count - row)
        for j in range(2 * count + 2):
            h = 2 * top - pad_h + j
            end = pad_w + width if (h >= 0) & (h < height) else 0
            copy_line(
                x, base + row // high * image_step + h * width - pad_w, pad_w, end, padded_lines, lines_at + j * line,
                line,
            )  # fmt: skip
        for i in range(count):
            for t in range(0, wide, lanes):
                transform_lines(
                    padded_lines, lines_at + 2 * (i * line + t), line, tiles, at + (row + i - first) * wide + t, step
                )
        row += count


@shared_scalar
def transform_channels(
    x, base, image_step, first, row_count, high, wide, border, height, width, pad_h, pad_w, padded_lines, lines_at,
    tiles, at, tile_step, step, lanes,
):  # fmt: skip
    """tiles (16, row_count * wide, lanes) = the transformed tiles of as many planes as a vector has lanes,
    tile_step and `step` apart. If `border` is 0 they are tiles of 2 x 2 output gradients.
    """
    row, line = first, (2 * wide + border) * lanes
    while row < first + row_count:
        top = row % high
        count = min(high - top, first + row_count - row)
        for j in range(2 * count + border):
            h, line_at = 2 * top - pad_h + j, lines_at + j * line
            inside = (h >= 0) & (h < height)
            for k in range(0, pad_w * lanes if inside else line):
                padded_lines[uintp(line_at + k)] = 0
            if inside:
                load_transposed(
                    x, base + row // high * image_step + h * width, height * width, lanes, width, padded_lines,
                    line_at + pad_w * lanes, lanes,
                )  # fmt: skip
                for k in range((pad_w + width) * lanes, line):
                    padded_lines[uintp(line_at + k)] = 0
        for i in range(count):
            tile_at = at + (row + i - first) * wide * tile_step
            if border > 0:
                transform_pixels(padded_lines, lines_at + 2 * i * line, line, tiles, tile_at, tile_step, step, wide)
            else:
                transform_outputs(padded_lines, lines_at + 2 * i * line, line, tiles, tile_at, tile_step, step, wide)
        row += count


@shared_scalar
def multiply_tiles(
    taps, taps_at, taps_step, flipped, tiles, tiles_at, tiles_step, columns, products, products_at, step, features,
    depth, accumulate, depth_at_once, column_count, rows, lanes, size,
):  # fmt: skip
    """products (16, features, columns) = or, with `accumulate`, += taps (16, depth, features) @ tiles (16, depth,
    columns), for column_count columns.

    The depth is summed `depth_at_once` at a time. `flipped` taps are those of kernels that are read from the last
    element to the first.
    """
    for component in range(16):
        i, j = component // 4, component % 4
        if flipped:
            i, j = 3 - i if i % 3 == 0 else i, 3 - j if j % 3 == 0 else j
        column = 0
        while column < column_count:
            left = column_count - column
            # for four vectors, two and two are faster than three and one
            vectors = 3 if (left > 4 * lanes) | ((left > 2 * lanes) & (left <= 3 * lanes)) else 2 if left > lanes else 1
            for k in range(0, depth, depth_at_once):
                steps, add, b = (
                    min(depth_at_once, depth - k),
                    accumulate + k,
                    address_of(tiles) + (tiles_at + component * tiles_step + k * columns + column) * size,
                )
                # one vector has so few sums that each would wait for its last addition
                for row in range(0, features, 2 * rows if vectors == 1 else rows):
                    a, target = (
                        address_of(taps) + (taps_at + (4 * i + j) * taps_step + k * features + row) * size,
                        products_at + component * step + row * columns + column,
                    )
                    if vectors == 3:
                        column3(a, features, b, columns, products, target, columns, steps, add)
                    elif vectors == 2:
                        column2(a, features, b, columns, products, target, columns, steps, add)
                    else:
                        tall_column1(a, features, b, columns, products, target, columns, steps, add)
            column += vectors * lanes


@scalar
def transform_products(
    products, products_at, step, out, target, top, count, wide, out_h, out_w, x, source, weight, kernel, depth_step,
    flipped, depth, height, width, pad_h, pad_w, lanes,
):  # fmt: skip
    """Write the rows of an output plane (at `target`) from `count` rows of tiles, from row `top` on.

    Rows that are not finite are computed again by the definition.

    A transform mixes 16 elements, so an infinity or an overflow of one element would spread to outputs that do not
    depend on it.
    """
    for i in range(count):
        oh, not_finite = 2 * (top + i), 0
        for t in range(0, wide, lanes):
            not_finite |= combine_lines(
                products, products_at + i * wide + t, step, out, target + oh * out_w + 2 * t, out_w, out_w - 2 * t,
                out_h - oh,
            )  # fmt: skip
        if not_finite:
            for line in range(oh, min(oh + 2, out_h)):
                convolve_row_directly(
                    x, source, weight, kernel, depth_step, flipped, depth, out, target + line * out_w, line - pad_h,
                    out_w, height, width, pad_w,
                )  # fmt: skip


@scalar
def convolve_row_directly(
    x, source, weight, kernel, depth_step, flipped, depth, out, target, h, out_w, height, width, pad_w
):
    """out[target:] = a row of the convolution by its definition. `h` is the first row of x that it reads."""
    for ow in range(out_w):
        out[uintp(target + ow)] = 0
    for c in range(depth):
        for tap in range(9):
            line, shift = h + tap // 3, tap % 3 - pad_w
            if 0 <= line < height:
                value, start = (
                    weight[uintp(kernel + c * depth_step + (8 - tap if flipped else tap))],
                    source + (c * height + line) * width + shift,
                )
                for ow in range(max(0, -shift), min(out_w, width - shift)):
                    out[uintp(target + ow)] += value * x[uintp(start + ow)]
