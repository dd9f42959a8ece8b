"""Fourier transforms of as many rows or columns as a register has lanes, a row in each lane: what goes in and out, and
the stages between. Not the loops around them.

Parts of complex numbers lie apart in between: register k of `re` and `im` holds the k-th numbers of all rows.
Stockham's order (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992): a stage reads registers that
are far apart, and writes neighbours of each other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import cos, pi, sin

from .vectors import Writer, primitive

RADICES = (4, 2, 3, 5, 7)  # of stages, in the order in which they are taken


@functools.cache
def functions() -> dict[str, Callable]:
    """rows_in(x, x_at, step, n, re, re_at, im, im_at): n complex numbers of each of the rows that are `step` numbers
    apart, whose registers end with a row. rows_out(re, re_at, im, im_at, n, x, x_at, step, scale): back, times the
    scale. columns_in and columns_out: likewise of neighbouring columns, whose next numbers are `step` apart.

    stage(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, radix, m, run, turn): transforms of `radix`
    registers that are `m` runs of `run` numbers apart, turned by the roots of one at p * turn in run p < m.

    to_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n): of the transforms of n complex numbers,
    which are 2 n real ones in pairs, twice the halves of these ones' spectra, n + 1 numbers. from_half(the same): back,
    from n + 1 numbers to n.
    """
    parts, results = "re[re_at], im[im_at]", "to_re[to_re_at], to_im[to_im_at]"
    given = {
        "rows_in": (f"x[x_at], step, n, {parts}", _rows_in), "columns_in": (f"x[x_at], step, n, {parts}", _columns_in),
        "rows_out": (f"{parts}, n, x[x_at], step, real scale", _rows_out),
        "columns_out": (f"{parts}, n, x[x_at], step, real scale", _columns_out),
        "stage": (f"{parts}, roots[], {results}, radix, m, run, turn", _stage),
        "to_half": (f"{parts}, roots[], {results}, n", functools.partial(_half, True)),
        "from_half": (f"{parts}, roots[], {results}, n", functools.partial(_half, False)),
    }  # fmt: skip
    return {name: primitive(name, arguments, emit, shared=name == "stage") for name, (arguments, emit) in given.items()}


def _rows_in(w: Writer, x: object, step: object, n: object, re: object, im: object) -> None:
    def square(k: object, _: list) -> list:
        for place, line in enumerate(w.turned([w.load(x, (row, step), k) for row in range(w.lanes)])):
            w.store(line, im if place % 2 else re, (k, w.number(w.lanes // 2)), place // 2 * w.lanes)
        return []

    w.loop(0, w.builder.mul(n, w.number(2)), w.lanes, [], square)


def _rows_out(w: Writer, re: object, im: object, n: object, x: object, step: object, scale: object) -> None:
    factor = w.splat(scale)

    def square(k: object, _: list) -> list:
        lines = [
            w.load(im if place % 2 else re, (k, w.number(w.lanes // 2)), place // 2 * w.lanes)
            for place in range(w.lanes)
        ]
        for row, line in enumerate(w.turned([w.builder.fmul(line, factor) for line in lines])):
            w.store(line, x, (row, step), k)
        return []

    w.loop(0, w.builder.mul(n, w.number(2)), w.lanes, [], square)


def _columns_in(w: Writer, x: object, step: object, n: object, re: object, im: object) -> None:
    def row(k: object, _: list) -> list:
        pair = [w.load(x, (k, step), part * w.lanes) for part in range(2)]
        for first, target in enumerate((re, im)):
            w.store(w.every_second(pair, first), target, (k, w.number(w.lanes)))
        return []

    w.loop(0, n, 1, [], row)


def _columns_out(w: Writer, re: object, im: object, n: object, x: object, step: object, scale: object) -> None:
    factor, sides = w.splat(scale), [k // 2 + k % 2 * w.lanes for k in range(2 * w.lanes)]

    def row(k: object, _: list) -> list:
        pair = [w.builder.fmul(w.load(part, (k, w.number(w.lanes))), factor) for part in (re, im)]
        for part in range(2):
            w.store(w.shuffle(*pair, sides[part * w.lanes : (part + 1) * w.lanes]), x, (k, step), part * w.lanes)
        return []

    w.loop(0, n, 1, [], row)


def _stage(
    w: Writer, re: object, im: object, roots: object, to_re: object, to_im: object, radix: object, *sizes: object
) -> None:
    for radice in RADICES:
        with w.builder.if_then(w.builder.icmp_signed("==", radix, w.number(radice))):
            emit_stage(radice, w, re, im, roots, to_re, to_im, *sizes)


def emit_stage(
    radix: int,
    w: Writer,
    re: object,
    im: object,
    roots: object,
    to_re: object,
    to_im: object,
    m: object,
    run: object,
    turn: object,
) -> None:
    b = w.builder

    def block(p: object, _: list) -> list:
        at = b.mul(b.mul(p, turn), w.number(2))
        turns = [[w.splat(w.element_at(roots, (at, w.number(j)), part)) for part in range(2)] for j in range(1, radix)]
        source, target = b.mul(p, run), b.mul(b.mul(p, run), w.number(radix))

        def register(t: object, _: list) -> list:
            held = [[w.load(part, source, t, (w.number(j), b.mul(m, run))) for part in (re, im)] for j in range(radix)]
            made = _of_four(b, held) if radix == 4 else _of_two(b, held) if radix == 2 else _of_odd(w, held)
            for j, (x, y) in enumerate(made):
                if j:
                    wr, wi = turns[j - 1]
                    x, y = w.multiply_add(x, wr, b.fneg(b.fmul(y, wi))), w.multiply_add(x, wi, b.fmul(y, wr))
                w.store(x, to_re, target, t, (w.number(j), run))
                w.store(y, to_im, target, t, (w.number(j), run))
            return []

        w.loop(0, run, w.lanes, [], register)
        return []

    w.loop(0, m, 1, [], block)


def _of_two(b: object, held: list) -> list:
    first, second = held
    return [[b.fadd(x, y) for x, y in zip(first, second)], [b.fsub(x, y) for x, y in zip(first, second)]]


def _of_four(b: object, held: list) -> list:
    even, apart = _of_two(b, held[::2])
    odd, (x, y) = _of_two(b, held[1::2])
    turned = [y, b.fneg(x)]  # times -i
    (zero, two), (one, three) = _of_two(b, [even, odd]), _of_two(b, [apart, turned])
    return [zero, one, two, three]


def _of_odd(w: Writer, held: list) -> list:
    """x[0] + the sum over k of cos(2 pi j k / n) (x[k] + x[n - k]) - i sin(2 pi j k / n) (x[k] - x[n - k]), for j; and
    for n - j with the other sign.
    """
    b, n, first = w.builder, len(held), held[0]
    number = lambda value: w.ir.Constant(w.vector, [value] * w.lanes)  # noqa: E731
    pairs = [(_of_two(b, [held[k], held[n - k]])) for k in range(1, n // 2 + 1)]
    results = [
        [functools.reduce(b.fadd, [first[part], *(even[part] for even, _ in pairs)]) for part in range(2)],
        *[None] * (n - 1),
    ]
    for j in range(1, n // 2 + 1):
        (x, y), u, v = first, None, None
        for k, (even, odd) in enumerate(pairs, 1):
            c, s = (number(wave(2 * pi * (j * k % n) / n)) for wave in (cos, sin))
            x, y = w.multiply_add(even[0], c, x), w.multiply_add(even[1], c, y)
            u, v = (
                (b.fmul(odd[1], s), b.fmul(odd[0], s))
                if u is None
                else (w.multiply_add(odd[1], s, u), w.multiply_add(odd[0], s, v))
            )
        results[j], results[n - j] = [b.fadd(x, u), b.fsub(y, v)], [b.fsub(x, u), b.fadd(y, v)]
    return results


def _half(
    forward: bool, w: Writer, re: object, im: object, roots: object, to_re: object, to_im: object, n: object
) -> None:
    """With w = exp(-pi i k / n), even = z[k] + conj z[n - k] and odd = z[k] - conj z[n - k]: even - i w odd, and back
    even + i conj(w) odd.
    """
    b, lanes = w.builder, w.number(w.lanes)

    def register(k: object, _: list) -> list:
        places = k, b.sub(n, k)
        if forward:  # the n-th number is the first one
            places = [b.select(b.icmp_signed("==", place, n), w.number(0), place) for place in places]
        (x, y), (u, v) = ([w.load(part, (place, lanes)) for part in (re, im)] for place in places)
        wr, wi = (w.splat(w.element_at(roots, (k, w.number(2)), part)) for part in range(2))
        even, odd = (b.fadd(x, u), b.fsub(y, v)), (b.fsub(x, u), b.fadd(y, v))
        wr = wr if forward else b.fneg(wr)
        w.store(w.multiply_add(wr, odd[1], w.multiply_add(wi, odd[0], even[0])), to_re, (k, lanes))
        w.store(w.multiply_add(b.fneg(wr), odd[0], w.multiply_add(wi, odd[1], even[1])), to_im, (k, lanes))
        return []

    w.loop(0, b.add(n, w.number(1)) if forward else n, 1, [], register)
