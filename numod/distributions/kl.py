"""Kullback-Leibler divergences between distributions of the same kind. `kl_pairs` has those of different kinds."""

from __future__ import annotations

import math
from collections.abc import Callable

from ..autograd import grad
from ..core import Tensor, functions as f
from ..core.linalg.linear_algebra import solve_triangular
from ..ops import divergence as d
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
from .gumbel import Gumbel
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

_KL_REGISTRY: dict[tuple[type, type], Callable] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Callable], Callable]:
    """Decorator that registers the formula for a pair of distributions."""
    if not (isinstance(type_p, type) and isinstance(type_q, type)):  # also for distributions of other libraries
        raise TypeError(f"Expected types to be Distribution subclasses but got {type_p} and {type_q}")

    def register(function: Callable) -> Callable:
        _KL_REGISTRY[type_p, type_q] = function
        return function

    return register


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation under p of log p - log q. Raises NotImplementedError for pairs without a formula.

    Example:

        >>> p, q = torch.distributions.Normal(0.0, 1.0), torch.distributions.Normal(1.0, 1.0)
        >>> torch.distributions.kl_divergence(p, q)
        tensor(0.5000)
    """
    candidates = [
        (type(p).__mro__.index(a) + type(q).__mro__.index(b), function)
        for (a, b), function in _KL_REGISTRY.items()
        if isinstance(p, a) and isinstance(q, b)
    ]
    if not candidates:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return min(candidates, key=lambda candidate: candidate[0])[1](p, q)


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    widening, shift = (p.scale - q.scale) / q.scale, (p.loc - q.loc) / q.scale
    return d.itakura_saito(p.scale, q.scale) + 0.5 * (widening**2 + shift**2)


@register_kl(LogNormal, LogNormal)
def _log_normal(p: LogNormal, q: LogNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    return d.itakura_saito(p.scale, q.scale) + d.laplace_gap((p.loc - q.loc).abs(), p.scale) / q.scale


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    squares = [(difference / p.scale) * (difference / q.scale) for difference in (p.scale - q.scale, p.loc - q.loc)]
    return (0.25 * (squares[0] + squares[1])).log1p()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    return d.gumbel_divergence(p.loc - q.loc, p.scale, q.scale)


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    result = (((q.high - p.high).clamp_min(0) + (p.low - q.low).clamp_min(0)) / (p.high - p.low)).log1p()
    return f.where((q.low > p.low) | (q.high < p.high), result.new_full((), math.inf), result)


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    return d.itakura_saito(q.rate, p.rate)


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    slower = d.log_ratio(p.rate, q.rate, q.rate - p.rate)
    return a * d.itakura_saito(q.rate, p.rate) + (b - a) * slower + d.lgamma_divergence(a, b, b - a)


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    return _dirichlet(p._dirichlet, q._dirichlet)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    return p.mean * (p.logits - q.logits) + p._log_norm() + (-p.probs).log1p() - q._log_norm() - (-q.probs).log1p()


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The Bregman divergence of the log normalizer."""
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman "
            "divergences"
        )
    theta = [natural_param.detach().requires_grad_() for natural_param in p._natural_params]
    normalizer = p._log_normalizer(*theta)
    result = q._log_normalizer(*q._natural_params) - normalizer
    for p_param, q_param, gradient in zip(theta, q._natural_params, grad(normalizer.sum(), theta, create_graph=True)):
        result = result - ((q_param - p_param) * gradient).reshape((*normalizer.shape, -1)).sum(-1)
    return result


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    larger = d.log_ratio(p.scale, q.scale, q.scale - p.scale)
    return f.where(p.scale < q.scale, math.inf, q.alpha * larger + d.itakura_saito(q.alpha, p.alpha))


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    whole = d.lgamma_divergence(a.sum(-1), b.sum(-1), (b - a).sum(-1))
    return d.lgamma_divergence(a, b, b - a).sum(-1) - whole


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: ProbsOrLogits, q: ProbsOrLogits) -> Tensor:
    if p._by_logits and q._by_logits:
        return d.logit_divergence(p.logits, q.logits)
    rise = _rise(p, q)
    return d.entropy_gap(p.probs, q.probs, rise) + d.entropy_gap(p._complement(), q._complement(), -rise)


def _rise(p: ProbsOrLogits, q: ProbsOrLogits) -> Tensor:
    """The difference of two probabilities, or of their complements if these are smaller and so more precise."""
    return f.where(p.probs + q.probs < 1, q.probs - p.probs, p._complement() - q._complement())


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    divergence = p.total_count * _bernoulli(p, q)
    return f.where(p.total_count > q.total_count, divergence.new_full((), math.inf), divergence)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    if p._by_logits and q._by_logits:
        return d.geometric_divergence(p.logits, q.logits)
    return d.itakura_saito(q.probs, p.probs) + d.entropy_gap(p._complement(), q._complement(), -_rise(p, q)) / p.probs


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return d.entropy_gap(p.rate, q.rate, q.rate - p.rate)


@register_kl(Categorical, Categorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    """The sum of the non-negative terms p log(p / q) - p + q.

    If p and q are close, a term is p (exp(x) - 1 - x) with x = log(q / p).
    """
    rise = q.logits - p.logits
    term = f.where(rise < 1, p.probs * d.exp_excess(rise.clamp_max(1)), q.probs - p.probs - p.probs * rise)
    term = f.where(q.logits == -math.inf if q._by_logits else q.probs == 0, term.new_full((), math.inf), term)
    return f.where(p.probs == 0, q.probs, term).sum(-1)


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
    a, b = p.scale_tril, q.scale_tril
    widening = d.itakura_saito(a.diagonal(0, -2, -1), b.diagonal(0, -2, -1)).sum(-1)
    spread = (solve_triangular(b, a - b, upper=False) ** 2).sum((-2, -1))
    shift = (solve_triangular(b, (q.loc - p.loc).unsqueeze(-1), upper=False) ** 2).sum((-2, -1))
    return widening + 0.5 * (spread + shift)


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
