"""Explicitly vectorised loops for gates of recurrent layers and attention scores.

Their lines are too short, or too many, for LLVM's loop vectoriser.

A line is `n` contiguous elements; `x=4` means four lines, n elements apart. All lines are read before any is written,
so a state may be updated in place.
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
    """A vector formula.

    The number of lines of each argument that it `reads` and `writes`, the number of scalar `numbers` after them, and
    the reduction of its last result (`joined`).

    `together`: registers processed at a time, while the line has so many elements, so that their instructions overlap.
    `ahead`: prefetch the next line, for formulas that read consecutive lines and compute long enough to hide the load.
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
    """Register a formula by `@lines(**reads)(**writes)`; kernels call it as name(x, x_at, ..., out, out_at, ..., n,
    numbers...).
    """

    def with_writes(**writes: int) -> Callable:
        def register(formula: Callable) -> Callable:
            formulas[formula.__name__] = Lines(formula, reads, writes, numbers, joined, together, ahead)
            return formula

        return register

    return with_writes


@lines(together=4, x=4, y=4, cell=1)(gates=4, new_cell=1, c=1, h=1, state=1)
def lstm_gates(x: list, y: list, cell: Number) -> tuple:
    i, f, g, o = (a + b for a, b in zip(x, y))
    i, f, g, o = sigmoid_of(i), sigmoid_of(f), tanh(g), sigmoid_of(o)
    cell = multiply_add(f, cell, i * g)
    h = o * tanh(cell)
    return [i, f, g, o], cell, cell, h, h


@lines(d_out_h=1, d_out_c=1, d_h=1, d_c=1, gates=4, c=1, c_before=1)(d_x=4, d_gates=4, new_d_c=1)
def lstm_gate_gradients(
    d_out_h: Number, d_out_c: Number, d_h: Number, d_c: Number, gates: list, c: Number, c_before: Number
) -> tuple:
    (i, f, g, o), tanh_c, total_d_h = gates, tanh(c), d_out_h + d_h
    total_d_c = multiply_add(total_d_h * o, 1.0 - tanh_c * tanh_c, d_out_c + d_c)
    d_x = [
        total_d_c * g * i * (1.0 - i),
        total_d_c * c_before * f * (1.0 - f),
        total_d_c * i * (1.0 - g * g),
        total_d_h * tanh_c * o * (1.0 - o),
    ]
    return d_x, d_x, total_d_c * f


@lines(together=4, x=3, y=3, bias=3, state=1)(gates=4, h=1, new_state=1)
def gru_gates(x: list, y: list, bias: list, state: Number) -> tuple:
    y = [a + b for a, b in zip(y, bias)]
    r, z = sigmoid_of(x[0] + y[0]), sigmoid_of(x[1] + y[1])
    new = tanh(multiply_add(r, y[2], x[2]))
    h = multiply_add(z, state - new, new)
    return [r, z, new, y[2]], h, h


@lines(d_out=1, d_h=1, direct=1, gates=4, h_before=1)(d_x=3, d_y=3, d_gates=3, new_direct=1)
def gru_gate_gradients(d_out: Number, d_h: Number, direct: Number, gates: list, h_before: Number) -> tuple:
    (r, z, new, y), g = gates, d_out + d_h + direct
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


@lines(d_out=1, d_h=1, h=1)(d_x=1, d_gates=1)
def rnn_gate_gradients(d_out: Number, d_h: Number, h: Number) -> tuple:
    d_x = (d_out + d_h) * (1.0 - h * h)
    return d_x, d_x


@lines(d_out=1, d_h=1, h=1)(d_x=1, d_gates=1)
def rnn_relu_gate_gradients(d_out: Number, d_h: Number, h: Number) -> tuple:
    d_x = where(h > 0.0, d_out + d_h, 0.0)
    return d_x, d_x


@lines(joined=GREATEST, together=4, x=1)()
def greatest_of_line(x: Number) -> tuple:
    """The greatest element, ignoring NaN: the sum of exponentials that follows becomes NaN anyway."""
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
    """The greatest score times the factor, ignoring NaN, which makes the sum of probabilities NaN."""
    return (scores * factor,)


