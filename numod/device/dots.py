"""Dot products of a vector with rows of a matrix, as many rows at a time as a register has lanes: their sums are added up across lanes all at once."""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import tiles


@functools.cache
def functions() -> dict[str, Callable]:
    """dots(matrix, at, step, vector, vector_at, depth, out, out_at, count): out[out_at + j] = the sum of matrix[at + j * step + k] * vector[vector_at + k]."""
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    place = types.int64

    @intrinsic
    def dots(context, matrix, at, step, vector, vector_at, depth, out, out_at, count):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            a, x, target = (builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[at]]) for k, at in ((0, 1), (3, 4), (6, 7)))
            lanes = tiles.host().lanes(matrix.dtype.bitwidth // 8)
            emit(builder, ir.VectorType(context.get_value_type(matrix.dtype), lanes), a, values[2], x, values[5], target, values[8])
            return context.get_dummy_value()

        return types.void(matrix, place, place, vector, place, place, out, place, place), generate

    return {"dots": dots}


def emit(builder, vector, a, a_step, x, depth, out, count):  # noqa: ANN001, ANN201
    """Write the loops over groups of rows, and along the rows. A group's missing rows are its last one again."""
    from llvmlite import ir
    from numba.core import cgutils

    lanes, integer = vector.count, ir.IntType(64)
    zero, width = ir.Constant(integer, 0), ir.Constant(integer, lanes)
    whole = builder.sub(depth, builder.srem(depth, width))
    last = builder.sub(count, ir.Constant(integer, 1))
    with cgutils.for_range_slice(builder, zero, count, width) as (j, _):
        numbers = [builder.add(j, ir.Constant(integer, lane)) for lane in range(lanes)]
        numbers = [builder.select(builder.icmp_signed("<", number, last), number, last) for number in numbers]
        rows = [builder.gep(a, [builder.mul(number, a_step)]) for number in numbers]

        def add(k: object, access: tiles.Access, masked: bool, sums: list) -> list:
            def load(start: object) -> object:
                return access.load(builder.bitcast(builder.gep(start, [k]), vector.as_pointer()), masked)

            factor = load(x)
            return [tiles.multiply_add(builder, load(row), factor, total) for row, total in zip(rows, sums)]

        before, loop, after = builder.block, builder.append_basic_block("along"), builder.append_basic_block("summed")
        builder.cbranch(builder.icmp_signed(">", whole, zero), loop, after)
        builder.position_at_end(loop)
        k, sums = builder.phi(integer), [builder.phi(vector) for _ in rows]
        made = add(k, tiles.Access(builder, vector, None), False, sums)
        following = builder.add(k, width)
        for phi, start, value in zip([k, *sums], [zero, *[ir.Constant(vector, None)] * lanes], [following, *made]):
            phi.add_incoming(start, before)
            phi.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, whole), loop, after)
        builder.position_at_end(after)
        sums = _joined(builder, vector, [ir.Constant(vector, None)] * lanes, before, made, loop)
        before = builder.block
        with builder.if_then(builder.icmp_signed("<", whole, depth)):
            made, rest = add(whole, tiles.Access(builder, vector, builder.sub(depth, whole)), True, sums), builder.block
        sums = _joined(builder, vector, sums, before, made, rest)
        target = builder.bitcast(builder.gep(out, [j]), vector.as_pointer())
        tiles.Access(builder, vector, builder.sub(count, j)).store(across(builder, sums), target, True)


def _joined(builder: object, vector: object, first: list, first_block: object, second: list, second_block: object) -> list:
    """Values that come from either block."""
    merged = []
    for a, b in zip(first, second):
        merged.append(builder.phi(vector))
        merged[-1].add_incoming(a, first_block)
        merged[-1].add_incoming(b, second_block)
    return merged


def across(builder: object, vectors: list) -> object:
    """A vector of the sums of as many vectors. Two vectors' halves are added to one another side by side, until one vector is left.

    First within quarters of 128 bits, which costs processors least, then quarters.
    """
    from llvmlite import ir

    lanes = vectors[0].type.count
    quarter = min(lanes, 4 if isinstance(vectors[0].type.element, ir.FloatType) else 2)
    group = 1
    while len(vectors) > 1:
        if group < quarter:
            starts = [place + part for place in range(0, lanes, quarter) for part in range(0, quarter // 2, group)]
            low, apart = [k for start in starts for side in (0, lanes) for k in range(side + start, side + start + group)], quarter // 2
        else:
            low, apart = [k for side in (0, lanes) for start in range(side, side + lanes, 2 * quarter) for k in range(start, start + quarter)], quarter
        places = ir.VectorType(ir.IntType(32), lanes)
        orders = ir.Constant(places, low), ir.Constant(places, [k + apart for k in low])
        vectors = [builder.fadd(*(builder.shuffle_vector(a, b, order) for order in orders)) for a, b in zip(vectors[::2], vectors[1::2])]
        group *= 2
    return vectors[0]
