"""Register tiles of a product of bytes, with 32-bit sums. Packing and edges are loops in kernels.

A 32-bit word holds neighbours along the sum: four bytes if the processor has VNNI (unsigned times signed bytes), else
two 16-bit numbers, whose products every processor computes exactly. Each step loads a row of B's words and adds their
products with one word of each row of A.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...device import target
from .vectors import Writer, host, primitive


@dataclass(frozen=True)
class Shape:
    """The size of a tile: rows, and columns in vectors and in words."""

    rows: int
    vectors: int
    panel: int


@functools.cache
def shape() -> Shape:
    """The tile of this processor: 64 columns with AVX-512, a usual number of filters; else as in `tiles`."""
    registers = host()
    rows, vectors = (6, 4) if registers.width == 64 else (registers.rows, 3)
    return Shape(rows, vectors, vectors * registers.width // 4)


FLOAT_ROWS = (
    "a[a_at], a_row, b[b_at], added[added_at], scales[scales_at], shifts[shifts_at], factors[factors_at], out[out_at], "
    "out_row, depth, valid, columns"
)
ROWS = (
    "a[a_at], a_row, a_segment, b[b_at], added[added_at], scales[scales_at], out[out_at], out_row, depth, segments, "
    "valid, columns, least, most, zero"
)


@functools.cache
def group() -> int:
    """Numbers in a word on this processor: 4 with VNNI, else 2."""
    return group_of(target.features().split(","), host().width)


def group_of(names: list[str], width: int) -> int:
    """Numbers in a word, by LLVM's names of a processor's features, for vectors of `width` bytes."""
    has_avx512 = "+avx512vnni" in names and (width == 64 or "+avx512vl" in names)
    return 4 if width >= 32 and (has_avx512 or (width == 32 and "+avxvnni" in names)) else 2


def number_type() -> np.dtype:
    """The dtype of a word's numbers on the left of a product."""
    return np.dtype("uint8" if group() == 4 else "int16")


