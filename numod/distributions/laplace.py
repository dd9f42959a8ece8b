"""The Laplace distribution."""

from __future__ import annotations

from ..core import Tensor, functions as f
from ..dtypes import finfo
from .location_scale import LocationScale


class Laplace(LocationScale):
    """Density exp(-|x - loc| / scale) / (2 scale).

    Example:

        >>> torch.distributions.Laplace(torch.tensor(0.0), torch.tensor(1.0)).cdf(torch.tensor(0.0))
        tensor(0.5000)
    """

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
        z = (value - self.loc) / self.scale
        tail = 0.5 * (-z.abs()).exp()  # precise in the lower half
        return f.where(z < 0, tail, 1 - tail)

    def icdf(self, value: Tensor) -> Tensor:
        tail = value.minimum(1 - value)
        return self.loc + self.scale * (value - 0.5).sign() * -(2 * tail).log()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()
