"""Elementary functions for the loop vectoriser: branch-free polynomials in float32 and float64. The processor's; CUDA has its own library's.

Every function but `lifted_exp` covers its whole range: subnormal arguments and results, zeros with their sign, infinities and NaN. Coefficients are near-minimax
fits, rounded one after the other with the rest refitted. The methods are those of Cody and Waite, Software Manual for the Elementary Functions, 1980.
"""

from __future__ import annotations

from collections.abc import Callable

from ..device import tiles
from .branches import amended, branching, lane_by_lane, repeated
from .instructions import (
    Number,
    Operand,
    absolute,
    at_least,
    at_most,
    bits,
    by_power_of_two,
    choose,
    library,
    like,
    multiply_add,
    narrowed,
    number,
    polynomial,
    where,
    widened,
    with_sign,
)

INF, NAN = float("inf"), float("nan")
formulas: dict[str, Callable] = {}


def vector(formula: Callable) -> Callable:
    """Give kernels this function in the place of the `math` function of its name."""
    formulas[formula.__name__] = formula
    return formula


# ---- exponentials: x = n log 2 + r with |r| <= log(2) / 2, exp(x) = 2^n exp(r)

_LOG2E = 1.4426950408889634
_LOG2 = (0.693359375, -2.12194440e-4), (6.93147180369123816490e-01, 1.90821492927058770002e-10)  # high and low part, n * high is exact
_EXP = (  # (exp(r) - 1 - r) / r^2
    (0.5, 0.16666515, 0.041666456, 0.008369233, 0.0013935765),
    (0.5, 0.16666666666666685, 0.04166666666666671, 0.00833333333331628, 0.001388888888886359, 0.00019841269898016137, 2.48015873639404e-05, 2.755723340450045e-06,
     2.7557241426672696e-07, 2.511249839002739e-08, 2.0924535295646267e-09),
)  # fmt: skip


def _rounded(x: Number, factor: float, bias: int) -> tuple[Number, Number]:
    """The integer n nearest to x * factor as a float, and an integer whose low bits are n + bias: the addend moves all but n out of the significand."""
    addend = 1.5 * 2.0**x.mantissa + bias
    moved = multiply_add(x, factor, addend) if factor != 1 else x + addend
    return moved - addend, bits(moved)


def _reduced(x: Number, bias: int) -> tuple[Number, Number]:
    """r, and an integer whose low bits are n + bias."""
    high, low = choose(x, *_LOG2)
    n, code = _rounded(x, _LOG2E, bias)
    return multiply_add(n, -low, multiply_add(n, -high, x)), code


def _excess(r: Number) -> Number:
    """exp(r) - 1."""
    return multiply_add(r * r, polynomial(r, choose(r, *_EXP)), r)


def _near_one(r: Number) -> Number:
    """exp(r); of float32 in as few operations as can be (Horner's), for loops of which nothing else takes time."""
    if r.width == 64:
        return _excess(r) + 1.0
    total = like(r, _EXP[0][-1])
    for each in (*reversed(_EXP[0][:-1]), 1.0, 1.0):
        total = multiply_add(total, r, each)
    return total


def _bias(x: Number) -> int:
    return choose(x, 127, 1023)


def _power_of_two(code: Number, x: Number) -> Number:
    """2^n, normal, for an integer whose low bits are n + bias."""
    return number(code << x.mantissa)


def _scaled(x: Number, code: Number) -> Number:
    """x * 2^n for the integer of `_rounded` whose low bits are n + 2 bias; in two steps neither factor is out of range where the product is not."""
    if tiles.host().width == 64:
        n = code - bits(like(x, 1.5 * 2.0**x.mantissa + 2 * _bias(x)))
        return by_power_of_two(x, n if x.width == 32 else narrowed(n))
    half = code >> 1
    return x * _power_of_two(half, x) * _power_of_two(code - half, x)


@vector
def exp(x: Number) -> Number:
    x = at_most(at_least(x, choose(x, -104.0, -746.0)), choose(x, 89.0, 710.0))
    r, code = _reduced(x, 2 * _bias(x))
    return _scaled(_near_one(r), code)


