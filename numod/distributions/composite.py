"""Distributions over vectors, and those made of others: independent, transformed, mixed, relaxed."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor, functions as f
from ..core.linear_algebra import cholesky, inv, solve_triangular
from ..core.random import rand, randn
from ..core.sampling import standard_gamma
from ..dtypes import finfo
from . import constraints as c
from .continuous import Normal
from .discrete import Bernoulli, Categorical
from .distribution import Distribution, broadcast
from .transforms import ComposeTransform, ExpTransform, Transform


class Dirichlet(Distribution):
    """On the simplex, by concentrations (..., K)."""

    arg_constraints, support, has_rsample = {"concentration": c.independent(c.positive, 1)}, c.simplex, True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        gammas = standard_gamma(self.concentration.expand(self._extended_shape(sample_shape)).contiguous()).clamp_min(finfo(self.concentration.dtype).tiny)
        return gammas / gammas.sum(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc` (..., K) and a covariance, a precision, or the covariance's lower Cholesky factor `scale_tril`."""

    arg_constraints = {"loc": c.real_vector, "covariance_matrix": c.positive_definite, "precision_matrix": c.positive_definite, "scale_tril": c.lower_cholesky}
    support, has_rsample = c.real_vector, True

    def __init__(
        self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None, scale_tril: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if loc.ndim < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: value for name, value in given.items() if value is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.ndim < 2:
            raise ValueError(f"{name} must be at least two-dimensional, with optional leading batch dimensions")
        batch, k = f.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1]), loc.shape[-1]
        self.__dict__[name] = matrix = matrix.expand((*batch, k, k))
        self.loc = loc.expand((*batch, k))
        super().__init__(batch, (k,), validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            flipped = cholesky(matrix.flip((-2, -1)))
            self._unbroadcasted_scale_tril = inv(flipped.flip((-2, -1)).mT.contiguous())

    def __getattr__(self, name: str) -> Any:
        low = self.__dict__.get("_unbroadcasted_scale_tril")
        if low is None or name not in ("scale_tril", "covariance_matrix", "precision_matrix"):
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        return low if name == "scale_tril" else low @ low.mT if name == "covariance_matrix" else inv(low @ low.mT)

    mean = property(lambda self: self.loc)
    mode = property(lambda self: self.loc)
    variance = property(lambda self: (self._unbroadcasted_scale_tril**2).sum(-1))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        noise = randn(self._extended_shape(sample_shape), dtype=self.loc.dtype)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        difference = value - self.loc
        low = self._unbroadcasted_scale_tril
        shape = difference.shape[:-1]
        solved = solve_triangular(low.expand((*shape, *low.shape[-2:])), difference.unsqueeze(-1), upper=False).squeeze(-1)
        half = low.diagonal(0, -2, -1).log().sum(-1)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + (solved**2).sum(-1)) - half

    def entropy(self) -> Tensor:
        half = self._unbroadcasted_scale_tril.diagonal(0, -2, -1).log().sum(-1)
        return 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + half


