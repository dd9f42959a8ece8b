"""Logarithms of densities and their derivatives, in float64: without the cancellation of log gammas at large
parameters.

`excess(t)` is t - log(1 + t). Stirling's series are those of Abramowitz and Stegun's Handbook (A&S 6.1.41, 6.3.18).
"""

from __future__ import annotations

from math import fabs, lgamma, log, log1p

from ..scalar import wide_scalar
from .special import digamma, excess


@wide_scalar
def gamma_peak(a):
    """a log(a) - a - log gamma(a)."""
    if a < 10.0:
        return (a * log(a) if a > 0.0 else 0.0) - a - lgamma(a)
    y = 1.0 / (a * a)
    series = 1.0 / 12.0 - y * (
        1.0 / 360.0 - y * (1.0 / 1260.0 - y * (1.0 / 1680.0 - y * (1.0 / 1188.0 - y * (691.0 / 360360.0 - y / 156.0))))
    )
    return 0.5 * log(0.15915494309189535 * a) - series / a


@wide_scalar
def digamma_gap(a):
    """log(a) - digamma(a): the recurrence up to 10, whose terms are positive, then Stirling's series."""
    total = 0.0
    while a < 10.0:
        total += excess(1.0 / a)
        a += 1.0
    y = 1.0 / (a * a)
    series = 1.0 / 12.0 - y * (
        1.0 / 120.0 - y * (1.0 / 252.0 - y * (1.0 / 240.0 - y * (1.0 / 132.0 - y * (691.0 / 32760.0 - y / 12.0))))
    )
    return total + 0.5 / a + y * series


@wide_scalar
def log_of_share(x, a, rise):
    """log(x / a), with rise = x - a."""
    return log1p(rise / a) if fabs(rise) <= 0.5 * a else log(x) - log(a)


@wide_scalar
def shortfall(x, a, rise):
    """x - a - a log(x / a), with rise = x - a."""
    return a * excess(rise / a) if fabs(rise) <= 0.5 * a else rise - a * log_of_share(x, a, rise)


@wide_scalar
def gamma_log_density(x, a, rate):
    """a log(rate) + (a - 1) log(x) - rate x - log gamma(a)."""
    scaled = rate * x
    if x > 0.0 and scaled > 0.0 and a > 10.0 and scaled < 1e300:
        return gamma_peak(a) - shortfall(scaled, a, scaled - a) - log(x)
    power = (a - 1.0) * log(x) if a != 1.0 else 0.0
    return (a * log(rate) if a != 0.0 else 0.0) + power - scaled - lgamma(a)


@wide_scalar
def gamma_shape_slope(x, a, rate):
    """The derivative of gamma_log_density by a, log(rate x) - digamma(a)."""
    scaled = rate * x
    if scaled > 0.0 and scaled < 1e300:
        return log_of_share(scaled, a, scaled - a) + digamma_gap(a)
    return log(scaled) - digamma(a)


@wide_scalar
def beta_log_density(x, a, b):
    """(a - 1) log(x) + (b - 1) log(1 - x) + log gamma(a + b) - log gamma(a) - log gamma(b)."""
    n = a + b
    if x > 0.0 and x < 1.0 and a > 0.0 and b > 0.0:
        rise = n * x - a
        away = shortfall(n * x, a, rise) + shortfall(n * (1.0 - x), b, -rise)
        return gamma_peak(a) + gamma_peak(b) - gamma_peak(n) - away - log(x) - log1p(-x)
    low = (a - 1.0) * log(x) if a != 1.0 else 0.0
    high = (b - 1.0) * log1p(-x) if b != 1.0 else 0.0
    return low + high + lgamma(n) - lgamma(a) - lgamma(b)


@wide_scalar
def beta_shape_slope(x, a, b):
    """The derivative of beta_log_density by a, log(x) - digamma(a) + digamma(a + b)."""
    n = a + b
    return log_of_share(n * x, a, n * x - a) + digamma_gap(a) - digamma_gap(n)


@wide_scalar
def beta_rest_slope(x, a, b):
    """The derivative of beta_log_density by b, log(1 - x) - digamma(b) + digamma(a + b)."""
    n = a + b
    rise = a - n * x
    share = log1p(rise / b) if fabs(rise) <= 0.5 * b else log1p(-x) + log(n) - log(b)
    return share + digamma_gap(b) - digamma_gap(n)


@wide_scalar
def student_log_density(x, df):
    """The log density of Student's t distribution with location 0 and scale 1."""
    z = 0.5 * df
    y = 1.0 / (z * z)
    if z < 10.0:
        rest = lgamma(z + 0.5) - lgamma(z) - 0.5 * log(z)
    else:
        rest = -(
            0.125
            - y
            * (
                0.005208333333333333
                - y * (0.0015625 - y * (0.001185825892857143 - y * (0.001681857638888889 - y * 0.003834117542613636)))
            )
        )
        rest /= z
    square = x * x / df
    tail = log1p(square) if square < 1e300 else 2.0 * log(fabs(x)) - log(df)
    return rest - 0.9189385332046727 - 0.5 * (df + 1.0) * tail


@wide_scalar
def student_df_slope(x, df):
    """The derivative of student_log_density by df."""
    z = 0.5 * df
    half = 0.0  # digamma(z + 1/2) - digamma(z) - 1 / (2 z): the recurrence up to 20, then Stirling's series
    while z < 20.0:
        half += 0.25 / (z * (z + 0.5) * (z + 1.0))
        z += 1.0
    y = 1.0 / (z * z)
    half += y * (
        0.125
        - y
        * (
            0.015625
            - y
            * (0.0078125 - y * (0.00830078125 - y * (0.01513671875 - y * (0.04217529296875 - y * 0.166656494140625))))
        )
    )
    square = x * x / df
    if square > 1e300:
        return 0.5 * (half - 2.0 * log(fabs(x)) + log(df) + (df + 1.0) / df)
    share = square / (1.0 + square)
    away = share - log1p(square) if square > 0.5 else excess(square) - square * share
    return 0.5 * (half + away + share / df)
