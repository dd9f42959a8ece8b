"""The uniform distribution on an interval."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor
from ..core.create.random import rand
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    Example:

        >>> torch.distributions.Uniform(0.0, 2.0).log_prob(torch.tensor(1.0))
        tensor(-0.6931)
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> dict[str, c.Constraint]:
        """Each bound must be on its side of the other."""
        return {"low": c.less_than(self.high), "high": c.greater_than(self.low)}

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, validate_args=validate_args)

    @c.dependent_property
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
        return self.low + rand(self._extended_shape(sample_shape), dtype=self.low.dtype, device=self.low.device) * (
            self.high - self.low
        )

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
