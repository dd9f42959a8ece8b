"""The inner loop of depthwise convolutions in vector registers: sums of products, with a channel in each lane.

The outer loops are in `kernel.library.planes`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .vectors import primitive

WIDTHS = (3, 5, 7)  # usual widths of kernels, which are unrolled if there is no stride and no dilation
MAX_RESULTS = 4  # at a time: independent sums hide the latency of additions


@functools.cache
def functions() -> dict[str, Callable]:
    """depthwise_fmaN, for N registers of results, 1 to 4.

    depthwise_fmaN(x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, rows, columns, out, out_at, out_next,
    keep): the register at out_at + o * out_next, o < N, = (or += if `keep`) the sum over b < rows and k < columns of
    the registers x[x_at + o * x_next + b * x_row + k * x_column] * w[w_at + b * w_row + k * w_column].
    """
    arguments = "x[x_at], x_row, x_column, x_next, w[w_at], w_row, w_column, rows, columns, out[out_at], out_next, keep"
    names = {count: f"depthwise_fma{count}" for count in range(1, MAX_RESULTS + 1)}
    return {name: primitive(name, arguments, functools.partial(_emit, count)) for count, name in names.items()}


def _emit(count, w, x, x_row, x_column, x_next, weights, w_row, w_column, rows, columns, out, out_next, keep):
    builder, is_contiguous = (
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

    def unrolled_row(width: int, b: object, sums: list) -> list:
        values = [w.load(x, (b, x_row), position * w.lanes) for position in range(count + width - 1)]
        for k in range(width):
            sums = added(values[k:], b, k, sums)
        return sums

    def by_width(widths: tuple[int, ...]) -> list:
        """The sums; for these widths of rows unrolled, so that no vector is loaded twice."""
        if not widths:
            return w.loop(0, rows, 1, [w.zeros] * count, row)
        with builder.if_else(builder.and_(is_contiguous, builder.icmp_signed("==", columns, w.number(widths[0])))) as (
            unrolled,
            otherwise,
        ):
            with unrolled:
                unrolled_sums, unrolled_block = (
                    w.loop(0, rows, 1, [w.zeros] * count, functools.partial(unrolled_row, widths[0])),
                    builder.block,
                )
            with otherwise:
                other_sums, other_block = by_width(widths[1:]), builder.block
        return w.either(unrolled_sums, unrolled_block, other_sums, other_block)

    w.put(
        by_width(WIDTHS if count == MAX_RESULTS else ()),
        [w.at(out, (o, out_next)) for o in range(count)],
        keep,
        [None] * count,
    )
