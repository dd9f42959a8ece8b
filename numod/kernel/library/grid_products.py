"""Device functions of the implicit GEMM convolution: products with the im2col matrix of a grid (see `grid`)."""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..registers.primitives.tiles import (
    copy_line, line1, line2, line4, line8, shifted1, shifted2, shifted3, tall1, transpose_block,
)  # fmt: skip
from ..scalar import rolled_scalar, scalar, shared_scalar
from .grid import GridLines, grid_reach


class GridRun(NamedTuple):
    """The sizes of one phase of a grid, and how many positions and how much of the depth a product takes at a time."""

    grid_d: int
    grid_h: int
    stack: int
    grid_w: int
    run: int
    deep: int


@rolled_scalar
def multiply_grid(
    a, a_at, a_step, rows, depth, grid, grid_at, table, table_at, out, out_at, image_step, row_step, slab_step,
    line_step, column_step, count, slabs, lines, columns, shape: GridRun, tile, tile_at, tile_rows, lanes,
):  # fmt: skip
    """out (images, rows, slabs, lines, columns) = a (rows, depth) @ the im2col matrix of the grid.

    `run` positions of the grid and `deep` of the depth are processed at a time. If `deep` is less than the depth,
    `tile` holds the partial sums of all tiles of a run. Rows of a tile follow each other; row i of a begins at i *
    a_step if it is the first one of a tile.
    """
    reach, slab = grid_reach(count, shape, 1, lines, columns), shape.grid_h * shape.stack * shape.grid_w
    total = (slabs - 1) * slab + reach
    for begin in range(0, total, shape.run):
        end = min(total, begin + shape.run)
        for first in range(0, max(depth, 1), shape.deep):  # sums of nothing are written too
            depth_here, is_last, tile_place = min(shape.deep, depth - first), first + shape.deep >= depth, tile_at
            # for few positions, tiles of twice the rows read the grid half as often; rows of two tiles must be adjacent
            tall = 2 * tile_rows if (total <= lanes) & (shape.deep >= depth) & (a_step == depth) else rows + 1
            done = rows // tall * tall
            for row in range(0, done, tall):
                tall1(
                    a, a_at + row * a_step, depth, 1, grid, grid_at, 0, table, table_at, tile, tile_at, lanes, depth, 0
                )
                store_tile(
                    tile, tile_at, lanes, tall, 0, total, out, out_at + row * row_step, image_step, row_step, slab_step,
                    line_step, column_step, count, slabs, lines, columns, shape,
                )  # fmt: skip
            for row in range(done, rows, tile_rows):
                start, position = a_at + row * a_step + first, begin
                while position < end:
                    slab_position = position % slab if slabs > 1 else position
                    if slab_position >= reach:  # no outputs lie between slabs
                        position += slab - slab_position
                        continue
                    n = min(reach - slab_position, end - position)
                    # two and two are faster than three and one
                    stop = position + min(n, 2 * lanes if (n > 3 * lanes) & (n <= 4 * lanes) else 3 * lanes)
                    if stop - position > 2 * lanes:
                        shifted3(
                            a, start, depth, 1, grid, grid_at + position, 0, table, table_at + first, tile, tile_place,
                            3 * lanes, depth_here, first,
                        )  # fmt: skip
                    elif stop - position > lanes:
                        shifted2(
                            a, start, depth, 1, grid, grid_at + position, 0, table, table_at + first, tile, tile_place,
                            3 * lanes, depth_here, first,
                        )  # fmt: skip
                    else:
                        shifted1(
                            a, start, depth, 1, grid, grid_at + position, 0, table, table_at + first, tile, tile_place,
                            3 * lanes, depth_here, first,
                        )  # fmt: skip
                    if is_last:
                        store_tile(
                            tile, tile_place, 3 * lanes, min(tile_rows, rows - row), position, stop, out,
                            out_at + row * row_step, image_step, row_step, slab_step,
                            line_step, column_step, count, slabs, lines, columns, shape,
                        )  # fmt: skip
                    if shape.deep < depth:
                        tile_place += tile_rows * 3 * lanes
                    position = stop


@shared_scalar
def multiply_grid_rows(
    a, a_at, a_step, rows, depth, grid, grid_at, table, table_at, out, out_at, image_step, row_step, slab_step,
    line_step, column_step, count, slabs, lines, columns, shape: GridRun, tile, tile_at, tile_rows, lanes,
):  # fmt: skip
    """As `multiply_grid`, for few rows, one row at a time: small products write a row of the output directly,
    others go through `tile`.
    """
    end = grid_reach(count, shape, slabs, lines, columns)
    for row in range(rows):
        a_row_at, base = a_at + row * a_step, out_at + row * row_step
        if column_step == 1 and depth <= 32 and 2 * columns > lanes:
            for slab in range(slabs):
                for line in range(lines):
                    for image in range(count):
                        source = grid_at + ((slab * shape.grid_h + line) * shape.stack + image) * shape.grid_w
                        target = base + image * image_step + slab * slab_step + line * line_step
                        w = 0
                        while w < columns:
                            more = columns - w
                            if more > 7 * lanes:
                                line8(
                                    a, a_row_at, 0, 1, grid, source + w, 0, table, table_at, out, target + w,
                                    min(lanes, more - 7 * lanes), depth, 0,
                                )  # fmt: skip
                                w += 8 * lanes
                            elif more > 3 * lanes:
                                line4(
                                    a, a_row_at, 0, 1, grid, source + w, 0, table, table_at, out, target + w,
                                    min(lanes, more - 3 * lanes), depth, 0,
                                )  # fmt: skip
                                w += 4 * lanes
                            elif more > lanes:
                                line2(
                                    a, a_row_at, 0, 1, grid, source + w, 0, table, table_at, out, target + w,
                                    min(lanes, more - lanes), depth, 0,
                                )  # fmt: skip
                                w += 2 * lanes
                            else:
                                line1(
                                    a, a_row_at, 0, 1, grid, source + w, 0, table, table_at, out, target + w, more,
                                    depth, 0,
                                )  # fmt: skip
                                w += lanes
        else:
            for position in range(0, end, 8 * lanes):
                stop = min(end, position + 8 * lanes)
                line8(a, a_row_at, 0, 1, grid, grid_at + position, 0, table, table_at, tile, tile_at, lanes, depth, 0)
                store_tile(
                    tile, tile_at, 0, 1, position, stop, out, base, image_step, row_step, slab_step, line_step,
                    column_step, count, slabs, lines, columns, shape,
                )  # fmt: skip


