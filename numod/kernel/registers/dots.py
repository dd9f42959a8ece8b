"""Dot products of rows: of one vector with many rows, and tiles of a few rows with a few.

For products whose two operands are contiguous along the sum: nothing is transposed or packed. The lanes of a register's
worth of sums are added up at once.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from .vectors import Writer, host, primitive

COLUMNS = 4  # columns of a tile


def tile_rows() -> int:
    """Rows of a tile, whose sums take half of the processor's registers."""
    return host().rows // 2


@functools.cache
def functions() -> dict[str, Callable]:
    """Dot products of contiguous rows.

    dots(matrix, at, step, vector, vector_at, depth, out, out_at, count): out[out_at + j] = the sum of matrix[at + j *
    step + k] * vector[vector_at + k].

    dot_tile(a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, valid, wide): out[out_at + i * out_row + j] =
    the sum of a[a_at + i * a_row + k] * b[b_at + j * b_row + k], for i < valid (at most `tile_rows()`) and j < wide (at
    most COLUMNS).
    """
    tile = "a[a_at], a_row, b[b_at], b_row, depth, out[out_at], out_row, valid, wide"
    return {
        "dots": primitive("dots", "matrix[at], step, vector[vector_at], depth, out[out_at], count", emit),
        "dot_tile": primitive("dot_tile", tile, functools.partial(emit_tile, tile_rows()), shared=True),
    }


def emit_tile(rows, w, a, a_row, b, b_row, depth, out, out_row, valid, wide):
    """Write dot_tile. Missing rows and columns repeat the last one."""
    left = [w.at(a, (a_row, w.within(i, valid))) for i in range(rows)]
    right = [w.at(b, (b_row, w.within(j, wide))) for j in range(COLUMNS)]
    sums = _lane_sums(w, left, right, depth)
    totals = [sums_across_lanes(w, sums[k : k + w.lanes]) for k in range(0, len(sums), w.lanes)]
    target = Writer(w.builder, w.element, COLUMNS)
    mask = target.first(wide)
    w.rows(rows, valid, lambda i: target.store(_columns_at(w, totals, i * COLUMNS), out, (out_row, i), mask=mask))


def _columns_at(w: Writer, vectors: list, at: int) -> object:
    """COLUMNS elements of consecutive vectors, from element `at` on."""
    k = at // w.lanes
    return w.shuffle(vectors[k], vectors[min(k + 1, len(vectors) - 1)], [at % w.lanes + j for j in range(COLUMNS)])


def emit(w, a, a_step, x, depth, out, count):
    """Write dots: a loop over groups of rows; missing rows repeat the last one."""

    def group(j: object, _: list) -> list:
        last = w.offset(count, -1)
        sums = _lane_sums(
            w, [x], [w.at(a, (w.lesser(w.offset(j, lane), last), a_step)) for lane in range(w.lanes)], depth
        )
        w.store(sums_across_lanes(w, sums), out, j, mask=w.first(w.builder.sub(count, j)))
        return []

    w.loop(0, count, w.lanes, [], group)


def _lane_sums(w: Writer, left: list, right: list, depth: object) -> list:
    """Write the loop along rows: per lane, the sums of products of each row of `left` with each row of `right`."""
    builder = w.builder

    def add(k: object, sums: list, mask: object = None) -> list:
        left_vectors = [w.load(row, k, mask=mask) for row in left]
        right_vectors = [w.load(row, k, mask=mask) for row in right]
        return [
            w.multiply_add(b, a, total) for (a, b), total in zip(itertools.product(left_vectors, right_vectors), sums)
        ]

    whole = builder.sub(depth, builder.srem(depth, w.number(w.lanes)))
    sums = w.loop(0, whole, w.lanes, [w.zeros] * (len(left) * len(right)), add)
    loop_block = builder.block
    with builder.if_then(builder.icmp_signed("<", whole, depth)):
        total_sums, tail_block = add(whole, sums, w.first(builder.sub(depth, whole))), builder.block
    return w.either(sums, loop_block, total_sums, tail_block)


def sums_across_lanes(w: Writer, vectors: list) -> object:
    """A vector of sums: element k is the sum of all lanes of vector k. There are as many vectors as lanes.

    Pairs of vectors are added half to half until one vector is left: first within 128-bit parts, where shuffles are
    cheapest, then across them.
    """
    lanes_of_128_bits, group = min(w.lanes, 16 // w.size), 1
    while len(vectors) > 1:
        if group < lanes_of_128_bits:
            starts = [
                start_of_part + part
                for start_of_part in range(0, w.lanes, lanes_of_128_bits)
                for part in range(0, lanes_of_128_bits // 2, group)
            ]
            low_lanes = [
                k for start in starts for side in (0, w.lanes) for k in range(side + start, side + start + group)
            ]
            distance = lanes_of_128_bits // 2
        else:
            low_lanes = [
                k
                for side in (0, w.lanes)
                for start in range(side, side + w.lanes, 2 * lanes_of_128_bits)
                for k in range(start, start + lanes_of_128_bits)
            ]
            distance = lanes_of_128_bits
        orders = low_lanes, [k + distance for k in low_lanes]
        vectors = [
            w.builder.fadd(*(w.shuffle(a, b, order) for order in orders)) for a, b in zip(vectors[::2], vectors[1::2])
        ]
        group *= 2
    return vectors[0]
