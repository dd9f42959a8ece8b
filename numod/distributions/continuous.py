"""Continuous distributions of one number: by location and scale, on intervals, on the positive half-line."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor, functions as f
from ..core.random import rand, randn
from ..core.sampling import standard_gamma
from ..dtypes import finfo
from ..ops.special import igamma
from . import constraints as c
from .distribution import Distribution, broadcast

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class _LocationScale(Distribution):
    """`loc` and `scale`."""

    arg_constraints = {"loc": c.real, "scale": c.positive}
    support = c.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    def _unit(self, shape: tuple) -> Tensor:
        """Uniform numbers above 0 and below 1."""
        eps = finfo(self.loc.dtype).tiny
        return rand(shape, dtype=self.loc.dtype, device=self.loc.device).clamp(eps, 1 - finfo(self.loc.dtype).eps)


class Normal(_LocationScale):
    """The normal distribution of mean `loc` and standard deviation `scale`."""

    @property
    def stddev(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        return self.scale * self.scale

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * randn(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -((value - self.loc) ** 2) / (2 * self.scale * self.scale) - self.scale.log() - _HALF_LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 * (1 + ((value - self.loc) / (self.scale * math.sqrt(2))).erf())

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * (2 * value - 1).erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log()


class Laplace(_LocationScale):
    """exp(-|x - loc| / scale) / (2 scale)."""

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale * self.scale

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        u = self._unit(self._extended_shape(sample_shape)) - 0.5
        return self.loc - self.scale * u.sign() * (-2 * u.abs().clamp_max(0.5 * (1 - finfo(u.dtype).eps))).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 0.5 - 0.5 * (value - self.loc).sign() * (-(value - self.loc).abs() / self.scale).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_LocationScale):
    """1 / (pi scale (1 + ((x - loc) / scale)^2)): no mean, no variance."""

    @property
    def mean(self) -> Tensor:
        return self.loc * float("nan")

    @property
    def variance(self) -> Tensor:
        return self.loc.new_full(self.loc.shape, math.inf)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.loc + self.scale * (math.pi * (self._unit(self._extended_shape(sample_shape)) - 0.5)).tan()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class Gumbel(_LocationScale):
    """The distribution of maxima: exp(-z - exp(-z)) / scale, z = (x - loc) / scale."""

    _EULER = 0.57721566490153286060

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * self._EULER

    @property
    def variance(self) -> Tensor:
        return (math.pi / math.sqrt(6) * self.scale) ** 2

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.loc - self.scale * (-self._unit(self._extended_shape(sample_shape)).log()).log()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (-((self.loc - value) / self.scale).exp()).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc - self.scale * (-value.log()).log()

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + self._EULER)


class Uniform(Distribution):
    """Even from `low` to `high`."""

    arg_constraints = {"low": c.dependent, "high": c.dependent}
    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)
        if self._validate_args and not bool((self.low < self.high).all()):
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> Any:
        """From low to high."""
        return c.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return self.high * float("nan")

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.low + rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = ((self.low <= value) & (self.high > value)).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(0, 1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(Distribution):
    """rate * exp(-rate * x)."""

    arg_constraints, support, has_rsample = {"rate": c.positive}, c.nonnegative, True

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast(rate)
        super().__init__(self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.new_zeros(self.rate.shape)

    @property
    def stddev(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate**-2

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return -(-rand(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)).log1p() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()


class Gamma(Distribution):
    """Shape `concentration` and `rate`."""

    arg_constraints, support, has_rsample = {"concentration": c.positive, "rate": c.positive}, c.nonnegative, True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp_min(0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape).contiguous()) / self.rate.expand(shape)
        return f.clamp(value, min=finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value if isinstance(value, Tensor) else self.rate.new_full((), float(value))
        a, b = self.concentration, self.rate
        return a.xlogy(b) + (a - 1).xlogy(value) - b * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return igamma(self.concentration.detach(), self.rate * value)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()


class Chi2(Gamma):
    """The sum of `df` squared standard normal numbers."""

    arg_constraints = {"df": c.positive}

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        (half,) = broadcast(df)
        self.df = half
        super().__init__(0.5 * half, half.new_full((), 0.5), validate_args)


class HalfNormal(Distribution):
    """The absolute value of a normal number of mean 0."""

    arg_constraints, support, has_rsample = {"scale": c.positive}, c.nonnegative, True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast(scale)
        super().__init__(self.scale.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def mode(self) -> Tensor:
        return self.scale.new_zeros(self.scale.shape)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return (self.scale * randn(self._extended_shape(sample_shape), dtype=self.scale.dtype)).abs()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = -(value**2) / (2 * self.scale**2) - self.scale.log() - _HALF_LOG_2PI + math.log(2)
        return f.where(value >= 0, inside, inside.new_full((), -math.inf))

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value / (self.scale * math.sqrt(2))).erf()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * value.erfinv() * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log() - math.log(2)


class Beta(Distribution):
    """On the unit interval, by two concentrations."""

    arg_constraints, support, has_rsample = {"concentration1": c.positive, "concentration0": c.positive}, c.unit_interval, True

    def __init__(self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast(concentration1, concentration0)
        super().__init__(self.concentration1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        a, b = ((each - 1).clamp_min(0) for each in (self.concentration1, self.concentration0))
        edge = (self.concentration1 >= self.concentration0).to(a.dtype)
        return f.where(a + b > 0, a / f.where(a + b > 0, a + b, a.new_ones(())), edge)

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        a, b = (standard_gamma(each.expand(shape).contiguous()) for each in (self.concentration1, self.concentration0))
        return (a / (a + b)).clamp(finfo(a.dtype).tiny, 1 - finfo(a.dtype).eps / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a, b = self.concentration1, self.concentration0
        return (a - 1).xlogy(value) + (b - 1).xlogy(1 - value) + (a + b).lgamma() - a.lgamma() - b.lgamma()

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        total = a + b
        return a.lgamma() + b.lgamma() - total.lgamma() - (a - 1) * a.digamma() - (b - 1) * b.digamma() + (total - 2) * total.digamma()


class StudentT(Distribution):
    """Student's t of `df` degrees of freedom."""

    arg_constraints, support, has_rsample = {"df": c.positive, "loc": c.real, "scale": c.positive}, c.real, True

    def __init__(self, df: Tensor | float, loc: Tensor | float = 0.0, scale: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return f.where(self.df <= 1, self.loc * float("nan"), self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        wide = self.scale**2 * self.df / (self.df - 2)
        return f.where(self.df > 2, wide, f.where(self.df > 1, wide.new_full((), math.inf), wide.new_full((), math.nan)))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = Chi2(self.df).rsample(sample_shape)
        return self.loc + self.scale * randn(shape, dtype=self.loc.dtype) * (z / self.df).rsqrt()

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        y = (value - self.loc) / self.scale
        z = self.scale.log() + 0.5 * self.df.log() + 0.5 * math.log(math.pi) + (0.5 * self.df).lgamma() - (0.5 * (self.df + 1)).lgamma()
        return -0.5 * (self.df + 1) * (y**2 / self.df).log1p() - z

    def entropy(self) -> Tensor:
        half = 0.5 * self.df
        beta = half.lgamma() + math.lgamma(0.5) - (half + 0.5).lgamma()
        return self.scale.log() + 0.5 * (self.df + 1) * ((half + 0.5).digamma() - half.digamma()) + 0.5 * self.df.log() + beta
