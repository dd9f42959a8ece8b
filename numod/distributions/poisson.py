"""The Poisson distribution of counts."""

from __future__ import annotations

from typing import Any

from ..core import Tensor
from ..core.create.sampling import poisson
from ..ops.density import gamma_log_density
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all


class Poisson(Distribution):
    """The number of events in a unit of time if they occur at `rate`.

    Example:

        >>> torch.distributions.Poisson(torch.tensor(4.0)).mean
        tensor(4.)
    """

    arg_constraints, support = {"rate": c.nonnegative}, c.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
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
        rate, value = broadcast_all(self.rate, value)
        return gamma_log_density(rate, value + 1, rate.new_ones(()))
