"""Special functions for the loop vectoriser, in float64: gamma and its relatives, the normal distribution, Bessel functions. Beside `special`, which is every target's.

Coefficients are Chebyshev interpolants of the functions, in powers. Formulas are named as in `special`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from .branches import amended, branching
from .instructions import Number, absolute, at_least, at_most, library, like, multiply_add, narrowed, polynomial, where, widened, with_sign
from .vector_math import INF, NAN, cos, erfc, exp, log, log1p, quantile, sin, tan, vector


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

_BESSEL_K = (  # of order 0 and 1, over x^2 / 4 up to 1: I0(x), I1(x) / x; what K lacks of them (A&S 9.6.11); exp(x) sqrt(x) K(x) over 4 / x - 1 beyond
    (
        (
            1.0, 1.0, 0.249999999999999, 0.027777777777790523, 0.0017361111110283252, 6.944444475322255e-05, 1.9290116449015386e-06, 3.936858241069583e-08,
            6.142859303643914e-10, 7.982920901751804e-12,
        ),
        (
            -0.5772156649015329, 0.4227843350984672, 0.23069608377461445, 0.03489215745646892, 0.002614787618610217, 0.00011848039436836223,
            3.612622452747443e-06, 7.935328137352067e-08, 1.3147877336324059e-09, 1.8015293331696398e-11,
        ),
        (
            1.2185953385133905, -0.031071461824889554, 0.0030328918102751935, -0.0004797690567629981, 9.956054742546008e-05, -2.473520464665274e-05,
            7.002245564109627e-06, -2.1911767539401716e-06, 7.427807838466459e-07, -2.689135887009184e-07, 1.0295120376495239e-07, -4.131061283701578e-08,
            1.7056674605334674e-08, -7.3618275080282515e-09, 3.791192703615846e-09, -1.8006773523392004e-09, 6.837018659348517e-11, 3.233433692180319e-11,
            7.977983533091815e-10, -4.506683106759898e-10, -3.0539020868001565e-10, 1.7977981899954878e-10, 1.0806290149518295e-10, -6.183509185741941e-11,
        ),
    ),
    (
        (
            0.5, 0.25, 0.04166666666666662, 0.0034722222222227997, 0.00017361111110736062, 5.787037051026832e-06, 1.3778656436613152e-07,
            2.460519504367195e-09, 3.413550792390404e-11, 3.9734334770599346e-13,
        ),
        (
            0.03860783245076643, -0.16819608377461678, -0.0453937917402138, -0.004795547459834027, -0.00027883987298262935, -1.0355619256757906e-05,
            -2.6788640230692813e-07, -5.1133219873757516e-09, -7.496061672679994e-11, -9.163035769956707e-13,
        ),
        (
            1.363151890371342, 0.10334973775386527, -0.005566729880074451, 0.0007357241549046456, -0.00013959021956830856, 3.284386565057862e-05,
            -8.961207299463647e-06, 2.730040312895642e-06, -9.067094776630646e-07, 3.2298873862640425e-07, -1.220284967173793e-07, 4.843094038201199e-08,
            -1.9827457966367164e-08, 8.49114322410236e-09, -4.313336112817399e-09, 2.0346220468711174e-09, -1.0584430289297026e-10, -2.104015257574649e-11,
            -8.740019154894709e-10, 4.921710202548386e-10, 3.3153918291421876e-10, -1.948680720152238e-10, -1.1801191034535537e-10, 6.73716173849808e-11,
        ),
    ),
)  # fmt: skip


def _scaled_bessel_k(x: Number, order: int) -> Number:
    """exp(x) K(x)."""
    inner, rest, waves = _BESSEL_K[order]
    near = at_most(x, 2.0)
    square = 0.25 * near * near
    small, logarithm = polynomial(square, rest), log(0.5 * near) * polynomial(square, inner)
    small = exp(near) * (1.0 / near + near * (logarithm + small) if order else small - logarithm)
    far = at_least(x, 2.0)
    large = polynomial(4.0 / far - 1.0, waves) / library("sqrt", far)
    return where(x == 0.0, INF, where(x < 0.0, NAN, where(x <= 2.0, small, large)))


@special
def bessel_k0e(x: Number) -> Number:
    return _scaled_bessel_k(x, 0)


@special
def bessel_k1e(x: Number) -> Number:
    return _scaled_bessel_k(x, 1)


# ---- Bessel functions of order 0 and 1

_BESSEL = (  # over x^2 / 32 - 1 up to x = 8: J0(x), J1(x) / x; what Y lacks of 2 / pi log(x) J; Hankel's P and Q over (8 / x)^2 beyond (A&S 9.2.5)
    (
        (
            0.04582966485981377, 0.9303012472958572, -0.6484692830871837, -0.808088807669687, 1.0383794611437211, -0.507468045847102, 0.14598884856759273,
            -0.028472718610869578, 0.0040580789891404906, -0.0004435459224727048, 3.8473197857390745e-05, -2.717749145067604e-06, 1.595610885913193e-07,
            -7.915407670571158e-09, 3.363471845926571e-10, -1.2384699122416937e-11, 3.9908260822121824e-13, -1.1351303468419784e-14, 2.871427274017524e-16,
            -6.50288734157589e-18, 1.3285586874980064e-19, -2.4525510096452857e-21,
        ),
        (
            -0.382250654459425, -0.8284358903604587, 1.6470964788745466, 0.14412632369302442, -1.0775477338215995, 0.6721770783431723, -0.2189574709617165,
            0.046367047681347105, -0.007025741057269826, 0.0008061586060550243, -7.279541882784531e-05, 5.321318633837152e-06, -3.2185077885300443e-07,
            1.6391065111298477e-08, -7.130516901235401e-10, 2.6818364861022484e-11, -8.81055867129253e-13, 2.5508678669514358e-14, -6.559180245564238e-16,
            1.5081886309924308e-17, -3.1253621500545857e-19, 5.846433731152638e-21,
        ),
        (
            1.0, -0.0010986328124999807, 2.7380883692020545e-05, -2.1839195472242048e-06, 3.6204004704879015e-07, -1.0244929772978216e-07,
            4.411713963079789e-08, -2.6512929921857943e-08, 2.0132659402452574e-08, -1.6939273733373158e-08, 1.3751230231392926e-08, -9.592538521220035e-09,
            5.23691172426443e-09, -2.0398630985031846e-09, 4.971195903878912e-10, -5.651970227604394e-11,
        ),
        (
            -0.015625, 0.00014305114746091313, -6.9307861828608166e-06, 8.238445994941065e-07, -1.8164775119393622e-07, 6.416853290862376e-08,
            -3.309209606940703e-08, 2.3017461891810972e-08, -1.951933598775785e-08, 1.7700704790769845e-08, -1.5061225897165734e-08, 1.0815149554106123e-08,
            -6.013149786465568e-09, 2.370448808356366e-09, -5.824477095500943e-10, 6.66102503897691e-11,
        ),
    ),
    (
        (
            -0.05814382795599107, 0.08105866038589796, 0.15151665143806634, -0.2595948652859303, 0.15858376432721938, -0.054745818212847276,
            0.01245681439225544, -0.0020290394945702453, 0.0002494945813908964, -2.4045748660869218e-05, 1.8684525372339777e-06, -1.1967081644348923e-07,
            6.431268732339069e-09, -2.9430378651910154e-10, 1.161065542726126e-11, -3.99082607499047e-13, 1.206075993935198e-14, -3.2303617368040493e-16,
            7.72217665371798e-18, -1.657866279620654e-19, 3.2194078124428144e-21, -5.664190094153212e-23,
        ),
        (
            0.07075985882118005, -0.24337743079193114, 0.023367571720993584, 0.23507209206669755, -0.19639839859930425, 0.07854786922242545,
            -0.01962875683309943, 0.003422490739918046, -0.00044381734351146775, 4.46743301291431e-05, -3.6009998744473516e-06, 2.3804929913922264e-07,
            -1.315332239920396e-08, 6.169742573031706e-10, -2.4887660128881942e-11, 8.728846975756197e-13, -2.6871299496427536e-14, 7.320646458664263e-16,
            -1.7777675987721765e-17, 3.872985645959487e-19, -7.624881519692273e-21, 1.358832717737545e-22,
        ),
        (
            1.0, 0.0018310546874999796, -3.5203993318706736e-05, 2.5809958361759513e-06, -4.103121425565081e-07, 1.1323410997983529e-07,
            -4.7956904262231825e-08, 2.8489598180352995e-08, -2.146512627582366e-08, 1.7971757634319332e-08, -1.4546834967737585e-08, 1.0130061921105408e-08,
            -5.524562675063991e-09, 2.1504642951489953e-09, -5.23837172147982e-10, 5.953848181250356e-11,
        ),
        (
            0.046875, -0.00020027160644528697, 8.470960890528946e-06, -9.505899301854244e-07, 2.0301816847734846e-07, -7.028054792363985e-08,
            3.5743276752446644e-08, -2.461895147350646e-08, 2.073972913866098e-08, -1.8729822483028587e-08, 1.589777611672315e-08, -1.1399169431634205e-08,
            6.332141401507156e-09, -2.4947397668865782e-09, 6.127440308082137e-10, -7.005527672999338e-11,
        ),
    ),
)  # fmt: skip


def _waves_of_bessel(x: Number, order: int, second: bool) -> Number:
    """J(x), or where `second` Y(x), for x >= 8."""
    eight = 8.0 / x
    p, q = (polynomial(eight * eight, each) for each in _BESSEL[order][2:])
    sine, cosine = sin(x), cos(x)
    plus, minus = sine + cosine, sine - cosine
    along, across = (minus, -plus) if order else (plus, minus)
    part = multiply_add(p, across, eight * q * along) if second else multiply_add(p, along, -(eight * q * across))
    return 0.5641895835477563 * part / library("sqrt", x)


def _near_zero(x: Number, order: int) -> Number:
    """J(x) for |x| up to 8."""
    square = x * x
    inner = polynomial(square * 0.03125 - 1.0, _BESSEL[order][0])
    return x * inner if order else where(square < 1e-16, 1.0, inner)


def _bessel_j(x: Number, order: int) -> Number:
    a = absolute(x)
    value = amended(a >= 8.0, _near_zero(a, order), lambda: where(a == INF, 0.0, _waves_of_bessel(a, order, False)))
    return value * with_sign(like(x, 1.0), x) if order else value


def _bessel_y(x: Number, order: int) -> Number:
    rest = polynomial(x * x * 0.03125 - 1.0, _BESSEL[order][1])
    near = 0.6366197723675814 * log(x) * _near_zero(x, order)
    near = near + x * rest - 0.6366197723675814 / x if order else near + rest
    value = amended(x >= 8.0, near, lambda: where(x == INF, 0.0, _waves_of_bessel(x, order, True)))
    return where(x == 0.0, -INF, where(x < 0.0, NAN, value))


@special
def bessel_j0(x: Number) -> Number:
    return _bessel_j(x, 0)


@special
def bessel_j1(x: Number) -> Number:
    return _bessel_j(x, 1)


@special
def bessel_y0(x: Number) -> Number:
    return _bessel_y(x, 0)


@special
def bessel_y1(x: Number) -> Number:
    return _bessel_y(x, 1)
