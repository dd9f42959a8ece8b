"""Pointwise rows for divergences and entropies of distributions.

They stay accurate where two distributions are nearly equal and where probabilities round to 0 or 1. The mathematics is
in `kernel.library.divergence`.

A third input z is y - x, computed by the caller without cancellation. Its gradient is zero: the gradients of x and y
are total derivatives.
"""

from __future__ import annotations

from .pointwise import pointwise
from .special import digamma, trigamma
from .table import abs, exp, expm1, log1p, maximum, minimum, sigmoid, softplus, where, zero


def sigmoid_rise(x, y):
    """sigmoid(y) - sigmoid(x)."""
    low, high = minimum(x, y), maximum(x, y)
    size = -sigmoid(high) * sigmoid(-low) * expm1(low - high)
    return where(y > x, size, -size)


# exp(x) - 1 - x
exp_excess = pointwise("exp_excess", "exp_excess(float64(x))", dx=lambda g, x: g * expm1(x), result="float")
laplace_gap = pointwise(  # y (exp(-x / y) - 1 + x / y), for x > 0 and a Laplace distribution of scale y
    "laplace_gap",
    lambda x, y: y * exp_excess(-x / y),
    dx=lambda g, x, y: -g * expm1(-x / y),
    dy=lambda g, x, y: -g * exp_excess(minimum(x / y, 80.0)) * exp(-minimum(x / y, 80.0)),
    result="float",
)
itakura_saito = pointwise(  # x / y - 1 - log(x / y)
    "itakura_saito",
    "itakura_saito(float64(x), float64(y))",
    dx=lambda g, x, y: g * ((x - y) / y / x),
    dy=lambda g, x, y: -g * ((x - y) / y / y),
    result="float",
)
log_ratio = pointwise(  # log(x / y)
    "log_ratio",
    "log_ratio(float64(x), float64(y), float64(z))",
    dx=lambda g, x: g / x,
    dy=lambda g, y: -g / y,
    dz=zero,
    result="float",
)
entropy_gap = pointwise(  # x log(x / y) - x + y; the gradient at x = 0 is 0
    "entropy_gap",
    "entropy_gap(float64(x), float64(y), float64(z))",
    dx=lambda g, x, y, z: g * where(x == 0.0, 0.0, log_ratio(x, y, z)),
    dy=lambda g, x, y, z: g * where(x == 0.0, 1.0, z / y),
    dz=zero,
    result="float",
)
logit_divergence = pointwise(  # of Bernoulli distributions with logits x and y
    "logit_divergence",
    "logit_divergence(float64(x), float64(y))",
    dx=lambda g, x, y: g * sigmoid(x) * sigmoid(-x) * (x - y),
    dy=lambda g, x, y: g * sigmoid_rise(x, y),
    result="float",
)
geometric_rise = pointwise(  # exp(-x) (softplus(y) - softplus(x))
    "geometric_rise",
    "geometric_rise(float64(x), float64(y))",
    dx=lambda g, x, out: -g * (out + sigmoid(-x)),
    dy=lambda g, x, y: g * exp(-x) * sigmoid(y),
    result="float",
)
geometric_divergence = pointwise(  # of geometric distributions with logits x and y
    "geometric_divergence",
    "geometric_divergence(float64(x), float64(y))",
    dx=lambda g, x, y: -g * geometric_rise(x, y),
    dy=lambda g, x, y: g * sigmoid(-y) * expm1(y - x),
    result="float",
)
digamma_rise = pointwise(  # digamma(y) - digamma(x)
    "digamma_rise",
    "digamma_rise(float64(x), float64(y), float64(z))",
    dx=lambda g, x: -g * trigamma(x),
    dy=lambda g, y: g * trigamma(y),
    dz=zero,
    result="float",
)
lgamma_divergence = pointwise(  # lgamma(y) - lgamma(x) - (y - x) digamma(x)
    "lgamma_divergence",
    "lgamma_divergence(float64(x), float64(y), float64(z))",
    dx=lambda g, x, z: -g * z * trigamma(x),
    dy=lambda g, x, y, z: g * digamma_rise(x, y, z),
    dz=zero,
    result="float",
)
gumbel_divergence = pointwise(  # of Gumbel distributions whose locations are x apart, with scales y and z
    "gumbel_divergence",
    "gumbel_divergence(float64(x), float64(y), float64(z))",
    dx=lambda g, x, y, z: g * gumbel_slope_by_shift(x, y, z),
    dy=lambda g, x, y, z: g * gumbel_slope_by_scale(x, y, z),
    dz=lambda g, x, y, z: g * gumbel_slope_by_other(x, y, z),
    result="float",
)


