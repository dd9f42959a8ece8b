"""Depthwise sums of products in vector registers: the inner loop of depthwise convolutions, which have a channel in
each lane.

The loops around it are in `kernel.library.planes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import primitive

WIDTHS = (3, 5, 7)  # of kernels without strides and dilation that many networks have
MOST = 4  # results at a time: as many additions follow each other before one waits


@functools.cache
def functions() -> dict[str, Callable]:
    """depthwise_fma1 to depthwise_fma4, by the number of registers that they write:

    depthwise_fmaN(x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next,
    keep): register o of out, at out_at + o * out_next, = or += (`keep`) the sum over b < rows and k < columns of the
    registers x[x_at + o * x_next + b * x_row + k * x_column] times w[w_at + b * w_row + k * w_column].
    """
    arguments = "x[x_at], x_row, x_column, x_next, w[w_at], w_row, w_column, rows, columns, out[out_at], out_next, keep"
    names = {count: f"depthwise_fma{count}" for count in range(1, MOST + 1)}
    return {name: primitive(name, arguments, functools.partial(_emit, count)) for count, name in names.items()}


def _emit(count, w, x, x_row, x_column, x_next, weights, w_row, w_column, rows, columns, out, out_next, keep):
    builder, neighbours = (
        w.builder,
        functools.reduce(
            w.builder.and_, [w.builder.icmp_signed("==", step, w.number(w.lanes)) for step in (x_column, x_next)]
        ),
    )

    def row(b: object, sums: list) -> list:
        def column(k: object, sums: list) -> list:
            return added([w.load(x, (b, x_row), (k, x_column), (o, x_next)) for o in range(count)], b, k, sums)

        return w.loop(0, columns, 1, sums, column)

    def added(values: list, b: object, k: object, sums: list) -> list:
        weight = w.load(weights, (b, w_row), (k, w_column))
        return [w.multiply_add(value, weight, total) for value, total in zip(values, sums)]

    def known_row(width: int, b: object, sums: list) -> list:
        values = [w.load(x, (b, x_row), place * w.lanes) for place in range(count + width - 1)]
        for k in range(width):
            sums = added(values[k:], b, k, sums)
        return sums

    def by_width(widths: tuple[int, ...]) -> list:
        """The sums; of so many neighbours in a row without a loop, and without loading any twice."""
        if not widths:
            return w.loop(0, rows, 1, [w.zeros] * count, row)
        with builder.if_else(builder.and_(neighbours, builder.icmp_signed("==", columns, w.number(widths[0])))) as (
            then,
            otherwise,
        ):
            with then:
                first, first_block = (
                    w.loop(0, rows, 1, [w.zeros] * count, functools.partial(known_row, widths[0])),
                    builder.block,
                )
            with otherwise:
                second, second_block = by_width(widths[1:]), builder.block
        return w.either(first, first_block, second, second_block)

    w.put(
        by_width(WIDTHS if count == MOST else ()),
        [w.at(out, (o, out_next)) for o in range(count)],
        keep,
        [None] * count,
    )