@vector
def lifted_exp(x: Number) -> Number:
    lift = choose(x, 25, 54)
    r, code = _reduced(x, _bias(x) + lift)  # of x below the limit this is anything
    scale = _power_of_two(code, x)
    return where(x < choose(x, -104.6, -746.0), 0.0, multiply_add(_excess(r), scale, scale))


@vector
def exp2(x: Number) -> Number:
    x = at_most(at_least(x, choose(x, -151.0, -1076.0)), choose(x, 129.0, 1025.0))
    n, code = _rounded(x, 1, 2 * _bias(x))
    return _scaled(_excess((x - n) * 0.6931471805599453) + 1.0, code)


def _expm1(x: Number, quarter: int = 0) -> Number:
    """(exp(x) - 1) / 2^quarter where 2^(n - quarter) is a normal number."""
    r, code = _reduced(x, _bias(x) - quarter)
    scale = _power_of_two(code, x)
    return multiply_add(_excess(r), scale, scale - 0.5**quarter)


@vector
def expm1(x: Number) -> Number:
    limited = at_most(at_least(x, choose(x, -18.0, -38.0)), choose(x, 89.0, 710.0))
    result = _expm1(limited, 2) * 4.0
    return where(absolute(x) < choose(x, 1e-30, 1e-290), x, result)


@vector
def tanh(x: Number) -> Number:
    t = _expm1(2.0 * at_most(absolute(x), choose(x, 9.1, 20.0)))
    total = t + 2.0
    if x.width == 32:
        return with_sign(t / total, x)
    inverse = 1.0 / total
    ratio = t * inverse
    rest = multiply_add(-ratio, t - (total - 2.0), multiply_add(-ratio, total, t))  # what is left of t, also by the rounding of the sum
    return with_sign(multiply_add(rest, inverse, ratio), x)


def falling(x: Number) -> Number:
    """exp(x) for x that is not above 0, but never less than the least normal number."""
    r, code = _reduced(at_least(x, choose(x, -87.0, -708.0)), _bias(x))
    scale = _power_of_two(code, x)
    return multiply_add(_excess(r), scale, scale)


@vector
def sigmoid_of(x: Number) -> Number:
    part = falling(-absolute(x))
    return where(x >= 0.0, 1.0, part) / (1.0 + part)


@vector
def sinh(x: Number) -> Number:
    a = absolute(x)
    t = _expm1(at_most(a, choose(x, 89.5, 710.6)), 2)
    return where(a < choose(x, 1e-30, 1e-290), x, with_sign(2.0 * (t + t / (4.0 * t + 1.0)), x))


@vector
def cosh(x: Number) -> Number:
    r, code = _reduced(at_most(absolute(x), choose(x, 89.5, 710.6)), _bias(x) - 2)
    quarter = _excess(r) * _power_of_two(code, x) + _power_of_two(code, x)
    return 2.0 * quarter + 0.125 / quarter


# ---- logarithms: x = 2^k (1 + f) with 1 + f from sqrt(1/2) to sqrt(2), log(x) = k log 2 + log(1 + f)

_LOG = (0.3333331, -0.25, 0.20002227, -0.16668527, 0.14218122, -0.12396421, 0.11888593, -0.11725829, 0.06804918)  # (log(1 + f) - f + f^2 / 2) / f^3
_LOG_RATIO = (  # log((1 + s) / (1 - s)) / s - 2 over z = s^2, with s = f / (2 + f)
    0.6666666666666736, 0.3999999999940507, 0.2857142874413889, 0.22222198419192385, 0.1818357138419732, 0.15313888042339555, 0.1479743510950102,
)  # fmt: skip
_ROOT = 0x3F3504F3, 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


def _split(x: Number, subnormals: bool = True) -> tuple[Number, Number]:
    """k, as a float, and f for a positive number."""
    lift = 0
    if subnormals:
        tiny = x < choose(x, 2.0**-126, 2.0**-1022)
        lift = where(tiny, like(x, -54.0), 0.0)
        x = where(tiny, x * 2.0**54, x)
    code = bits(x)
    k = (code - choose(x, *_ROOT)) >> x.mantissa
    addend = like(x, 1.5 * 2.0**x.mantissa)
    return number(bits(addend) + k) - addend + lift, number(code - (k << x.mantissa)) - 1.0


