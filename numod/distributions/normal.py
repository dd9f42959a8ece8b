"""The normal distribution."""

from __future__ import annotations

import math

from ..core import Tensor
from ..core.create.random import randn
from ..ops.special import ndtr, ndtri
from .location_scale import LocationScale

_HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class Normal(LocationScale):
    """The normal distribution with mean `loc` and standard deviation `scale`.

    Example:

        >>> torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0))
        tensor(-0.9189)
    """

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
        return -0.5 * ((value - self.loc) / self.scale) ** 2 - self.scale.log() - _HALF_LOG_2PI

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return ndtr((value - self.loc) / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * ndtri(value)

    def entropy(self) -> Tensor:
        return 0.5 + _HALF_LOG_2PI + self.scale.log()
