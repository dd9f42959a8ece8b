"""Special functions that `math` lacks, for kernels; all compute in float64 for full precision in every type.

Formulas are named in Abramowitz and Stegun's Handbook (A&S) or the Digital Library of Mathematical Functions (DLMF).
The rows are in `ops.special`.
"""

from __future__ import annotations

from math import copysign, erf, erfc, exp, expm1, fabs, gamma, lgamma, log, log1p, sin, sqrt, tan

from ..language import bits32, bits64, float64, float_of_bits32, float_of_bits64, floor, int64, uint32, uint64
from ..scalar import scalar, wide_scalar


# ---- gamma and its relatives


@wide_scalar
def digamma(x):
    """Derivative of log gamma: recurrence up to 10, then Stirling's series (A&S 6.3.18); reflected where x < 0."""
    if x == 0.0:
        return copysign(1e400, -x)
    total = 0.0
    if x < 0.0:
        part = x - floor(x)
        if part == 0.0:
            return 1e400 - 1e400
        total = -3.141592653589793 / tan(3.141592653589793 * part)
        x = 1.0 - x
    while x < 10.0:
        total -= 1.0 / x
        x += 1.0
    y = 1.0 / (x * x)
    series = 1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * (691.0 / 32760.0 - y / 12.0))))
    return total + log(x) - 0.5 / x - y * (1.0 / 12.0 - y * series)


@wide_scalar
def trigamma(x):
    """Derivative of digamma: ten steps of the recurrence, then Stirling's series (A&S 6.4.12); reflected below 0.5."""
    y = 1.0 - x if x < 0.5 else x
    total = 0.0
    for _ in range(10):
        total += 1.0 / (y * y)
        y += 1.0
    square = 1.0 / (y * y)
    series = 1.0 / 6.0 - square * (
        1.0 / 30.0
        - square
        * (1.0 / 42.0 - square * (1.0 / 30.0 - square * (5.0 / 66.0 - square * (691.0 / 2730.0 - square * 7.0 / 6.0))))
    )
    total += 1.0 / y + 0.5 * square + square / y * series
    sine = sin(3.141592653589793 * (x - floor(x)))
    return 9.869604401089358 / (sine * sine) - total if x < 0.5 else total


@wide_scalar
def zeta_above(s, q):
    """Hurwitz' zeta function for s > 1, q > 0: terms until q has grown past s, the rest by Euler and Maclaurin (DLMF
    25.11.5).
    """
    total = 0.0
    term = q**-s
    while q < 10.0 + s and term > 1e-17 * total:
        total += term
        q += 1.0
        term = q**-s
    if not q >= 10.0 + s:
        return total + term  # the rest is below rounding, and the series for it would not converge
    factor = s * term / q
    y = 1.0 / (q * q)
    tail = q * term / (s - 1.0) + 0.5 * term + factor / 12.0
    factor *= (s + 1.0) * (s + 2.0) * y
    tail -= factor / 720.0
    factor *= (s + 3.0) * (s + 4.0) * y
    tail += factor / 30240.0
    factor *= (s + 5.0) * (s + 6.0) * y
    tail -= factor / 1209600.0
    factor *= (s + 7.0) * (s + 8.0) * y
    tail += factor / 47900160.0
    factor *= (s + 9.0) * (s + 10.0) * y
    tail -= factor * 691.0 / 1307674368000.0
    factor *= (s + 11.0) * (s + 12.0) * y
    tail += factor / 74724249600.0
    return total + tail


@wide_scalar
def zeta(s, q):
    """Hurwitz' zeta function, the sum of (q + k)^-s.

    A negative q is split into its finitely many negative terms and the rest.
    """
    if s == 1.0:
        return 1e400
    if not s > 1.0 or q != q:
        return 1e400 - 1e400
    if q > 0.0:
        return zeta_above(s, q)
    part = q - floor(q)
    if part == 0.0:
        return 1e400
    if s != floor(s):
        return 1e400 - 1e400
    # not 1 - part: if q is small, part has lost its last digits
    negative = zeta_above(s, -floor(-q) - q) - zeta_above(s, 1.0 - q)
    return zeta_above(s, part) + (negative if s == 2.0 * floor(0.5 * s) else -negative)


@wide_scalar
def polygamma(n, x):
    """The n-th derivative of digamma: (-1)^(n + 1) n! zeta(n + 1, x) (A&S 6.4.10)."""
    if n == 0.0:
        return digamma(x)
    value = exp(lgamma(n + 1.0)) * zeta(n + 1.0, x) if n > 170.0 else gamma(n + 1.0) * zeta(n + 1.0, x)
    return -value if n == 2.0 * floor(0.5 * n) else value