@lines(numbers=2, joined=SUM, together=4, scores=1)(attention_weights=1)
def exp_scores(scores: Number, factor: Number, shift: Number) -> tuple:
    """exp(scores * factor - shift) <= 1; 0 if the result would be subnormal."""
    x = multiply_add(scores, factor, -shift)
    weight = raised(x, 0, choose(x, -87.0, -708.0))
    return weight, weight


@lines(highs=1, totals=1)(out=1)
def log_sums(highs: Number, totals: Number) -> tuple:
    """highs + log(totals): the logarithm of a sum of exponentials, inf for an empty sum."""
    return (where(totals == 0.0, INF, highs + log(totals)),)


def emit(lines: Lines, w: Writer, *operands: ir.Value) -> ir.Value | None:
    """Emit the loops over n elements and return the reduced value, if any.

    `operands` are pointers to the lines, those read before those written, then n and the numbers.
    """
    counts = [*lines.reads.values(), *lines.writes.values()]
    n, *numbers = operands[len(counts) :]
    line_starts = [(start, number) for start, count in zip(operands, counts) for number in range(count)]

    def loop(w: Writer, first: ir.Value, end: ir.Value, totals: list, is_whole: bool) -> list:
        splat_numbers = [Number(w.builder, w.splat(number)) for number in numbers]

        def step(k: ir.Value, totals: list) -> list:
            total = _vector(lines, w, line_starts, k, n, splat_numbers, totals[0] if totals else None, is_whole)
            return [total] if totals else []

        return w.loop(first, end, w.lanes, totals, step)

    wide, join = Writer(w.builder, w.element, lines.together * w.lanes), functools.partial(_join, lines, w)
    totals = [ir.Constant(wide.vector, [lines.joined.nothing] * wide.lanes)] if lines.joined else []
    first = w.number(0)
    if lines.together > 1:
        first = w.builder.and_(n, w.number(-wide.lanes))
        totals = [wide.narrowed(join, total, w.lanes) for total in loop(wide, w.number(0), first, totals, True)]
    totals = loop(w, first, n, totals, False)
    return w.across(join, totals[0]) if lines.joined else None


def _vector(
    lines: Lines,
    w: Writer,
    line_starts: list,
    k: ir.Value,
    n: ir.Value,
    numbers: list[Number],
    total: ir.Value | None,
    is_whole: bool,
) -> ir.Value | None:
    """Emit the formula for one vector of elements from k on, and return the new total.

    It is masked at the end of the line unless `is_whole`.
    """
    builder, remaining, read = w.builder, w.builder.sub(n, k), sum(lines.reads.values())
    whole, mask = builder.icmp_signed(">=", remaining, w.number(w.lanes)), None if is_whole else w.first(remaining)
    addresses = [w.at(start, k, (n, number)) for start, number in line_starts]
    for start, _ in line_starts[:read] if lines.ahead else ():
        for line in range(0, w.lanes * w.size, 64):
            w.prefetch(start, k, n, line // w.size, write=True)

    def load(mask: ir.Value | None) -> list:
        return [w.load(address, mask=mask) for address in addresses[:read]]

    values = load(None) if is_whole else _either(w, whole, lambda: load(None), lambda: load(mask))
    arguments = iter([Number(builder, value) for value in values])
    results = lines.formula(
        *[next(arguments) if count == 1 else [next(arguments) for _ in range(count)] for count in lines.reads.values()],
        *numbers,
    )
    if lines.joined:
        *results, last = results
        total = _join(
            lines, w, total, (last if is_whole else where(Number(builder, mask), last, lines.joined.nothing)).raw
        )
    outputs = [value.raw for result in results for value in (result if isinstance(result, list) else [result])]

    def store(mask: ir.Value | None) -> list:
        for value, address in zip(outputs, addresses[read:]):
            w.store(value, address, mask=mask)
        return []

    if outputs and is_whole:
        store(None)
    elif outputs:
        _either(w, whole, lambda: store(None), lambda: store(mask))
    return total


def _join(lines: Lines, w: Writer, x: ir.Value, y: ir.Value) -> ir.Value:
    return lines.joined.join(Number(w.builder, x), Number(w.builder, y)).raw


def _either(w: Writer, condition: ir.Value, yes: Callable, no: Callable) -> list:
    """The values of an if-else."""
    with w.builder.if_else(condition) as (if_true, if_false):
        with if_true:
            first, first_block = yes(), w.builder.block
        with if_false:
            second, second_block = no(), w.builder.block
    return w.either(first, first_block, second, second_block)
