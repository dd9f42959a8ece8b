"""Tiles of a product of bytes in vector registers, with sums of 32 bits. Floats' tiles are `device.tiles`; packing and edges are loops in kernels.

A word of 32 bits holds neighbours along the sum: four bytes where the processor multiplies and adds unsigned by signed bytes (VNNI), else two numbers of 16 bits,
which every processor multiplies exactly. Each step loads a row of B's words and adds them times one word of each row of A.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .tiles import VECTORS, _broadcast, declared, features, host


@functools.cache
def group() -> int:
    """Numbers in a word on this processor: 4 where it has VNNI, else 2."""
    return group_of(features().split(","), host().width)


def group_of(names: list[str], width: int) -> int:
    """From LLVM's names of features, for vectors of `width` bytes."""
    wide = "+avx512vnni" in names and (width == 64 or "+avx512vl" in names)
    return 4 if width >= 32 and (wide or (width == 32 and "+avxvnni" in names)) else 2


@functools.cache
def functions() -> dict[str, Callable]:
    """byte_tile(a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth): c (rows, 3 vectors) = a (rows, depth) @ b (depth, 3 vectors); a and b are arrays of words."""
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def byte_tile(context, a, a_at, a_row, b, b_at, b_step, c, c_at, c_row, depth):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            starts = [builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[k + 1]]) for k in (0, 3, 6)]
            emit(builder, host().width // 4, host().rows, group(), *(each for start, k in zip(starts, (2, 5, 8)) for each in (start, values[k])), values[9])
            return context.get_dummy_value()

        return types.void(a, at, at, b, at, at, c, at, at, at), generate

    return {"byte_tile": byte_tile}


def emit(builder, lanes, rows, group, a, a_row, b, b_step, c, c_row, depth):  # noqa: ANN001, ANN201
    """Write the tile's instructions; all from `a` on are LLVM values."""
    from llvmlite import ir

    integer, vector = ir.IntType(64), ir.VectorType(ir.IntType(32), lanes)
    starts = [builder.gep(a, [builder.mul(a_row, ir.Constant(integer, i))]) for i in range(rows)]
    before, loop, after = builder.block, builder.append_basic_block("step"), builder.append_basic_block("sums")
    builder.cbranch(builder.icmp_signed(">", depth, integer(0)), loop, after)

    def shares(start: object) -> list:
        return [builder.bitcast(builder.gep(start, [integer(v * lanes)]), vector.as_pointer()) for v in range(VECTORS)]

    builder.position_at_end(loop)
    k, sums = builder.phi(integer), [[builder.phi(vector) for _ in range(VECTORS)] for _ in range(rows)]
    right, new = [builder.load(each, align=4) for each in shares(builder.gep(b, [builder.mul(k, b_step)]))], []
    for i in range(rows):
        left = _broadcast(builder, builder.load(builder.gep(starts[i], [k])), lanes)
        new.append([_add_products(builder, group, total, left, each) for total, each in zip(sums[i], right)])
    following = builder.add(k, integer(1))
    k.add_incoming(integer(0), before)
    k.add_incoming(following, loop)
    for total, result in ((sums[i][v], new[i][v]) for i in range(rows) for v in range(VECTORS)):
        total.add_incoming(ir.Constant(vector, None), before)
        total.add_incoming(result, loop)
    builder.cbranch(builder.icmp_signed("<", following, depth), loop, after)

    builder.position_at_end(after)
    totals = [[builder.phi(vector) for _ in range(VECTORS)] for _ in range(rows)]
    for i in range(rows):
        for total, result in zip(totals[i], new[i]):
            total.add_incoming(ir.Constant(vector, None), before)
            total.add_incoming(result, loop)
    for i in range(rows):
        for total, place in zip(totals[i], shares(builder.gep(c, [builder.mul(c_row, integer(i))]))):
            builder.store(total, place, align=4)


def _add_products(builder: object, group: int, total: object, left: object, right: object) -> object:
    """total + the sum of the products of each pair of words' numbers. Four: bytes, unsigned by signed. Two: signed numbers of 16 bits."""
    from llvmlite import ir

    vector = total.type
    if group == 4:
        name = f"llvm.x86.avx512.vpdpbusd.{32 * vector.count}"
        return builder.call(declared(builder.module, name, vector, [vector] * 3), [total, left, right])
    half, count, order = ir.VectorType(ir.IntType(16), 2 * vector.count), vector.count, ir.VectorType(ir.IntType(32), vector.count)
    long = ir.VectorType(ir.IntType(32), 2 * count)
    products = builder.mul(*(builder.sext(builder.bitcast(each, half), long) for each in (left, right)))
    even, odd = (builder.shuffle_vector(products, ir.Constant(long, ir.Undefined), ir.Constant(order, list(range(first, 2 * count, 2)))) for first in (0, 1))
    return builder.add(total, builder.add(even, odd))
