"""Dot products of rows: of one with many, and of some with some, in tiles.

As many sums as a register has lanes are added up across lanes all at once.

Where both factors of a product lie along what is summed, nothing needs to be transposed or packed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from .vectors import Writer, host, primitive

COLUMNS = 4  # of a tile


def tile_rows() -> int:
    """Of a tile: its sums take half of the processor's registers."""
    return host().rows // 2


@functools.cache
def functions() -> dict[str, Callable]:
    """dots(matrix, at, step, vector, vector_at, depth, out, out_at, count): out[out_at + j] = the sum of matrix[at + j
    * step + k] * vector[vector_at + k].

    dot_tile(a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, held, wide): out[out_at + i * out_row + j] =
    the sum of a[a_at + i * a_row + k] * b[b_at + j * b_row + k], for i < held (at most `tile_rows()`) and j < wide (at
    most COLUMNS).
    """
    tile = "a[a_at], a_row, b[b_at], b_row, depth, out[out_at], out_row, held, wide"
    return {
        "dots": primitive("dots", "matrix[at], step, vector[vector_at], depth, out[out_at], count", emit),
        "dot_tile": primitive("dot_tile", tile, functools.partial(emit_tile, tile_rows()), shared=True),
    }


def emit_tile(rows, w, a, a_row, b, b_row, depth, out, out_row, held, wide):
    """Write dot_tile. Missing rows and columns are the last ones again."""
    left = [w.at(a, (a_row, w.within(i, held))) for i in range(rows)]
    right = [w.at(b, (b_row, w.within(j, wide))) for j in range(COLUMNS)]
    sums = _along(w, left, right, depth)
    totals = [across(w, sums[k : k + w.lanes]) for k in range(0, len(sums), w.lanes)]
    target = Writer(w.builder, w.element, COLUMNS)
    mask = target.first(wide)
    w.rows(rows, held, lambda i: target.store(_part(w, totals, i * COLUMNS), out, (out_row, i), mask=mask))


def _part(w: Writer, vectors: list, at: int) -> object:
    """COLUMNS elements of vectors that follow each other."""
    k = at // w.lanes
    return w.shuffle(vectors[k], vectors[min(k + 1, len(vectors) - 1)], [at % w.lanes + j for j in range(COLUMNS)])


def emit(w, a, a_step, x, depth, out, count):
    """Write dots: a loop over groups of rows, in which missing rows are the last one again."""

    def group(j: object, _: list) -> list:
        last = w.offset(count, -1)
        sums = _along(w, [x], [w.at(a, (w.lesser(w.offset(j, lane), last), a_step)) for lane in range(w.lanes)], depth)
        w.store(across(w, sums), out, j, mask=w.first(w.builder.sub(count, j)))
        return []

    w.loop(0, count, w.lanes, [], group)


def _along(w: Writer, left: list, right: list, depth: object) -> list:
    """Write the loop along rows: sums of products of each row of `left` with each of `right`, by lanes."""
    builder = w.builder

    def add(k: object, sums: list, mask: object = None) -> list:
        factors, others = [w.load(each, k, mask=mask) for each in left], [w.load(each, k, mask=mask) for each in right]
        return [w.multiply_add(b, a, total) for (a, b), total in zip(itertools.product(factors, others), sums)]

    whole = builder.sub(depth, builder.srem(depth, w.number(w.lanes)))
    sums = w.loop(0, whole, w.lanes, [w.zeros] * (len(left) * len(right)), add)
    before = builder.block
    with builder.if_then(builder.icmp_signed("<", whole, depth)):
        made, rest = add(whole, sums, w.first(builder.sub(depth, whole))), builder.block
    return w.either(sums, before, made, rest)


def across(w: Writer, vectors: list) -> object:
    """A vector of the sums of as many vectors.

    Two vectors' halves are added to one another side by side, until one vector is left.

    First within quarters of 128 bits, which costs processors least, then quarters.
    """
    quarter, group = min(w.lanes, 16 // w.size), 1
    while len(vectors) > 1:
        if group < quarter:
            starts = [place + part for place in range(0, w.lanes, quarter) for part in range(0, quarter // 2, group)]
            low, apart = (
                [k for start in starts for side in (0, w.lanes) for k in range(side + start, side + start + group)],
                quarter // 2,
            )
        else:
            low, apart = (
                [
                    k
                    for side in (0, w.lanes)
                    for start in range(side, side + w.lanes, 2 * quarter)
                    for k in range(start, start + quarter)
                ],
                quarter,
            )
        orders = low, [k + apart for k in low]
        vectors = [
            w.builder.fadd(*(w.shuffle(a, b, order) for order in orders)) for a, b in zip(vectors[::2], vectors[1::2])
        ]
        group *= 2
    return vectors[0]
