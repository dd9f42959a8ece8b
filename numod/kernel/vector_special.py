"""Special functions for the loop vectoriser, in float64: gamma and its relatives, the normal distribution, Bessel functions. Beside `special`, which is every target's.

Coefficients are Chebyshev interpolants of the functions, in powers. Formulas are named as in `special`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .branches import amended, branching
from .instructions import Number, absolute, at_least, at_most, library, like, multiply_add, narrowed, polynomial, where, widened, with_sign
from .vector_math import INF, NAN, erfc, exp, log, log1p, quantile, sin, tan, vector


def special(formula: Callable) -> Callable:
    """Give kernels a formula of float64, which may branch; float32 is widened for it."""
    inside = branching(64)(formula)

    @vector
    @functools.wraps(formula)
    def either(x: Number) -> Number:
        return inside(x) if x.width == 64 else narrowed(inside(widened(x)))

    return either


# ---- gamma and its relatives

_LOG_GAMMA = (  # log gamma(2 + t) / t up to 1/2
    0.42278433509846713, 0.3224670334241132, -0.06735230105319563, 0.02058080842778338, -0.007385551028935545, 0.002890510330865901, -0.0011927539009983087,
    0.0005096695196526673, -0.00022315497746292723, 9.945761692157133e-05, -4.4923727564247656e-05, 2.050601970174762e-05, -9.45628851510172e-06,
    4.3828545383846665e-06, -1.9743106888421067e-06, 9.242852225162277e-07, -5.811277768921246e-07, 2.7475390051909663e-07,
)  # fmt: skip
_STIRLING = (0.08333333333333333, -0.002777777777777778, 0.0007936507936507937, -0.0005952380952380953, 0.0008417508417508417, -0.0019175269175269176, 0.00641025641025641,
             -0.029550653594771242)  # of log gamma, over 1 / x^2
_SLOPES = (0.08333333333333333, -0.008333333333333333, 0.003968253968253968, -0.004166666666666667, 0.007575757575757576, -0.021092796092796094, 0.08333333333333333,
           -0.4432598039215686, 3.0539543302701198, -26.456212121212122)  # of digamma
_PI = 3.141592653589793


def _log_gamma_of_positive(x: Number) -> Number:
    """From 1.5 to 2.5 a polynomial, below and above with the logarithm of what leads there; Stirling's series from 8 on (A&S 6.1.40)."""
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


@special
def lgamma(x: Number) -> Number:
    a = absolute(x)
    value = _log_gamma_of_positive(a)

    def reflected() -> Number:  # A&S 6.1.17
        part = a - library("rint", a)
        return where(a == INF, INF, log(_PI / absolute(a * sin(_PI * part))) - value)

    return amended(x < 0.0, value, reflected)


@special
def digamma(x: Number) -> Number:
    """Stirling's series from 8 on (A&S 6.3.18); below, less the sum of 1 / (y + k) over k < 8, which is (2y + 7) P'(u) / P(u) with u = y (y + 7)."""
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

    return where(x == 0.0, with_sign(like(x, INF), x) * -1.0, amended(below, value, reflected))


# ---- error function and normal distribution

_ERFCX = (  # exp(x^2) erfc(x) (1 + 2x) over (x - 3.75) / (x + 3.75), after Shepherd and Laframboise, 1981
    1.2375126308378275, -0.14024059858554702, 0.003585415485463652, 0.0822767384901511, -0.10880393014170497, 0.09230432116019581, -0.05869339859061101,
    0.028362277421556188, -0.009746579546772877, 0.0017556258320574729, 0.0002937135880316984, -0.00029015397728117225, 5.1649442877311626e-05,
    2.2383904876445646e-05, -1.1445172561420112e-05, -9.728327812064796e-07, 1.753745843453635e-06, -5.828827783766716e-08, -2.6166884528581574e-07,
    2.431232515000242e-08, 4.1602904023333066e-08, -4.395643933011148e-09, -7.0705951743345486e-09, 5.366153829724437e-10, 1.187560812244071e-09,
    -2.60179937204658e-11, -1.647059420509794e-10, -5.474680209802051e-12, 1.3044442522753113e-11, 1.0025828126770392e-12,
)  # fmt: skip


@special
def erfcx(x: Number) -> Number:
    a = absolute(x)
    t = where(a < 1e300, (a - 3.75) / (a + 3.75), where(a == a, 1.0, a))
    value = polynomial(t, _ERFCX) / multiply_add(a, 2.0, 1.0)

    def below() -> Number:  # x * x in two parts: exp would magnify its rounding
        square = x * x
        rest = library("fma", x, x, -square)
        power = exp(square)
        return where(square > 709.5, INF, 2.0 * multiply_add(power, rest, power) - value)

    return amended(x < 0.0, value, below)


