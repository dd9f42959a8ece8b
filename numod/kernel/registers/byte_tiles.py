"""Register tiles of a product of bytes, with 32-bit sums. Packing and edges are loops in kernels.

A 32-bit word holds neighbours along the sum: four bytes if the processor has VNNI (unsigned times signed bytes), else
two 16-bit numbers, whose products every processor computes exactly. Each step loads a row of B's words and adds their
products with one word of each row of A.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from ...device import target
from .tiles import VECTORS
from .vectors import Writer, host, primitive


@functools.cache
def group() -> int:
    """Numbers in a word on this processor: 4 with VNNI, else 2."""
    return group_of(target.features().split(","), host().width)


def group_of(names: list[str], width: int) -> int:
    """Numbers in a word, by LLVM's names of a processor's features, for vectors of `width` bytes."""
    has_avx512 = "+avx512vnni" in names and (width == 64 or "+avx512vl" in names)
    return 4 if width >= 32 and (has_avx512 or (width == 32 and "+avxvnni" in names)) else 2


@functools.cache
def functions() -> dict[str, Callable]:
    """byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth): c (rows, 3 vectors) = a (rows, depth) @ b
    (depth, 3 vectors); a and b are arrays of words.
    """
    emitter = functools.partial(emit, host().rows, group())
    return {"byte_tile": primitive("byte_tile", "a[a_at], a_row, b[b_at], b_step, c[c_at], c_row, depth", emitter)}


def emit(rows, group, w, a, a_row, b, b_step, c, c_row, depth):
    """Write byte_tile."""
    starts = [w.at(a, (a_row, i)) for i in range(rows)]

    def step(k: object, sums: list) -> list:
        right, new = [w.load(b, (k, b_step), v * w.lanes) for v in range(VECTORS)], []
        for start, totals in zip(starts, sums):
            left = w.splat(w.element_at(start, k))
            new.append([_add_products(w, group, total, left, vector) for total, vector in zip(totals, right)])
        return new

    sums = w.loop(0, depth, 1, [[w.zeros] * VECTORS] * rows, step)
    for i in range(rows):
        for v in range(VECTORS):
            w.store(sums[i][v], c, (c_row, i), v * w.lanes)


def _add_products(w: Writer, group: int, total: object, left: object, right: object) -> object:
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
