"""exp and functions built from it: x = n log 2 + r with |r| <= log(2) / 2, so exp(x) = 2^n exp(r)."""

from __future__ import annotations

from ...kernel.registers import vectors
from ..instructions import (
    Number,
    absolute,
    at_least,
    at_most,
    bits,
    by_power_of_two,
    choose,
    like,
    multiply_add,
    narrowed,
    number,
    polynomial,
    where,
    with_sign,
)
from .registry import vector

LOG2E = 1.4426950408889634
# high and low part, n * high is exact
LOG2 = (0.693359375, -2.12194440e-4), (6.93147180369123816490e-01, 1.90821492927058770002e-10)
# a low part would move tanh of float32 by 0.04 ULP
HALF_LOG2 = (0.34657359027997264, 0.0), (LOG2[1][0] / 2, LOG2[1][1] / 2)
TANH = (  # (tanh(r) / r - 1) / r^2 for |r| <= log(2) / 4
    (-0.33333322662785817, 0.13331176155343362, -0.05272489111914996),
    (
        -0.33333333333332476,
        0.13333333332778975,
        -0.05396825277378356,
        0.021869370103417198,
        -0.008857288372001426,
        0.003444586681480758,
    ),
)
EXP = (  # (exp(r) - 1 - r) / r^2
    (0.5, 0.16666515, 0.041666456, 0.008369233, 0.0013935765),
    (0.5, 0.16666666666666685, 0.04166666666666671, 0.00833333333331628, 0.001388888888886359, 0.00019841269898016137,
    2.48015873639404e-05,
     2.755723340450045e-06,
     2.7557241426672696e-07, 2.511249839002739e-08, 2.0924535295646267e-09),
)  # fmt: skip


def rounded(x: Number, factor: float, bias: int) -> tuple[Number, Number]:
    """The integer n nearest to x * factor as a float, and an integer whose low bits are n + bias: adding 1.5 *
    2^mantissa leaves only n in the significand.
    """
    addend = 1.5 * 2.0**x.mantissa + bias
    moved = multiply_add(x, factor, addend) if factor != 1 else x + addend
    return moved - addend, bits(moved)


def reduced(x: Number, bias: int) -> tuple[Number, Number]:
    """The reduced argument r = x - n log 2, and an integer whose low bits are n + bias."""
    high, low = choose(x, *LOG2)
    n, code = rounded(x, LOG2E, bias)
    return multiply_add(n, -low, multiply_add(n, -high, x)), code


def excess(r: Number) -> Number:
    """exp(r) - 1."""
    return multiply_add(r * r, polynomial(r, choose(r, *EXP)), r)


def _times_exp(scale: Number, r: Number) -> Number:
    """scale * exp(r).

    For float32 by Horner's scheme, which has the fewest operations: a loop of exp alone is bound by throughput, not by
    latency.
    """
    if r.width == 64:
        return multiply_add(excess(r), scale, scale)
    total = like(r, EXP[0][-1])
    for coefficient in (*reversed(EXP[0][:-1]), 1.0):
        total = multiply_add(total, r, coefficient)
    return multiply_add(total, r * scale, scale)


def bias_of(x: Number) -> int:
    """The exponent bias of the number's format."""
    return choose(x, 127, 1023)


def power_of_two(code: Number, x: Number) -> Number:
    """2^n as a normal number, from an integer whose low bits are n + bias."""
    return number(code << x.mantissa)


def scaled(x: Number, code: Number) -> Number:
    """x * 2^n for the integer of `rounded` whose low bits are n + 2 bias: in two multiplications, so that a factor
    overflows only where the product does.
    """
    if vectors.host().width == 64:
        n = code - bits(like(x, 1.5 * 2.0**x.mantissa + 2 * bias_of(x)))
        return by_power_of_two(x, n if x.width == 32 else narrowed(n))
    half = code >> 1
    return x * power_of_two(half, x) * power_of_two(code - half, x)


@vector
def exp(x: Number) -> Number:
    x = at_most(at_least(x, choose(x, -104.0, -746.0)), choose(x, 89.0, 710.0))
    r, code = reduced(x, 2 * bias_of(x))
    return scaled(_times_exp(like(r, 1.0), r), code)


