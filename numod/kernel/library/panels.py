"""Device functions for matrix products by register tiles: packing into panels that a tile reads contiguously, and the
product of one block.

Blocking and the division among threads are the kernel's (`ops.product_tiles`); the tile itself is `kernel.registers.tiles`.
"""

from __future__ import annotations

from ..registers.primitives import (
    copy_line,
    copy_panel,
    copy_strip,
    edge1,
    edge2,
    edge3,
    tile1,
    tile2,
    tile3,
    turn_block,
    turn_edge,
)
from ..language import address_of, uint32, uint8, uintp
from ..scalar import scalar, shared_scalar


@shared_scalar
def pack_columns(b, base, row_step, column_step, depth, width, panels, own, panel, lanes):
    """panels (panel's, depth, panel) = b (depth, width).

    What lies beyond b's columns is left as it was, or takes a neighbour's value.
    """
    if column_step == 1:
        # some rows at a time, for whole lines of each panel: those may lie a multiple of a page apart, in one set of a
        # cache
        for first in range(0, depth, 8):
            last = min(first + 8, depth)
            for j in range(0, width, panel):
                held, target = min(panel, width - j), own + j * depth + first * panel
                if held == panel == 3 * lanes:
                    copy_panel(b, base + first * row_step + j, row_step, panels, target, last - first)
                else:
                    for k in range(first, last):
                        copy_line(b, base + k * row_step + j, 0, held, panels, target + (k - first) * panel, held)
    elif row_step == 1 and depth >= lanes:
        for j in range(0, width, panel):
            for c in range(0, min(panel, width - j), lanes):
                held = width - j - c
                for step in range(0, depth, lanes):
                    k = min(step, depth - lanes)  # the last square overlaps the one before
                    if held >= lanes:
                        turn_block(
                            b,
                            base + k + (j + c) * column_step,
                            column_step,
                            panels,
                            own + j * depth + k * panel + c,
                            panel,
                        )
                    else:
                        turn_edge(
                            b,
                            base + k + (j + c) * column_step,
                            column_step,
                            panels,
                            own + j * depth + k * panel + c,
                            panel,
                            held,
                        )
    else:
        for j in range(0, width, panel):
            for i in range(min(panel, width - j)):
                for k in range(depth):
                    panels[uintp(own + j * depth + k * panel + i)] = b[
                        uintp(base + k * row_step + (j + i) * column_step)
                    ]


@shared_scalar
def turn(x, at, step, lines, n, out, out_at, out_step, lanes):
    """out (n, lines) = the transposed x (lines, n), whose lines are `step` and `out_step` apart."""
    if lines < lanes or n < lanes:
        for k in range(n):
            for line in range(lines):
                out[uintp(out_at + k * out_step + line)] = x[uintp(at + line * step + k)]
        return
    for first in range(0, lines, lanes):
        line = min(first, lines - lanes)  # the last squares overlap those before
        for start in range(0, n, lanes):
            k = min(start, n - lanes)
            turn_block(x, at + line * step + k, step, out, out_at + k * out_step + line, out_step)


@shared_scalar
def pack_rows(a, base, row_step, column_step, depth, held, packed, own, tile_rows):
    """packed (strips, depth, tile_rows) = a (held rows, depth), zeros beyond the last."""
    whole = held - held % tile_rows
    if row_step == 1:
        for first in range(0, depth, 8):  # lines of a strip as a whole, as above
            last = min(first + 8, depth)
            for i in range(0, whole, tile_rows):
                copy_strip(
                    a,
                    base + i + first * column_step,
                    column_step,
                    packed,
                    own + i * depth + first * tile_rows,
                    last - first,
                )
            if whole < held:
                for k in range(first, last):
                    copy_line(
                        a,
                        base + whole + k * column_step,
                        0,
                        held - whole,
                        packed,
                        own + whole * depth + k * tile_rows,
                        tile_rows,
                    )
    else:
        for first in range(0, held, tile_rows):
            for i in range(tile_rows):
                for k in range(depth):
                    row = first + i
                    packed[uintp(own + first * depth + k * tile_rows + i)] = (
                        a[uintp(base + row * row_step + k * column_step)] if row < held else 0
                    )


@scalar
def multiply_tile(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, wide, rows, lanes):
    """The tile that covers `held` rows and `wide` columns of c, and no more. a and b are addresses."""
    if held == rows and wide == 3 * lanes:
        tile3(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, lanes)
    elif held == rows and wide == 2 * lanes:
        tile2(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, lanes)
    elif held == rows and wide == lanes:
        tile1(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, lanes)
    elif wide > 2 * lanes:
        edge3(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, wide - 2 * lanes)
    elif wide > lanes:
        edge2(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, wide - lanes)
    else:
        edge1(a, a_row, a_step, b, b_step, c, c_at, c_row, depth, keep, held, wide)


@scalar
def multiply_run(
    a,
    a_at,
    a_row,
    a_step,
    b,
    b_at,
    b_row,
    packed,
    own,
    own_a,
    out,
    target,
    columns,
    depth,
    keep,
    held,
    width,
    panel,
    pack_a,
    pack_b,
    run,
    rows,
    lanes,
    size,
):
    """The tiles of some rows across a block: out (held rows, width) = or += a (held, depth) @ b (depth, width); those
    that are packed are read there.

    Where pack_b is 2, b itself lies in panels (width / panel, depth, panel). All rows, at most `run`, meet a panel
    before the next one.
    """
    left, left_row, left_step = (
        (address_of(packed) + own_a * size, 1, rows) if pack_a else (address_of(a) + a_at * size, a_row, a_step)
    )
    down = (depth if pack_a else a_row) * size
    for j in range(0, width, panel):
        if pack_b == 1:
            right, right_step = address_of(packed) + (own + j * depth) * size, panel
        elif pack_b == 2:
            right, right_step = address_of(b) + (b_at + j * depth) * size, panel
        else:
            right, right_step = address_of(b) + (b_at + j) * size, b_row
        wide = min(panel, width - j)
        # no loop where a run is a tile: it would cost short sums a tenth
        for i in range(0, held if run > rows else 1, rows):
            multiply_tile(
                left + i * down,
                left_row,
                left_step,
                right,
                right_step,
                out,
                target + i * columns + j,
                columns,
                depth,
                keep,
                min(rows, held - i),
                wide,
                rows,
                lanes,
            )


@shared_scalar
def pack_words(x, at, step, n, words, place, out_step, group, mask, flip):
    """words (groups of n; steps out_step) = `group` neighbours of x (n) side by side in 32 bits, with the bits of
    `flip` turned over; missing ones are 0.
    """
    whole = n // group
    if step == 1 and group == 4:  # a word as it lies in memory
        for g in range(whole):
            first = at + g * 4
            low, high = (
                uint32(uint8(x[uintp(first)])) | uint32(uint8(x[uintp(first + 1)])) << 8,
                uint32(uint8(x[uintp(first + 2)])) | uint32(uint8(x[uintp(first + 3)])) << 8,
            )
            words[uintp(place + g * out_step)] = uint32(low | high << 16) ^ uint32(flip)
    for g in range(whole if step == 1 and group == 4 else 0, (n + group - 1) // group):
        word = uint32(0)
        for q in range(min(group, n - g * group)):
            word |= (uint32(x[uintp(at + (g * group + q) * step)]) & uint32(mask)) << uint32(q * (32 // group))
        words[uintp(place + g * out_step)] = word ^ uint32(flip)
