"""lgamma and digamma in float64.

Formulas are named in Abramowitz and Stegun's Handbook (A&S). Coefficients are Chebyshev interpolants, in powers.
"""

from __future__ import annotations

from ..branches import replace_where
from ..instructions import INF, NAN, Number, absolute, library, like, multiply_add, polynomial, where, with_sign
from .logarithm import log
from .registry import wide_vector
from .trigonometric import sin, tan

_LOG_GAMMA = (  # log gamma(2 + t) / t up to 1/2
    0.42278433509846713, 0.3224670334241132, -0.06735230105319563, 0.02058080842778338, -0.007385551028935545,
    0.002890510330865901, -0.0011927539009983087,
    0.0005096695196526673, -0.00022315497746292723, 9.945761692157133e-05, -4.4923727564247656e-05,
    2.050601970174762e-05, -9.45628851510172e-06,
    4.3828545383846665e-06, -1.9743106888421067e-06, 9.242852225162277e-07, -5.811277768921246e-07,
    2.7475390051909663e-07,
)  # fmt: skip
_STIRLING = (
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
)  # of log gamma, over 1 / x^2
_SLOPES = (
    0.08333333333333333,
    -0.008333333333333333,
    0.003968253968253968,
    -0.004166666666666667,
    0.007575757575757576,
    -0.021092796092796094,
    0.08333333333333333,
    -0.4432598039215686,
    3.0539543302701198,
    -26.456212121212122,
)  # of digamma
# of trigamma
_CURVES = (
    0.16666666666666666,
    -0.03333333333333333,
    0.023809523809523808,
    -0.03333333333333333,
    0.07575757575757576,
    -0.2531135531135531,
    1.1666666666666667,
)
_PI = 3.141592653589793


def _log_gamma_of_positive(x: Number) -> Number:
    """A polynomial from 1.5 to 2.5, reached from below 1.5 and from 2.5 to 8 by the recurrence; Stirling's series from
    8 on (A&S 6.1.40).
    """
    near, product = x, like(x, 1.0)
    for _ in range(6):
        above = near > 2.5
        near = where(above, near - 1.0, near)
        product = where(above, product * near, product)
    small, low, large = x < 0.5, x < 1.5, x >= 8.0
    t = where(small, x, where(low, x - 1.0, near - 2.0))
    logarithm = log(where(large, x, where(small, x * (1.0 + x), where(low, x, product))))
    middle = multiply_add(t, polynomial(t, _LOG_GAMMA), where(low, -logarithm, logarithm))
    inverse = 1.0 / x
    series = multiply_add(inverse, polynomial(inverse * inverse, _STIRLING), 0.41893853320467277)
    return where(large, multiply_add(x - 0.5, logarithm - 1.0, series), middle)


@wide_vector
def lgamma(x: Number) -> Number:
    a = absolute(x)
    value = _log_gamma_of_positive(a)

    def reflected() -> Number:  # A&S 6.1.17
        part = a - library("rint", a)
        return where(a == INF, INF, log(_PI / absolute(a * sin(_PI * part))) - value)

    return replace_where(x < 0.0, value, reflected)


@wide_vector
def trigamma(x: Number) -> Number:
    """Ten steps of the recurrence, then Stirling's series (A&S 6.4.6, 6.4.12)."""
    below = x < 0.5
    y = where(below, 1.0 - x, x)
    steps = like(x, 0.0)
    for _ in range(10):
        steps = steps + 1.0 / (y * y)
        y = y + 1.0
    inverse = 1.0 / y
    square = inverse * inverse
    value = steps + (inverse + 0.5 * square + inverse * square * polynomial(square, _CURVES))

    def reflected() -> Number:  # A&S 6.4.7
        sine = sin(_PI * (x - library("rint", x)))
        return (_PI * _PI) / (sine * sine) - value

    return replace_where(below, value, reflected)


@wide_vector
def digamma(x: Number) -> Number:
    """Stirling's series from 8 on (A&S 6.3.18); below, less the sum of 1 / (y + k) over k < 8, which is (2y + 7) P'(u)
    / P(u) with u = y (y + 7).
    """
    below = x < 0.0
    y = where(below, 1.0 - x, x)
    u = y * (y + 7.0)
    eight = (2.0 * y + 7.0) * polynomial(u, (720.0, 504.0, 84.0, 4.0)) / (u * polynomial(u, (720.0, 252.0, 28.0, 1.0)))
    small = y < 8.0
    y = where(small, y + 8.0, y)
    square = 1.0 / (y * y)
    value = (log(y) - 0.5 / y) - square * polynomial(square, _SLOPES) - where(small, eight, 0.0)

    def reflected() -> Number:
        part = x - library("rint", x)
        return where(part == 0.0, NAN, value - _PI / tan(_PI * part))

    return where(x == 0.0, with_sign(like(x, INF), x) * -1.0, replace_where(below, value, reflected))