def _tail(f: Number) -> Number:
    """f - log(1 + f)."""
    half = 0.5 * f * f
    if f.width == 32:
        return half - f * (f * f) * polynomial(f, _LOG)
    s = f / (2.0 + f)
    z = s * s
    return half - s * (half + z * polynomial(z, _LOG_RATIO))


def _of_positive(x: Number, result: Number, pole: float = 0.0) -> Number:
    """A logarithm's `result` where x is above its pole and finite; minus infinity at the pole, NaN below."""
    return where((x > pole) & (x < INF), result, where(x == pole, like(x, -INF), where(x > pole, x, NAN)))


@vector
def log(x: Number) -> Number:
    k, f = _split(x)
    high, low = choose(x, *_LOG2)
    return _of_positive(x, multiply_add(k, high, f - (_tail(f) - k * low)))


@vector
def log1p(x: Number) -> Number:
    total = 1.0 + x
    rest = total - x
    lost = (1.0 - rest) + (x - (total - rest))  # what the sum was rounded by, exactly
    k, f = _split(total, False)
    high, low = choose(x, *_LOG2)
    result = multiply_add(k, high, f - (_tail(f) - multiply_add(k, low, lost / total)))
    return where(total == 1.0, x, _of_positive(x, result, -1.0))


def _log_of_base(x: Number, factor: tuple[float, float], unit: tuple[float, float]) -> Number:
    """A logarithm whose base has log(base) = 1 / factor, and that of two as unit; both in two parts, k times the first of unit is exact."""
    k, f = _split(x)
    natural = f - _tail(f)
    small = multiply_add(natural, factor[1], multiply_add(k, unit[1], natural * factor[0])) if unit[1] else multiply_add(natural, factor[1], natural * factor[0])
    return _of_positive(x, multiply_add(k, unit[0], small))


@vector
def log2(x: Number) -> Number:
    return _log_of_base(x, choose(x, (1.442695, 1.9259629911266175e-08), (_LOG2E, 2.0355273740931033e-17)), (1.0, 0.0))


@vector
def log10(x: Number) -> Number:
    factor = choose(x, (0.4342944920063019, -1.0103050052231683e-08), (0.4342944819032518, 1.098319650216765e-17))
    return _log_of_base(x, factor, choose(x, (0.301025390625, 4.605038981195214e-06), (0.301029995663157, 8.241712586023572e-13)))


# ---- the error function

_ERF = (  # erf(x) / x - 1 over x^2
    (0.12837915, -0.37612495, 0.11281797, -0.026765259, 0.0049904822, -0.00059743325),
    (0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.026866170645129854, 0.005223977625423455, -0.0008548327021945428, 0.00012055332903350668,
     -1.4925647581008593e-05, 1.6462045711013026e-06, -1.6364645854816389e-07, 1.479243542696247e-08, -1.2164764337224506e-09, 8.709755232851789e-11, -4.2320376764874594e-12),
)  # fmt: skip
_LOG_ERFC = (-0.12865557, -0.635121, -0.10628978, 0.023810087, -0.003666359, 0.0003289809, -1.1878575e-05)  # log(erfc(x)) / x + 1
_ERFC = (  # exp(x^2) erfc(x) (1 + 2x) over (x - a) / (x + a)
    (2.0, (1.2769784, -0.09276399, -0.16603073, 0.16405563, -0.0542099, -0.008062703, 0.008647691, 0.001323751, -0.0012449413, -0.00041220206)),
    (4.0, (1.2329951186255526, -0.13962111684056253, 0.015379652102620099, 0.06809705425469294, -0.1010390660363288, 0.09373283499833708, -0.06633036581156036,
           0.03716751553780999, -0.016197734066870924, 0.005031969972923983, -0.0007577732157317699, -0.0001992566471651209, 0.00015062131476151552,
           -2.4399489260269676e-05, -1.1220904071928771e-05, 5.71073093231939e-06, 2.9163365495443275e-07, -8.277043243059027e-07, 7.706765082392561e-08,
           1.1323963682297381e-07, -1.9144394374470615e-08, -1.659984078986677e-08, 1.704029123115644e-09, 2.1067084851561082e-09, 2.9057775757293105e-10)),
)  # fmt: skip


