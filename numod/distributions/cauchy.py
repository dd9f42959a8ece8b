"""The Cauchy distribution."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from ..ops.table import atan2
from .location_scale import LocationScale


class Cauchy(LocationScale):
    """Density 1 / (pi scale (1 + ((x - loc) / scale)^2)). It has no mean and an infinite variance.

    Example:

        >>> torch.distributions.Cauchy(torch.tensor(0.0), torch.tensor(1.0)).cdf(torch.tensor(1.0))
        tensor(0.7500)
    """

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
        return atan2(self.scale, self.loc - value) / math.pi  # precise for the small angles of the lower half

    def icdf(self, value: Tensor) -> Tensor:
        central = (math.pi * (value - 0.5)).tan()
        tail = (value - 0.5).sign() / (math.pi * value.minimum(1 - value)).tan()
        return f.where((value - 0.5).abs() < 0.25, central, tail) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
