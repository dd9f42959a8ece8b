"""Dot products of rows: of one with many, and of some with some, in tiles. As many sums as a register has lanes are added up across lanes all at once.

Where both factors of a product lie along what is summed, nothing needs to be turned or packed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

from . import tiles


COLUMNS = 4  # of a tile


def tile_rows() -> int:
    """Of a tile: its sums take half of the processor's registers."""
    return tiles.host().rows // 2


@functools.cache
def functions() -> dict[str, Callable]:
    """dots(matrix, at, step, vector, vector_at, depth, out, out_at, count): out[out_at + j] = the sum of matrix[at + j * step + k] * vector[vector_at + k].

    dot_tile(a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, held, wide): out[out_at + i * out_row + j] = the sum of a[a_at + i * a_row + k] * b[b_at + j * b_row + k],
    for i < held (at most `tile_rows()`) and j < wide (at most COLUMNS).
    """
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

    @intrinsic
    def dot_tile(context, a, a_at, a_row, b, b_at, b_row, depth, out, out_at, out_row, held, wide):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            a_data, b_data, target = (builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[k + 1]]) for k in (0, 3, 7))
            lanes = tiles.host().lanes(a.dtype.bitwidth // 8)
            function = tile_function(builder.module, ir.VectorType(context.get_value_type(a.dtype), lanes), tile_rows())
            builder.call(function, [a_data, values[2], b_data, values[5], values[6], target, *values[9:]])
            return context.get_dummy_value()

        return types.void(a, place, place, b, place, place, place, out, place, place, place, place), generate

    return {"dots": dots, "dot_tile": dot_tile}


def tile_function(module, vector, rows):  # noqa: ANN001, ANN201
    """The tile as a function of its own, of which a program holds one however many kernels call it. Missing rows and columns are the last ones again."""
    from llvmlite import ir

    number, integer, small = vector.element.as_pointer(), ir.IntType(64), ir.VectorType(vector.element, COLUMNS)
    arguments = [number, integer, number, integer, integer, number, integer, integer, integer]
    function = tiles.declared(module, f"numod_dots_{rows}x{COLUMNS}x{vector.count}_{vector.element}", ir.VoidType(), arguments)
    if not function.is_declaration:
        return function
    function.linkage = "linkonce_odr"
    function.attributes.add("noinline")
    builder = ir.IRBuilder(function.append_basic_block())
    a, a_row, b, b_row, depth, out, out_row, held, wide = function.args

    def starts(pointer: object, step: object, n: int, limit: object) -> list:
        last = builder.sub(limit, integer(1))
        return [builder.gep(pointer, [builder.mul(step, builder.select(builder.icmp_signed("<", integer(k), last), integer(k), last))]) for k in range(n)]

    sums = _along(builder, vector, starts(a, a_row, rows, held), starts(b, b_row, COLUMNS, wide), depth)
    totals = [across(builder, sums[k : k + vector.count]) for k in range(0, len(sums), vector.count)]
    access, done = tiles.Access(builder, small, wide), builder.append_basic_block("done")
    for i in range(rows):
        if i > 0:
            there = builder.append_basic_block("row")
            builder.cbranch(builder.icmp_signed("<", integer(i), held), there, done)
            builder.position_at_end(there)
        place = builder.bitcast(builder.gep(out, [builder.mul(out_row, integer(i))]), small.as_pointer())
        access.store(_part(builder, totals, i * COLUMNS), place, True)
    builder.branch(done)
    builder.position_at_end(done)
    builder.ret_void()
    return function


def _part(builder: object, vectors: list, at: int) -> object:
    """COLUMNS elements of vectors that follow each other."""
    from llvmlite import ir

    lanes, places = vectors[0].type.count, ir.VectorType(ir.IntType(32), COLUMNS)
    k, after = at // lanes, min(at // lanes + 1, len(vectors) - 1)
    return builder.shuffle_vector(vectors[k], vectors[after], ir.Constant(places, [at % lanes + j for j in range(COLUMNS)]))


def emit(builder, vector, a, a_step, x, depth, out, count):  # noqa: ANN001, ANN201
    """Write the loops over groups of rows, and along the rows. A group's missing rows are its last one again."""
    from llvmlite import ir
    from numba.core import cgutils

    lanes, integer = vector.count, ir.IntType(64)
    zero, width = ir.Constant(integer, 0), ir.Constant(integer, lanes)
    last = builder.sub(count, ir.Constant(integer, 1))
    with cgutils.for_range_slice(builder, zero, count, width) as (j, _):
        numbers = [builder.add(j, ir.Constant(integer, lane)) for lane in range(lanes)]
        numbers = [builder.select(builder.icmp_signed("<", number, last), number, last) for number in numbers]
        sums = _along(builder, vector, [x], [builder.gep(a, [builder.mul(number, a_step)]) for number in numbers], depth)
        target = builder.bitcast(builder.gep(out, [j]), vector.as_pointer())
        tiles.Access(builder, vector, builder.sub(count, j)).store(across(builder, sums), target, True)


def _along(builder: object, vector: object, left: list, right: list, depth: object) -> list:
    """Write the loop along rows: sums of products of each row of `left` with each of `right`, by lanes."""
    from llvmlite import ir

    integer = ir.IntType(64)
    zero, width = ir.Constant(integer, 0), ir.Constant(integer, vector.count)
    whole = builder.sub(depth, builder.srem(depth, width))

    def add(k: object, access: tiles.Access, masked: bool, sums: list) -> list:
        def load(start: object) -> object:
            return access.load(builder.bitcast(builder.gep(start, [k]), vector.as_pointer()), masked)

        factors, others = [load(each) for each in left], [load(each) for each in right]
        return [tiles.multiply_add(builder, b, a, total) for (a, b), total in zip(itertools.product(factors, others), sums)]

    nothing = [ir.Constant(vector, None)] * (len(left) * len(right))
    before, loop, after = builder.block, builder.append_basic_block("along"), builder.append_basic_block("summed")
    builder.cbranch(builder.icmp_signed(">", whole, zero), loop, after)
    builder.position_at_end(loop)
    k, sums = builder.phi(integer), [builder.phi(vector) for _ in nothing]
    made = add(k, tiles.Access(builder, vector, None), False, sums)
    following = builder.add(k, width)
    for phi, start, value in zip([k, *sums], [zero, *nothing], [following, *made]):
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)
    builder.cbranch(builder.icmp_signed("<", following, whole), loop, after)
    builder.position_at_end(after)
    sums = _joined(builder, vector, nothing, before, made, loop)
    before = builder.block
    with builder.if_then(builder.icmp_signed("<", whole, depth)):
        made, rest = add(whole, tiles.Access(builder, vector, builder.sub(depth, whole)), True, sums), builder.block
    return _joined(builder, vector, sums, before, made, rest)


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
