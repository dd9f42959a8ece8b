"""Stages of fast Fourier transforms in vector registers, with a row or column in each lane, and the copies before and
after them. The loops around them are in `ops.fft.cpu`.

Between stages, real and imaginary parts are separate: register k of `re` and `im` holds the k-th numbers of all rows.
Stages follow Stockham (Van Loan, Computational Frameworks for the Fast Fourier Transform, 1992): each reads registers
that are far apart and writes neighbouring ones.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from math import cos, pi, sin

from .vectors import Writer, primitive

RADICES = (4, 2, 3, 5, 7)  # of stages, in order of preference


@functools.cache
def functions() -> dict[str, Callable]:
    """Copies and stages.

    rows_in(x, x_at, step, n, re, re_at, im, im_at) reads n complex numbers of each row; rows are `step` apart and end
    with a whole register. rows_out(re, re_at, im, im_at, n, x, x_at, step, scale) writes them, times `scale`.
    columns_in and columns_out do so for neighbouring columns, whose successive numbers are `step` apart.

    stage(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, radix, m, run, turn) transforms `radix`
    registers that are m * run apart; results of run p < m are multiplied by powers of the root p * turn.

    to_half(re, re_at, im, im_at, roots, to_re, to_re_at, to_im, to_im_at, n) turns the spectrum of n complex numbers,
    which are 2 n real numbers in pairs, into twice the first n + 1 numbers of the real numbers' spectrum. from_half is
    the reverse, from n + 1 numbers to n.
    """
    parts, results = "re[re_at], im[im_at]", "to_re[to_re_at], to_im[to_im_at]"
    emitters = {
        "rows_in": (f"x[x_at], step, n, {parts}", _rows_in), "columns_in": (f"x[x_at], step, n, {parts}", _columns_in),
        "rows_out": (f"{parts}, n, x[x_at], step, real scale", _rows_out),
        "columns_out": (f"{parts}, n, x[x_at], step, real scale", _columns_out),
        "stage": (f"{parts}, roots[], {results}, radix, m, run, turn", _stage),
        "to_half": (f"{parts}, roots[], {results}, n", functools.partial(_emit_half, True)),
        "from_half": (f"{parts}, roots[], {results}, n", functools.partial(_emit_half, False)),
    }  # fmt: skip
    return {
        name: primitive(name, arguments, emit, shared=name == "stage") for name, (arguments, emit) in emitters.items()
    }


def _rows_in(w: Writer, x: object, step: object, n: object, re: object, im: object) -> None:
    def square(k: object, _: list) -> list:
        for part, line in enumerate(w.transposed([w.load(x, (row, step), k) for row in range(w.lanes)])):
            w.store(line, im if part % 2 else re, (k, w.number(w.lanes // 2)), part // 2 * w.lanes)
        return []

    w.loop(0, w.builder.mul(n, w.number(2)), w.lanes, [], square)


def _rows_out(w: Writer, re: object, im: object, n: object, x: object, step: object, scale: object) -> None:
    factor = w.splat(scale)

    def square(k: object, _: list) -> list:
        lines = [
            w.load(im if part % 2 else re, (k, w.number(w.lanes // 2)), part // 2 * w.lanes) for part in range(w.lanes)
        ]
        for row, line in enumerate(w.transposed([w.builder.fmul(line, factor) for line in lines])):
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
    factor, lane_order = w.splat(scale), [k // 2 + k % 2 * w.lanes for k in range(2 * w.lanes)]

    def row(k: object, _: list) -> list:
        pair = [w.builder.fmul(w.load(part, (k, w.number(w.lanes))), factor) for part in (re, im)]
        for part in range(2):
            w.store(w.shuffle(*pair, lane_order[part * w.lanes : (part + 1) * w.lanes]), x, (k, step), part * w.lanes)
        return []

    w.loop(0, n, 1, [], row)


def _stage(
    w: Writer, re: object, im: object, roots: object, to_re: object, to_im: object, radix: object, *sizes: object
) -> None:
    for known_radix in RADICES:
        with w.builder.if_then(w.builder.icmp_signed("==", radix, w.number(known_radix))):
            emit_stage(known_radix, w, re, im, roots, to_re, to_im, *sizes)


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
    root_step: object,
) -> None:
    """Emit one stage of an FFT: butterflies of `radix` inputs, which are m * run elements apart."""
    b = w.builder

    def block(p: object, _: list) -> list:
        root_at = b.mul(b.mul(p, root_step), w.number(2))
        twiddles = [
            [w.splat(w.element_at(roots, (root_at, w.number(j)), part)) for part in range(2)] for j in range(1, radix)
        ]
        source, target = b.mul(p, run), b.mul(b.mul(p, run), w.number(radix))

        def register(t: object, _: list) -> list:
            inputs = [
                [w.load(part, source, t, (w.number(j), b.mul(m, run))) for part in (re, im)] for j in range(radix)
            ]
            outputs = (
                _transform_of_four(b, inputs)
                if radix == 4
                else _transform_of_two(b, inputs)
                if radix == 2
                else _transform_of_odd(w, inputs)
            )
            for j, (x, y) in enumerate(outputs):
                if j:
                    wr, wi = twiddles[j - 1]
                    x, y = w.multiply_add(x, wr, b.fneg(b.fmul(y, wi))), w.multiply_add(x, wi, b.fmul(y, wr))
                w.store(x, to_re, target, t, (w.number(j), run))
                w.store(y, to_im, target, t, (w.number(j), run))
            return []

        w.loop(0, run, w.lanes, [], register)
        return []

    w.loop(0, m, 1, [], block)


def _transform_of_two(b: object, inputs: list) -> list:
    first, second = inputs
    return [[b.fadd(x, y) for x, y in zip(first, second)], [b.fsub(x, y) for x, y in zip(first, second)]]


def _transform_of_four(b: object, inputs: list) -> list:
    even, difference = _transform_of_two(b, inputs[::2])
    odd, (x, y) = _transform_of_two(b, inputs[1::2])
    rotated = [y, b.fneg(x)]  # times -i
    (zero, two), (one, three) = _transform_of_two(b, [even, odd]), _transform_of_two(b, [difference, rotated])
    return [zero, one, two, three]


def _transform_of_odd(w: Writer, inputs: list) -> list:
    """A transform of odd length n. Result j is x[0] + the sum over k of cos(2 pi j k / n) (x[k] + x[n - k])
    - i sin(2 pi j k / n) (x[k] - x[n - k]); result n - j has + i.
    """
    b, n, first = w.builder, len(inputs), inputs[0]
    constant = lambda value: w.ir.Constant(w.vector, [value] * w.lanes)  # noqa: E731
    pairs = [(_transform_of_two(b, [inputs[k], inputs[n - k]])) for k in range(1, n // 2 + 1)]
    results = [
        [functools.reduce(b.fadd, [first[part], *(even[part] for even, _ in pairs)]) for part in range(2)],
        *[None] * (n - 1),
    ]
    for j in range(1, n // 2 + 1):
        (x, y), to_real, to_imaginary = first, None, None
        for k, (even, odd) in enumerate(pairs, 1):
            c, s = (constant(wave(2 * pi * (j * k % n) / n)) for wave in (cos, sin))
            x, y = w.multiply_add(even[0], c, x), w.multiply_add(even[1], c, y)
            to_real, to_imaginary = (
                (b.fmul(odd[1], s), b.fmul(odd[0], s))
                if to_real is None
                else (w.multiply_add(odd[1], s, to_real), w.multiply_add(odd[0], s, to_imaginary))
            )
        results[j], results[n - j] = (
            [b.fadd(x, to_real), b.fsub(y, to_imaginary)],
            [b.fsub(x, to_real), b.fadd(y, to_imaginary)],
        )
    return results


def _emit_half(
    forward: bool, w: Writer, re: object, im: object, roots: object, to_re: object, to_im: object, n: object
) -> None:
    """Write to_half or from_half: even - i w odd, or even + i conj(w) odd, with w = exp(-pi i k / n),
    even = z[k] + conj z[n - k] and odd = z[k] - conj z[n - k].
    """
    b, lanes = w.builder, w.number(w.lanes)

    def register(k: object, _: list) -> list:
        positions = k, b.sub(n, k)
        if forward:  # number n is number 0
            positions = [b.select(b.icmp_signed("==", position, n), w.number(0), position) for position in positions]
        (x, y), (u, v) = ([w.load(part, (position, lanes)) for part in (re, im)] for position in positions)
        wr, wi = (w.splat(w.element_at(roots, (k, w.number(2)), part)) for part in range(2))
        even, odd = (b.fadd(x, u), b.fsub(y, v)), (b.fsub(x, u), b.fadd(y, v))
        wr = wr if forward else b.fneg(wr)
        w.store(w.multiply_add(wr, odd[1], w.multiply_add(wi, odd[0], even[0])), to_re, (k, lanes))
        w.store(w.multiply_add(b.fneg(wr), odd[0], w.multiply_add(wi, odd[1], even[1])), to_im, (k, lanes))
        return []

    w.loop(0, b.add(n, w.number(1)) if forward else n, 1, [], register)
