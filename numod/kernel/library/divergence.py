"""Terms of Kullback-Leibler divergences in float64, computed without cancellation for nearly equal arguments.

An argument named `rise` is the difference of two other arguments, passed because it is more precise than the
difference of their rounded values.
"""

from __future__ import annotations

from math import exp, expm1, fabs, log, log1p

from ..scalar import wide_scalar
from .density import digamma_gap, gamma_peak
from .special import excess, trigamma


@wide_scalar
def exp_excess(x):
    """exp(x) - 1 - x."""
    if fabs(x) > 0.5:
        return expm1(x) - x
    total = 0.0
    for k in range(16, 2, -1):
        total = (total + 1.0) * x / k
    return 0.5 * x * x * (total + 1.0)


@wide_scalar
def log_ratio(x, y, rise):
    """log(x / y), with rise = y - x."""
    if fabs(rise) <= 0.5 * x:
        return -log1p(rise / x)
    ratio = x / y
    return log(ratio) if ratio > 1e-300 and ratio < 1e300 else log(x) - log(y)


@wide_scalar
def itakura_saito(x, y):
    """x / y - 1 - log(x / y)."""
    change = (x - y) / y
    return excess(change) if fabs(change) <= 0.5 else change - log_ratio(x, y, y - x)


@wide_scalar
def entropy_gap(x, y, rise):
    """x log(x / y) - x + y, with rise = y - x: a term of a divergence that is never negative."""
    if x == 0.0:
        return y
    return x * excess(rise / x) if fabs(rise) <= 0.5 * x else rise + x * log_ratio(x, y, rise)


@wide_scalar
def softplus_rise(x, y):
    """softplus(y) - softplus(x)."""
    low = min(x, y)
    change = fabs(y - x)
    if change < 700.0:
        part = 1.0 / (1.0 + exp(-low)) if low > 0.0 else exp(low) / (1.0 + exp(low))
        value = log1p(part * expm1(change))
    else:
        value = max(max(x, y), 0.0) + log1p(exp(-fabs(max(x, y)))) - max(low, 0.0) - log1p(exp(-fabs(low)))
    return value if y > x else -value


@wide_scalar
def logit_divergence(x, y):
    """The divergence of Bernoulli distributions with logits x and y.

    Negating both logits does not change it, so the smaller probability is used.
    """
    if x == y:
        return 0.0
    if x > 0.0:
        x = -x
        y = -y
    share = exp(x) / (1.0 + exp(x))
    rise = y - x
    if share == 0.0:
        return softplus_rise(x, y)
    if fabs(rise) > 1.0:
        return softplus_rise(x, y) - share * rise
    return share * exp_excess(rise) - excess(share * expm1(rise))


@wide_scalar
def geometric_rise(x, y):
    """exp(-x) (softplus(y) - softplus(x))."""
    return expm1(y - x) if x < -40.0 and y < -40.0 else exp(-x) * softplus_rise(x, y)


@wide_scalar
def geometric_divergence(x, y):
    """The divergence of geometric distributions with logits x and y.

    It is the divergence of the Bernoulli distributions, divided by the probability of success.
    """
    if x >= -40.0:
        return logit_divergence(x, y) * (1.0 + exp(-x))
    return exp_excess(y - x) if y < -40.0 else geometric_rise(x, y) - (y - x)


@wide_scalar
def trigamma_mean(x, rise, weighted):
    """The mean of trigamma between x and x + rise, if `weighted`, by the distance from x + rise.

    For small changes: by Gauss's rule of 8 points.
    """
    total = 0.0
    for k in range(4):
        node = 0.5 * (
            0.18343464249564980
            if k == 0
            else 0.52553240991632899
            if k == 1
            else 0.79666647741362674
            if k == 2
            else 0.96028985649753623
        )
        weight = 0.5 * (
            0.36268378337836198
            if k == 0
            else 0.31370664587788729
            if k == 1
            else 0.22238103445337447
            if k == 2
            else 0.10122853629037626
        )
        total += weight * ((0.5 + node if weighted else 1.0) * trigamma(x + rise * (0.5 - node)))
        total += weight * ((0.5 - node if weighted else 1.0) * trigamma(x + rise * (0.5 + node)))
    return total


@wide_scalar
def digamma_rise(x, y, rise):
    """digamma(y) - digamma(x), with rise = y - x: by the recurrence up to 10, whose terms have one sign."""
    total = 0.0
    while x < 10.0:
        total += rise / (x * y)
        x += 1.0
        y += 1.0
    if fabs(rise) <= 0.5 * min(x, y):
        return total + rise * trigamma_mean(x, rise, 0)
    return total + (log_ratio(y, x, -rise) + (digamma_gap(x) - digamma_gap(y)))


@wide_scalar
def lgamma_divergence(x, y, rise):
    """lgamma(y) - lgamma(x) - rise * digamma(x), with rise = y - x: by the recurrence up to 10, whose terms are
    positive.
    """
    total = 0.0
    while x < 10.0:
        total += excess(rise / x) if fabs(rise) <= 0.5 * x else rise / x - log_ratio(y, x, -rise)
        x += 1.0
        y += 1.0
    if fabs(rise) <= 0.5 * min(x, y):
        return total + rise * rise * trigamma_mean(x, rise, 1)
    return total + (entropy_gap(y, x, -rise) + (rise * digamma_gap(x) + (gamma_peak(x) - gamma_peak(y))))


@wide_scalar
def gumbel_exponent(shift, scale, other):
    """log gamma(1 + scale / other) - shift / other."""
    ratio = scale / other
    change = (scale - other) / other
    return lgamma_divergence(2.0, 1.0 + ratio, change) + 0.42278433509846713 * change - shift / other


@wide_scalar
def gumbel_divergence(shift, scale, other):
    """The divergence of Gumbel distributions `shift` apart, of these scales."""
    curve = lgamma_divergence(2.0, 1.0 + scale / other, (scale - other) / other)
    return itakura_saito(scale, other) + exp_excess(gumbel_exponent(shift, scale, other)) + curve


@wide_scalar
def gumbel_slope(shift, scale, other, by):
    """The derivative of gumbel_divergence by its input 0, 1 or 2."""
    ratio = scale / other
    change = (scale - other) / other
    growth = expm1(gumbel_exponent(shift, scale, other))
    if by == 0:
        return -growth / other
    rise = digamma_rise(2.0, 1.0 + ratio, change)
    by_scale = growth * (0.42278433509846713 + rise) + rise + change / ratio
    return by_scale / other if by == 1 else (shift / other * growth - ratio * by_scale) / other
