"""Base class of HalfNormal and HalfCauchy: the absolute value of a random variable symmetric around 0."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from . import constraints as c
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class Half(TransformedDistribution):
    """The absolute value of a random variable whose distribution `base` is symmetric around 0 and has a `scale`."""

    arg_constraints, support, has_rsample = {"scale": c.positive}, c.nonnegative, True

    def __init__(self, base: Distribution, validate_args: bool | None = None) -> None:
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mode = property(lambda self: self.scale.new_zeros(self.scale.shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        inside = self.base_dist.log_prob(value) + math.log(2)
        return f.where(value >= 0, inside, inside.new_full((), -math.inf))

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
