"""Sums of products of registers, lane by lane: the core of convolutions that have their planes side by side along the vector. Not the loops around it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import tiles

MOST = 4  # results at a time: as many additions follow each other before one waits


@functools.cache
def functions() -> dict[str, Callable]:
    """weigh1 to weigh4, by the registers they make:

    weighN(x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep): register o of out, at out_at + o * out_next, = or += (`keep`)
    the sum over b < rows and k < columns of the registers x[x_at + o * x_next + b * x_row + k * x_column] times w[w_at + b * w_row + k * w_column].
    """
    return {f"weigh{count}": _weigh(count) for count in range(1, MOST + 1)}


def _weigh(count: int) -> Callable:
    from llvmlite import ir
    from numba import types
    from numba.extending import intrinsic

    at = types.int64

    @intrinsic
    def weigh(context, x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep):  # noqa: ANN001, ANN202
        def generate(context, builder, signature, values):  # noqa: ANN001, ANN202
            places = [builder.gep(context.make_array(signature.args[k])(context, builder, values[k]).data, [values[k + 1]]) for k in (0, 5, 11)]
            vector = ir.VectorType(context.get_value_type(x.dtype), tiles.host().lanes(x.dtype.bitwidth // 8))
            _emit(builder, vector, count, *places, *values[2:5], *values[7:11], *values[13:])
            return context.get_dummy_value()

        return types.void(x, at, at, at, at, w, at, at, at, at, at, out, at, at, at), generate

    return weigh


def _emit(builder, vector, count, x, w, out, x_row, x_column, x_next, w_row, w_column, rows, columns, out_next, keep):  # noqa: ANN001, ANN202
    """Write the instructions of weighN; all but the first three are LLVM values."""
    from llvmlite import ir

    access, zero, numbers = tiles.Access(builder, vector, None), rows.type(0), [rows.type(number) for number in range(count)]

    def at(pointer: object, *steps: tuple) -> object:
        place = functools.reduce(builder.add, [builder.mul(*step) for step in steps])
        return builder.bitcast(builder.gep(pointer, [place]), vector.as_pointer())

    def row(b: object, sums: list) -> list:
        def column(k: object, sums: list) -> list:
            weight = access.load(at(w, (b, w_row), (k, w_column)), False)
            given = [access.load(at(x, (b, x_row), (k, x_column), (number, x_next)), False) for number in numbers]
            return [[[tiles.multiply_add(builder, value, weight, total) for value, total in zip(given, sums[0][0])]]]

        return tiles._loop(builder, zero, columns, 1, sums, column)

    (((*totals,),),) = tiles._loop(builder, zero, rows, 1, [[[ir.Constant(vector, None)] * count]], row)
    targets = [at(out, (number, out_next)) for number in numbers]
    with builder.if_else(builder.icmp_signed("!=", keep, zero)) as (adding, fresh):
        with adding:
            for total, target in zip(totals, targets):
                access.store(builder.fadd(access.load(target, False), total), target, False)
        with fresh:
            for total, target in zip(totals, targets):
                access.store(total, target, False)