class Independent(Distribution):
    """The last `reinterpreted_batch_ndims` batch dimensions of a distribution as one event."""

    def __init__(self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                f"Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[: len(shape) - event], shape[len(shape) - event :], validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @property
    def support(self) -> Any:
        """That of the base, for whole events."""
        base = self.base_dist.support
        return None if base is None else c.independent(base, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def _sum(self, value: Tensor) -> Tensor:
        return value.sum(list(range(-self.reinterpreted_batch_ndims, 0))) if self.reinterpreted_batch_ndims else value

    def log_prob(self, value: Tensor) -> Tensor:
        return self._sum(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._sum(self.base_dist.entropy())

    def expand(self, batch_shape: tuple, _instance: Any = None) -> Independent:
        base = self.base_dist.expand((*batch_shape, *self.event_shape[: self.reinterpreted_batch_ndims]))
        return Independent(base, self.reinterpreted_batch_ndims, validate_args=False)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class TransformedDistribution(Distribution):
    """Values of a distribution after transforms."""

    def __init__(self, base_distribution: Distribution, transforms: Transform | list[Transform], validate_args: bool | None = None) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(each, Transform) for each in self.transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        missing = whole.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, missing) if missing > 0 else base_distribution
        shape = whole.forward_shape(tuple(shape))
        event = max(len(self.base_dist.event_shape), whole.event_dim)
        super().__init__(shape[: len(shape) - event], shape[len(shape) - event :], validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def support(self) -> Any:
        """What the last transform gives."""
        return self.transforms[-1].codomain if self.transforms else self.base_dist.support

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        value = self.base_dist.sample(sample_shape)
        for transform in self.transforms:
            value = transform(value)
        return value.detach()

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        value = self.base_dist.rsample(sample_shape)
        for transform in self.transforms:
            value = transform(value)
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        total: Any = 0.0
        event = len(self.event_shape)
        y = value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            term = transform.log_abs_det_jacobian(x, y)
            extra = event - transform.event_dim
            total = total - (term.sum(list(range(-extra, 0))) if extra > 0 else term)
            event, y = event, x
        base = self.base_dist.log_prob(y)
        extra = event - len(self.base_dist.event_shape)
        return total + (base.sum(list(range(-extra, 0))) if extra > 0 else base)

    def _monotone(self, value: Tensor) -> Tensor:
        sign = ComposeTransform(self.transforms).sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        value = self.base_dist.icdf(self._monotone(value))
        for transform in self.transforms:
            value = transform(value)
        return value

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class LogNormal(TransformedDistribution):
    """exp of a normal number."""

    arg_constraints, support, has_rsample = {"loc": c.real, "scale": c.positive}, c.positive, True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())
    variance = property(lambda self: (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp())

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class MixtureSameFamily(Distribution):
    """One of the last batch dimension's components, chosen by a Categorical."""

    def __init__(self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if mixture_distribution._num_events != component_distribution.batch_shape[-1]:
            raise ValueError(f"`mixture_distribution component` ({mixture_distribution._num_events}) does not equal `component_distribution.batch_shape[-1]` ({component_distribution.batch_shape[-1]})")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args=validate_args)

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    def _spread(self, value: Tensor) -> Tensor:
        return value.reshape((*value.shape, *(1,) * len(self.event_shape)))

    @property
    def mean(self) -> Tensor:
        return (self._spread(self._mixture_distribution.probs) * self._component_distribution.mean).sum(-1 - len(self.event_shape))

    @property
    def variance(self) -> Tensor:
        probs, dim = self._spread(self._mixture_distribution.probs), -1 - len(self.event_shape)
        means = self._component_distribution.mean
        return (probs * self._component_distribution.variance).sum(dim) + (probs * (means - self.mean.unsqueeze(dim)) ** 2).sum(dim)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        index, every = self._mixture_distribution.sample(sample_shape), self._component_distribution.sample(sample_shape)
        dim = len(sample_shape) + len(self.batch_shape)
        places = index.reshape((*index.shape, 1, *(1,) * len(self.event_shape))).expand((*index.shape, 1, *self.event_shape))
        return every.gather(dim, places.contiguous()).squeeze(dim)

    def log_prob(self, value: Tensor) -> Tensor:
        value = value.unsqueeze(-1 - len(self.event_shape))
        return (self._component_distribution.log_prob(value) + self._mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        return (self._component_distribution.cdf(value.unsqueeze(-1)) * self._mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"


class RelaxedBernoulli(Distribution):
    """A Bernoulli made continuous at a temperature. Maddison, Mnih and Teh, 2017; Jang, Gu and Poole, 2017."""

    arg_constraints, support, has_rsample = {"probs": c.unit_interval, "logits": c.real}, c.unit_interval, True

    def __init__(self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._base = Bernoulli(probs, logits, validate_args)
        (self.temperature,) = broadcast(temperature)
        super().__init__(self._base.batch_shape, validate_args=validate_args)

    probs = property(lambda self: self._base.probs)
    logits = property(lambda self: self._base.logits)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        eps = finfo(self.logits.dtype).eps
        u = rand(self._extended_shape(sample_shape), dtype=self.logits.dtype).clamp(eps, 1 - eps)
        return ((u.log() - (-u).log1p() + self.logits) / self.temperature).sigmoid()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = value.log() - (-value).log1p()
        gap = self.logits - y * self.temperature
        return self.temperature.log() + gap - 2 * gap.exp().log1p() - value.log() - (-value).log1p()


class RelaxedOneHotCategorical(Distribution):
    """A one-hot Categorical made continuous at a temperature."""

    arg_constraints, support, has_rsample = {"probs": c.simplex, "logits": c.real_vector}, c.simplex, True

    def __init__(self, temperature: Any, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        self._base = Categorical(probs, logits, validate_args)
        (self.temperature,) = broadcast(temperature)
        shape = self._base.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._base.probs)
    logits = property(lambda self: self._base.logits)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        eps = finfo(self.logits.dtype).eps
        u = rand(self._extended_shape(sample_shape), dtype=self.logits.dtype).clamp(eps, 1 - eps)
        return ((self.logits - (-u.log()).log()) / self.temperature).softmax(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        k = self._event_shape[0]
        scale = math.lgamma(k) + (k - 1) * self.temperature.log()
        score = self.logits - value.log() * self.temperature
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale - value.log().sum(-1)


