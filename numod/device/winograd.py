"""The transforms of Winograd's minimal filtering F(2x2, 3x3) in vector registers. Not the products between them, nor where tiles lie (`kernel.winograd`).

Of a tile of 4 x 4 elements d and a kernel g of 3 x 3, the 2 x 2 results are A' ((G g G') * (B' d B)) A, with 16 products in the place of 36: Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, 2016. A lane of a vector is a tile, or a kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import Writer, host, primitive

TAPS = 9


@functools.cache
def functions() -> dict[str, Callable]:
    """The three transforms; `step` is from one of the 16 places of a transformed tile to the next.

    transform_taps(weight, at, row_step, depth_step, out, out_at, step) writes G g G' of as many kernels as a vector has lanes: those of the rows of a register tile,
    row_step apart, then those of the next step of its depth, depth_step further; where a tile has more rows than a vector lanes, of that many rows.
    transform_lines(x, at, line, out, out_at, step) writes B' d B of as many neighbouring tiles of four lines, `line` apart.
    combine_lines(products, at, step, out, out_at, line, columns, lines) writes A' m A, two lines of at most two vectors: `columns` of each, and one line where `lines` is 1. It gives
    whether any of what it wrote is not finite.
    """
    return {
        "transform_taps": primitive("transform_taps", "weight[at], row_step, depth_step, out[out_at], step", functools.partial(_emit_taps, host().rows), shared=True),
        "transform_lines": primitive("transform_lines", "x[at], line, out[out_at], step", _emit_lines, shared=True),
        "combine_lines": primitive("combine_lines", "products[at], step, out[out_at], line, columns, lines", _emit_combined, shared=True, result="int64"),
    }


def _both(transform: Callable, square: list[list]) -> list[list]:
    """A transform of each line, then of each column."""
    return list(zip(*map(transform, zip(*map(transform, square)))))


def _emit_taps(rows, w, weight, row_step, depth_step, out, step):
    lines = [w.at(weight, (row_step, lane % rows), (depth_step, lane // rows)) for lane in range(w.lanes)]
    taps, half = _turned(w, lines, TAPS), w.splat(w.ir.Constant(w.element, 0.5))

    def transform(g: tuple) -> list:
        outer = w.builder.fadd(g[0], g[2])
        return [g[0], *(w.builder.fmul(half, each(outer, g[1])) for each in (w.builder.fadd, w.builder.fsub)), g[2]]

    _put(w, _both(transform, [taps[k : k + 3] for k in range(0, TAPS, 3)]), out, step)


def _turned(w: Writer, lines: list, count: int) -> list:
    """The first `count` elements of each line, a vector of them for each place."""
    found = []
    for place in range(0, count, w.lanes):
        held = min(w.lanes, count - place)
        if held == 1:
            vector = w.ir.Constant(w.vector, w.ir.Undefined)
            for lane, line in enumerate(lines):
                vector = w.builder.insert_element(vector, w.element_at(line, place), w.ir.Constant(w.ir.IntType(32), lane))
            found.append(vector)
        else:
            mask = None if held == w.lanes else w.first(w.number(held))
            found += w.turned([w.load(line, place, mask=mask) for line in lines])[:held]
    return found


def _emit_lines(w, x, line, out, step):
    every, other = range(0, 2 * w.lanes, 2), range(1, 2 * w.lanes, 2)

    def columns(i: int) -> list:
        """Elements 0 to 3 of line i of each tile; tiles are two elements apart."""
        pairs = [[w.load(x, (line, i), start + part) for part in (0, w.lanes)] for start in (0, 2)]
        return [w.shuffle(*pair, list(lanes)) for pair in pairs for lanes in (every, other)]

    def transform(d: tuple) -> list:
        add, subtract = w.builder.fadd, w.builder.fsub
        return [subtract(d[0], d[2]), add(d[1], d[2]), subtract(d[2], d[1]), subtract(d[1], d[3])]

    _put(w, _both(transform, [columns(i) for i in range(4)]), out, step)


def _put(w: Writer, square: list[list], out: object, step: object) -> None:
    for place, vector in enumerate(each for line in square for each in line):
        w.store(vector, out, (step, place))


def _emit_combined(w, products, step, out, line, columns, lines):
    def transform(m: tuple) -> list:
        add, subtract = w.builder.fadd, w.builder.fsub
        return [add(m[0], add(m[1], m[2])), subtract(subtract(m[1], m[2]), m[3])]

    square = _both(transform, [[w.load(products, (step, 4 * i + j)) for j in range(4)] for i in range(4)])
    both = w.splat(w.builder.icmp_signed(">", lines, w.number(1)))
    total = w.zeros
    for i, pair in enumerate(square):
        for part in range(2):
            order = [part * w.lanes // 2 + lane // 2 + lane % 2 * w.lanes for lane in range(w.lanes)]
            value, mask = w.shuffle(*pair, order), w.first(w.builder.sub(columns, w.number(part * w.lanes)))
            mask = w.builder.and_(mask, both) if i else mask
            w.store(value, out, (line, i), part * w.lanes, mask=mask)
            total = w.multiply_add(w.builder.select(mask, value, w.zeros), w.zeros, total)  # 0, or NaN of what is not finite
    odd = w.builder.bitcast(w.builder.fcmp_unordered("uno", total, total), w.ir.IntType(w.lanes))
    return w.builder.zext(w.builder.icmp_unsigned("!=", odd, w.ir.Constant(odd.type, 0)), w.ir.IntType(64))