@scalar
def store_tile(
    tile, tile_at, tile_step, rows, position, stop, out, out_at, image_step, row_step, slab_step, line_step,
    column_step, count, slabs, lines, columns, shape: GridLines,
):  # fmt: skip
    """Store the outputs of a tile. Positions of the grid that are no outputs are skipped."""
    # the outputs are in the order of the tile
    if shape.grid_w == columns and shape.stack == 1 and slabs == 1 and column_step == 1 and line_step == columns:
        for i in range(rows):
            copy_line(
                tile, tile_at + i * tile_step, 0, stop - position, out, out_at + i * row_step + position,
                stop - position,
            )  # fmt: skip
        return
    line = position // shape.grid_w
    begin, image, h = position - line * shape.grid_w, line % shape.stack, line // shape.stack
    d = h // shape.grid_h
    h -= d * shape.grid_h
    first = position
    while first < stop:
        last = min(stop, first + shape.grid_w - begin)
        ends = min(columns, begin + last - first)
        if image < count and h < lines and d < slabs and begin < ends:
            target = out_at + image * image_step + d * slab_step + h * line_step + begin * column_step
            for i in range(rows):
                source = tile_at + i * tile_step + first - position
                if column_step == 1:
                    copy_line(tile, source, 0, ends - begin, out, target + i * row_step, ends - begin)
                else:
                    for j in range(ends - begin):
                        out[uintp(target + i * row_step + j * column_step)] = tile[uintp(source + j)]
        first, begin, image = last, 0, image + 1
        if image == shape.stack:  # counted on, since divisions would take longer than the copies
            image, h = 0, h + 1
            if h == shape.grid_h:
                h, d = 0, d + 1


@rolled_scalar
def transpose_outputs(
    g, base, image_step, feature_step, features, transposed, transposed_at, first, count, slabs, lines, out_h, out_w,
    shape: GridLines, end, panel, lanes,
):  # fmt: skip
    """transposed (panels, positions, panel) = g, with the features in the lanes. Positions of the grid that are no
    outputs become 0.
    """
    for feature in range(0, features, panel):
        width = min(panel, features - feature)
        for line in range((end + shape.grid_w - 1) // shape.grid_w):
            image, h, slab = (
                line % shape.stack,
                line // shape.stack % shape.grid_h,
                line // (shape.stack * shape.grid_h),
            )
            at = transposed_at + feature * end + line * shape.grid_w * panel
            stop = out_w if (image < count) & (h < lines) & (slab < slabs) else 0
            source = base + image * image_step + feature * feature_step + (slab * out_h + first + h) * out_w
            whole, blocks = width - width % lanes, stop - stop % lanes
            for j in range(0, whole, lanes):
                for w in range(0, blocks, lanes):
                    transpose_block(
                        g, source + j * feature_step + w, feature_step, transposed, at + w * panel + j, panel
                    )
            for j in range(width):
                for w in range(blocks if j < whole else 0, stop):
                    transposed[uintp(at + w * panel + j)] = g[uintp(source + j * feature_step + w)]
            for w in range(stop):
                for j in range(width, panel):
                    transposed[uintp(at + w * panel + j)] = 0
            for k in range(stop * panel, min(shape.grid_w, end - line * shape.grid_w) * panel):
                transposed[uintp(at + k)] = 0


@scalar
def copy_outputs_to_grid(
    g, base, image_step, grid, grid_at, first, count, slabs, lines, out_h, out_w, shape: GridLines, end
):
    """grid (positions) = one feature of g. Positions that are no outputs become 0."""
    for line in range((end + shape.grid_w - 1) // shape.grid_w):
        image, h, slab = line % shape.stack, line // shape.stack % shape.grid_h, line // (shape.stack * shape.grid_h)
        stop = out_w if (image < count) & (h < lines) & (slab < slabs) else 0
        source = base + image * image_step + (slab * out_h + first + h) * out_w
        copy_line(g, source, 0, stop, grid, grid_at + line * shape.grid_w, min(shape.grid_w, end - line * shape.grid_w))


@scalar
def transpose_sums(sums, sums_at, step, rows, columns, out, out_at, out_step, lanes):
    """out (columns, rows) = the transposed sums (rows, columns). Rows are out_step and `step` apart."""
    whole, blocks = rows - rows % lanes, columns - columns % lanes
    for j in range(0, blocks, lanes):
        for i in range(0, whole, lanes):
            transpose_block(sums, sums_at + i * step + j, step, out, out_at + j * out_step + i, out_step)
    for j in range(columns):
        for i in range(whole if j < blocks else 0, rows):
            out[uintp(out_at + j * out_step + i)] = sums[uintp(sums_at + i * step + j)]
