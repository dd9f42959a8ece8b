"""The error function, the normal distribution, and their inverses."""

from __future__ import annotations

from ..branches import replace_where
from ..instructions import (
    INF,
    Number,
    absolute,
    at_most,
    bits,
    choose,
    library,
    like,
    multiply_add,
    number,
    polynomial,
    where,
    with_sign,
)
from .exponential import bias_of, excess, exp, power_of_two, reduced, rounded, scaled
from .logarithm import log, log1p
from .registry import vector, wide_vector

_ERF = (  # erf(x) / x - 1 over x^2
    (0.12837915, -0.37612495, 0.11281797, -0.026765259, 0.0049904822, -0.00059743325),
    (0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.026866170645129854, 0.005223977625423455,
    -0.0008548327021945428, 0.00012055332903350668,
     -1.4925647581008593e-05, 1.6462045711013026e-06, -1.6364645854816389e-07, 1.479243542696247e-08,
     -1.2164764337224506e-09, 8.709755232851789e-11,
     -4.2320376764874594e-12),
)  # fmt: skip
# log(erfc(x)) / x + 1
_LOG_ERFC = (-0.12865557, -0.635121, -0.10628978, 0.023810087, -0.003666359, 0.0003289809, -1.1878575e-05)
_ERFC = (  # exp(x^2) erfc(x) (1 + 2x) over (x - a) / (x + a)
    (2.0,
    (1.2769784, -0.09276399, -0.16603073, 0.16405563, -0.0542099, -0.008062703, 0.008647691, 0.001323751,
    -0.0012449413, -0.00041220206)),
    (4.0,
    (1.2329951186255526, -0.13962111684056253, 0.015379652102620099, 0.06809705425469294, -0.1010390660363288,
    0.09373283499833708, -0.06633036581156036,
           0.03716751553780999, -0.016197734066870924, 0.005031969972923983, -0.0007577732157317699,
           -0.0001992566471651209, 0.00015062131476151552,
           -2.4399489260269676e-05, -1.1220904071928771e-05, 5.71073093231939e-06, 2.9163365495443275e-07,
           -8.277043243059027e-07, 7.706765082392561e-08,
           1.1323963682297381e-07, -1.9144394374470615e-08, -1.659984078986677e-08, 1.704029123115644e-09,
           2.1067084851561082e-09, 2.9057775757293105e-10)),
)  # fmt: skip


