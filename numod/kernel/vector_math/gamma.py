"""lgamma and digamma in float64.

Formulas are named in Abramowitz and Stegun's Handbook (A&S). Coefficients are Chebyshev interpolants, in powers.
"""

from __future__ import annotations

from ..branches import replace_where, while_any
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
# Stirling's series, over 1 / x^2
_LOG_GAMMA_SERIES = (
    0.08333333333333333,
    -0.002777777777777778,
    0.0007936507936507937,
    -0.0005952380952380953,
    0.0008417508417508417,
    -0.0019175269175269176,
    0.00641025641025641,
    -0.029550653594771242,
)
_DIGAMMA_SERIES = (
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
)
_TRIGAMMA_SERIES = (
    0.16666666666666666,
    -0.03333333333333333,
    0.023809523809523808,
    -0.03333333333333333,
    0.07575757575757576,
    -0.2531135531135531,
    1.1666666666666667,
)
# lgamma near its roots between -3 and -2: the root in two parts, then lgamma(x) / (x - root) as a centre, the distance
# from it up to which the polynomial holds, and that polynomial over x - centre
_ROOTS_BELOW_ZERO = (
    (-2.4570247382208006, -3.7075610815513266e-17, -2.46, 0.08, (
        1.5011609351284323, 4.850154049495113, 1.333743951519719, 8.654936687731096, 5.434227743455142,
        24.410951885935127, 22.350547997969933, 79.92667467131213, 92.87486779875219, 284.3258662887103,
        389.2064569824313, 1068.9567270734701, 1643.9551645461593, 4156.757103087855, 6948.5768201328565,
        18855.454442906484, 33706.26204220636,
    )),
    (-2.7476826467274127, 9.055340329338315e-17, -2.75, 0.05, (
        -1.936647980713313, 9.669343267487857, -20.53688050904554, 64.46794395757207, -202.44173305316673,
        678.276579887579, -2320.6971496376073, 8126.335686011841, -28884.68146614167, 103982.6047091036,
        -378083.437442305, 1386711.351404495, -5119939.951201427, 18810793.55111206, -70212596.34148389,
        310212607.5839568, -1168999991.5893095,
    )),
)  # fmt: skip
_ROOT_OF_DIGAMMA = (1.4616321449683622, 9.549995429965697e-17)
_NEAR_ROOT = (  # digamma(x) / (x - root) from 1 to 2, over 2 x - 3
    0.9510558760318328, -0.2118137106407303, 0.060135621060196744, -0.018550615381735115, 0.005936795278305649,
    -0.0019350666648590097, 0.0006368880303257201, -0.00021074841140458636, 6.995018873950506e-05,
    -2.325824239445257e-05, 7.741232223504057e-06, -2.57809436305308e-06, 8.589127353033379e-07,
    -2.86315275846934e-07, 9.542050972688906e-08, -3.163020268955334e-08, 1.0542687624027994e-08,
    -3.7075072647122386e-09, 1.2358072433984831e-09, -2.7619635330317715e-10, 9.206434499177992e-11,
    -8.498137230186096e-11, 2.832706668021759e-11,
)  # fmt: skip
_PI = 3.141592653589793
_REST_OF_PI = 1.2246467991473532e-16


