"""The half-normal distribution."""

from __future__ import annotations

import math

from ..core import Tensor
from .half import Half
from .normal import Normal


class HalfNormal(Half):
    """The absolute value of a normal variable with mean 0 and standard deviation `scale`.

    Example:

        >>> torch.distributions.HalfNormal(torch.tensor(1.0)).mean
        tensor(0.7979)
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), validate_args)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return (value / self.scale * math.sqrt(0.5)).erf()

    def icdf(self, value: Tensor) -> Tensor:
        return self.scale * math.sqrt(2) * value.erfinv()

    mean = property(lambda self: self.scale * math.sqrt(2 / math.pi))
    variance = property(lambda self: self.scale**2 * (1 - 2 / math.pi))
