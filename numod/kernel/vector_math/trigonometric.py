"""sin, cos and tan by range reduction to quarter turns (multiples of pi / 2), those of most arguments after Cody and
Waite, 1980.
"""

from __future__ import annotations

from collections.abc import Callable

from ..branches import replace_where, branching, lane_by_lane
from ..instructions import (
    Number,
    absolute,
    bits,
    choose,
    library,
    like,
    multiply_add,
    narrowed,
    number,
    polynomial,
    where,
    widened,
)
from .exponential import rounded
from .registry import vector

# (m, high, low): 2^m * 2 / pi less a multiple of 4, in two parts; from the second row on, x / 2^m is an integer below
# 2^50
_QUARTERS = (
    (0, 0.6366197723675814, -3.935735335036497e-17),
    (27, -0.5529460512772132, 3.808591801500832e-17),
    (54, 1.2910009524680295, -3.862804515881076e-17),
    (81, -1.3139050952781812, 9.395526559852902e-17),
)
_SIN = (  # (sin(r) - r) / r^3 over r^2; those of float64 are fdlibm's
    (-0.16666655, 0.008332191, -0.00019518599),
    (
        -0.16666666666666632,
        0.00833333333332249,
        -0.0001984126982985795,
        2.7557313707070068e-06,
        -2.5050760253406863e-08,
        1.58969099521155e-10,
    ),
)
_COS = (  # (cos(r) - 1 + r^2 / 2) / r^4 over r^2
    (0.041666646, -0.0013887313, 2.4432959e-05),
    (
        0.0416666666666666,
        -0.001388888888887411,
        2.480158728947673e-05,
        -2.7557314351390663e-07,
        2.087572321298175e-09,
        -1.1359647557788195e-11,
    ),
)


def _reduced_by_table(x: Number) -> tuple[Number, Number]:
    """r from -pi/4 to pi/4 and the number of quarter turns, in its lowest two bits, with x = r + turns * pi / 2: after
    Payne and Hanek, 1983.
    """
    x = widened(x)
    size = absolute(x)
    scale, high, low = 1.0, *_QUARTERS[0][1:]
    for power, *parts in _QUARTERS[1:]:
        beyond = size >= 2.0 ** (power + 23)
        scale, high, low = (
            where(beyond, like(x, new), old) for new, old in zip((2.0**-power, *parts), (scale, high, low))
        )
    x = x * scale
    turns = x * high
    small = multiply_add(x, low, library("fma", x, high, -turns))
    whole, first = rounded(turns, 1, 0)
    large = turns - whole
    total = large + small
    rest = small - (total - large)
    whole, second = rounded(total, 1, 0)
    return narrowed(((total - whole) + rest) * 1.5707963267948966), narrowed(first + second)


# pi / 2 as a sum of parts
HALF_PI = (1.5707964, -4.371139e-08), (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)
# pi / 2 in float32 as parts: subtracting an integer below 2^17 times the first part from x is exact
_EXACT_PARTS = (1.57079601, 3.13916473e-07, 5.39030253e-15)
_THREE_PART_LIMITS = 2.0**16, 2.0**40  # from here on three parts of pi / 2 are too few


def _reduced_in_float32(x: Number) -> tuple[Number, Number]:
    """(r, quarter turns) of a float32 below `_THREE_PART_LIMITS`."""
    r = x
    turns, code = rounded(x, 0.6366197723675814, 0)
    for part in _EXACT_PARTS:
        r = library("fma", turns, like(x, -part), r)
    return r, code


def _reduced_in_float64(x: Number) -> tuple[Number, Number, Number]:
    """(r, its rounding error, quarter turns) of a float64 below `_THREE_PART_LIMITS`.

    Subtracting an integer times the first part of pi / 2 is exact.
    """
    first, second, third = choose(x, *HALF_PI)
    turns, code = rounded(x, 0.6366197723675814, 0)
    rest = library("fma", turns, like(x, -first), x)
    product = turns * second
    r = rest - product
    back = r - rest
    lost = (rest - (r - back)) - (product + back)
    return r, lost - multiply_add(turns, third, library("fma", turns, like(x, second), -product)), code


def _short_waves(r: Number, turns: Number) -> tuple[Number, Number, Number]:
    """sin(r), cos(r) and the number of quarter turns, for float32."""
    square = r * r
    return (
        multiply_add(r * square, polynomial(square, _SIN[0]), r),
        multiply_add(square * square, polynomial(square, _COS[0]), 1.0 - 0.5 * square),
        turns,
    )


def _waves(x: Number) -> tuple[Number, Number, Number]:
    """sin(r), cos(r) and the number of quarter turns, for a float64 x with remainder r."""
    r, rest, turns = _reduced_in_float64(x)
    square = r * r
    half = 0.5 * square
    whole = 1.0 - half
    small = multiply_add(square * square, polynomial(square, _COS[1]), ((1.0 - whole) - half) - r * rest)
    cube = r * square
    return r - (multiply_add(0.5 * square, rest, -rest) - cube * polynomial(square, _SIN[1])), whole + small, turns


def _advanced(sine: Number, cosine: Number, turns: Number) -> Number:
    """sin(r + turns * pi / 2), from sin(r) and cos(r)."""
    return number(bits(where((turns & 1) != 0, cosine, sine)) ^ ((turns & 2) << (turns.width - 2)))


def _by_reduction(name: str, x: Number, tiny: float, combine: Callable[[Number, Number, Number], Number]) -> Number:
    """combine(sin(r), cos(r), quarter turns) for the reduced argument r of x; x itself where |x| < `tiny`.

    Beyond `_THREE_PART_LIMITS`, float64 calls the C library's function `name`.
    """
    usual = combine(*(_short_waves(*_reduced_in_float32(x)) if x.width == 32 else _waves(x)))
    usual = where(absolute(x) < tiny, x, usual) if tiny else usual
    return replace_where(
        absolute(x) >= choose(x, *_THREE_PART_LIMITS),
        usual,
        lambda: combine(*_short_waves(*_reduced_by_table(x))) if x.width == 32 else lane_by_lane(name, x),
    )


@vector
@branching(32, 64)
def sin(x: Number) -> Number:
    return _by_reduction("sin", x, choose(x, 2e-4, 1e-8), _advanced)


@vector
@branching(32, 64)
def cos(x: Number) -> Number:
    return _by_reduction("cos", x, 0.0, lambda sine, cosine, turns: _advanced(sine, cosine, turns + 1))


@vector
@branching(32, 64)
def tan(x: Number) -> Number:
    def quotient(sine: Number, cosine: Number, turns: Number) -> Number:
        odd = (turns & 1) != 0
        return where(odd, -cosine, sine) / where(odd, sine, cosine)

    return _by_reduction("tan", x, choose(x, 2e-4, 1e-8), quotient)