def number_mask() -> int:
    """The bits of a word's first number."""
    return (1 << 32 // group()) - 1


@functools.cache
def functions() -> dict[str, Callable]:
    """byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth): c (rows, panel) = a (rows, depth) @ b (depth,
    panel) of the sizes in `shape`; a and b are arrays of words.

    byte_rows(..., segments, valid, columns, least, most, zero): out (valid, columns; bytes) = round((sum + added) *
    scales) in [least, most], plus zero. A row of a is `segments` runs of `depth` words, a_segment apart; b is a
    panel of segments * depth rows. The elements of a are words, or parts of a word; `a_at` counts elements, the other
    numbers count words.

    byte_floats(...): out (valid, columns; float32) = float(sum + added) * (scales * factor of the row) + shifts.

    byte_row and byte_float_row compute one row.
    """
    vectors, number_group = shape().vectors, group()
    return {
        "byte_tile": primitive(
            "byte_tile",
            "a[a_at], a_row, b[b_at], b_step, c[c_at], c_row, depth",
            functools.partial(emit, shape().rows, vectors, number_group),
        ),
        **{
            name: primitive(name, arguments, functools.partial(emitter, rows, vectors, number_group))
            for name, arguments, emitter, rows in (
                ("byte_rows", ROWS, emit_rows, shape().rows),
                ("byte_row", ROWS, emit_rows, 1),
                ("byte_floats", FLOAT_ROWS, emit_floats, shape().rows),
                ("byte_float_row", FLOAT_ROWS, emit_floats, 1),
            )
        },
    }


def emit(rows, vectors, group, w, a, a_row, b, b_step, c, c_row, depth):
    """Write byte_tile."""
    starts = [w.at(a, (a_row, i)) for i in range(rows)]

    def step(k: object, sums: list) -> list:
        right, new = [w.load(b, (k, b_step), v * w.lanes) for v in range(vectors)], []
        for start, totals in zip(starts, sums):
            left = w.splat(w.element_at(start, k))
            new.append([add_products(w, group, total, left, vector) for total, vector in zip(totals, right)])
        return new

    sums = w.loop(0, depth, 1, [[w.zeros] * vectors] * rows, step)
    for i in range(rows):
        for v in range(vectors):
            w.store(sums[i][v], c, (c_row, i), v * w.lanes)


def emit_rows(
    rows, vectors, group, w, a, a_row, a_segment, b, added, scales, out, out_row, depth, segments, valid, columns,
    least, most, zero,
):  # fmt: skip
    """Write byte_rows."""
    w, builder = Writer(w.builder, w.ir.IntType(32)), w.builder
    sums = _sums(w, rows, vectors, group, a, a_row, a_segment, b, depth, segments, valid)
    floats = Writer(builder, w.ir.FloatType(), w.lanes)
    byte = Writer(builder, w.ir.IntType(8), w.lanes)
    low, high = (floats.splat(builder.sitofp(bound, floats.element)) for bound in (least, most))
    shift = w.splat(builder.trunc(zero, w.element))
    for i in range(rows):
        with builder.if_then(builder.icmp_signed("<", w.number(i), valid)):
            for v in range(vectors):
                total = builder.add(sums[i][v], w.load(added, v * w.lanes))
                value = builder.fmul(builder.sitofp(total, floats.vector), floats.load(scales, v * w.lanes))
                value = builder.select(builder.fcmp_ordered("<", value, low), low, value)
                value = builder.select(builder.fcmp_ordered(">", value, high), high, value)
                whole = builder.call(floats.declared(f"rint.v{w.lanes}f32", floats.vector, [floats.vector]), [value])
                result = builder.trunc(builder.add(builder.fptosi(whole, w.vector), shift), byte.vector)
                byte.store_first(result, builder.sub(columns, w.number(v * w.lanes)), out, (out_row, i), v * w.lanes)


def emit_floats(
    rows, vectors, group, w, a, a_row, b, added, scales, shifts, factors, out, out_row, depth, valid, columns
):
    """Write byte_floats."""
    w, builder = Writer(w.builder, w.ir.IntType(32)), w.builder
    sums = _sums(w, rows, vectors, group, a, a_row, w.number(0), b, depth, w.number(1), valid)
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


def _sums(w, rows, vectors, group, a, a_row, a_segment, b, depth, segments, valid):
    """Write the loops of a tile: the sums of each row, in vectors. Missing rows repeat the last one."""
    builder, panel = w.builder, vectors * w.lanes
    a = builder.bitcast(a, w.element.as_pointer())
    starts = [w.at(a, (a_row, w.within(i, valid))) for i in range(rows)]

    def segment(s: object, sums: list) -> list:
        first = builder.mul(w.number(s), depth)

        def step(k: object, sums: list) -> list:
            right = [w.load(b, (builder.add(first, w.number(k)), panel), v * w.lanes) for v in range(vectors)]
            new = []
            for start, totals in zip(starts, sums):
                left = w.splat(builder.load(w.at(start, (a_segment, s), k), align=1))
                new.append([add_products(w, group, total, left, vector) for total, vector in zip(totals, right)])
            return new

        return w.loop(0, depth, 1, sums, step)

    return w.loop(0, segments, 1, [[w.zeros] * vectors] * rows, segment)


def add_products(w: Writer, group: int, total: object, left: object, right: object) -> object:
    """total + the dot product of two words: of 4 bytes, unsigned by signed, or of 2 signed 16-bit numbers."""
    builder = w.builder
    if group == 4:
        return builder.call(
            w.declared(f"x86.avx512.vpdpbusd.{32 * w.lanes}", w.vector, [w.vector] * 3), [total, left, right]
        )
    half, long = (w.ir.VectorType(w.ir.IntType(bits), 2 * w.lanes) for bits in (16, 32))
    products = builder.mul(*(builder.sext(builder.bitcast(words, half), long) for words in (left, right)))
    even, odd = (
        w.shuffle(products, w.ir.Constant(long, w.ir.Undefined), list(range(side, 2 * w.lanes, 2))) for side in (0, 1)
    )
    return builder.add(total, builder.add(even, odd))
