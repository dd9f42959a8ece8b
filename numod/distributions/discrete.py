"""Discrete distributions: of one trial, of counts, and of one of several classes. Where `probs` and `logits` are both possible, one is given."""

from __future__ import annotations

import math
from typing import Any

from .. import dtypes
from ..core import Tensor, arange, eye, functions as f
from ..core.random import rand
from ..core.sampling import poisson
from ..ops.table import binary_cross_entropy_with_logits
from . import constraints as c
from .distribution import Distribution, broadcast, lazy_property, logits_to_probs, probs_to_logits


def bce(logits: Tensor, value: Tensor) -> Tensor:
    """-(value log p + (1 - value) log(1 - p)) of logits."""
    return binary_cross_entropy_with_logits(logits, value, 1.0)


class _ByChance(Distribution):
    """A distribution by `probs` or `logits`, the other of which is computed when asked for."""

    binary = True

    def _take(self, probs: Any, logits: Any) -> Tensor:
        """Keep the parameter that was given, and return it."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        name, value = ("probs", probs) if probs is not None else ("logits", logits)
        if not self.binary:
            if value.ndim < 1:
                raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
            value = value / value.sum(-1, keepdim=True) if name == "probs" else value - value.logsumexp(-1, keepdim=True)
        else:
            (value,) = broadcast(value)
        self.__dict__[name] = self._param = value
        return value

    @lazy_property
    def logits(self) -> Tensor:
        """Logits of the chances."""
        return probs_to_logits(self.probs, self.binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The chances."""
        return logits_to_probs(self.logits, self.binary)

    def _repeated(self, value: Tensor, sample_shape: tuple) -> Tensor:
        return value.detach().expand((*sample_shape, *value.shape))


