"""Functions of kernels that multiply matrices by register tiles: packing into panels a tile reads in order, and a product of one block.

Which blocks, and who does them, is the kernel's (`ops.matmul`); the tile itself is `device.tiles`.
"""

from __future__ import annotations

from .scalar import scalar


@scalar
def pack_columns(b, base, row_step, column_step, depth, width, panels, own, panel, lanes):
    """panels (panel's, depth, panel) = b (depth, width), its columns up to a multiple of `panel`, zeros beyond."""
    for j in range(0, width, panel):
        start, held = own + j * depth, min(panel, width - j)
        if column_step == 1:
            for k in range(depth):
                copy_line1(b, base + k * row_step + j, 0, held, panels, start + k * panel, panel)
        else:
            whole, deep = held - held % lanes, depth - depth % lanes
            if row_step != 1:
                whole = 0
            for c in range(0, whole, lanes):
                for k in range(0, deep, lanes):
                    turn_block(b, base + k + (j + c) * column_step, column_step, panels, start + k * panel + c, panel)
                for k in range(deep, depth):
                    for i in range(c, c + lanes):
                        panels[uintp(start + k * panel + i)] = b[uintp(base + k + (j + i) * column_step)]
            for i in range(whole, held):
                for k in range(depth):
                    panels[uintp(start + k * panel + i)] = b[uintp(base + k * row_step + (j + i) * column_step)]
            for k in range(depth):
                for i in range(held, panel):
                    panels[uintp(start + k * panel + i)] = 0


@scalar
def pack_rows(a, base, row_step, column_step, depth, held, packed, own, tile_rows):
    """packed (depth, tile_rows) = a (held rows, depth), zeros beyond."""
    if row_step == 1:
        for k in range(depth):
            copy_line1(a, base + k * column_step, 0, held, packed, own + k * tile_rows, tile_rows)
    else:
        for i in range(tile_rows):
            for k in range(depth):
                packed[uintp(own + k * tile_rows + i)] = a[uintp(base + i * row_step + k * column_step)] if i < held else 0


@scalar
def multiply_tile(a, a_at, a_row, a_step, b, b_at, b_step, c, c_at, c_row, depth, width, keep, none, lanes):
    """The tile of as many vectors as `width` asks for."""
    if width > 2 * lanes:
        tile3(a, a_at, a_row, a_step, b, b_at, b_step, none, 0, c, c_at, c_row, depth, keep)
    elif width > lanes:
        tile2(a, a_at, a_row, a_step, b, b_at, b_step, none, 0, c, c_at, c_row, depth, keep)
    else:
        tile1(a, a_at, a_row, a_step, b, b_at, b_step, none, 0, c, c_at, c_row, depth, keep)


@scalar
def join_tile(tile, own, step, out, base, out_step, rows, columns, keep):
    """The part of a tile that lies inside the result is written, or added."""
    for i in range(rows):
        for j in range(columns):
            value = tile[uintp(own + i * step + j)]
            out[uintp(base + i * out_step + j)] = out[uintp(base + i * out_step + j)] + value if keep != 0 else value