@wide_scalar
def excess(x):
    """x - log(1 + x) without cancellation, by the series of atanh where x is small."""
    if fabs(x) > 0.5:
        return x - log1p(x)
    r = x / (2.0 + x)
    y = r * r
    total = 0.0
    for k in range(17, 0, -1):
        total = y * (total + 1.0 / (2.0 * k + 1.0))
    return r * (x - 2.0 * total)


@wide_scalar
def gamma_density(a, x):
    """x^a exp(-x) / gamma(a + 1).

    For large a, unless x is far below it, by Stirling's series, in which no large terms cancel.
    """
    if a > 140.0 or (a >= 20.0 and x > 0.5 * a):
        y = 1.0 / (a * a)
        stirling = (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y / 1188.0)))) / a
        ratio = (x - a) / a
        return (
            exp(-a * (excess(ratio) if fabs(ratio) < 0.5 else ratio - log(x / a)) - stirling)
            * 0.3989422804014327
            / sqrt(a)
        )
    if x < 300.0:
        return x**a * exp(-x) / gamma(a + 1.0)
    return exp(a * log(x) - x - lgamma(a + 1.0))


@wide_scalar
def incomplete_gamma_slope(a, x):
    """x^(a - 1) exp(-x) / gamma(a), the derivative of the lower incomplete gamma function."""
    if x == 0.0:
        return 0.0 if a > 1.0 else 1.0 if a == 1.0 else 1e400
    if not (a >= 0.0 and x > 0.0):
        return 1e400 - 1e400
    return gamma_density(a, x) * a / x if x < 1e300 else 0.0


@wide_scalar
def uniform_gamma(a, x, upper):
    """The incomplete gamma function for a large a by Temme's uniform expansion (DLMF 8.12.3), to order a^-3."""
    ratio = (x - a) / a
    distance = excess(ratio)
    eta = copysign(sqrt(2.0 * distance), ratio)
    t = copysign(min(fabs(eta), 1.0), ratio)  # beyond 1 the exponential below is 0
    c2 = 0.0007716049382716049
    c2 = (c2 * t - 0.0026813271604938273) * t + 0.004133597883597883
    c1 = -4.018775720164609e-07
    c1 = (
        (((c1 * t + 0.00020576131687242798) * t - 0.0009902263374485596) * t + 0.0026455026455026454) * t
        - 0.003472222222222222
    ) * t - 0.001851851851851852
    c0 = -4.382036018453353e-09
    c0 = (
        (((c0 * t + 1.0261809784240309e-08) * t + 6.707853543401498e-09) * t - 1.7665952736826078e-07) * t
        + 8.296711340953087e-07
    ) * t - 1.85406221071516e-06
    c0 = (
        (((c0 * t - 2.185448510679992e-06) * t + 3.919263178522438e-05) * t - 0.0001787551440339218) * t
        + 0.0003527336860670194
    ) * t + 0.0011574074074074073
    c0 = ((c0 * t - 0.014814814814814815) * t + 0.08333333333333333) * t - 0.3333333333333333
    rest = exp(-a * distance) * 0.3989422804014327 / sqrt(a) * (c0 + (c1 + c2 / a) / a)
    return 0.5 * erfc(eta * sqrt(0.5 * a)) + rest if upper else 0.5 * erfc(-eta * sqrt(0.5 * a)) - rest


@wide_scalar
def incomplete_gamma(a, x, upper):
    """Regularised incomplete gamma function, lower or (upper = 1) upper.

    Power series below a + 1, continued fraction above (A&S 6.5.29, 6.5.31).
    """
    if (
        not (a >= 0.0 and x >= 0.0)
        or (a == 0.0 and x == 0.0)
        or (a > 1.7976931348623157e308 and x > 1.7976931348623157e308)
    ):
        return 1e400 - 1e400
    if x == 0.0 or a > 1.7976931348623157e308:
        return 1.0 if upper else 0.0
    if a == 0.0 or x > 1.7976931348623157e308:
        return 0.0 if upper else 1.0
    if a > 10000.0:
        return uniform_gamma(a, x, upper)
    if upper and a < 1.0 and x <= 1.1:
        return small_upper_gamma(a, x)
    density = gamma_density(a, x)
    if x < a + 1.0:
        term = 1.0
        total = 1.0
        n = a
        while term > 1e-17 * total:
            n += 1.0
            term *= x / n
            total += term
        return 1.0 - density * total if upper else density * total
    b = x + 1.0 - a
    c = 1e300
    d = 1.0 / b
    value = d
    k = 0.0
    change = 0.0
    while fabs(change - 1.0) > 1e-16 and k < 100000.0:
        k += 1.0
        b += 2.0
        d = 1.0 / (b - k * (k - a) * d)
        c = b - k * (k - a) / c
        change = c * d
        value *= change
    value *= density * a
    return value if upper else 1.0 - value


