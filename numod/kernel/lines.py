"""Explicitly vectorised loops for gates of recurrent layers and scores of attention: their lines are too short, or of
too many arrays, for the loop vectoriser.

A line is `n` contiguous elements; `x=4` stands for four lines, n elements apart. All lines are read before any is
written, so a state may be updated in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from llvmlite import ir

from .instructions import INF, Number, choose, multiply_add, where
from .registers.vectors import Writer
from .vector_math.exponential import lifted_exp, raised, sigmoid_of, tanh
from .vector_math.logarithm import log


@dataclass(frozen=True)
class Joined:
    """A reduction: the binary function that joins two values, and its neutral element."""

    join: Callable
    nothing: float


GREATEST = Joined(lambda x, y: where(y > x, y, x), -INF)
SUM = Joined(lambda x, y: x + y, 0.0)


@dataclass(frozen=True)
class Lines:
    """A vector formula: how many lines of each argument it `reads` and `writes`, how many scalar `numbers` follow, and
    how its last result is reduced (`joined`).

    `together`: registers of a vector, while the line has so many elements: their instructions take turns, and need not
    wait for one another. `ahead`: prefetch the next line, for formulas that read consecutive lines and compute for long
    enough to hide the load.
    """

    formula: Callable
    reads: dict[str, int]
    writes: dict[str, int]
    numbers: int
    joined: Joined | None
    together: int
    ahead: bool


formulas: dict[str, Lines] = {}


def lines(
    numbers: int = 0, joined: Joined | None = None, together: int = 1, ahead: bool = False, **reads: int
) -> Callable:
    """Register a formula for kernels, as `@lines(**reads)(**writes)`; they call it as name(x, x_at, ..., out, out_at,
    ..., n, numbers...).
    """

    def to(**writes: int) -> Callable:
        def note(formula: Callable) -> Callable:
            formulas[formula.__name__] = Lines(formula, reads, writes, numbers, joined, together, ahead)
            return formula

        return note

    return to


@lines(together=4, x=4, y=4, cell=1)(gates=4, new_cell=1, c=1, h=1, state=1)
def lstm_gates(x: list, y: list, cell: Number) -> tuple:
    i, f, g, o = (a + b for a, b in zip(x, y))
    i, f, g, o = sigmoid_of(i), sigmoid_of(f), tanh(g), sigmoid_of(o)
    cell = multiply_add(f, cell, i * g)
    h = o * tanh(cell)
    return [i, f, g, o], cell, cell, h, h


@lines(given_h=1, given_c=1, d_h=1, d_c=1, gates=4, c=1, c_before=1)(d_x=4, slopes=4, new_d_c=1)
def lstm_slopes(
    given_h: Number, given_c: Number, d_h: Number, d_c: Number, gates: list, c: Number, c_before: Number
) -> tuple:
    (i, f, g, o), level, of_h = gates, tanh(c), given_h + d_h
    of_c = multiply_add(of_h * o, 1.0 - level * level, given_c + d_c)
    d_x = [
        of_c * g * i * (1.0 - i),
        of_c * c_before * f * (1.0 - f),
        of_c * i * (1.0 - g * g),
        of_h * level * o * (1.0 - o),
    ]
    return d_x, d_x, of_c * f


@lines(together=4, x=3, y=3, bias=3, state=1)(gates=4, h=1, new_state=1)
def gru_gates(x: list, y: list, bias: list, state: Number) -> tuple:
    y = [a + b for a, b in zip(y, bias)]
    r, z = sigmoid_of(x[0] + y[0]), sigmoid_of(x[1] + y[1])
    new = tanh(multiply_add(r, y[2], x[2]))
    h = multiply_add(z, state - new, new)
    return [r, z, new, y[2]], h, h


@lines(given=1, d_h=1, direct=1, gates=4, h_before=1)(d_x=3, d_y=3, slopes=3, new_direct=1)
def gru_slopes(given: Number, d_h: Number, direct: Number, gates: list, h_before: Number) -> tuple:
    (r, z, new, y), g = gates, given + d_h + direct
    d_new = g * (1.0 - z) * (1.0 - new * new)
    d_r, d_z = d_new * y * r * (1.0 - r), g * (h_before - new) * z * (1.0 - z)
    d_y = [d_r, d_z, d_new * r]
    return [d_r, d_z, d_new], d_y, d_y, g * z


@lines(together=4, x=1, y=1)(h=1, state=1)
def rnn_gates(x: Number, y: Number) -> tuple:
    h = tanh(x + y)
    return h, h


@lines(together=4, x=1, y=1)(h=1, state=1)
def rnn_relu_gates(x: Number, y: Number) -> tuple:
    h = where(x + y < 0.0, 0.0, x + y)
    return h, h


@lines(given=1, d_h=1, h=1)(d_x=1, slopes=1)
def rnn_slopes(given: Number, d_h: Number, h: Number) -> tuple:
    d_x = (given + d_h) * (1.0 - h * h)
    return d_x, d_x


@lines(given=1, d_h=1, h=1)(d_x=1, slopes=1)
def rnn_relu_slopes(given: Number, d_h: Number, h: Number) -> tuple:
    d_x = where(h > 0.0, given + d_h, 0.0)
    return d_x, d_x


@lines(joined=GREATEST, together=4, x=1)()
def greatest_of_line(x: Number) -> tuple:
    """Ignores NaN: the sum of exponentials that follows becomes NaN anyway."""
    return (x,)


@lines(numbers=1, joined=SUM, together=4, ahead=True, x=1)()
def sum_lifted(x: Number, high: Number) -> tuple:
    return (lifted_exp(x - high),)


@lines(numbers=1, joined=SUM, together=4, ahead=True, x=1)(out=1)
def lift_line(x: Number, high: Number) -> tuple:
    lifted = lifted_exp(x - high)
    return lifted, lifted


@lines(numbers=1, together=4, x=1)(out=1)
def scale_line(x: Number, factor: Number) -> tuple:
    return (x * factor,)


@lines(numbers=1, joined=GREATEST, together=4, scores=1)()
def greatest_score(scores: Number, factor: Number) -> tuple:
    """Ignores NaN: it makes the sum of probabilities NaN."""
    return (scores * factor,)


@lines(numbers=2, joined=SUM, together=4, scores=1)(attention_weights=1)
def chances_of(scores: Number, factor: Number, shift: Number) -> tuple:
    """exp(scores * factor - shift) <= 1; 0 where the result would be subnormal."""
    x = multiply_add(scores, factor, -shift)
    chance = raised(x, 0, choose(x, -87.0, -708.0))
    return chance, chance


@lines(highs=1, totals=1)(out=1)
def log_sums(highs: Number, totals: Number) -> tuple:
    """highs + log(totals): the logarithm of a sum of exponentials, inf for an empty sum."""
    return (where(totals == 0.0, INF, highs + log(totals)),)


def emit(each: Lines, w: Writer, *given: ir.Value) -> ir.Value | None:
    """Emit the loops over n elements.

    Given are the lines' first elements, those read before those written, n and the numbers. Returns the reduced value,
    if any.
    """
    counts = [*each.reads.values(), *each.writes.values()]
    n, *numbers = given[len(counts) :]
    places = [(start, number) for start, count in zip(given, counts) for number in range(count)]

    def loop(w: Writer, first: ir.Value, end: ir.Value, totals: list, certain: bool) -> list:
        spread = [Number(w.builder, w.splat(number)) for number in numbers]

        def step(k: ir.Value, totals: list) -> list:
            total = _vector(each, w, places, k, n, spread, totals[0] if totals else None, certain)
            return [total] if totals else []

        return w.loop(first, end, w.lanes, totals, step)

    wide, join = Writer(w.builder, w.element, each.together * w.lanes), functools.partial(_join, each, w)
    totals = [ir.Constant(wide.vector, [each.joined.nothing] * wide.lanes)] if each.joined else []
    first = w.number(0)
    if each.together > 1:
        first = w.builder.and_(n, w.number(-wide.lanes))
        totals = [wide.narrowed(join, total, w.lanes) for total in loop(wide, w.number(0), first, totals, True)]
    totals = loop(w, first, n, totals, False)
    return w.across(join, totals[0]) if each.joined else None


def _vector(
    each: Lines,
    w: Writer,
    places: list,
    k: ir.Value,
    n: ir.Value,
    numbers: list[Number],
    total: ir.Value | None,
    certain: bool,
) -> ir.Value | None:
    """The formula for one vector of elements from k on; masked at the end of the line unless it is `certain` to be
    whole. Returns the new total.
    """
    builder, rest, read = w.builder, w.builder.sub(n, k), sum(each.reads.values())
    whole, mask = builder.icmp_signed(">=", rest, w.number(w.lanes)), None if certain else w.first(rest)
    here = [w.at(start, k, (n, number)) for start, number in places]
    for start, _ in places[:read] if each.ahead else ():
        for line in range(0, w.lanes * w.size, 64):
            w.prefetch(start, k, n, line // w.size, write=True)

    def load(mask: ir.Value | None) -> list:
        return [w.load(place, mask=mask) for place in here[:read]]

    values = load(None) if certain else _either(w, whole, lambda: load(None), lambda: load(mask))
    given = iter([Number(builder, value) for value in values])
    results = each.formula(
        *[next(given) if count == 1 else [next(given) for _ in range(count)] for count in each.reads.values()], *numbers
    )
    if each.joined:
        *results, last = results
        total = _join(
            each, w, total, (last if certain else where(Number(builder, mask), last, each.joined.nothing)).raw
        )
    made = [value.raw for result in results for value in (result if isinstance(result, list) else [result])]

    def store(mask: ir.Value | None) -> list:
        for value, place in zip(made, here[read:]):
            w.store(value, place, mask=mask)
        return []

    if made and certain:
        store(None)
    elif made:
        _either(w, whole, lambda: store(None), lambda: store(mask))
    return total


def _join(each: Lines, w: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    return each.joined.join(Number(w.builder, x), Number(w.builder, y)).raw


def _either(w: Writer, condition: ir.Value, yes: Callable, no: Callable) -> list:
    """The values of an if-else."""
    with w.builder.if_else(condition) as (then, otherwise):
        with then:
            first, first_block = yes(), w.builder.block
        with otherwise:
            second, second_block = no(), w.builder.block
    return w.either(first, first_block, second, second_block)