def raised(x: Number, lift: int, least: float) -> Number:
    """exp(x) * 2^lift for x <= 0, and 0 for x < least, below which the result might be no normal number."""
    r, code = reduced(x, bias_of(x) + lift)  # meaningless for x below the limit, and not used there
    return where(x < least, 0.0, _times_exp(power_of_two(code, x), r))


@vector
def lifted_exp(x: Number) -> Number:
    return raised(x, choose(x, 25, 55), choose(x, -104.6, -746.0))


@vector
def exp2(x: Number) -> Number:
    x = at_most(at_least(x, choose(x, -151.0, -1076.0)), choose(x, 129.0, 1025.0))
    n, code = rounded(x, 1, 2 * bias_of(x))
    return scaled(excess((x - n) * 0.6931471805599453) + 1.0, code)


def scaled_expm1(x: Number, quarter: int = 0) -> Number:
    """(exp(x) - 1) / 2^quarter where 2^(n - quarter) is a normal number."""
    r, code = reduced(x, bias_of(x) - quarter)
    scale = power_of_two(code, x)
    return multiply_add(excess(r), scale, scale - 0.5**quarter)


@vector
def expm1(x: Number) -> Number:
    limited = at_most(at_least(x, choose(x, -18.0, -38.0)), choose(x, 89.0, 710.0))
    result = scaled_expm1(limited, 2) * 4.0
    return where(absolute(x) < choose(x, 1e-30, 1e-290), x, result)


@vector
def tanh(x: Number) -> Number:
    """tanh(x) = (exp(2x) - 1) / (exp(2x) + 1).

    With 2x = n log 2 + 2r and h = tanh(r), exp(2x) is 2^n (1 + h) / (1 - h). tanh is odd, so its polynomial has half as
    many coefficients as that of exp.
    """
    high, low = choose(x, *HALF_LOG2)
    a = at_most(absolute(x), choose(x, 9.1, 20.0))
    n, code = rounded(a, 2 * LOG2E, bias_of(x))
    r = multiply_add(n, -high, a)
    if x.width == 64:
        r = multiply_add(n, -low, r)
    square = r * r
    h = multiply_add(r * square, polynomial(square, choose(x, *TANH)), r)
    scale = power_of_two(code, x)
    less, more = scale - 1.0, scale + 1.0
    top = multiply_add(h, more, less)
    if x.width == 32:
        # the error of top is in both terms, and hardly matters where the result is near 1
        return with_sign(top / (top + multiply_add(h, -2.0, 2.0)), x)
    bottom = multiply_add(h, less, more)
    inverse = 1.0 / bottom
    ratio = top * inverse
    # top - ratio * bottom, including the rounding errors of both
    rest = multiply_add(-ratio, bottom, top) + multiply_add(h, more, less - top)
    return with_sign(multiply_add(multiply_add(-ratio, multiply_add(h, less, more - bottom), rest), inverse, ratio), x)


@vector
def sigmoid_of(x: Number) -> Number:
    """1 / (1 + exp(-x)), computed as 2^-k / (2^-k + 2^-k exp(-x)).

    No product overflows, no factor is subnormal, and subnormal results are exact to rounding.
    """
    lift = choose(x, 32, 512)
    r, code = reduced(at_most(at_least(-x, choose(x, -60.0, -300.0)), choose(x, 105.0, 746.0)), bias_of(x) - lift)
    return 0.5**lift / (0.5**lift + _times_exp(power_of_two(code, x), r))


@vector
def sinh(x: Number) -> Number:
    a = absolute(x)
    t = scaled_expm1(at_most(a, choose(x, 89.5, 710.6)), 2)
    return where(a < choose(x, 1e-30, 1e-290), x, with_sign(2.0 * (t + t / (4.0 * t + 1.0)), x))


@vector
def cosh(x: Number) -> Number:
    r, code = reduced(at_most(absolute(x), choose(x, 89.5, 710.6)), bias_of(x) - 2)
    quarter = excess(r) * power_of_two(code, x) + power_of_two(code, x)
    return 2.0 * quarter + 0.125 / quarter
