"""Sums of products of registers, lane by lane: the core of convolutions that have their planes side by side along the vector. Not the loops around it."""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import primitive

MOST = 4  # results at a time: as many additions follow each other before one waits


@functools.cache
def functions() -> dict[str, Callable]:
    """weigh1 to weigh4, by the registers they make:

    weighN(x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next, keep): register o of out, at out_at + o * out_next, = or += (`keep`)
    the sum over b < rows and k < columns of the registers x[x_at + o * x_next + b * x_row + k * x_column] times w[w_at + b * w_row + k * w_column].
    """
    arguments = "x[x_at], x_row, x_column, x_next, w[w_at], w_row, w_column, rows, columns, out[out_at], out_next, keep"
    return {f"weigh{count}": primitive(f"weigh{count}", arguments, functools.partial(_emit, count)) for count in range(1, MOST + 1)}


def _emit(count, w, x, x_row, x_column, x_next, weights, w_row, w_column, rows, columns, out, out_next, keep):
    def row(b: object, sums: list) -> list:
        def column(k: object, sums: list) -> list:
            weight = w.load(weights, (b, w_row), (k, w_column))
            values = [w.load(x, (b, x_row), (k, x_column), (o, x_next)) for o in range(count)]
            return [w.multiply_add(value, weight, total) for value, total in zip(values, sums)]

        return w.loop(0, columns, 1, sums, column)

    totals = w.loop(0, rows, 1, [w.zeros] * count, row)
    w.put(totals, [w.at(out, (o, out_next)) for o in range(count)], keep, [None] * count)
