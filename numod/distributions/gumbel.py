"""The Gumbel distribution of maxima."""

from __future__ import annotations

import math

from ..core import Tensor
from .location_scale import LocationScale

EULER = 0.57721566490153286060


class Gumbel(LocationScale):
    """The distribution of maxima: density exp(-z - exp(-z)) / scale with z = (x - loc) / scale.

    Example:

        >>> torch.distributions.Gumbel(torch.tensor(0.0), torch.tensor(1.0)).mean
        tensor(0.5772)
    """

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

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
        return self.scale.log() + (1 + EULER)