class Bernoulli(_ByChance):
    """1 with chance `probs`, else 0."""

    arg_constraints, support, has_enumerate_support = {"probs": c.unit_interval, "logits": c.real}, c.boolean, True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        found = (self.probs >= 0.5).to(self.probs.dtype)
        return f.where(self.probs == 0.5, found * float("nan"), found)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        chances = self._repeated(self.probs, sample_shape)
        return (rand(chances.shape, dtype=chances.dtype, device=chances.device) < chances).to(chances.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = f.broadcast_tensors(self.logits, value)
        return -bce(logits, value)

    def entropy(self) -> Tensor:
        return bce(self.logits, self.probs)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(2, dtype=self._param.dtype).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Geometric(_ByChance):
    """How many failures come before the first success."""

    arg_constraints, support = {"probs": c.unit_interval, "logits": c.real}, c.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._take(probs, logits).shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        chances = self._repeated(self.probs, sample_shape)
        u = rand(chances.shape, dtype=chances.dtype).clamp_min(dtypes.finfo(chances.dtype).tiny)
        return (u.log() / (-chances).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value, probs = f.broadcast_tensors(value, self.probs)
        probs = f.where((probs == 1) & (value == 0), probs.new_zeros(()), probs)
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return bce(self.logits, self.probs) / self.probs


class Binomial(_ByChance):
    """Successes in `total_count` trials."""

    arg_constraints = {"total_count": c.nonnegative_integer, "probs": c.unit_interval, "logits": c.real}

    def __init__(self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        value = self._take(probs, logits)
        self.total_count, value = broadcast(total_count, value)
        self.total_count = self.total_count.to(value.dtype)
        self._param = self.__dict__["probs" if probs is not None else "logits"] = value
        super().__init__(value.shape, validate_args=validate_args)

    @property
    def support(self) -> Any:
        """0 to total_count."""
        return c.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().clamp_max(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        chances, counts = self._repeated(self.probs, sample_shape), self._repeated(self.total_count, sample_shape)
        most = int(self.total_count.max()) if self.total_count.numel() else 0
        trials = rand((most, *chances.shape), dtype=chances.dtype) < chances
        taken = arange(most).reshape((-1,) + (1,) * chances.ndim) < counts
        return (trials & taken).sum(0).to(chances.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        n = self.total_count
        normal = n * self.logits.clamp_min(0) + n * (-self.logits.abs()).exp().log1p() - (n + 1).lgamma()
        return value * self.logits - (value + 1).lgamma() - (n - value + 1).lgamma() - normal

    def entropy(self) -> Tensor:
        most = int(self.total_count.max())
        if bool((self.total_count != most).any()):
            raise NotImplementedError("Inhomogeneous total count not supported by `entropy`.")
        values = arange(most + 1, dtype=self.probs.dtype).reshape((-1,) + (1,) * len(self._batch_shape))
        found = self.log_prob(values)
        return -(found.exp() * found).sum(0)


class Poisson(Distribution):
    """Counts of events at a rate."""

    arg_constraints, support = {"rate": c.nonnegative}, c.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return poisson(self.rate.detach().expand(self._extended_shape(sample_shape)).contiguous())

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        rate, value = broadcast(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()


class Categorical(_ByChance):
    """One of the classes 0 to K - 1, by `probs` or `logits` (..., K), which are normalised."""

    binary, has_enumerate_support = False, True
    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        value = self._take(probs, logits)
        self._num_events = value.shape[-1]
        super().__init__(value.shape[:-1], validate_args=validate_args)

    @property
    def support(self) -> Any:
        """0 to K - 1."""
        return c.integer_interval(0, self._num_events - 1)

    @property
    def param_shape(self) -> Any:
        """The shape of the parameter."""
        return self._param.shape

    @property
    def mean(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, float("nan"))

    @property
    def mode(self) -> Tensor:
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        return self.probs.new_full(self._batch_shape, float("nan"))

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        edges = self.probs.detach().cumsum(-1)
        u = rand((*sample_shape, *self._batch_shape, 1), dtype=edges.dtype, device=edges.device) * edges[..., -1:]
        return (edges <= u).sum(-1).clamp_max(self._num_events - 1)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value.to(dtypes.int64).unsqueeze(-1)
        shape = f.broadcast_shapes(value.shape[:-1], self.logits.shape[:-1])
        return self.logits.expand((*shape, self._num_events)).gather(-1, value.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        return -(self.logits.clamp_min(dtypes.finfo(self.logits.dtype).min) * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OneHotCategorical(Distribution):
    """A Categorical whose values are one-hot vectors."""

    arg_constraints, support, has_enumerate_support = {"probs": c.simplex, "logits": c.real_vector}, c.one_hot, True

    def __init__(self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    mean = property(lambda self: self._categorical.probs)
    variance = property(lambda self: self.probs * (1 - self.probs))

    @property
    def mode(self) -> Tensor:
        return self._hot(self.probs.argmax(-1))

    def _hot(self, index: Tensor) -> Tensor:
        return (index.unsqueeze(-1) == arange(self._event_shape[0])).to(self._categorical._param.dtype)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return self._hot(self._categorical.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self._categorical.log_prob(value.argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._event_shape[0]
        values = eye(n, dtype=self._categorical._param.dtype).reshape((n,) + (1,) * len(self._batch_shape) + (n,))
        return values.expand((n, *self._batch_shape, n)) if expand else values

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """The same with the gradient of its chances. Bengio, Leonard and Courville, 2013."""

    has_rsample = True

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(Distribution):
    """How often each class comes in `total_count` draws of a Categorical."""

    arg_constraints = {"probs": c.simplex, "logits": c.real_vector}

    def __init__(self, total_count: int = 1, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count, self._categorical = total_count, Categorical(probs, logits, validate_args)
        shape = self._categorical.param_shape
        super().__init__(shape[:-1], shape[-1:], validate_args=validate_args)

    probs = property(lambda self: self._categorical.probs)
    logits = property(lambda self: self._categorical.logits)
    mean = property(lambda self: self.probs * self.total_count)
    variance = property(lambda self: self.total_count * self.probs * (1 - self.probs))
    support = property(lambda self: c.multinomial(self.total_count))

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        drawn = self._categorical.sample((self.total_count, *sample_shape))
        return (drawn.unsqueeze(-1) == arange(self._event_shape[0])).sum(0).to(self._categorical._param.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        logits, value = f.broadcast_tensors(self.logits, value)
        logits = f.where((value == 0) & (logits == -math.inf), logits.new_zeros(()), logits)
        return (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1) + (logits * value).sum(-1)

    def entropy(self) -> Tensor:
        n = self.total_count
        counts = arange(n + 1, dtype=self.probs.dtype).reshape((-1,) + (1,) * self.probs.ndim)
        each = Binomial(n, self.probs, validate_args=False).log_prob(counts).exp()
        return n * self._categorical.entropy() - math.lgamma(n + 1) + (each * (counts + 1).lgamma()).sum((0, -1))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"
