"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from . import constraints as c
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform


class HalfCauchy(TransformedDistribution):
    """The absolute value of a Cauchy number around 0: no finite mean, no finite variance."""

    arg_constraints, support, has_rsample = {"scale": c.positive}, c.nonnegative, True

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: self.scale.new_full(self._extended_shape(), math.inf))
    mode = property(lambda self: self.scale.new_zeros(self.scale.shape))
    variance = property(lambda self: self.base_dist.variance)

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