@wide_scalar
def small_upper_gamma(a, x):
    """The upper incomplete gamma function for a < 1 and a small x (A&S 6.5.29).

    It is 1 minus the power series, computed without the subtraction.
    """
    near = 1.0 + a
    # log gamma(1 + a), corrected for the rounding of 1 + a
    logarithm = lgamma(near) + digamma(near) * (a - (near - 1.0))
    power = a * log(x) - logarithm
    term = 1.0
    total = 0.0
    for k in range(1, 30):
        term *= -x / k
        total += term / (a + k)
    return -expm1(power) - a * exp(power) * total


# ---- error function and normal distribution


@wide_scalar
def erfcx(x):
    """exp(x^2) erfc(x).

    (1 + 2x) times it is a polynomial in (x - 3.75) / (x + 3.75), after Shepherd and Laframboise, 1981, fitted to 30
    terms.
    """
    y = fabs(x)
    t = (y - 3.75) / (y + 3.75) if y < 1e300 else 1.0
    value = 1.0025828126770392e-12
    value = (
        ((value * t + 1.3044442522753113e-11) * t - 5.474680209802051e-12) * t - 1.647059420509794e-10
    ) * t - 2.60179937204658e-11
    value = (
        ((value * t + 1.187560812244071e-09) * t + 5.366153829724437e-10) * t - 7.0705951743345486e-09
    ) * t - 4.395643933011148e-09
    value = (
        ((value * t + 4.1602904023333066e-08) * t + 2.431232515000242e-08) * t - 2.6166884528581574e-07
    ) * t - 5.828827783766716e-08
    value = (
        ((value * t + 1.753745843453635e-06) * t - 9.728327812064796e-07) * t - 1.1445172561420112e-05
    ) * t + 2.2383904876445646e-05
    value = (
        ((value * t + 5.1649442877311626e-05) * t - 0.00029015397728117225) * t + 0.0002937135880316984
    ) * t + 0.0017556258320574729
    value = (
        ((value * t - 0.009746579546772877) * t + 0.028362277421556188) * t - 0.05869339859061101
    ) * t + 0.09230432116019581
    value = (
        ((value * t - 0.10880393014170497) * t + 0.0822767384901511) * t + 0.003585415485463652
    ) * t - 0.14024059858554702
    value = value * t + 1.2375126308378275
    value = value / (1.0 + 2.0 * y)
    if x != x:
        return x
    if x >= 0.0:
        return value
    if x < -30.0:
        return 1e400
    high = float64(int64(x * 1048576.0)) * 9.5367431640625e-07  # x * x in two parts: exp would magnify its rounding
    return 2.0 * exp(high * high) * exp((x - high) * (x + high)) - value


@wide_scalar
def erfcx_slope(x):
    """The derivative of erfcx, 2 x erfcx(x) - 2 / sqrt(pi).

    Where that cancels, (1 + 2x)^2 times it is a polynomial in (x - 3.75) / (x + 3.75).
    """
    if x < 0.0:
        return 2.0 * x * erfcx(x) - 1.1283791670955126
    t = (x - 3.75) / (x + 3.75) if not x >= 1e300 else 1.0
    value = 1.434446805567107e-10
    value = (
        ((value * t - 1.802377847713184e-09) * t - 2.4511695344644e-09) * t + 2.159005034779426e-08
    ) * t + 2.2524181882040755e-08
    value = (
        ((value * t - 1.4781504222619366e-07) * t - 1.5101432268686487e-07) * t + 8.450418749666797e-07
    ) * t + 8.112727617714936e-07
    value = (
        ((value * t - 4.836570601639983e-06) * t - 3.162414108520081e-06) * t + 2.9265475590462894e-05
    ) * t - 5.333274664976656e-07
    value = (
        ((value * t - 0.00017650175358393237) * t + 0.0002031110563352249) * t + 0.0008411148480607226
    ) * t - 0.0028273469887737067
    value = (
        ((value * t + 0.00041165936597589784) * t + 0.018681797814122193) * t - 0.06318028523996765
    ) * t + 0.11387123741079602
    value = (
        ((value * t - 0.10716921207957367) * t - 0.036318244109715694) * t + 0.3296092231253472
    ) * t - 0.6428036856012782
    value = (
        ((value * t + 0.7298340712562945) * t - 0.39219971041081325) * t - 0.3260056318942909
    ) * t + 2.633964606739275
    return -value / (1.0 + 2.0 * x) / (1.0 + 2.0 * x)


