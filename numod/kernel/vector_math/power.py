"""x^y = 2^(y log2(x)), computed in float64 for float32 and with the logarithm in two parts for float64; and hypot."""

from __future__ import annotations

from ..instructions import (
    INF,
    NAN,
    Number,
    Operand,
    absolute,
    at_least,
    at_most,
    library,
    like,
    multiply_add,
    narrowed,
    polynomial,
    where,
    widened,
    with_sign,
)
from .exponential import EXP, bias_of, power_of_two, rounded, scaled
from .logarithm import split
from .registry import vector

# log2((1 + s) / (1 - s)) / s over s^2: two coefficients in two parts
_LOG2_RATIO = ((2.8853900817779268, 4.0710547481862066e-17), (0.9617966939259756, 5.057761664812591e-17))
_LOG2_REST = (
    0.5770780163555853, 0.4121985831111439, 0.320598897967155, 0.2623081914680772, 0.22195278859312378,
    0.19238056559433853, 0.16888530282067538, 0.16912959454482296,
)  # fmt: skip


def _exact_product(x: Number, y: Operand) -> tuple[Number, Number]:
    """A product, rounded, and its rounding error."""
    product = x * y
    return product, library("fma", x, like(x, y), -product)


def _log2_in_parts(x: Number) -> tuple[Number, Number]:
    """log2(x) to 65 bits as (high, low), for x > 0."""
    k, f = split(x)
    total = 2.0 + f
    inverse = 1.0 / total
    s = f * inverse
    s_rest = (library("fma", -s, total, f) - s * (f - (total - 2.0))) * inverse
    square, square_rest = _exact_product(s, s)
    square_rest = multiply_add(s + s, s_rest, square_rest)
    (first, first_rest), (second, second_rest) = _LOG2_RATIO
    linear, linear_rest = _exact_product(square, second)
    small = multiply_add(
        square * square,
        polynomial(square, _LOG2_REST),
        multiply_add(square_rest, second, multiply_add(square, second_rest, linear_rest)),
    )
    slope = linear + first
    slope_rest = (linear - (slope - first)) + (small + first_rest)
    high, rest = _exact_product(s, slope)
    rest = multiply_add(s, slope_rest, multiply_add(s_rest, slope, rest))
    total = k + high
    return total, (high - (total - k)) + rest


def _raised(size: Number, y: Number) -> Number:
    """size^y in float64."""
    high, rest = _log2_in_parts(size)
    high = where(size == 0.0, -INF, where(size < INF, high, size))
    y = at_most(at_least(y, -(2.0**70)), 2.0**70)
    exponent, lost = _exact_product(y, high)
    near = absolute(exponent) < 1100.0
    exponent = at_most(at_least(exponent, -1100.0), 1100.0)
    n, code = rounded(exponent, 1, 2 * bias_of(y))
    rest = where(near, multiply_add(y, rest, lost), 0.0)
    part = (exponent - n) + rest
    rest = rest - (part - (exponent - n))
    r, r_rest = _exact_product(part, 0.6931471805599453)
    total = 1.0 + r
    small = (r - (total - 1.0)) + multiply_add(
        rest, 0.6931471805599453, multiply_add(part, 2.3190468138462996e-17, r_rest)
    )
    return scaled(total + (small + r * r * polynomial(r, EXP[1])), code)


# log2(1 + f) / f and (2^r - 1) / r, as accurate as a float32 result needs. Without a division, which would take longer
# than the rest
_LOG2_NEAR = (
    1.4426950408862034, -0.7213475203430864, 0.4808983490727961, -0.36067378977100695, 0.28853876232996745,
    -0.24044662677727305, 0.20610869528306625, -0.18043268521020117, 0.16018226130296026, -0.14252340755410017,
    0.13062890256021095, -0.13478928738366042, 0.13113743753686682, -0.06806287590390596,
)  # fmt: skip
_EXP2_NEAR = (0.6931471805568324, 0.24022650695888503, 0.055504109063258665, 0.00961812913523614,
    0.0013333478473685416, 0.00015403475186530802,
              1.530370071136579e-05,
              1.3250805517498237e-06)  # fmt: skip


def _raised_widely(size: Number, y: Number) -> Number:
    """size^y of float32 arguments that were widened to float64."""
    k, f = split(size, False)
    logarithm = where(size == 0.0, -INF, where(size < INF, multiply_add(f, polynomial(f, _LOG2_NEAR), k), size))
    exponent = at_most(at_least(y * logarithm, -200.0), 200.0)
    n, code = rounded(exponent, 1, bias_of(y))
    scale, r = power_of_two(code, y), exponent - n
    return narrowed(multiply_add(r * polynomial(r, _EXP2_NEAR), scale, scale))


@vector
def power(x: Number, y: Number) -> Number:
    result = _raised(absolute(x), y) if y.width == 64 else _raised_widely(widened(absolute(x)), widened(y))
    half = 0.5 * y
    whole = library("floor", y) == y
    odd = whole & (library("floor", half) != half)
    result = where((x < 0.0) & (x > -INF) & (whole ^ True), NAN, where(odd, with_sign(result, x), result))
    return where((x == 1.0) | (y == 0.0) | ((x == -1.0) & (absolute(y) == INF)), 1.0, result)


@vector
def hypot(x: Number, y: Number) -> Number:
    if x.width == 32:
        wide_x, wide_y = widened(x), widened(y)
        root = narrowed(library("sqrt", multiply_add(wide_x, wide_x, wide_y * wide_y)))
    else:
        greater = where(absolute(x) > absolute(y), absolute(x), absolute(y))
        far, near = greater > 2.0**500, greater < 2.0**-450
        scale, back = (
            where(far, like(x, a), where(near, like(x, b), 1.0))
            for a, b in ((2.0**-600, 2.0**600), (2.0**600, 2.0**-600))
        )
        x, y = x * scale, y * scale
        root = library("sqrt", multiply_add(x, x, y * y)) * back
    return where((absolute(x) == INF) | (absolute(y) == INF), INF, root)
