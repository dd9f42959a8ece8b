"""Kullback-Leibler divergences between distributions of one kind, by formula. Between different kinds: `kl_pairs`."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..autograd import grad
from ..core import Tensor, functions as f
from ..core.linalg.linear_algebra import solve_triangular
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import EULER, Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .log_normal import LogNormal
from .lowrank_multivariate_normal import LowRankMultivariateNormal
from .multivariate_normal import MultivariateNormal
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .probs_or_logits import ProbsOrLogits
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform

_formulas: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Decorator: the formula for a pair of distributions."""
    if not (isinstance(type_p, type) and isinstance(type_q, type)):  # of a library's own distributions too
        raise TypeError(f"Expected types to be Distribution subclasses but got {type_p} and {type_q}")

    def keep(function: Callable) -> Callable:
        _formulas[type_p, type_q] = function
        return function

    return keep


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation under p of log p - log q. Raises NotImplementedError for pairs without a formula."""
    found = [
        (type(p).__mro__.index(a) + type(q).__mro__.index(b), function)
        for (a, b), function in _formulas.items()
        if isinstance(p, a) and isinstance(q, b)
    ]
    if not found:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return min(found, key=lambda each: each[0])[1](p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - ratio.log())


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + gap / q.scale + ratio * (-gap / p.scale).exp() - 1


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    return ((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, gap = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return -ratio.log() + gap + ratio * EULER + (-gap + (1 + ratio).lgamma()).exp() - (1 + EULER)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return f.where((q.low > p.low) | (q.high < p.high), result.new_full((), math.inf), result)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    first = q.concentration1.lgamma() + q.concentration0.lgamma() + total_p.lgamma()
    second = p.concentration1.lgamma() + p.concentration0.lgamma() + total_q.lgamma()
    gaps = (p.concentration1 - q.concentration1) * p.concentration1.digamma() + (
        p.concentration0 - q.concentration0
    ) * p.concentration0.digamma()
    return first - second + gaps + (total_q - total_p) * total_p.digamma()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return p.mean * (p.logits - q.logits) + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """By Bregman's divergence of the log normaliser."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    theta = [natural_param.detach().requires_grad_() for natural_param in p._natural_params]
    normaliser = p._log_normalizer(*theta)
    result = q._log_normalizer(*q._natural_params) - normaliser
    for mine, other, slope in zip(theta, q._natural_params, grad(normaliser.sum(), theta, create_graph=True)):
        result = result - ((other - mine) * slope).reshape((*normaliser.shape, -1)).sum(-1)
    return result


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    return f.where(p.scale < q.scale, math.inf, q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1)


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    first = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return first + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: ProbsOrLogits, q: ProbsOrLogits) -> Tensor:
    (success_p, failure_p), (success_q, failure_q) = p._log_both(), q._log_both()
    return _weighted(p.probs, success_p - success_q) + _weighted(p._complement(), failure_p - failure_q)


def _weighted(share: Tensor, value: Tensor) -> Tensor:
    """share * value; 0 where the share is 0, whatever the value."""
    return share * f.where(share == 0, value.new_zeros(()), value)


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    found = p.total_count * _bernoulli(p, q)
    return f.where(p.total_count > q.total_count, found.new_full((), math.inf), found)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    (success_p, failure_p), (success_q, failure_q) = p._log_both(), q._log_both()
    return success_p - success_q + _weighted(p._complement(), failure_p - failure_q) / p.probs


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    term = p.probs * (p.logits - q.logits)
    term = f.where(q.probs == 0, term.new_full((), math.inf), term)
    return f.where(p.probs == 0, term.new_zeros(()), term).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(MultivariateNormal, MultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _multivariate(p: Distribution, q: Distribution) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    a, b, k = p.scale_tril, q.scale_tril, p.event_shape[0]
    half = b.diagonal(0, -2, -1).log().sum(-1) - a.diagonal(0, -2, -1).log().sum(-1)
    spread = (solve_triangular(b, a, upper=False) ** 2).sum((-2, -1))
    shift = (solve_triangular(b, (q.loc - p.loc).unsqueeze(-1), upper=False) ** 2).sum((-2, -1))
    return half + 0.5 * (spread + shift - k)


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL between Independent distributions needs the same reinterpreted_batch_ndims")
    return p._sum(kl_divergence(p.base_dist, q.base_dist))


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between TransformedDistributions needs the same transforms")
    return kl_divergence(p.base_dist, q.base_dist)