def _upper(a: Number) -> Number:
    """erfc(a) for a >= 0."""
    a = at_most(a, choose(a, 10.2, 27.5))
    middle, coefficients = choose(a, *_ERFC)
    factor = polynomial((a - middle) / (a + middle), coefficients) / multiply_add(a, 2.0, 1.0)
    high = number(bits(a) & -(1 << (a.mantissa // 2 + 1)))  # half of the significand, so that its square is exact
    rest = (a - high) * (a + high)
    square = high * high + rest
    r, code = reduced(-square, 2 * bias_of(a))
    return scaled((excess(r - (rest - (square - high * high))) + 1.0) * factor, code)


def _inner(x: Number) -> Number:
    """erf(x) for |x| up to 1."""
    return multiply_add(polynomial(x * x, choose(x, *_ERF)), x, x)


@vector
def erfc(x: Number) -> Number:
    a = absolute(x)
    upper = _upper(a)
    return where(a < 0.5, 1.0 - _inner(x), where(x < 0.0, 2.0 - upper, upper))


@vector
def erf(x: Number) -> Number:
    a = absolute(x)
    if x.width == 64:
        return where(a < 1.0, _inner(x), with_sign(1.0 - _upper(a), x))
    limited = at_most(a, 4.0)
    r, code = reduced(multiply_add(limited, polynomial(limited, _LOG_ERFC), -limited), bias_of(x))
    scale = power_of_two(code, x)
    return where(a < 0.92, _inner(x), with_sign(1.0 - multiply_add(excess(r), scale, scale), x))


# numerators and denominators of the normal quantile over 0.425^2 - x^2 / 4, over r - 1.6 and over r - 5, with r =
# sqrt(-log((1 - |x|) / 2))
_QUANTILE = (
    ((3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125, 45921.953931549871457,
        67265.770927008700853,
      33430.575583588128105,
      2509.0809287301226727),
     (1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077, 21213.794301586595867,
     39307.89580009271061, 28729.085735721942674,
      5226.495278852545925)),
    ((1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504,
        1.27045825245236838258, 0.24178072517745061177,
      0.0227238449892691845833, 7.7454501427834140764e-4),
     (1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455, 0.14810397642748007459,
     0.0151986665636164571966, 5.475938084995344946e-4,
      1.05075007164441684324e-9)),
    ((6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123,
        0.026532189526576123093, 0.0012426609473880784386,
      2.71155556874348757815e-5, 2.01033439929228813265e-7),
     (1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525, 7.868691311456132591e-4,
     1.8463183175100546818e-5,
      1.4215117583164458887e-7,
      2.04426310338993978564e-15)),
)  # fmt: skip


def quantile(central: Number, near: Number, root: Number) -> Number:
    """The quantile's rational approximation: in `near` for central arguments, else in r = `root`, with different
    coefficients above 5.
    """
    far = root > 5.0
    argument = where(central, near, where(far, root - 5.0, root - 1.6))
    sums = []
    for parts in zip(*_QUANTILE):
        coefficients = [
            where(central, like(near, inner), where(far, like(near, outer), middle))
            for inner, middle, outer in zip(*parts)
        ]
        sums.append(polynomial(argument, coefficients))
    return sums[0] / sums[1]


@vector
def erfinv(x: Number) -> Number:  # Wichura, Algorithm AS 241: the percentage points of the normal distribution, 1988
    a = absolute(x)
    central = a <= 0.85
    ratio = quantile(central, 0.180625 - 0.25 * (a * a), library("sqrt", -log(0.5 - 0.5 * a)))
    return where(
        a == 1.0,
        with_sign(like(x, INF), x),
        where(central, x * (0.3535533905932738 * ratio), with_sign(0.7071067811865476 * ratio, x)),
    )


_LOG2_CDF = (  # log2(2 Phi(-a)) / a over a / 6.6 - 1, up to 13.2, beyond which results are subnormal in float32
    -5.22750256, -4.50383019, -0.160481779, 0.103335762, -0.0665600101, 0.0417717205, -0.0259523374, 0.0178021734,
    -0.0095612331, -0.0010587253, 0.00029706468, 0.00751329815, -0.00296954756, -0.00452629593, 0.00263404622,
)  # fmt: skip


@vector
def normal_cdf(x: Number) -> Number:
    if x.width == 64:
        return 0.5 * erfc(-0.7071067811865476 * x)
    a = absolute(x)
    limited = at_most(a, 12.9)
    power = multiply_add(limited, polynomial(multiply_add(limited, 0.15151515151515152, -1.0), _LOG2_CDF), -1.0)
    n, code = rounded(power, 1, bias_of(x))
    scale = power_of_two(code, x)
    lower = where(a > 12.9, 0.0, multiply_add(excess((power - n) * 0.6931471805599453), scale, scale))
    return where(x < 0.0, lower, 1.0 - lower)


_ERFCX = (  # exp(x^2) erfc(x) (1 + 2x) over (x - 3.75) / (x + 3.75), after Shepherd and Laframboise, 1981
    1.2375126308378275, -0.14024059858554702, 0.003585415485463652, 0.0822767384901511, -0.10880393014170497,
    0.09230432116019581, -0.05869339859061101, 0.028362277421556188, -0.009746579546772877, 0.0017556258320574729,
    0.0002937135880316984, -0.00029015397728117225,
    5.1649442877311626e-05,
    2.2383904876445646e-05, -1.1445172561420112e-05, -9.728327812064796e-07, 1.753745843453635e-06,
    -5.828827783766716e-08, -2.6166884528581574e-07,
    2.431232515000242e-08, 4.1602904023333066e-08, -4.395643933011148e-09, -7.0705951743345486e-09,
    5.366153829724437e-10, 1.187560812244071e-09,
    -2.60179937204658e-11, -1.647059420509794e-10, -5.474680209802051e-12, 1.3044442522753113e-11,
    1.0025828126770392e-12,
)  # fmt: skip


@wide_vector
def erfcx(x: Number) -> Number:
    a = absolute(x)
    t = where(a < 1e300, (a - 3.75) / (a + 3.75), where(a == a, 1.0, a))
    value = polynomial(t, _ERFCX) / multiply_add(a, 2.0, 1.0)

    def below() -> Number:  # x * x as a sum of two parts: exp would magnify its rounding error
        square = x * x
        rest = library("fma", x, x, -square)
        power = exp(square)
        return where(square > 709.5, INF, 2.0 * multiply_add(power, rest, power) - value)

    return replace_where(x < 0.0, value, below)


@wide_vector
def log_ndtr(x: Number) -> Number:
    usual = log1p(-0.5 * erfc(0.7071067811865476 * x))
    return replace_where(x < -1.0, usual, lambda: log(0.5 * erfcx(-0.7071067811865476 * x)) - 0.5 * x * x)


@wide_vector
def ndtri(p: Number) -> Number:
    q = p - 0.5
    low = where(q < 0.0, p, 1.0 - p)
    central = absolute(q) <= 0.425
    ratio = quantile(central, 0.180625 - q * q, library("sqrt", -log(low)))
    return where(low == 0.0, with_sign(like(p, INF), q), where(central, q * ratio, with_sign(ratio, q)))
