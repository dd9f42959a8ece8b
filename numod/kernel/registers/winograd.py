"""The transforms of Winograd's minimal filtering F(2x2, 3x3) in vector registers.

The loops over tiles and the products between the transforms are in `kernel.library.winograd`.

For a tile d of 4 x 4 elements and a kernel g of 3 x 3, the 2 x 2 outputs are A' ((G g G') * (B' d B)) A, with 16
products instead of 36 (Lavin and Gray, Fast Algorithms for Convolutional Neural Networks, 2016). Each lane of a vector
is a tile, a kernel or a channel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .tiles import PREFETCH_BYTES
from .vectors import Writer, primitive

TAPS = 9


@functools.cache
def functions() -> dict[str, Callable]:
    """The transforms. `step` is the distance between the 16 elements of a transformed tile.

    With a kernel in each lane: transform_taps(weight, at, row_step, out, out_at, step) writes G g G' of kernels
    row_step apart.

    With a tile in each lane, neighbours along a row: transform_lines(x, at, line, out, out_at, step) writes B' d B of
    the tiles in four lines, `line` apart. combine_lines(products, at, step, out, out_at, line, columns, lines) writes
    A' m A: two lines (one if `lines` is 1) of `columns` elements, at most two vectors. It returns whether any output is
    not finite.

    With a channel in each lane, for the gradient of a kernel, which is F(3x3, 2x2) of the input and the outputs'
    gradients: transform_pixels(x, at, line, out, out_at, out_step, step, n) writes B' d B of n neighbouring tiles,
    out_step apart in out. transform_outputs(...) transforms 2 x 2 gradients of outputs. combine_taps(products, at,
    step, out, out_at) writes the nine taps of each kernel, one kernel after the other, and returns whether any is not
    finite.
    """
    return {
        "transform_taps": primitive(
            "transform_taps", "weight[at], row_step, out[out_at], step", _emit_taps, shared=True
        ),
        "transform_lines": primitive("transform_lines", "x[at], line, out[out_at], step", _emit_lines, shared=True),
        "combine_lines": primitive(
            "combine_lines",
            "products[at], step, out[out_at], line, columns, lines",
            _emit_combined,
            shared=True,
            result="int64",
        ),
        "transform_pixels": primitive(
            "transform_pixels",
            "x[at], line, out[out_at], out_step, step, n",
            functools.partial(_emit_pixels, 4, _transformed_elements),
            shared=True,
        ),
        "transform_outputs": primitive(
            "transform_outputs",
            "x[at], line, out[out_at], out_step, step, n",
            functools.partial(_emit_pixels, 2, _transformed_gradients),
            shared=True,
        ),
        "combine_taps": primitive(
            "combine_taps", "products[at], step, out[out_at]", _emit_combined_taps, shared=True, result="int64"
        ),
    }


def _both_axes(transform: Callable, w: Writer, square: list) -> list[list]:
    """Apply a transform to each line, then to each column."""
    along = functools.partial(transform, w)
    return list(zip(*map(along, zip(*map(along, square)))))


def _transformed_elements(w: Writer, d: tuple) -> list:
    """B' d for four elements along one axis."""
    add, subtract = w.builder.fadd, w.builder.fsub
    return [subtract(d[0], d[2]), add(d[1], d[2]), subtract(d[2], d[1]), subtract(d[1], d[3])]


def _transformed_taps(w: Writer, g: tuple) -> list:
    """G g for three taps along one axis."""
    half, outer = w.splat(w.ir.Constant(w.element, 0.5)), w.builder.fadd(g[0], g[2])
    return [
        g[0],
        *(w.builder.fmul(half, operation(outer, g[1])) for operation in (w.builder.fadd, w.builder.fsub)),
        g[2],
    ]


def _transformed_gradients(w: Writer, g: tuple) -> list:
    """The transform of two gradients of outputs along one axis, in F(3x3, 2x2)."""
    half = w.splat(w.ir.Constant(w.element, 0.5))
    return [g[0], *(w.builder.fmul(half, operation(*g)) for operation in (w.builder.fadd, w.builder.fsub)), g[1]]


def _outputs_from_products(w: Writer, m: tuple) -> list:
    """A' m: two outputs of four products along one axis."""
    add, subtract = w.builder.fadd, w.builder.fsub
    return [add(m[0], add(m[1], m[2])), subtract(subtract(m[1], m[2]), m[3])]


def _taps_from_products(w: Writer, m: tuple) -> list:
    """Three taps' gradients of four products along one axis."""
    middle_sum = w.builder.fadd(m[1], m[2])
    return [w.builder.fadd(m[0], middle_sum), w.builder.fsub(m[1], m[2]), w.builder.fsub(middle_sum, m[3])]


