"""Bessel functions of order 0 and 1 for every target, in plain float64 arithmetic.

Not vectorised: see `vector_math.bessel`. References as in `special` (A&S).
"""

from __future__ import annotations

from math import cos, exp, fabs, log, sin, sqrt

from ..scalar import wide_scalar


@wide_scalar
def scaled_bessel_i(order, x):
    """exp(-|x|) I(x): the power series, whose terms are positive (A&S 9.6.10), up to 30; Hankel's expansion beyond (A&S
    9.7.1).
    """
    y = fabs(x)
    term = 1.0
    total = 1.0
    if y <= 30.0:
        quarter = 0.25 * y * y
        k = 1.0
        while term > 1e-17 * total:
            term *= quarter / (k * (k + order))
            total += term
            k += 1.0
        total *= exp(-y) * (0.5 * y if order else 1.0)
    else:
        for k in range(1, 25):
            term *= ((2.0 * k - 1.0) * (2.0 * k - 1.0) - 4.0 * order) / (8.0 * k * y)
            total += term
        total *= 0.3989422804014327 / sqrt(y)
    return -total if order and x < 0.0 else total


@wide_scalar
def bessel_i(order, x):
    """Modified Bessel function of the first kind."""
    half = exp(0.5 * fabs(x))
    return scaled_bessel_i(order, x) * half * half


@wide_scalar
def bessel_i0(x):
    """The modified Bessel function of the first kind, of order 0."""
    return bessel_i(0, x)


@wide_scalar
def bessel_i1(x):
    """The modified Bessel function of the first kind, of order 1."""
    return bessel_i(1, x)


@wide_scalar
def bessel_i0e(x):
    """The modified Bessel function of the first kind, of order 0, times exp(-|x|)."""
    return scaled_bessel_i(0, x)


@wide_scalar
def bessel_i1e(x):
    """The modified Bessel function of the first kind, of order 1, times exp(-|x|)."""
    return scaled_bessel_i(1, x)


@wide_scalar
def bessel_series(order, y, sign):
    """The sums over k of t and of (psi(k + 1) + psi(k + 1 + order)) t (A&S 9.1.10, 9.1.13).

    t is sign^k (y / 2)^(2k + order) / (k! (k + order)!).
    """
    quarter = 0.25 * sign * y * y
    term = 0.5 * y if order else 1.0
    psi = -1.1544313298030657 + order
    total = term
    weighted = psi * term
    for k in range(1, 26):
        term *= quarter / (k * (k + order))
        psi += 1.0 / k + 1.0 / (k + order)
        total += term
        weighted += psi * term
    return total, weighted