@wide_scalar
def log_ndtr_slope(x):
    """The derivative of log_ndtr, the normal density over its distribution function."""
    if x < 0.0:
        return 0.7978845608028654 / erfcx(-0.7071067811865476 * x)
    # x * x in two parts: exp would magnify its rounding
    high = float64(int64(x * 1048576.0)) * 9.5367431640625e-07 if x < 40.0 else 40.0
    density = exp(-0.5 * high * high) * exp(-0.5 * (x - high) * (x + high))
    return 0.3989422804014327 * density / (0.5 * erfc(-0.7071067811865476 * x))


@wide_scalar
def log_ndtr(x):
    """Logarithm of the normal distribution function."""
    if x < -1.0:
        return log(0.5 * erfcx(-0.7071067811865476 * x)) - 0.5 * x * x
    return log1p(-0.5 * erfc(0.7071067811865476 * x))


@wide_scalar
def ndtri(p):
    """Inverse of the normal distribution function: Acklam's estimate (2003), good to 1e-9, then a step of Halley."""
    if not (p > 0.0 and p < 1.0):
        return -1e400 if p == 0.0 else 1e400 if p == 1.0 else 1e400 - 1e400
    if p == 0.5:
        return 0.0
    low = min(p, 1.0 - p)
    if low < 0.02425:
        t = sqrt(-2.0 * log(low))
        z = (
            (((-7.784894002430293e-03 * t - 3.223964580411365e-01) * t - 2.400758277161838) * t - 2.549732539343734) * t
            + 4.374664141464968
        ) * t + 2.938163982698783
        z = z / (
            (((7.784695709041462e-03 * t + 3.224671290700398e-01) * t + 2.445134137142996) * t + 3.754408661907416) * t
            + 1.0
        )
    else:
        t = low - 0.5
        r = t * t
        z = (
            (((-39.69683028665376 * r + 220.9460984245205) * r - 275.9285104469687) * r + 138.3577518672690) * r
            - 30.66479806614716
        ) * r + 2.506628277459239
        z = (
            z
            * t
            / (
                (
                    (((-54.47609879822406 * r + 161.5858368580409) * r - 155.6989798598866) * r + 66.80131188771972) * r
                    - 13.28068155288572
                )
                * r
                + 1.0
            )
        )
    z = -z
    if low > 0.25:  # the difference from 0.5 is exact, and all that counts near it
        error = 2.5066282746310002 * exp(0.5 * z * z) * ((0.5 - low) - 0.5 * erf(0.7071067811865476 * z))
    else:
        share = low * exp(0.5 * z * z) if low > 1e-280 else exp(log(low) + 0.5 * z * z)
        error = 1.2533141373155003 * erfcx(0.7071067811865476 * z) - 2.5066282746310002 * share
    z = z + error / (1.0 + 0.5 * z * error)
    return -z if p < 0.5 else z


# ---- whole numbers and neighbours


@scalar
def greatest_divisor(x, y):
    """Greatest common divisor of two integers, not negative (Euclid)."""
    x = abs(x)
    y = abs(y)
    while y != 0:
        rest = x % y
        x = y
        y = rest
    return x


@scalar
def neighbour(x, y):
    """The next number after x towards y, in the kernel's type."""
    if x != x or y != y:
        return x + y
    if x == y:
        return y
    outwards = (y > x) == (x > 0.0)
    if 1.0 + 1e-12 != 1.0:  # literals have the kernel's type: true in float64, false in float32
        if x == 0.0:
            return copysign(float_of_bits64(uint64(1)), y)
        return float_of_bits64(bits64(x) + uint64(1) if outwards else bits64(x) - uint64(1))
    if x == 0.0:
        return copysign(float_of_bits32(uint32(1)), y)
    return float_of_bits32(uint32(bits32(x) + uint32(1)) if outwards else uint32(bits32(x) - uint32(1)))
