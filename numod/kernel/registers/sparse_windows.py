"""Products of sparse rows by permutations: a register has an element of each of as many rows as it has lanes.

The elements of a step lie in a window of two registers of x, so that one instruction finds them for all rows, where
`sparse_rows` gathers them from memory. On a Zen 5 a gather takes about ten times as long as a permutation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from .vectors import Writer, host, primitive

UNROLLED = 4  # steps at a time, each with sums of its own


def runs() -> bool:
    """Whether the processor has the permutation of two registers."""
    return host().width == 64


@cache
def functions() -> dict[str, Callable]:
    """window_dots(values, at, places, at, bases, at, steps, x, at, out, at, valid): out (valid) = a group of rows
    times x.

    `values` are the bits of float32, lanes for each step; `places` bytes, four to a word, from the step's base on;
    `bases` the first element of each step's window of x.
    """
    arguments = "values[v_at], places[p_at], bases[b_at], steps, x[x_at], out[out_at], valid"
    return {"window_dots": primitive("window_dots", arguments, emit)} if runs() else {}


def emit(w, values, places, bases, steps, x, out, valid):
    """Write window_dots."""
    builder, ir = w.builder, w.ir
    floats, bytes_ = Writer(builder, ir.FloatType(), w.lanes), Writer(builder, ir.IntType(8), w.lanes)
    values = builder.bitcast(values, floats.element.as_pointer())
    places = builder.bitcast(places, bytes_.element.as_pointer())
    permute = w.declared("x86.avx512.vpermi2var.ps.512", floats.vector, [floats.vector, w.vector, floats.vector])

    def one(k: object, total: object) -> object:
        base = builder.sext(w.element_at(bases, k), ir.IntType(64))
        low, high = floats.load(x, base), floats.load(x, base, w.lanes)
        inside = builder.zext(bytes_.load(places, (k, w.lanes)), w.vector)
        return floats.multiply_add(floats.load(values, (k, w.lanes)), builder.call(permute, [low, inside, high]), total)

    def several(k: object, state: list) -> list:
        return [one(builder.add(k, w.number(n)), total) for n, total in enumerate(state)]

    whole = builder.and_(steps, w.number(-UNROLLED))
    first, *others = w.loop(0, whole, UNROLLED, [floats.zeros] * UNROLLED, several)
    (first,) = w.loop(whole, steps, 1, [first], lambda k, state: [one(k, state[0])])
    for total in others:
        first = builder.fadd(first, total)
    floats.store_first(first, valid, out)
