"""The generalized Pareto distribution of excesses over a threshold."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor, functions as f, ones_like, zeros_like
from ..core.create.random import rand
from . import constraints as c
from .distribution import Distribution
from .utils import broadcast_all


class GeneralizedPareto(Distribution):
    """P(x > loc + scale z) = (1 + concentration z)^(-1 / concentration).

    It is exponential for concentration 0, uniform for -1, and Pareto above 0.

    Example:

        >>> from numod.distributions import GeneralizedPareto
        >>> GeneralizedPareto(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(0.1)).mean
        tensor(1.1111)
    """

    arg_constraints = {"loc": c.real, "scale": c.positive, "concentration": c.real}
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @c.dependent_property
    def support(self) -> Any:
        """From loc, and for negative concentrations up to loc - scale / concentration."""
        return c.interval(
            self.loc, f.where(self.concentration < 0, self.loc - self.scale / self.concentration, math.inf)
        )

    def _zero_and_concentration(self) -> tuple[Tensor, Tensor]:
        """(whether the concentration is close to 0, the concentration or 1 in its place)."""
        zero = f.isclose(self.concentration, zeros_like(self.concentration))
        return zero, f.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.icdf(rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        z, (zero, k) = (value - self.loc) / self.scale, self._zero_and_concentration()
        power = 1 / k + ones_like(z)
        return -self.scale.log() - f.where(zero, z, f.where(power == 0, power, power * (k * z).log1p()))

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log P(x > value)."""
        self._validate_sample(value)
        z, (zero, k) = (value - self.loc) / self.scale, self._zero_and_concentration()
        return f.where(zero, -z, -(k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log P(x <= value)."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        above, (zero, k) = (-value).log1p(), self._zero_and_concentration()
        return f.where(zero, self.loc - self.scale * above, self.loc + self.scale / k * (-k * above).expm1())

    @property
    def mean(self) -> Tensor:
        exists = self.concentration < 1
        return f.where(exists, self.loc + self.scale / (1 - f.where(exists, self.concentration, 0.5)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        exists = self.concentration < 0.5
        k = f.where(exists, self.concentration, 0.25)
        return f.where(exists, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1