def _emit_taps(w, weight, row_step, out, step):
    lines = [w.at(weight, (row_step, lane)) for lane in range(w.lanes)]
    for line in lines:
        w.prefetch(line, PREFETCH_BYTES // w.size)
    taps = _transposed_lines(w, lines, TAPS)
    _store_square(w, _both_axes(_transformed_taps, w, [taps[k : k + 3] for k in range(0, TAPS, 3)]), out, step)


def _transposed_lines(w: Writer, lines: list, count: int) -> list:
    """The first `count` elements of each line, transposed: a vector for each element."""
    vectors = []
    for first in range(0, count, w.lanes):
        count_here = min(w.lanes, count - first)
        if count_here == 1:
            vector = w.ir.Constant(w.vector, w.ir.Undefined)
            for lane, line in enumerate(lines):
                vector = w.builder.insert_element(
                    vector, w.element_at(line, first), w.ir.Constant(w.ir.IntType(32), lane)
                )
            vectors.append(vector)
        else:
            mask = None if count_here == w.lanes else w.first(w.number(count_here))
            vectors += w.transposed([w.load(line, first, mask=mask) for line in lines])[:count_here]
    return vectors


def _emit_lines(w, x, line, out, step):
    even, odd = range(0, 2 * w.lanes, 2), range(1, 2 * w.lanes, 2)

    def columns(i: int) -> list:
        """Elements 0 to 3 of line i of each tile; tiles are two elements apart."""
        pairs = [[w.load(x, (line, i), start + part) for part in (0, w.lanes)] for start in (0, 2)]
        return [w.shuffle(*pair, list(lanes)) for pair in pairs for lanes in (even, odd)]

    _store_square(w, _both_axes(_transformed_elements, w, [columns(i) for i in range(4)]), out, step)


def _emit_pixels(size, transform, w, x, line, out, out_step, step, n):
    def tile(t: object, _: list) -> list:
        square = [[w.load(x, (line, i), (2 * w.lanes, t), j * w.lanes) for j in range(size)] for i in range(size)]
        _store_square(w, _both_axes(transform, w, square), w.at(out, (out_step, t)), step)
        return []

    w.loop(0, n, 1, [], tile)


def _store_square(w: Writer, square: list[list], out: object, step: object) -> None:
    for position, vector in enumerate(vector_of_line for line in square for vector_of_line in line):
        w.store(vector, out, (step, position))


def _products(w: Writer, products: object, step: object) -> list[list]:
    """Load the 4 x 4 products of each lane's tile."""
    return [[w.load(products, (step, 4 * i + j)) for j in range(4)] for i in range(4)]


def _emit_combined(w, products, step, out, line, columns, lines):
    has_second_line, written = w.builder.icmp_signed(">", lines, w.number(1)), []
    for i, pair in enumerate(_both_axes(_outputs_from_products, w, _products(w, products, step))):
        for part in range(2):
            order = [part * w.lanes // 2 + lane // 2 + lane % 2 * w.lanes for lane in range(w.lanes)]
            value, count = w.shuffle(*pair, order), w.builder.sub(columns, w.number(part * w.lanes))
            count = w.builder.select(has_second_line, count, w.number(0)) if i else count
            w.store_first(value, count, out, (line, i), part * w.lanes)
            written.append(w.builder.select(w.first(count), value, w.zeros))
    return _any_not_finite(w, written)


def _emit_combined_taps(w, products, step, out):
    taps = [tap for line in _both_axes(_taps_from_products, w, _products(w, products, step)) for tap in line]
    for first in range(0, TAPS, w.lanes):
        group = taps[first : first + w.lanes]
        if len(group) == 1:
            for lane in range(w.lanes):
                w.builder.store(
                    w.builder.extract_element(group[0], w.ir.Constant(w.ir.IntType(32), lane)),
                    w.at(out, TAPS * lane + first),
                )
        else:
            mask = None if len(group) == w.lanes else w.first(w.number(len(group)))
            for lane, value in enumerate(w.transposed(group + [w.zeros] * (w.lanes - len(group)))):
                w.store(value, out, TAPS * lane + first, mask=mask)
    return _any_not_finite(w, taps)


def _any_not_finite(w: Writer, values: list) -> object:
    """1 as int64 if a lane of a vector is infinite or NaN, else 0."""
    total = w.zeros
    for value in values:
        total = w.multiply_add(value, w.zeros, total)  # 0, or NaN if the value is not finite
    nan_flags = w.builder.bitcast(w.builder.fcmp_unordered("uno", total, total), w.ir.IntType(w.lanes))
    return w.builder.zext(w.builder.icmp_unsigned("!=", nan_flags, w.ir.Constant(nan_flags.type, 0)), w.ir.IntType(64))
