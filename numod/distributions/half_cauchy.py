"""The half-Cauchy distribution."""

from __future__ import annotations

import math

from ..core import Tensor
from .cauchy import Cauchy
from .half import Half


class HalfCauchy(Half):
    """The absolute value of a Cauchy variable around 0. Mean and variance are infinite.

    Example:

        >>> torch.distributions.HalfCauchy(torch.tensor(1.0)).cdf(torch.tensor(1.0))
        tensor(0.5000)
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), validate_args)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value / self.scale).atan() * (2 / math.pi)

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * (0.5 * math.pi * value).tan()

    mean = property(lambda self: self.scale.new_full(self._extended_shape(), math.inf))
    variance = property(lambda self: self.base_dist.variance)
