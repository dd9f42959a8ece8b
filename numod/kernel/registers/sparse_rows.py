"""Products of sparse rows: a register has an element of each of as many rows as it has lanes (sliced ELLPACK).

Row r of a group has its k-th value and column at k * lanes + r. Missing elements are zeros of column 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .vectors import Writer, host, primitive

ROWS, VECTORS = 4, 2  # rows at a time, and registers of vectors, of `sparse_batch`


@cache
def functions() -> dict[str, Callable]:
    """sparse_dots(values, at, columns, at, steps, x, at, out, at, valid): out (valid) = a group of rows times x.

    sparse_batch(values, at, columns, at, steps, x, at, x_step, order, at, out, at, out_step): ROWS rows of a group
    times x (inner, width), whose rows are x_step apart, for a width of VECTORS registers; the results are written to
    rows `order` of out, which are out_step apart.

    `values` and `columns` are arrays of 32-bit integers; the values are the bits of float32.
    """
    rows = "values[v_at], columns[c_at], steps, x[x_at], "
    return {
        "sparse_dots": primitive("sparse_dots", f"{rows}out[out_at], valid", emit_dots),
        "sparse_batch": primitive("sparse_batch", f"{rows}x_step, order[o_at], out[out_at], out_step", emit_batch),
    }


def emit_dots(w, values, columns, steps, x, out, valid):
    """Write sparse_dots."""
    floats = Writer(w.builder, w.ir.FloatType(), w.lanes)
    values = w.builder.bitcast(values, floats.element.as_pointer())

    def step(k: object, state: list) -> list:
        elements = _gathered(floats, x, w.load(columns, (k, w.lanes)))
        return [floats.multiply_add(floats.load(values, (k, w.lanes)), elements, state[0])]

    (total,) = w.loop(0, steps, 1, [floats.zeros], step)
    floats.store_first(total, valid, out)


def _gathered(w: Writer, x: object, places: object) -> object:
    """The elements of x at these places."""
    builder, ir = w.builder, w.ir
    if w.lanes == 16 and host().width == 64:
        every = ir.Constant(ir.VectorType(ir.IntType(1), w.lanes), [1] * w.lanes)
        types = [w.vector, x.type, places.type, every.type, ir.IntType(32)]
        gather = w.declared("x86.avx512.mask.gather.dps.512", w.vector, types)
        return builder.call(gather, [w.zeros, x, places, every, ir.Constant(ir.IntType(32), w.size)])
    result = ir.Constant(w.vector, ir.Undefined)
    for lane in range(w.lanes):
        number = ir.Constant(ir.IntType(32), lane)
        target = builder.sext(builder.extract_element(places, number), ir.IntType(64))
        result = builder.insert_element(result, w.element_at(x, target), number)
    return result


def emit_batch(w, values, columns, steps, x, x_step, order, out, out_step):
    """Write sparse_batch."""
    builder, floats = w.builder, Writer(w.builder, w.ir.FloatType(), w.lanes)
    values = builder.bitcast(values, floats.element.as_pointer())

    def step(k: object, state: list) -> list:
        new = []
        for row, sums in enumerate(state):
            value = floats.splat(floats.element_at(values, (k, w.lanes), row))
            column = builder.sext(w.element_at(columns, (k, w.lanes), row), w.ir.IntType(64))
            loads = [floats.load(x, (column, x_step), v * w.lanes) for v in range(VECTORS)]
            new.append([floats.multiply_add(part, value, total) for part, total in zip(loads, sums)])
        return new

    sums = w.loop(0, steps, 1, [[floats.zeros] * VECTORS] * ROWS, step)
    for row in range(ROWS):
        target = builder.sext(w.element_at(order, row), w.ir.IntType(64))
        for v in range(VECTORS):
            floats.store(sums[row][v], out, (target, out_step), v * w.lanes)