def _log_gamma_of_positive(x: Number) -> Number:
    """log gamma(x) for x > 0.

    From 1.5 to 2.5 it is a polynomial. Below 1.5, and from 2.5 to 8, the recurrence leads into this interval. From 8 on
    it is Stirling's series (A&S 6.1.40).
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
    series = multiply_add(inverse, polynomial(inverse * inverse, _LOG_GAMMA_SERIES), 0.41893853320467277)
    return where(large, multiply_add(x - 0.5, logarithm - 1.0, series), middle)


def _product_to(x: Number, steps: Number) -> tuple[Number, Number]:
    """|x| (1 + x) (1 - x) (2 - x) ... (steps - x) for |x| <= 1/2, as a sum of two numbers, so that its logarithm keeps
    its digits near 1.
    """
    ahead = 1.0 + x
    high = absolute(x) * ahead
    low = multiply_add(absolute(x), ahead, -high) + absolute(x) * (x - (ahead - 1.0))

    def multiplied(k: Number, high: Number, low: Number) -> list[Number]:
        factor = k - x
        product = high * factor
        error = multiply_add(high, factor, -product) + high * ((k - factor) - x)
        return [k + 1.0, product, multiply_add(low, factor, error)]

    _, high, low = while_any([like(x, 1.0), high, low], lambda k, *_: k <= steps, multiplied)
    return high, low


@wide_vector
def lgamma(x: Number) -> Number:
    """log |gamma(x)|.

    From -18 to 0 the recurrence leads up to gamma(2 + x - rint(x)), which keeps relative errors small near the roots.
    Below -18 no float is near a root, and reflection is used (A&S 6.1.17).
    """
    a = absolute(x)
    value = _log_gamma_of_positive(a)

    def below_zero() -> Number:
        whole = library("rint", a)
        part = whole - a
        high, low = _product_to(part, where(a < 18.0, whole, 0.0))
        recurred = multiply_add(part, polynomial(part, _LOG_GAMMA), -(log(high) + low / high))
        mirrored = log(_PI / absolute(a * sin(_PI * part))) - value
        result = where(a == INF, INF, where(part == 0.0, INF, where(a < 18.0, recurred, mirrored)))
        for high, low, centre, reach, coefficients in _ROOTS_BELOW_ZERO:
            offset = x - centre
            near_root = ((x - high) - low) * polynomial(offset, coefficients)
            result = where(absolute(offset) < reach, near_root, result)
        return result

    return replace_where(x < 0.0, value, below_zero)


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
    value = steps + (inverse + 0.5 * square + inverse * square * polynomial(square, _TRIGAMMA_SERIES))

    def reflected() -> Number:  # A&S 6.4.7
        sine = sin(_PI * (x - library("rint", x)))
        return (_PI * _PI) / (sine * sine) - value

    return replace_where(below, value, reflected)


@wide_vector
def digamma(x: Number) -> Number:
    """The derivative of log gamma(x).

    From 1 to 2 it is the distance from the root times a polynomial. Below 1, and from 2 to 8, the recurrence leads into
    this interval. From 8 on it is Stirling's series (A&S 6.3.18), below 0 a reflection (A&S 6.3.7).
    """
    below = x < 0.0
    y = where(below, 1.0 - x, x)
    near, top, bottom = y, like(y, 0.0), like(y, 1.0)  # top / bottom: the sum of 1 / near of all steps
    for _ in range(6):
        above = near >= 2.0
        near = where(above, near - 1.0, near)
        top = where(above, multiply_add(top, near, bottom), top)
        bottom = where(above, bottom * near, bottom)
    small = y < 1.0
    near, top, bottom = where(small, y + 1.0, near), where(small, -1.0, top), where(small, y, bottom)
    high, low = _ROOT_OF_DIGAMMA
    between = multiply_add((near - high) - low, polynomial(2.0 * near - 3.0, _NEAR_ROOT), top / bottom)
    square = 1.0 / (y * y)
    value = where(y < 8.0, between, (log(y) - 0.5 / y) - square * polynomial(square, _DIGAMMA_SERIES))

    def reflected() -> Number:  # corrected for the rounding errors of 1 - x and of pi * part
        part = x - library("rint", x)
        angle = _PI * part
        lost = multiply_add(like(x, _PI), part, -angle) + _REST_OF_PI * part
        cotangent = 1.0 / tan(angle)
        cotangent = where(absolute(part) < 1e-8, cotangent, cotangent - lost * (1.0 + cotangent * cotangent))
        slope = 1.0 / y + 0.5 * square + square / (6.0 * y)
        return where(part == 0.0, NAN, value + ((1.0 - y) - x) * slope - _PI * cotangent)

    return where(x == 0.0, with_sign(like(x, INF), x) * -1.0, replace_where(below, value, reflected))
