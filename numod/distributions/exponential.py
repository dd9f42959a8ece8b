"""The exponential distribution of waiting times."""

from __future__ import annotations

from ..core import Tensor
from ..core.create.random import rand
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all


class Exponential(Distribution):
    """Density rate * exp(-rate * x) for x >= 0.

    Example:

        >>> torch.distributions.Exponential(torch.tensor(2.0)).mean
        tensor(0.5000)
    """

    arg_constraints, support, has_rsample = {"rate": c.positive}, c.nonnegative, True

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
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
        return (
            -(-rand(self._extended_shape(sample_shape), dtype=self.rate.dtype, device=self.rate.device)).log1p()
            / self.rate
        )

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return -(-self.rate * value).expm1()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1 - self.rate.log()
