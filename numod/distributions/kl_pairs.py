"""Kullback-Leibler divergences between different kinds of distributions: E_p[-log q] minus the entropy of p.

`kl` has those of the same kind.
"""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from .beta import Beta
from .bernoulli import Bernoulli
from .binomial import Binomial
from .continuous_bernoulli import ContinuousBernoulli
from .distribution import Distribution
from .exponential import Exponential
from .gamma import Gamma
from .gumbel import EULER, Gumbel
from .kl import register_kl
from .laplace import Laplace
from .normal import Normal
from .pareto import Pareto
from .poisson import Poisson
from .uniform import Uniform


def _infinite_where(impossible: Tensor, value: Tensor) -> Tensor:
    """`value`, or infinity where p has values that q cannot have, or an infinite moment."""
    return f.where(impossible, math.inf, value)


def _with_moment(p: Pareto, order: int) -> Pareto:
    """`p` with another exponent where its moment of this order is infinite, which would make gradients there NaN."""
    return Pareto(p.scale, f.where(p.alpha <= order, order + 1.0, p.alpha), validate_args=False)


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """Infinity, since p has values that q cannot have."""
    return p.mean.new_full(p.batch_shape, math.inf)


_UNIT = (Beta, ContinuousBernoulli, Uniform)  # distributions on bounded intervals
for _type_p, _narrower in {
    **dict.fromkeys((Normal, Laplace, Gumbel), (*_UNIT, Exponential, Gamma, Pareto)),
    **dict.fromkeys((Exponential, Gamma), (*_UNIT, Pareto)),
    Pareto: _UNIT, **dict.fromkeys((Beta, ContinuousBernoulli), (Pareto,)), Poisson: (Bernoulli, Binomial),
}.items():  # fmt: skip
    for _type_q in _narrower:
        register_kl(_type_p, _type_q)(_infinite)


def _x_log_x(x: Tensor) -> Tensor:
    return x.xlogy(x)


def _mean_log(p: Distribution) -> Tensor:
    """The expectation of log x."""
    if isinstance(p, Beta):
        return p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    if isinstance(p, Pareto):
        return p.scale.log() + p.alpha.reciprocal()
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


@register_kl(Laplace, Normal)
@register_kl(Uniform, Normal)
@register_kl(Gamma, Normal)
@register_kl(Exponential, Normal)
@register_kl(Beta, Normal)
@register_kl(ContinuousBernoulli, Normal)
@register_kl(Gumbel, Normal)
def _to_normal(p: Distribution, q: Normal) -> Tensor:
    return (
        -p.entropy()
        + 0.5 * math.log(2 * math.pi)
        + q.scale.log()
        + 0.5 * ((p.stddev / q.scale) ** 2 + ((p.mean - q.loc) / q.scale) ** 2)
    )


@register_kl(Pareto, Normal)
def _pareto_normal(p: Pareto, q: Normal) -> Tensor:
    return _infinite_where(p.alpha <= 2, _to_normal(_with_moment(p, 2), q))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    gap = (p.loc - q.loc) / p.scale
    # the mean of |x - q.loc|
    distance = math.sqrt(2 / math.pi) * p.scale * (-0.5 * gap**2).exp() + (p.loc - q.loc) * (math.sqrt(0.5) * gap).erf()
    return distance / q.scale + (2 * q.scale).log() - p.entropy()


@register_kl(Gamma, Exponential)
@register_kl(Beta, Exponential)
@register_kl(ContinuousBernoulli, Exponential)
def _to_exponential(p: Distribution, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return _infinite_where(p.low < 0, _to_exponential(p, q))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    return _infinite_where(p.alpha <= 1, _to_exponential(_with_moment(p, 1), q))


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    ratio = q.rate / p.rate
    return -q.concentration * ratio.log() + ratio + q.concentration.lgamma() + q.concentration * EULER - (1 + EULER)


@register_kl(Beta, Gamma)
@register_kl(Uniform, Gamma)
def _to_gamma(p: Distribution, q: Gamma) -> Tensor:
    a, b = q.concentration, q.rate
    divergence = -p.entropy() + a.lgamma() - a * b.log() - (a - 1) * _mean_log(p) + b * p.mean
    return _infinite_where(p.low < 0, divergence) if isinstance(p, Uniform) else divergence


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    return _infinite_where(p.alpha <= 1, _to_gamma(_with_moment(p, 1), q))


def _to_gumbel(p: Distribution, q: Gumbel, log_mean_decay: Tensor) -> Tensor:
    """`log_mean_decay` is the logarithm of the expectation of exp((q.loc - x) / q.scale)."""
    return -p.entropy() + q.scale.log() + (p.mean - q.loc) / q.scale + log_mean_decay.exp()


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, 0.5 * (p.scale / q.scale) ** 2 + (q.loc - p.loc) / q.scale)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, q.loc / q.scale - (p.rate * q.scale).reciprocal().log1p())


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    return _to_gumbel(p, q, q.loc / q.scale - p.concentration * (p.rate * q.scale).reciprocal().log1p())


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width = (p.high - p.low) / q.scale
    return _to_gumbel(p, q, (q.loc - p.low) / q.scale + (-(-width).expm1() / width).log())


@register_kl(Beta, ContinuousBernoulli)
@register_kl(Uniform, ContinuousBernoulli)
def _to_continuous_bernoulli(p: Distribution, q: ContinuousBernoulli) -> Tensor:
    divergence = -p.entropy() - p.mean * q.logits - (-q.probs).log1p() - q._log_norm()
    return divergence if isinstance(p, Beta) else _infinite_where((p.high > 1) | (p.low < 0), divergence)


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _to_uniform(p: Distribution, q: Uniform) -> Tensor:
    return _infinite_where((q.low > 0) | (q.high < 1), -p.entropy() + (q.high - q.low).log())


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    mirrored = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    divergence = (
        -p.entropy()
        - (a - 1) * _mean_log(p)
        - (b - 1) * _mean_log(mirrored)
        + a.lgamma()
        + b.lgamma()
        - (a + b).lgamma()
    )
    return _infinite_where((p.high > 1) | (p.low < 0), divergence)


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    return _infinite_where(
        p.low < q.scale, -p.entropy() - q.alpha.log() - q.alpha * q.scale.log() + (q.alpha + 1) * _mean_log(p)
    )


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)
