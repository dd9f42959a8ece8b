"""Register tiles of a product of bytes, with 32-bit sums. Packing and edges are loops in kernels.

A 32-bit word holds neighbours along the sum: four bytes if the processor multiplies unsigned by signed bytes, else two
16-bit numbers, whose products every processor computes exactly. Each step loads a row of B's words and adds their
products with one word of each row of A.

VNNI adds products of bytes in 32 bits. AVX2 and AVX-512BW have the product of older processors (vpmaddubsw), whose
sums of two products saturate at 16 bits. They cannot if the unsigned bytes are at most 127, as those with
`reduce_range` are: 2 * 127 * 128 < 2**15. So each tile looks at its rows of A first, and where a byte is greater it
multiplies the even and the odd bytes as 16-bit numbers.

To separate these takes more registers than the 16 of AVX2. Its tiles for any bytes have words of 16-bit numbers from
the start. Words of four bytes, named compact, remain for single rows, which are bound by reading B, and for dynamic
quantization, whose bytes are at most 127 by default.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...device import target
from .vectors import Registers, Writer, host, primitive, registers


@dataclass(frozen=True)
class Shape:
    """The size of a tile: rows, and columns in vectors and in words."""

    rows: int
    vectors: int
    panel: int


@functools.cache
def shape(columns: int | None = None) -> Shape:
    """The tile of this processor for a matrix of so many columns; without a number, the widest.

    That has 64 columns with AVX-512, a usual number of filters. A narrower one has more rows. A product of words needs
    registers besides those of a product of floats, so AVX2's tile has two vectors, not the three of `tiles`.
    """
    return shape_of(host(), columns)


def shape_of(registers: Registers, columns: int | None) -> Shape:
    """The tile of a processor with these registers."""
    lanes, rows = registers.width // 4, registers.rows
    row_counts = {64: (8, 8, 8, 6), 32: (2 * rows, rows)}.get(registers.width, (2 * rows, rows * 5 // 4, rows))
    vectors = len(row_counts) if columns is None else max(1, min(len(row_counts), -(-columns // lanes)))
    return Shape(row_counts[vectors - 1], vectors, vectors * lanes)


def shapes() -> list[Shape]:
    """The tiles of all widths."""
    lanes = host().width // 4
    return [shape(vectors * lanes) for vectors in range(1, shape().vectors + 1)]


SMALL_IMAGE_ROWS = 4  # rows of the tiles for small images


FLOAT_ROWS = (
    "a[a_at], a_row, b[b_at], added[added_at], scales[scales_at], shifts[shifts_at], factors[factors_at], out[out_at], "
    "out_row, depth, valid, columns"
)
ROWS = (
    "a[a_at], a_row, a_segment, b[b_at], added[added_at], scales[scales_at], out[out_at], out_row, depth, segments, "
    "valid, columns, least, most, zero"
)


VNNI, SATURATING, PAIRS = "vnni", "saturating", "pairs"  # products of words: see above
VNNI_PAIRS = "vnni pairs"  # the product of pairs, added by one instruction of VNNI


@functools.cache
def products(compact: bool = False) -> str:
    """How this processor multiplies words; see the module for `compact`."""
    return products_of(target.features().split(","), host().width, compact)


def products_of(names: list[str], width: int, compact: bool = False) -> str:
    """How a processor multiplies words, by LLVM's names of its features, for vectors of `width` bytes."""
    has_avx512 = "+avx512vnni" in names and (width == 64 or "+avx512vl" in names)
    if width >= 32 and (has_avx512 or (width == 32 and "+avxvnni" in names)):
        return VNNI
    saturates = (width == 64 and "+avx512bw" in names) or (compact and width == 32 and "+avx2" in names)
    return SATURATING if saturates else PAIRS


def group(compact: bool = False) -> int:
    """Numbers in a word on this processor."""
    return _group_of(products(compact))


def _group_of(kind: str) -> int:
    return 2 if kind == PAIRS else 4


def packed_format(columns: int, compact: bool = False, machine: target.Machine | None = None) -> tuple[int, int]:
    """(numbers in a word, columns in a panel) of a packed matrix of so many columns, for this or another machine."""
    if machine is None:
        return group(compact), shape(columns).panel
    names = machine.features.split(",")
    vectors = registers(names, machine.triple)
    return _group_of(products_of(names, vectors.width, compact)), shape_of(vectors, columns).panel


def number_type(compact: bool = False) -> np.dtype:
    """The dtype of a word's numbers on the left of a product."""
    return np.dtype("uint8" if group(compact) == 4 else "int16")


