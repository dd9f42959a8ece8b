"""Tiles of a product of bytes in vector registers, with sums of 32 bits.

Floats' tiles are `tiles`; packing and edges are loops in kernels.

A word of 32 bits holds neighbours along the sum: four bytes where the processor multiplies and adds unsigned by signed
bytes (VNNI), else two numbers of 16 bits, which every processor multiplies exactly. Each step loads a row of B's words
and adds them times one word of each row of A.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...device import target
from .tiles import VECTORS
from .vectors import Writer, host, primitive


@functools.cache
def group() -> int:
    """Numbers in a word on this processor: 4 where it has VNNI, else 2."""
    return group_of(target.features().split(","), host().width)


def group_of(names: list[str], width: int) -> int:
    """From LLVM's names of features, for vectors of `width` bytes."""
    wide = "+avx512vnni" in names and (width == 64 or "+avx512vl" in names)
    return 4 if width >= 32 and (wide or (width == 32 and "+avxvnni" in names)) else 2


@functools.cache
def functions() -> dict[str, Callable]:
    """byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth): c (rows, 3 vectors) = a (rows, depth) @ b
    (depth, 3 vectors); a and b are arrays of words.
    """
    emitter = functools.partial(emit, host().rows, group())
    return {"byte_tile": primitive("byte_tile", "a[a_at], a_row, b[b_at], b_step, c[c_at], c_row, depth", emitter)}


def emit(rows, group, w, a, a_row, b, b_step, c, c_row, depth):
    """Write the tile's instructions."""
    starts = [w.at(a, (a_row, i)) for i in range(rows)]

    def step(k: object, sums: list) -> list:
        right, new = [w.load(b, (k, b_step), v * w.lanes) for v in range(VECTORS)], []
        for start, totals in zip(starts, sums):
            left = w.splat(w.element_at(start, k))
            new.append([_add_products(w, group, total, left, each) for total, each in zip(totals, right)])
        return new

    sums = w.loop(0, depth, 1, [[w.zeros] * VECTORS] * rows, step)
    for i in range(rows):
        for v in range(VECTORS):
            w.store(sums[i][v], c, (c_row, i), v * w.lanes)


def _add_products(w: Writer, group: int, total: object, left: object, right: object) -> object:
    """total + the sum of the products of each pair of words' numbers.

    Four: bytes, unsigned by signed. Two: signed numbers of 16 bits.
    """
    builder = w.builder
    if group == 4:
        return builder.call(
            w.declared(f"x86.avx512.vpdpbusd.{32 * w.lanes}", w.vector, [w.vector] * 3), [total, left, right]
        )
    half, long = (w.ir.VectorType(w.ir.IntType(bits), 2 * w.lanes) for bits in (16, 32))
    products = builder.mul(*(builder.sext(builder.bitcast(each, half), long) for each in (left, right)))
    even, odd = (
        w.shuffle(products, w.ir.Constant(long, w.ir.Undefined), list(range(side, 2 * w.lanes, 2))) for side in (0, 1)
    )
    return builder.add(total, builder.add(even, odd))