@wide_scalar
def bessel_recurrence(order, y):
    """J(y) and Neumann's sum for Y(y) (A&S 9.1.88), for 4 < y < 25, by Miller's backward recurrence from order 80."""
    above = 0.0
    here = 1e-200
    norm = 0.0
    sum0 = 0.0
    sum1 = 0.0
    for n in range(80, 0, -1):
        below = 2.0 * n / y * here - above
        above = here
        here = below
        m = n - 1
        sign = 1.0 if (m // 2) % 2 == 0 else -1.0
        if m % 2 == 0:
            norm += 2.0 * here
            if m > 0:
                sum0 += sign * here / (m // 2)
        elif m > 1:
            sum1 += sign * here * m / ((m // 2) * (m // 2 + 1.0))
    norm -= here
    return (above / norm, sum1 / norm) if order else (here / norm, 2.0 * sum0 / norm)


@wide_scalar
def bessel_waves(order, y):
    """J(y) and Y(y) by Hankel's expansion (A&S 9.2.5, 9.2.6), for y >= 25."""
    term = 1.0
    p = 1.0
    q = 0.0
    for k in range(1, 25):
        term *= (4.0 * order - (2.0 * k - 1.0) * (2.0 * k - 1.0)) / (8.0 * k * y)
        if k % 2:
            q += term if k % 4 == 1 else -term
        else:
            p += term if k % 4 == 0 else -term
    plus = sin(y) + cos(y)
    minus = sin(y) - cos(y)
    cosine = minus if order else plus
    sine = -plus if order else minus
    scale = 0.5641895835477563 / sqrt(y)
    return scale * (p * cosine - q * sine), scale * (p * sine + q * cosine)


@wide_scalar
def bessel_j(order, x):
    """Bessel function of the first kind."""
    y = fabs(x)
    if y > 1.7976931348623157e308:
        return 0.0
    value = (
        bessel_series(order, y, -1.0)[0]
        if y <= 4.0
        else bessel_recurrence(order, y)[0]
        if y < 25.0
        else bessel_waves(order, y)[0]
    )
    return -value if order and x < 0.0 else value


@wide_scalar
def bessel_y(order, x):
    """Bessel function of the second kind."""
    if x == 0.0:
        return -1e400
    if not x > 0.0:
        return 1e400 - 1e400
    if x > 1.7976931348623157e308:
        return 0.0
    if x >= 25.0:
        return bessel_waves(order, x)[1]
    logarithm = log(x) - 0.6931471805599453
    if x <= 4.0:
        total, weighted = bessel_series(order, x, -1.0)
        return 0.3183098861837907 * (2.0 * logarithm * total - weighted - (2.0 / x if order else 0.0))
    total, rest = bessel_recurrence(order, x)
    value = (logarithm + 0.5772156649015329 - order) * total - rest
    if order:
        value -= bessel_recurrence(0, x)[0] / x
    return 0.6366197723675814 * value


@wide_scalar
def scaled_bessel_k(order, x):
    """exp(x) K(x): series up to 2 (A&S 9.6.11), Temme's continued fraction beyond (Journal of Computational Physics 19,
    1975).
    """
    if x == 0.0:
        return 1e400
    if not x > 0.0:
        return 1e400 - 1e400
    if x <= 2.0:
        total, weighted = bessel_series(order, x, 1.0)
        value = log(0.5 * x) * total - 0.5 * weighted
        return exp(x) * (1.0 / x + value if order else -value)
    if x > 1e300:
        return 1.2533141373155003 / sqrt(x)
    b = 2.0 * (1.0 + x)
    d = 1.0 / b
    step = d
    h = d
    q1 = 0.0
    q2 = 1.0
    c = 0.25
    q = 0.25
    a = -0.25
    total = 1.0 + q * step
    for k in range(2, 200):
        a -= 2.0 * (k - 1.0)
        c = -a * c / k
        new = (q1 - b * q2) / a
        q1 = q2
        q2 = new
        q += c * new
        b += 2.0
        d = 1.0 / (b + a * d)
        step = (b * d - 1.0) * step
        h += step
        total += q * step
        if fabs(q * step) < 1e-17 * total:
            break
    value = 1.2533141373155003 / sqrt(x) / total
    return value * (x + 0.5 - 0.25 * h) / x if order else value


@wide_scalar
def bessel_j0(x):
    """The Bessel function of the first kind, of order 0."""
    return bessel_j(0, x)


@wide_scalar
def bessel_j1(x):
    """The Bessel function of the first kind, of order 1."""
    return bessel_j(1, x)


@wide_scalar
def bessel_y0(x):
    """The Bessel function of the second kind, of order 0."""
    return bessel_y(0, x)


@wide_scalar
def bessel_y1(x):
    """The Bessel function of the second kind, of order 1."""
    return bessel_y(1, x)


@wide_scalar
def bessel_k0e(x):
    """The modified Bessel function of the second kind, of order 0, times exp(x)."""
    return scaled_bessel_k(0, x)


@wide_scalar
def bessel_k1e(x):
    """The modified Bessel function of the second kind, of order 1, times exp(x)."""
    return scaled_bessel_k(1, x)


@wide_scalar
def bessel_i_gap(x):
    """exp(-|x|) (I0(x) - I1(|x|)): beyond 8, |x|^(3/2) times it is a polynomial in 16 / |x| - 1, so that nothing
    cancels.
    """
    y = fabs(x)
    if y <= 8.0:
        return scaled_bessel_i(0, y) - scaled_bessel_i(1, y)
    t = 16.0 / y - 1.0
    value = -1.8304022518813494e-09
    value = (
        ((value * t + 1.080902391321681e-09) * t + 1.2878575208047424e-08) * t - 7.441559230114979e-09
    ) * t - 4.2615018572771984e-08
    value = (
        ((value * t + 2.309729930802236e-08) * t + 9.119269640350881e-08) * t - 4.110773605716881e-08
    ) * t - 1.4917203356328575e-07
    value = (
        ((value * t + 3.5763255892111246e-08) * t + 2.059585123446264e-07) * t + 3.8641580378565614e-08
    ) * t - 2.1913644290817756e-07
    value = (
        ((value * t - 2.2053169166200564e-07) * t + 4.33403991195765e-09) * t + 2.51530489233608e-07
    ) * t + 4.6732120299817433e-07
    value = (
        ((value * t + 8.519367368799853e-07) * t + 2.167813519528063e-06) * t + 8.164115368299275e-06
    ) * t + 4.493600847609857e-05
    value = ((value * t + 0.00037396928731067773) * t + 0.0053132601242864425) * t + 0.20444880670617205
    return value / (y * sqrt(y)) if y < 1e200 else value / y / sqrt(y)


@wide_scalar
def bessel_k_gap(x):
    """exp(x) (K1(x) - K0(x)): beyond 1, x^(3/2) times it is a polynomial in 2 / x - 1, so that nothing cancels."""
    if not x > 1.0:
        return scaled_bessel_k(1, x) - (scaled_bessel_k(0, x) if x > 0.0 else 0.0)
    t = 2.0 / x - 1.0
    value = -2.2945742295654452e-07
    value = (
        ((value * t + 3.092911764781114e-07) * t + 1.4170302249454407e-06) * t - 1.9052502979858996e-06
    ) * t - 4.082353496778853e-06
    value = (
        ((value * t + 5.48310840955925e-06) * t + 7.06209567978534e-06) * t - 9.473870064602405e-06
    ) * t - 8.215174939831118e-06
    value = (
        ((value * t + 1.101910110314848e-05) * t + 6.601346788801099e-06) * t - 8.834411734478564e-06
    ) * t - 4.008808121882271e-06
    value = (
        ((value * t + 5.403395662247039e-06) * t + 1.2945045111906887e-06) * t - 1.6310063579695584e-06
    ) * t - 1.4203960836760133e-06
    value = (
        ((value * t + 2.2315705045878744e-06) * t - 2.60555362366051e-06) * t + 4.64061273593006e-06
    ) * t - 8.650311350957308e-06
    value = (
        ((value * t + 1.6031303658785226e-05) * t - 3.0603066375527306e-05) * t + 6.0607247069127606e-05
    ) * t - 0.00012515810644250962
    value = (
        ((value * t + 0.00027183395157591753) * t - 0.0006285430606497791) * t + 0.0015751803855562226
    ) * t - 0.004402445648500042
    value = ((value * t + 0.014443261912216091) * t - 0.062283744140890426) * t + 0.5427995802158434
    return value / (x * sqrt(x)) if x < 1e200 else value / x / sqrt(x)


@wide_scalar
def airy_ai(x):
    """Airy's function Ai: its series up to |x| = 1 (A&S 10.4.2); beyond, the integral of exp(-sqrt(x) t^2) cos(t^3 / 3)
    over t > 0, times exp(-zeta) / pi with zeta = 2/3 x^(3/2) (Gil, Segura and Temme, 2002), by the trapezoidal rule,
    whose error falls exponentially. Ai(-x) = 2 Re(w Ai(x w)), w = exp(pi i / 3).
    """
    y = fabs(x)
    if y <= 1.0:
        even = 0.35502805388781724
        odd = 0.2588194037928068 * x
        total = even - odd
        for k in range(1, 9):
            even *= x * x * x / ((3.0 * k - 1.0) * (3.0 * k))
            odd *= x * x * x / ((3.0 * k) * (3.0 * k + 1.0))
            total += even - odd
        return total
    root = sqrt(y)
    zeta = y * root / 1.5
    step = 0.15 / sqrt(root)
    total = 0.0
    for k in range(45):
        t = k * step
        squared = root * t * t
        if x > 0.0:
            part = exp(-squared)
        else:
            part = 2.0 * exp(-0.8660254037844386 * squared) * cos(1.0471975511965976 - zeta - 0.5 * squared)
        total += part * cos(t * t * t / 3.0) * (1.0 if k else 0.5)
    total *= step * 0.3183098861837907
    return total * exp(-zeta) if x > 0.0 else total