def number_mask(numbers: int) -> int:
    """The bits of the first number of a word of so many."""
    return (1 << 32 // numbers) - 1


@functools.cache
def functions() -> dict[str, Callable]:
    """byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth): c (rows, panel) = a (rows, depth) @ b (depth,
    panel) of the sizes in `shape`; a and b are arrays of words.

    byte_rows(..., segments, valid, columns, least, most, zero): out (valid, columns; bytes) = round((sum + added) *
    scales) in [least, most], plus zero. A row of a is `segments` runs of `depth` words, a_segment apart; b is a
    panel of segments * depth rows. The elements of a are words, or parts of a word; `a_at`, `a_row` and `a_segment`
    count elements, the other numbers count words. So words may begin at any element, and overlap.

    byte_floats(...): out (valid, columns; float32) = float(sum + added) * (scales * factor of the row) + shifts.

    byte_row and byte_float_row compute one row, byte_few_rows SMALL_IMAGE_ROWS rows. These names end in the
    width of b's panel in vectors. Words of byte_row, byte_floats and byte_float_row are compact.
    """
    vectors = shape().vectors
    return {
        "byte_tile": primitive(
            "byte_tile",
            "a[a_at], a_row, b[b_at], b_step, c[c_at], c_row, depth",
            functools.partial(emit, shape().rows, vectors, products()),
        ),
        **{
            f"{name}{tile.vectors}": primitive(
                f"{name}{tile.vectors}",
                arguments,
                functools.partial(emitter, rows or tile.rows, tile.vectors, products(compact)),
            )
            for tile in shapes()
            for name, arguments, emitter, rows, compact in (
                ("byte_rows", ROWS, emit_rows, None, False),
                ("byte_few_rows", ROWS, emit_rows, SMALL_IMAGE_ROWS, False),
                ("byte_row", ROWS, emit_rows, 1, True),
                ("byte_floats", FLOAT_ROWS, emit_floats, None, True),
                ("byte_float_row", FLOAT_ROWS, emit_floats, 1, True),
            )
        },
    }


def emit(rows, vectors, kind, w, a, a_row, b, b_step, c, c_row, depth):
    """Write byte_tile."""
    one, all_rows = w.number(1), w.number(rows)
    sums = sums_of(w, rows, vectors, kind, a, a_row, w.number(0), b, b_step, depth, one, all_rows)
    for i in range(rows):
        for v in range(vectors):
            w.store(sums[i][v], c, (c_row, i), v * w.lanes)


def emit_rows(
    rows, vectors, kind, w, a, a_row, a_segment, b, added, scales, out, out_row, depth, segments, valid, columns,
    least, most, zero,
):  # fmt: skip
    """Write byte_rows."""
    w, builder = Writer(w.builder, w.ir.IntType(32)), w.builder
    sums = sums_of(w, rows, vectors, kind, a, a_row, a_segment, b, vectors * w.lanes, depth, segments, valid)
    finish = requantizer(w, least, most, zero)
    for i in range(rows):
        with builder.if_then(builder.icmp_signed("<", w.number(i), valid)):
            for v in range(vectors):
                total = builder.add(sums[i][v], w.load(added, v * w.lanes))
                result = finish(total, scales, v * w.lanes)
                byte = Writer(builder, w.ir.IntType(8), w.lanes)
                byte.store_first(result, builder.sub(columns, w.number(v * w.lanes)), out, (out_row, i), v * w.lanes)


def requantizer(w: Writer, least: object, most: object, zero: object) -> Callable:
    """A function (total, scales, at) of sums and the scales from `at` on: round(total * scale) in [least, most] + zero,
    as bytes."""
    builder, floats = w.builder, Writer(w.builder, w.ir.FloatType(), w.lanes)
    low, high = (floats.splat(builder.sitofp(bound, floats.element)) for bound in (least, most))
    shift, bytes_type = w.splat(builder.trunc(zero, w.element)), w.ir.VectorType(w.ir.IntType(8), w.lanes)

    def finish(total: object, scales: object, at: object) -> object:
        value = builder.fmul(builder.sitofp(total, floats.vector), floats.load(scales, at))
        value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
        value = builder.select(builder.fcmp_ordered(">", value, high), high, value)
        whole = builder.call(floats.declared(f"rint.v{w.lanes}f32", floats.vector, [floats.vector]), [value])
        return builder.trunc(builder.add(builder.fptosi(whole, w.vector), shift), bytes_type)

    return finish


def emit_floats(
    rows, vectors, kind, w, a, a_row, b, added, scales, shifts, factors, out, out_row, depth, valid, columns
):
    """Write byte_floats."""
    w, builder = Writer(w.builder, w.ir.IntType(32)), w.builder
    sums = sums_of(w, rows, vectors, kind, a, a_row, w.number(0), b, vectors * w.lanes, depth, w.number(1), valid)
    floats = Writer(builder, w.ir.FloatType(), w.lanes)
    for i in range(rows):
        with builder.if_then(builder.icmp_signed("<", w.number(i), valid)):
            factor = floats.splat(floats.element_at(factors, i))
            for v in range(vectors):
                at = v * w.lanes
                total = builder.sitofp(builder.add(sums[i][v], w.load(added, at)), floats.vector)
                scale = builder.fmul(floats.load(scales, at), factor)
                result = floats.multiply_add(total, scale, floats.load(shifts, at))
                floats.store_first(result, builder.sub(columns, w.number(at)), out, (out_row, i), at)


def sums_of(w, rows, vectors, kind, a, a_row, a_segment, b, b_step, depth, segments, valid):
    """Write the loops of a tile: the sums of each row, in vectors. Missing rows repeat the last one."""
    builder = w.builder
    starts = [w.at(a, (a_row, w.within(i, valid))) for i in range(rows)]

    def sums_by(kind: str) -> list:
        def segment(s: object, sums: list) -> list:
            first, lines = builder.mul(w.number(s), depth), _lines(w, starts, a_segment, s)

            def step(k: object, sums: list) -> list:
                right = [w.load(b, (builder.add(first, w.number(k)), b_step), v * w.lanes) for v in range(vectors)]
                new = []
                for line, totals in zip(lines, sums):
                    left = w.splat(builder.load(w.at(line, k), align=1))
                    new.append([add_products(w, kind, total, left, vector) for total, vector in zip(totals, right)])
                return new

            return w.loop(0, depth, 1, sums, step)

        return w.loop(0, segments, 1, [[w.zeros] * vectors] * rows, segment)

    if kind != SATURATING:
        return sums_by(kind)
    high_bits = builder.and_(_bits(w, starts, a_segment, depth, segments), w.element(0x80808080))
    with builder.if_else(builder.icmp_unsigned("==", high_bits, w.element(0)), likely=True) as (small, any_bytes):
        with small:
            sums, small_end = sums_by(SATURATING), builder.block
        with any_bytes:
            others, any_end = sums_by(_HALVES), builder.block
    return w.either(sums, small_end, others, any_end)


def _lines(w, starts, a_segment, s):
    """The words of the rows' segment `s`, which may begin at any element."""
    return [w.builder.bitcast(w.at(start, (a_segment, s)), w.element.as_pointer()) for start in starts]


def _bits(w, starts, a_segment, depth, segments):
    """The bits that any word of the rows has."""
    builder = w.builder
    whole = builder.and_(depth, w.number(-w.lanes))

    def segment(s: object, state: list) -> list:
        lines = _lines(w, starts, a_segment, s)

        def vector_step(k: object, state: list) -> list:
            for line in lines:
                pointer = builder.bitcast(w.at(line, k), w.vector.as_pointer())
                state = [builder.or_(state[0], builder.load(pointer, align=1)), state[1]]
            return state

        def word_step(k: object, state: list) -> list:
            for line in lines:
                state = [state[0], builder.or_(state[1], builder.load(w.at(line, k), align=1))]
            return state

        return w.loop(whole, depth, 1, w.loop(0, whole, w.lanes, state, vector_step), word_step)

    vector, word = w.loop(0, segments, 1, [w.zeros, w.element(0)], segment)
    reduce = w.declared(f"vector.reduce.or.v{w.lanes}i32", w.element, [w.vector])
    return builder.or_(builder.call(reduce, [vector]), word)


_HALVES = "halves"  # the products of bytes as 16-bit numbers, the even ones and then the odd ones


def add_products(w: Writer, kind: str, total: object, left: object, right: object) -> object:
    """total + the dot product of two words: of 4 bytes, unsigned by signed, or of 2 signed 16-bit numbers."""
    builder = w.builder
    if kind in (VNNI, VNNI_PAIRS):
        name = f"x86.avx512.{'vpdpbusd' if kind == VNNI else 'vpdpwssd'}.{32 * w.lanes}"
        return builder.call(w.declared(name, w.vector, [w.vector] * 3), [total, left, right])
    half, byte, long = (
        w.ir.VectorType(w.ir.IntType(bits), count * w.lanes) for bits, count in ((16, 2), (8, 4), (32, 2))
    )
    names = ("x86.avx512.pmaddubs.w.512", "x86.avx512.pmaddw.d.512") if w.lanes == 16 else _AVX2

    def add_pairs(total: object, left: object, right: object) -> object:
        return builder.add(total, builder.call(w.declared(names[1], w.vector, [half] * 2), [left, right]))

    if kind == SATURATING:
        pairs = builder.call(
            w.declared(names[0], half, [byte] * 2), [builder.bitcast(words, byte) for words in (left, right)]
        )
        return add_pairs(total, pairs, w.ir.Constant(half, [1] * half.count))
    left, right = (builder.bitcast(words, half) for words in (left, right))
    if kind == _HALVES:
        eight, mask = (w.ir.Constant(half, [number] * half.count) for number in (8, 255))
        even = builder.ashr(builder.shl(right, eight), eight)
        total = add_pairs(total, builder.and_(left, mask), even)
        return add_pairs(total, builder.lshr(left, eight), builder.ashr(right, eight))
    products = builder.mul(builder.sext(left, long), builder.sext(right, long))
    even, odd = (
        w.shuffle(products, w.ir.Constant(long, w.ir.Undefined), list(range(side, 2 * w.lanes, 2))) for side in (0, 1)
    )
    return builder.add(total, builder.add(even, odd))


_AVX2 = "x86.avx2.pmadd.ub.sw", "x86.avx2.pmadd.wd"
