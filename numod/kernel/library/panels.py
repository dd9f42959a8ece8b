"""Device functions of register-tiled matrix products: packing into contiguous panels, and the product of one block.

The kernel does the blocking and the division among threads (`ops.matmul.tiled`). The tile itself is in
`kernel.registers.tiles`.
"""

from __future__ import annotations

from ..registers.primitives.tiles import (
    copy_line,
    copy_panel,
    copy_strip,
    edge1,
    edge2,
    edge3,
    tile1,
    tile2,
    tile3,
    transpose_block,
    transpose_edge,
)
from ..language import address_of, uint32, uint8, uintp
from ..scalar import rolled_scalar, scalar, shared_scalar


@rolled_scalar
def pack_columns(b, base, row_step, column_step, depth, width, panels, panels_at, panel, lanes):
    """Pack b (depth, width) into panels (panels, depth, panel). Values beyond the last column are undefined."""
    if column_step == 1:
        # a few rows at a time, which fills whole cache lines of each panel: panels may be a multiple of a page
        # apart, in one set of a cache
        for first in range(0, depth, 8):
            last = min(first + 8, depth)
            for j in range(0, width, panel):
                panel_columns, target = min(panel, width - j), panels_at + j * depth + first * panel
                if panel_columns == panel == 3 * lanes:
                    copy_panel(b, base + first * row_step + j, row_step, panels, target, last - first)
                else:
                    for k in range(first, last):
                        copy_line(
                            b, base + k * row_step + j, 0, panel_columns, panels, target + (k - first) * panel,
                            panel_columns,
                        )  # fmt: skip
    elif row_step == 1 and depth >= lanes:
        for j in range(0, width, panel):
            for c in range(0, min(panel, width - j), lanes):
                panel_columns = width - j - c
                for step in range(0, depth, lanes):
                    k = min(step, depth - lanes)  # the last block overlaps the one before
                    if panel_columns >= lanes:
                        transpose_block(
                            b, base + k + (j + c) * column_step, column_step, panels,
                            panels_at + j * depth + k * panel + c, panel,
                        )  # fmt: skip
                    else:
                        transpose_edge(
                            b, base + k + (j + c) * column_step, column_step, panels,
                            panels_at + j * depth + k * panel + c, panel, panel_columns,
                        )  # fmt: skip
    else:
        for j in range(0, width, panel):
            for i in range(min(panel, width - j)):
                for k in range(depth):
                    panels[uintp(panels_at + j * depth + k * panel + i)] = b[
                        uintp(base + k * row_step + (j + i) * column_step)
                    ]


@shared_scalar
def transpose(x, at, step, lines, n, out, out_at, out_step, lanes):
    """out (n, lines) = x (lines, n) transposed. Lines are `step` and `out_step` apart."""
    if lines < lanes or n < lanes:
        for k in range(n):
            for line in range(lines):
                out[uintp(out_at + k * out_step + line)] = x[uintp(at + line * step + k)]
        return
    for first in range(0, lines, lanes):
        line = min(first, lines - lanes)  # the last blocks overlap those before
        for start in range(0, n, lanes):
            k = min(start, n - lanes)
            transpose_block(x, at + line * step + k, step, out, out_at + k * out_step + line, out_step)


@rolled_scalar
def pack_rows(a, base, row_step, column_step, depth, rows, packed, packed_at, tile_rows):
    """Pack a (rows, depth) into packed (strips, depth, tile_rows), with zeros after the last row."""
    full_rows = rows - rows % tile_rows
    if row_step == 1:
        for first in range(0, depth, 8):  # fills whole cache lines of each strip, as above
            last = min(first + 8, depth)
            for i in range(0, full_rows, tile_rows):
                copy_strip(
                    a, base + i + first * column_step, column_step, packed, packed_at + i * depth + first * tile_rows,
                    last - first,
                )  # fmt: skip
            if full_rows < rows:
                for k in range(first, last):
                    copy_line(
                        a, base + full_rows + k * column_step, 0, rows - full_rows, packed,
                        packed_at + full_rows * depth + k * tile_rows, tile_rows,
                    )  # fmt: skip
    else:
        for first in range(0, rows, tile_rows):
            for i in range(tile_rows):
                for k in range(depth):
                    row = first + i
                    packed[uintp(packed_at + first * depth + k * tile_rows + i)] = (
                        a[uintp(base + row * row_step + k * column_step)] if row < rows else 0
                    )


