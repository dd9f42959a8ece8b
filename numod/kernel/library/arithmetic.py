"""Functions that `math` does not have, or that Numba does not support."""

from __future__ import annotations

from math import copysign, erf, erfc, exp, fabs, log1p, sqrt

from ..language import float64, floor, int64, real
from ..scalar import scalar


@scalar
def lifted_exp(x):
    """exp(x) for x <= 0, times the power of two `lifted_exp(0.0)`.

    It is so large that no result is subnormal, and one scaling is enough.
    """
    return exp(x)


@scalar
def exp2(x):
    """2 to the power x, where the target has no function of its own."""
    return 2.0**x


@scalar
def power(x, y):
    """x to the power y, where the target has no function of its own."""
    return x**y


@scalar
def normal_cdf(x):
    """The standard normal distribution function of a float32, to an absolute error of 2e-7.

    It takes half of the instructions of erfc.
    """
    if 1.0 + 1e-10 != 1.0:  # true in float64; the compiler removes the other branch
        return 0.5 * erfc(-0.7071067811865476 * x)
    a = 6.0 if fabs(x) > 6.0 else fabs(x)
    slope = 4.1029944e-05 + a * (
        -0.00031449448
        + a * (9.321387e-05 + a * (-1.574514e-05 + a * (1.6580359e-06 + a * (-1.0125641e-07 + a * 2.7431384e-09))))
    )
    slope = -1.1511046 + a * (-0.45921922 + a * (-0.05243764 + a * (0.0069230674 + a * slope)))  # log2(2 Phi(-a)) / a
    lower = 0.0 if fabs(x) > 6.0 else exp2(a * slope - 1.0)
    return lower if x < 0.0 else 1.0 - lower


@scalar
def erfinv(x):
    """Inverse error function, exact to rounding inside (-1, 1).

    Winitzki's approximation (2008), then Newton steps with erf.
    """
    if x <= -1.0 or x >= 1.0 or x != x:
        return copysign(real(1e400), x) if (x == 1.0 or x == -1.0) else real(1e400) - real(1e400)
    logarithm = log1p(-x * x)
    middle = 4.330746750799873 + 0.5 * logarithm
    value = copysign(sqrt(sqrt(middle * middle - logarithm * 6.802721088435375) - middle), x)
    for _ in range(3):
        error = erf(value) - x if fabs(x) < 0.5 else ((1.0 - fabs(x)) - erfc(fabs(value))) * copysign(real(1.0), x)
        value = value - error * 0.886226925452758 * exp(value * value)
    return value


@scalar
def round_even(x):
    """Nearest integer, halves to even, the sign of zero kept."""
    low = floor(x)
    part = x - low
    up = part > 0.5 or (part == 0.5 and low - 2.0 * floor(0.5 * low) != 0.0)
    return copysign(low + 1.0 if up else low, x)


@scalar
def round_small(x):
    """Nearest integer, halves to even, for float32 numbers below 2^22: a sum with 1.5 * 2^23 has no fraction."""
    return (x + 12582912.0) - 12582912.0


@scalar
def fmod(x, y):
    """Exact, with the sign of x.

    (Numba lacks math.fmod on the CPU; between positive numbers % is the same there. On a GPU % is x - y trunc(x / y).)
    """
    return copysign(fabs(x) % fabs(y), x)


@scalar
def floor_quotient(x, y):
    """Quotient rounded towards minus infinity, exact where it is an integer; x / 0 is an infinity or NaN, as in
    PyTorch.
    """
    if y == 0.0:
        return x / y
    part = fmod(x, y)
    quotient = (x - part) / y
    if part != 0.0 and (y < 0.0) != (part < 0.0):
        quotient = quotient - 1.0
    if quotient == 0.0:
        return copysign(real(0.0), x / y)
    low = floor(quotient)
    return low + 1.0 if quotient - low > 0.5 else low


@scalar
def modulus(x, y):
    """Remainder with the sign of the divisor."""
    part = fmod(x, y)
    return part + y if part != 0.0 and (y < 0.0) != (part < 0.0) else part


@scalar
def whole_power(x, y):
    """A power of integers, which wraps around; of a negative exponent 0, unless x is 1 or -1.

    (Numba's computes those beyond 2^16 as floats.)
    """
    base, exponent, result = int64(x), int64(y), int64(1)
    if exponent < 0:
        exponent = exponent & 1 if base == 1 or base == -1 else int64(1)
        base = base if base == 1 or base == -1 else int64(0)
    while exponent > 0:
        result = result * base if exponent & 1 else result
        base = base * base
        exponent = exponent >> 1
    return result


@scalar
def whole_quotient(x, y):
    """Quotient of integers rounded towards minus infinity; 0 if the divisor is 0 (the caller checks that).

    Has no branches and no integer division, so that loops are vectorised. The float64 quotient is off by at most 2^12. The
    remainder, correct modulo 2^64, is divided likewise: then the quotient is at most two too large, or one too small.
    """
    x, y = int64(x), int64(y)
    divisor = y if y != 0 else int64(1)
    inverse = 1.0 / float64(divisor)
    quotient = int64(float64(x) * inverse)  # of 2^63 the least int64, to which 2^63 wraps
    rest = x - quotient * divisor
    more = int64(float64(rest) * inverse)
    quotient, rest = quotient + more, rest - more * divisor
    for _ in range(2):
        low = (rest != 0) & ((rest < 0) != (divisor < 0))
        quotient, rest = quotient - int64(low), rest + (divisor if low else int64(0))
    high = (rest >= divisor) if divisor > 0 else (rest <= divisor)
    return quotient + int64(high) if y != 0 else int64(0)


@scalar
def truncated(x, y):
    """Integer quotient rounded towards zero; 0 where the divisor is 0 (the caller refuses that first)."""
    quotient = whole_quotient(x, y)
    return quotient + int64((quotient < 0) & (quotient * y != x))


@scalar
def larger(x, y):
    """The greater of two; NaN where one is."""
    return x if (x > y) | (x != x) else y


@scalar
def smaller(x, y):
    """The lesser of two; NaN where one is."""
    return x if (x < y) | (x != x) else y


@scalar
def log_add(a, b):
    """log(exp(a) + exp(b)), also where one or both are -inf."""
    high = max(a, b)
    low = min(a, b)
    return high if low == -1e400 else high + log1p(exp(low - high))


@scalar
def sigmoid_of(x):
    """1 / (1 + exp(-x)) without overflow."""
    part = exp(-fabs(x))
    return (1.0 if x >= 0.0 else part) / (1.0 + part)