def _upper(a: Number) -> Number:
    """erfc(a) for a >= 0."""
    a = at_most(a, choose(a, 10.2, 27.5))
    middle, coefficients = choose(a, *_ERFC)
    factor = polynomial((a - middle) / (a + middle), coefficients) / multiply_add(a, 2.0, 1.0)
    high = number(bits(a) & -(1 << (a.mantissa // 2 + 1)))  # its square is exact
    rest = (a - high) * (a + high)
    square = high * high + rest
    r, code = _reduced(-square, 2 * _bias(a))
    return _scaled((_excess(r - (rest - (square - high * high))) + 1.0) * factor, code)


def _inner(x: Number) -> Number:
    """erf(x) for x around 0."""
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
    r, code = _reduced(multiply_add(limited, polynomial(limited, _LOG_ERFC), -limited), _bias(x))
    scale = _power_of_two(code, x)
    return where(a < 0.92, _inner(x), with_sign(1.0 - multiply_add(_excess(r), scale, scale), x))


_QUANTILE = (  # numerators and denominators of the normal quantile over 0.425^2 - x^2 / 4, over r - 1.6 and over r - 5, with r = sqrt(-log((1 - |x|) / 2))
    ((3.387132872796366608, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125, 45921.953931549871457, 67265.770927008700853, 33430.575583588128105,
      2509.0809287301226727),
     (1.0, 42.313330701600911252, 687.1870074920579083, 5394.1960214247511077, 21213.794301586595867, 39307.89580009271061, 28729.085735721942674, 5226.495278852545925)),
    ((1.42343711074968357734, 4.6303378461565452959, 5.7694972214606914055, 3.64784832476320460504, 1.27045825245236838258, 0.24178072517745061177,
      0.0227238449892691845833, 7.7454501427834140764e-4),
     (1.0, 2.05319162663775882187, 1.6763848301838038494, 0.68976733498510000455, 0.14810397642748007459, 0.0151986665636164571966, 5.475938084995344946e-4,
      1.05075007164441684324e-9)),
    ((6.6579046435011037772, 5.4637849111641143699, 1.7848265399172913358, 0.29656057182850489123, 0.026532189526576123093, 0.0012426609473880784386,
      2.71155556874348757815e-5, 2.01033439929228813265e-7),
     (1.0, 0.59983220655588793769, 0.13692988092273580531, 0.0148753612908506148525, 7.868691311456132591e-4, 1.8463183175100546818e-5, 1.4215117583164458887e-7,
      2.04426310338993978564e-15)),
)  # fmt: skip


def quantile(central: Number, near: Number, root: Number) -> Number:
    """A ratio of polynomials over `near` where the argument is central, else over r = `root`."""
    far = root > 5.0
    place = where(central, near, where(far, root - 5.0, root - 1.6))
    sums = []
    for parts in zip(*_QUANTILE):
        coefficients = [where(central, like(near, inner), where(far, like(near, outer), middle)) for inner, middle, outer in zip(*parts)]
        sums.append(polynomial(place, coefficients))
    return sums[0] / sums[1]


@vector
def erfinv(x: Number) -> Number:  # Wichura, Algorithm AS 241: the percentage points of the normal distribution, 1988
    a = absolute(x)
    central = a <= 0.85
    ratio = quantile(central, 0.180625 - 0.25 * (a * a), library("sqrt", -log(0.5 - 0.5 * a)))
    return where(a == 1.0, with_sign(like(x, INF), x), where(central, x * (0.3535533905932738 * ratio), with_sign(0.7071067811865476 * ratio, x)))


_LOG2_CDF = (  # log2(2 Phi(-a)) / a, up to 6
    -1.1511046, -0.45921922, -0.05243764, 0.0069230674, 4.1029944e-05, -0.00031449448, 9.321387e-05, -1.574514e-05, 1.6580359e-06, -1.0125641e-07, 2.7431384e-09,
)  # fmt: skip


@vector
def normal_cdf(x: Number) -> Number:
    if x.width == 64:
        return 0.5 * erfc(-0.7071067811865476 * x)
    a = absolute(x)
    limited = at_most(a, 6.0)
    power = multiply_add(limited, polynomial(limited, _LOG2_CDF), -1.0)
    n, code = _rounded(power, 1, _bias(x))
    scale = _power_of_two(code, x)
    lower = where(a > 6.0, 0.0, multiply_add(_excess((power - n) * 0.6931471805599453), scale, scale))
    return where(x < 0.0, lower, 1.0 - lower)


# ---- trigonometric functions: x in quarter turns, of which the whole ones are dropped; for float32 in float64

_QUARTERS = (  # 2^m 2 / pi without whole turns, in two parts; x / 2^m is an integer below 2^50 in all but the first
    (0, 0.6366197723675814, -3.935735335036497e-17),
    (27, -0.5529460512772132, 3.808591801500832e-17),
    (54, 1.2910009524680295, -3.862804515881076e-17),
    (81, -1.3139050952781812, 9.395526559852902e-17),
)
_SIN = (  # (sin(r) - r) / r^3 over r^2; those of float64 are fdlibm's
    (-0.16666655, 0.008332191, -0.00019518599),
    (-0.16666666666666632, 0.00833333333332249, -0.0001984126982985795, 2.7557313707070068e-06, -2.5050760253406863e-08, 1.58969099521155e-10),
)
_COS = (  # (cos(r) - 1 + r^2 / 2) / r^4 over r^2
    (0.041666646, -0.0013887313, 2.4432959e-05),
    (0.0416666666666666, -0.001388888888887411, 2.480158728947673e-05, -2.7557314351390663e-07, 2.087572321298175e-09, -1.1359647557788195e-11),
)


def _wrapped(x: Number) -> tuple[Number, Number]:
    """r from -pi/4 to pi/4 and the number of quarter turns, in its lowest two bits, with x = r + turns * pi / 2: after Payne and Hanek, 1983."""
    x = widened(x)
    size = absolute(x)
    scale, high, low = 1.0, *_QUARTERS[0][1:]
    for power, *parts in _QUARTERS[1:]:
        beyond = size >= 2.0 ** (power + 23)
        scale, high, low = (where(beyond, like(x, new), old) for new, old in zip((2.0**-power, *parts), (scale, high, low)))
    x = x * scale
    turns = x * high
    small = multiply_add(x, low, multiply_add(x, high, -turns))
    whole, first = _rounded(turns, 1, 0)
    large = turns - whole
    total = large + small
    rest = small - (total - large)
    whole, second = _rounded(total, 1, 0)
    return narrowed(((total - whole) + rest) * 1.5707963267948966), narrowed(first + second)


_HALF_PI = (1.5707964, -4.371139e-08), (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33)  # in parts, each what the others lack
_FAR = 2.0**40  # where whole quarter turns of float64 are no longer dropped by the three parts


def _reduced_turn(x: Number) -> tuple[Number, Number, Number]:
    """The same of float64 below `_FAR`, with what r lacks: subtracting the first part times a whole number is exact."""
    first, second, third = choose(x, *_HALF_PI)
    turns, code = _rounded(x, 0.6366197723675814, 0)
    rest = library("fma", turns, like(x, -first), x)
    product = turns * second
    r = rest - product
    back = r - rest
    lost = (rest - (r - back)) - (product + back)
    return r, lost - multiply_add(turns, third, library("fma", turns, like(x, second), -product)), code


def _waves(x: Number) -> tuple[Number, Number, Number]:
    """sin(r), cos(r) and the number of quarter turns."""
    if x.width == 64:
        r, rest, turns = _reduced_turn(x)
        square = r * r
        half = 0.5 * square
        whole = 1.0 - half
        small = multiply_add(square * square, polynomial(square, _COS[1]), ((1.0 - whole) - half) - r * rest)
        cube = r * square
        return r - (multiply_add(0.5 * square, rest, -rest) - cube * polynomial(square, _SIN[1])), whole + small, turns
    r, turns = _wrapped(x)
    square = r * r
    return multiply_add(r * square, polynomial(square, _SIN[0]), r), multiply_add(square * square, polynomial(square, _COS[0]), 1.0 - 0.5 * square), turns


def _turned(sine: Number, cosine: Number, turns: Number) -> Number:
    """The sine after as many quarter turns."""
    return number(bits(where((turns & 1) != 0, cosine, sine)) ^ ((turns & 2) << (turns.width - 2)))


def _of_turn(name: str, x: Number, tiny: float, result: Number) -> Number:
    """A function of an angle: `result` where the angle is not tiny, and where it is not too far for it."""
    result = where(absolute(x) < tiny, x, result) if tiny else result
    return result if x.width == 32 else amended(absolute(x) >= _FAR, result, lambda: lane_by_lane(name, x))


@vector
@branching(64)
def sin(x: Number) -> Number:
    return _of_turn("sin", x, choose(x, 2e-4, 1e-8), _turned(*_waves(x)))


@vector
@branching(64)
def cos(x: Number) -> Number:
    sine, cosine, turns = _waves(x)
    return _of_turn("cos", x, 0.0, _turned(sine, cosine, turns + 1))


@vector
@branching(64)
def tan(x: Number) -> Number:
    sine, cosine, turns = _waves(x)
    odd = (turns & 1) != 0
    return _of_turn("tan", x, choose(x, 2e-4, 1e-8), where(odd, -cosine, sine) / where(odd, sine, cosine))


# ---- inverse trigonometric and hyperbolic functions

_ATAN = (  # (atan(t) - t) / t^3 over t^2, up to 1
    (-0.333333135, 0.199988425, -0.142663464, 0.109585822, -0.0841065422, 0.0579135418, -0.0309912898, 0.0107485, -0.00174370117),
    (-0.3333333333333324, 0.19999999999976292, -0.14285714283804404, 0.11111111038037112, -0.09090907471937215, 0.0769228449548724, -0.06666436182172124,
     0.05880687567330869, -0.05254104584925623, 0.047239281212900844, -0.04222474230566516, 0.03669202432009072, -0.029958535406213186, 0.022023958131292425,
     -0.013912900461696331, 0.0071891110916522645, -0.002873362255050488, 0.0008246772904945106, -0.00015020024403115636, 1.2979577084858152e-05),
)  # fmt: skip
_ASIN = (  # (asin(s) - s) / s^3 over s^2, up to 1/2
    (0.166667312, 0.0749566033, 0.0454669185, 0.0240503717, 0.042565763),
    (0.16666666666666172, 0.07500000000190286, 0.044642856925715436, 0.030381955955868418, 0.02237181721992248, 0.01735903346199214, 0.013889990619151162,
     0.012148606657804366, 0.006577367728440281, 0.01948747983492236, -0.01628930583493327, 0.03203420054728153),
)  # fmt: skip


def _beyond(x: Number, count: int, angle: Number) -> Number:
    """`count` right angles less an angle."""
    high, low, *_ = choose(x, *_HALF_PI)
    return count * high - (angle - count * low)


def _arc(t: Number) -> Number:
    """atan(t) for t from 0 to 1."""
    square = t * t
    return multiply_add(t * square, polynomial(square, choose(t, *_ATAN)), t)


@vector
def atan(x: Number) -> Number:
    a = absolute(x)
    angle = _arc(where(a > 1.0, 1.0 / a, a))
    return with_sign(where(a > 1.0, _beyond(x, 1, angle), angle), x)


@vector
def atan2(y: Number, x: Number) -> Number:
    rise, run = absolute(y), absolute(x)
    steep = rise > run
    long, short = where(steep, rise, run), where(steep, run, rise)
    ratio = where(long == short, where(long == 0.0, long, 1.0), short / long)
    angle = _arc(ratio)
    angle = where(steep, _beyond(x, 1, angle), angle)
    return with_sign(where(bits(x) < 0, _beyond(x, 2, angle), angle), y)


def _halved(x: Number) -> tuple[Number, Number]:
    """Whether |x| > 1/2, and asin(|x|), or then asin(sqrt((1 - |x|) / 2)), which is half of what asin lacks to a right angle."""
    a = absolute(x)
    outer = a > 0.5
    square = where(outer, 0.5 - 0.5 * a, a * a)
    s = where(outer, library("sqrt", square), a)
    return outer, multiply_add(s * square, polynomial(square, choose(x, *_ASIN)), s)


@vector
def asin(x: Number) -> Number:
    outer, angle = _halved(x)
    return with_sign(where(outer, _beyond(x, 1, 2.0 * angle), angle), x)


@vector
def acos(x: Number) -> Number:
    outer, angle = _halved(x)
    double = 2.0 * angle
    return where(outer, where(x < 0.0, _beyond(x, 2, double), double), _beyond(x, 1, with_sign(angle, x)))


@vector
def atanh(x: Number) -> Number:
    a = absolute(x)
    double = a + a
    return with_sign(0.5 * log1p(where(a < 0.5, multiply_add(double, a / (1.0 - a), double), double / (1.0 - a))), x)


def _log_of_double(x: Number, rest: Number) -> Number:
    """log(1 + rest), or log(2 x) where x is so large that its square overflows."""
    large = x > choose(x, 1e9, 1e18)
    return log1p(where(large, x, rest)) + where(large, like(x, 0.6931471805599453), 0.0)


@vector
def asinh(x: Number) -> Number:
    a = absolute(x)
    square = a * a
    return with_sign(_log_of_double(a, a + square / (1.0 + library("sqrt", 1.0 + square))), x)


@vector
def acosh(x: Number) -> Number:
    rest = x - 1.0
    return where(x < 1.0, NAN, _log_of_double(x, rest + library("sqrt", multiply_add(rest, rest, rest + rest))))


# ---- powers: 2^(y log2(x)), in float64 for float32, the logarithm in two parts for float64

_LOG2_RATIO = ((2.8853900817779268, 4.0710547481862066e-17), (0.9617966939259756, 5.057761664812591e-17))  # log2((1 + s) / (1 - s)) / s over s^2: two coefficients in two parts
_LOG2_REST = (0.5770780163555853, 0.4121985831111439, 0.320598897967155, 0.2623081914680772, 0.22195278859312378, 0.19238056559433853, 0.16888530282067538, 0.16912959454482296)


def _exact_product(x: Number, y: Operand) -> tuple[Number, Number]:
    """A product, rounded, and what it was rounded by."""
    product = x * y
    return product, library("fma", x, like(x, y), -product)


def _log2_in_parts(x: Number) -> tuple[Number, Number]:
    """log2(x) to 65 bits, for positive numbers."""
    k, f = _split(x)
    total = 2.0 + f
    inverse = 1.0 / total
    s = f * inverse
    s_rest = (library("fma", -s, total, f) - s * (f - (total - 2.0))) * inverse
    square, square_rest = _exact_product(s, s)
    square_rest = multiply_add(s + s, s_rest, square_rest)
    (first, first_rest), (second, second_rest) = _LOG2_RATIO
    linear, linear_rest = _exact_product(square, second)
    small = multiply_add(square * square, polynomial(square, _LOG2_REST), multiply_add(square_rest, second, multiply_add(square, second_rest, linear_rest)))
    slope = linear + first
    slope_rest = (linear - (slope - first)) + (small + first_rest)
    high, rest = _exact_product(s, slope)
    rest = multiply_add(s, slope_rest, multiply_add(s_rest, slope, rest))
    total = k + high
    return total, (high - (total - k)) + rest


def _raised(size: Number, y: Number) -> Number:
    """size^y of float64."""
    high, rest = _log2_in_parts(size)
    high = where(size == 0.0, -INF, where(size < INF, high, size))
    y = at_most(at_least(y, -(2.0**70)), 2.0**70)
    exponent, lost = _exact_product(y, high)
    near = absolute(exponent) < 1100.0
    exponent = at_most(at_least(exponent, -1100.0), 1100.0)
    n, code = _rounded(exponent, 1, 2 * _bias(y))
    rest = where(near, multiply_add(y, rest, lost), 0.0)
    part = (exponent - n) + rest
    rest = rest - (part - (exponent - n))
    r, r_rest = _exact_product(part, 0.6931471805599453)
    total = 1.0 + r
    small = (r - (total - 1.0)) + multiply_add(rest, 0.6931471805599453, multiply_add(part, 2.3190468138462996e-17, r_rest))
    return _scaled(total + (small + r * r * polynomial(r, _EXP[1])), code)


_LOG2_NEAR = (  # log2(1 + f) / f and (2^r - 1) / r, as exact as a result of float32 needs: no division, which takes longer than all the rest
    1.4426950408862034, -0.7213475203430864, 0.4808983490727961, -0.36067378977100695, 0.28853876232996745, -0.24044662677727305, 0.20610869528306625,
    -0.18043268521020117, 0.16018226130296026, -0.14252340755410017, 0.13062890256021095, -0.13478928738366042, 0.13113743753686682, -0.06806287590390596,
)  # fmt: skip
_EXP2_NEAR = (0.6931471805568324, 0.24022650695888503, 0.055504109063258665, 0.00961812913523614, 0.0013333478473685416, 0.00015403475186530802, 1.530370071136579e-05,
              1.3250805517498237e-06)  # fmt: skip


def _raised_widely(size: Number, y: Number) -> Number:
    """size^y of float32, both widened."""
    k, f = _split(size, False)
    logarithm = where(size == 0.0, -INF, where(size < INF, multiply_add(f, polynomial(f, _LOG2_NEAR), k), size))
    exponent = at_most(at_least(y * logarithm, -200.0), 200.0)
    n, code = _rounded(exponent, 1, _bias(y))
    scale, r = _power_of_two(code, y), exponent - n
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
        scale, back = (where(far, like(x, a), where(near, like(x, b), 1.0)) for a, b in ((2.0**-600, 2.0**600), (2.0**600, 2.0**-600)))
        x, y = x * scale, y * scale
        root = library("sqrt", multiply_add(x, x, y * y)) * back
    return where((absolute(x) == INF) | (absolute(y) == INF), INF, root)


# ---- quotients and what they leave


@vector
def round_even(x: Number) -> Number:
    return library("rint", x)


def _left(x: Number, y: Number) -> Number:
    """What dividing x by y > 0 leaves, with the sign of x, exactly: quotients are taken away as far as they have digits, so that nothing is rounded."""
    step = choose(x, 2.0**100, 2.0**700)

    def take_away(rest: Number) -> list[Number]:
        size = absolute(rest)
        far = y * step
        divisor = where(size >= far * step, far * step, where(size >= far, far, y))  # else the quotient may overflow
        return [library("fma", -library("trunc", rest / divisor), divisor, rest)]

    (rest,) = repeated([where(y == y, absolute(x), NAN)], lambda rest: absolute(rest) >= y, take_away)
    return with_sign(where(rest < 0.0, rest + y, rest), x)


@vector
@branching(32, 64)
def float_remainder(x: Number, y: Number) -> Number:
    return _left(x, absolute(y))


@vector
@branching(32, 64)
def modulus(x: Number, y: Number) -> Number:
    part = float_remainder(x, y)
    return where((part != 0.0) & ((y < 0.0) ^ (part < 0.0)), part + y, part)


@vector
@branching(32, 64)
def floor_quotient(x: Number, y: Number) -> Number:
    part = float_remainder(x, y)
    quotient = (x - part) / y
    quotient = where((part != 0.0) & ((y < 0.0) ^ (part < 0.0)), quotient - 1.0, quotient)
    low = library("floor", quotient)
    low = where(quotient - low > 0.5, low + 1.0, low)
    simple = x / y
    return where(y == 0.0, simple, where(quotient == 0.0, with_sign(like(x, 0.0), simple), low))


# ---- the extremes of two, which the vectoriser knows as reductions


@vector
def larger(x: Number, y: Number) -> Number:
    return library("maximum", x, y)


@vector
def smaller(x: Number, y: Number) -> Number:
    return library("minimum", x, y)