@special
def log_ndtr(x: Number) -> Number:
    usual = log1p(-0.5 * erfc(0.7071067811865476 * x))
    return amended(x < -1.0, usual, lambda: log(0.5 * erfcx(-0.7071067811865476 * x)) - 0.5 * x * x)


@special
def ndtri(p: Number) -> Number:
    q = p - 0.5
    low = where(q < 0.0, p, 1.0 - p)
    central = absolute(q) <= 0.425
    ratio = quantile(central, 0.180625 - q * q, library("sqrt", -log(low)))
    return where(low == 0.0, with_sign(like(p, INF), q), where(central, q * ratio, with_sign(ratio, q)))


# ---- modified Bessel functions of order 0 and 1

_BESSEL_I = (  # I0(x) and I1(x) / x over x^2 / 4 up to 16, positive coefficients; exp(-x) sqrt(x) times them over 16 / x - 1 beyond
    ((
     1.0, 1.0, 0.25, 0.02777777777777778, 0.001736111111111106, 6.94444444444488e-05, 1.9290123456765543e-06, 3.9367598892378866e-08, 6.151187324009745e-10,
     7.594058486836424e-12, 7.594057493384469e-14, 6.276092616120491e-16, 4.358286919760222e-18, 2.5796346353114483e-20, 1.3122104575180078e-22,
     5.976589569234451e-25, 1.9739699188457068e-27, 1.2294574273495177e-29,
     ), (
     0.4021765094450081, 0.0033605519836678913, 0.00013621607438951463, 1.114303378845176e-05, 1.4838476780922646e-06, 2.9735992084667734e-07,
     8.872014585661555e-08, 3.932512321137824e-08, 2.156780676115673e-08, 7.559364098665437e-09, -6.856484545962442e-09, -1.3427511481900905e-08,
     -5.0175940345046716e-09, 7.600254486433509e-09, 6.522264862032271e-09, -3.5862834111582305e-09, -4.5305710768621196e-09, 1.6084886155781772e-09,
     2.163681278413876e-09, -6.327909921997027e-10, -6.494591114401118e-10, 1.7698085539456536e-10, 9.114760157514253e-11, -2.4421972688131832e-11,
    )),
    ((
     0.5, 0.25, 0.041666666666666664, 0.0034722222222222225, 0.00017361111111111098, 5.787037037037149e-06, 1.3778659611986602e-07, 2.4604749307380764e-09,
     3.4173262919411405e-11, 3.7970292292223313e-13, 3.4518444986580124e-15, 2.6150368053585327e-17, 1.676277187800245e-19, 9.212284780051588e-22,
     4.376699797646487e-24, 1.8607897187761472e-26, 5.913761060033506e-29, 3.337886108652009e-31,
     ), (
     0.38939845902587233, -0.009749577193235765, -0.00021923576383137776, -1.5038547198221758e-05, -1.8349102493990178e-06, -3.4838563464253135e-07,
     -1.0001075046243961e-07, -4.3128498031006734e-08, -2.3394122958362557e-08, -8.432168972932417e-09, 6.84757829926934e-09, 1.4051746928735543e-08,
     5.5720183980930355e-09, -7.687251308765992e-09, -6.9444186339873875e-09, 3.501765193290176e-09, 4.763780078020254e-09, -1.5218214060680734e-09,
     -2.2624401109204446e-09, 5.870664618471487e-10, 6.7727478454462e-10, -1.6283264322621244e-10, -9.491890392992048e-11, 2.2421768596847442e-11,
    )),
)  # fmt: skip


def _scaled_bessel_i(x: Number, order: int) -> Number:
    """exp(-|x|) I(x)."""
    a = absolute(x)
    series, waves = _BESSEL_I[order]
    near = at_most(a, 8.0)
    half = 0.5 * near
    inner = polynomial(half * half, series) * exp(-near) * (near if order else 1.0)
    far = at_least(a, 8.0)
    value = where(a < 8.0, inner, polynomial(16.0 / far - 1.0, waves) / library("sqrt", far))
    return with_sign(value, x) if order else value


@special
def bessel_i0e(x: Number) -> Number:
    return _scaled_bessel_i(x, 0)


@special
def bessel_i1e(x: Number) -> Number:
    return _scaled_bessel_i(x, 1)


@special
def bessel_i0(x: Number) -> Number:
    half = exp(0.5 * absolute(x))
    return _scaled_bessel_i(x, 0) * half * half


@special
def bessel_i1(x: Number) -> Number:
    half = exp(0.5 * absolute(x))
    return _scaled_bessel_i(x, 1) * half * half