@scalar
def multiply_tile(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, width, rows, lanes):
    """Compute the tile of `row_count` rows and `width` columns of c. a and b are addresses."""
    if row_count == rows and width == 3 * lanes:
        tile3(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, lanes)
    elif row_count == rows and width == 2 * lanes:
        tile2(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, lanes)
    elif row_count == rows and width == lanes:
        tile1(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, lanes)
    elif width > 2 * lanes:
        edge3(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, width - 2 * lanes)
    elif width > lanes:
        edge2(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, width - lanes)
    else:
        edge1(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, row_count, width)


@scalar
def multiply_run(
    a, a_at, a_row, a_step, b, b_at, b_row, packed, packed_at, packed_a_at, out, out_at, columns, depth, keep,
    row_count, width, panel, pack_a, pack_b, run, rows, lanes, size,
):  # fmt: skip
    """Compute the tiles of up to `run` rows across a block: out (row_count, width) = or += a (row_count, depth) @ b
    (depth, width).

    pack_a, pack_b: read the factor from `packed`; if pack_b is 2, b itself is packed in panels (width / panel, depth,
    panel). All rows are multiplied by a panel before the next one.
    """
    left, left_row, left_step = (
        (address_of(packed) + packed_a_at * size, 1, rows) if pack_a else (address_of(a) + a_at * size, a_row, a_step)
    )
    down = (depth if pack_a else a_row) * size
    for j in range(0, width, panel):
        if pack_b == 1:
            right, right_step = address_of(packed) + (packed_at + j * depth) * size, panel
        elif pack_b == 2:
            right, right_step = address_of(b) + (b_at + j * depth) * size, panel
        else:
            right, right_step = address_of(b) + (b_at + j) * size, b_row
        tile_width = min(panel, width - j)
        # no loop if a run is one tile: it would add a tenth to the time of short sums
        for i in range(0, row_count if run > rows else 1, rows):
            multiply_tile(
                left + i * down, left_row, left_step, right, right_step, out, out_at + i * columns + j, columns, depth,
                keep, min(rows, row_count - i), tile_width, rows, lanes,
            )  # fmt: skip


@shared_scalar
def pack_words(x, at, step, n, words, words_at, out_step, group, mask, flip):
    """Pack each `group` elements of x (n) into 32 bits of words (steps out_step), padded with zeros, XOR `flip`."""
    full_groups = n // group
    if step == 1 and group == 4:  # a word of contiguous bytes
        for g in range(full_groups):
            first = at + g * 4
            low, high = (
                uint32(uint8(x[uintp(first)])) | uint32(uint8(x[uintp(first + 1)])) << 8,
                uint32(uint8(x[uintp(first + 2)])) | uint32(uint8(x[uintp(first + 3)])) << 8,
            )
            words[uintp(words_at + g * out_step)] = uint32(low | high << 16) ^ uint32(flip)
        rest, first = n - full_groups * 4, at + full_groups * 4
        if rest > 0:
            word = uint32(uint8(x[uintp(first)]))
            if rest > 1:
                word |= uint32(uint8(x[uintp(first + 1)])) << 8
            if rest > 2:
                word |= uint32(uint8(x[uintp(first + 2)])) << 16
            words[uintp(words_at + full_groups * out_step)] = uint32(word) ^ uint32(flip)
    else:
        for g in range((n + group - 1) // group):
            word = uint32(0)
            for q in range(min(group, n - g * group)):
                word |= (uint32(x[uintp(at + (g * group + q) * step)]) & uint32(mask)) << uint32(q * (32 // group))
            words[uintp(words_at + g * out_step)] = word ^ uint32(flip)