# Second derivatives. The divergence depends on x / z and y / z only, so its derivatives are homogeneous of degree -1:
# their derivatives by z follow from those by x and y (Euler's theorem).


def _by_shift_twice(x, y, z):
    return (1.0 - z * gumbel_slope_by_shift(x, y, z)) / (z * z)


def _by_shift_and_scale(x, y, z):
    return -_by_shift_twice(x, y, z) * digamma(1.0 + y / z)


def _by_scale_twice(x, y, z):
    slope = digamma(1.0 + y / z)
    return 1.0 / (y * y) + _by_shift_twice(x, y, z) * (trigamma(1.0 + y / z) + slope * slope)


def _by_shift_and_other(x, y, z):
    known = x * _by_shift_twice(x, y, z) + y * _by_shift_and_scale(x, y, z)
    return -(gumbel_slope_by_shift(x, y, z) + known) / z


def _by_scale_and_other(x, y, z):
    known = x * _by_shift_and_scale(x, y, z) + y * _by_scale_twice(x, y, z)
    return -(gumbel_slope_by_scale(x, y, z) + known) / z


def _by_other_twice(x, y, z):
    known = x * _by_shift_and_other(x, y, z) + y * _by_scale_and_other(x, y, z)
    return -(gumbel_slope_by_other(x, y, z) + known) / z


gumbel_slope_by_shift = pointwise(
    "gumbel_slope_by_shift",
    "gumbel_slope(float64(x), float64(y), float64(z), 0)",
    dx=lambda g, x, y, z: g * _by_shift_twice(x, y, z),
    dy=lambda g, x, y, z: g * _by_shift_and_scale(x, y, z),
    dz=lambda g, x, y, z: g * _by_shift_and_other(x, y, z),
    result="float",
)
gumbel_slope_by_scale = pointwise(
    "gumbel_slope_by_scale",
    "gumbel_slope(float64(x), float64(y), float64(z), 1)",
    dx=lambda g, x, y, z: g * _by_shift_and_scale(x, y, z),
    dy=lambda g, x, y, z: g * _by_scale_twice(x, y, z),
    dz=lambda g, x, y, z: g * _by_scale_and_other(x, y, z),
    result="float",
)
gumbel_slope_by_other = pointwise(
    "gumbel_slope_by_other",
    "gumbel_slope(float64(x), float64(y), float64(z), 2)",
    dx=lambda g, x, y, z: g * _by_shift_and_other(x, y, z),
    dy=lambda g, x, y, z: g * _by_scale_and_other(x, y, z),
    dz=lambda g, x, y, z: g * _by_other_twice(x, y, z),
    result="float",
)
bernoulli_entropy = pointwise(  # with logit x
    "bernoulli_entropy",
    lambda x: abs(x) * sigmoid(-abs(x)) + log1p(exp(-abs(x))),
    dx=lambda g, x: -g * x * sigmoid(x) * sigmoid(-x),
    result="float",
)
# exp(-x) softplus(x), 1 where exp(x) is below rounding: the failures' part of the entropy of a geometric distribution
failure_information = pointwise(
    "failure_information",
    lambda x: softplus(maximum(x, -40.0), 1.0, 1e30) * exp(-maximum(x, -40.0)),
    dx=lambda g, x, out: g * where(x < -40.0, 0.0, sigmoid(-x) - out),
    result="float",
)
geometric_entropy = pointwise(  # with logit x
    "geometric_entropy",
    lambda x: softplus(-x, 1.0, 1e30) + failure_information(x),
    dx=lambda g, x: -g * failure_information(x),
    result="float",
)
