"""Winograd's minimal filtering F(4x4, 3x3) of bytes, exact, in integers.

For a tile d of 6 x 6 bytes and a filter g of 3 x 3, the 4 x 4 outputs are A' ((G g G') * (B' d B)) A (Lavin and Gray,
Fast Algorithms for Convolutional Neural Networks, 2016): 36 products instead of 144, of 16-bit numbers. The matrices
here are integers, so element i of an axis of the outputs is 3 * 2**SHIFTS[i] times what it should be, and an output 9 *
2**shift times the sum.

Sums wrap around at 32 bits, and 9 has an inverse modulo 2**32. So the result is exact where the sum that is wanted
fits 32 - 6 bits (6 is the largest shift), whatever the sums before it were: with signed bytes for up to MOST_CHANNELS
channels.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product

from . import byte_tiles
from .vectors import Writer, host, primitive

POINTS, SIDE, OUTPUTS = 36, 6, 4  # products of a tile; the sizes of its input and of its output
ROWS = 4  # of a product's register tile
SHIFTS = 3, 2, 1, 1  # an axis of the outputs is 3 * 2**shift times the sum
INVERSE_OF_9 = pow(9, -1, 1 << 32)
MOST_CHANNELS = ((1 << 25) - 1) // (9 * 128 * 128)


def runs() -> bool:
    """Whether the processor has wide registers: AVX2 or AVX-512."""
    return host().width >= 32


def vectors() -> int:
    """Vectors of a product's register tile: with 4 rows, as many as the registers hold."""
    return 4 if host().width == 64 else 2


def panel() -> int:
    """Filters whose products are computed at a time: columns of the register tile."""
    return vectors() * host().lanes(4)


@cache
def functions() -> dict[str, Callable]:
    """byte_winograd_tile(x, at, line, pixel, out, at, step): B' d B of a register's worth of channels of a tile, signed
    bytes; lines and pixels of x are so far apart, and the 36 results, 16-bit numbers, `step`.

    byte_winograd_product(a, at, row, b, at, c, at, depth, valid): c (ROWS, panel) = a (valid, depth) @ b (depth,
    panel), of words with two 16-bit numbers.

    byte_winograd_outputs(sums, at, step, added, at, scales, at, out, at, line, pixel, rows, columns, least, most,
    zero): a register's worth of filters of a tile: rows x columns pixels of round((A' sums A + added) * scales) in
    [least, most], plus zero.
    """
    texts = {
        "byte_winograd_tile": ("x[x_at], line, pixel, out[out_at], step", emit_tile),
        "byte_winograd_product": ("a[a_at], a_row, b[b_at], c[c_at], depth, valid", emit_product),
        "byte_winograd_outputs": (
            "sums[s_at], step, added[added_at], scales[scales_at], out[out_at], line, pixel, rows, columns, least, "
            "most, zero",
            emit_outputs,
        ),
    }
    return {name: primitive(name, *text) for name, text in texts.items()} if runs() else {}


def transformed_inputs(add: Callable, subtract: Callable, shift: Callable, d: list) -> list:
    """B' d for six elements along one axis; `shift` multiplies by a power of two."""
    near, far = subtract(d[4], d[2]), shift(subtract(d[3], d[1]), 1)
    even, odd = subtract(d[4], shift(d[2], 2)), subtract(d[3], shift(d[1], 2))
    first, last = add(shift(subtract(d[0], d[2]), 2), near), subtract(subtract(d[5], d[3]), shift(far, 1))
    return [first, add(even, odd), subtract(even, odd), add(near, far), subtract(near, far), last]


def outputs_of_products(add: Callable, subtract: Callable, shift: Callable, m: list) -> list:
    """A' m for six products along one axis."""
    (sum_12, difference_12), (sum_34, difference_34) = [(add(*pair), subtract(*pair)) for pair in (m[1:3], m[3:5])]
    return [
        add(m[0], add(shift(sum_12, 2), sum_34)), add(shift(difference_12, 1), difference_34), add(sum_12, sum_34),
        add(difference_12, add(shift(difference_34, 1), m[5])),
    ]  # fmt: skip


def _instructions(w: Writer) -> tuple:
    """(add, subtract, shift) of vectors of integers."""
    return w.builder.add, w.builder.sub, lambda value, bits: w.builder.shl(value, w.splat(w.element(bits)))


def emit_tile(w, x, line, pixel, out, step):
    """Write byte_winograd_tile."""
    words = Writer(w.builder, w.ir.IntType(16))
    bytes_of = Writer(w.builder, w.ir.IntType(8), words.lanes)
    transform = partial(transformed_inputs, *_instructions(words))
    columns = [
        transform([w.builder.sext(bytes_of.load(x, (line, i), (pixel, j)), words.vector) for i in range(SIDE)])
        for j in range(SIDE)
    ]
    for i, row in enumerate(zip(*columns)):
        for j, value in enumerate(transform(row)):
            words.store(value, out, (step, i * SIDE + j))


def emit_product(w, a, a_row, b, c, depth, valid):
    """Write byte_winograd_product."""
    w, count = Writer(w.builder, w.ir.IntType(32)), vectors()
    kind = byte_tiles.VNNI_PAIRS if byte_tiles.products() == byte_tiles.VNNI else byte_tiles.PAIRS
    sums = byte_tiles.sums_of(
        w, ROWS, count, kind, a, a_row, w.number(0), b, count * w.lanes, depth, w.number(1), valid
    )
    for i, row in enumerate(sums):
        for v, total in enumerate(row):
            w.store(total, c, (i * count + v) * w.lanes)


def emit_outputs(w, sums, step, added, scales, out, line, pixel, rows, columns, least, most, zero):
    """Write byte_winograd_outputs."""
    builder, transform = w.builder, partial(outputs_of_products, *_instructions(w))
    columns_of_products = [transform([w.load(sums, (step, i * SIDE + j)) for i in range(SIDE)]) for j in range(SIDE)]
    offset, inverse = w.load(added), w.splat(w.element(INVERSE_OF_9))
    finish, byte = byte_tiles.requantizer(w, least, most, zero), Writer(builder, w.ir.IntType(8), w.lanes)
    pixels = [transform(list(products)) for products in zip(*columns_of_products)]

    def write(i: int, j: int) -> None:
        sums_of_9 = builder.mul(pixels[i][j], inverse)
        total = builder.add(builder.ashr(sums_of_9, w.splat(w.element(SHIFTS[i] + SHIFTS[j]))), offset)
        byte.store(finish(total, scales, 0), out, (line, i), (pixel, j))

    def is_inside(i: int, j: int) -> object:
        return builder.and_(*(builder.icmp_signed("<", w.number(k), n) for k, n in ((i, rows), (j, columns))))

    with builder.if_else(is_inside(OUTPUTS - 1, OUTPUTS - 1), likely=True) as (whole, part):
        with whole:  # without branches the processor computes several pixels at a time
            for position in product(range(OUTPUTS), repeat=2):
                write(*position)
        with part:
            for position in product(range(OUTPUTS), repeat=2):
                with builder.if_then(is_inside(*position)):
                    write(*position)
