"""The inverse gamma distribution."""

from __future__ import annotations

import math

from ..core import Tensor, functions as f
from . import constraints as c
from .entropies import gamma_entropy
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform


class InverseGamma(TransformedDistribution):
    """The reciprocal of a gamma distributed variable.

    Example:

        >>> torch.distributions.InverseGamma(torch.tensor(3.0), torch.tensor(4.0)).mean
        tensor(2.)
    """

    arg_constraints, support, has_rsample = {"concentration": c.positive, "rate": c.positive}, c.positive, True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    concentration = property(lambda self: self.base_dist.concentration)
    rate = property(lambda self: self.base_dist.rate)
    mode = property(lambda self: self.rate / (self.concentration + 1))

    @property
    def mean(self) -> Tensor:
        mean_ = self.rate / (self.concentration - 1)
        return f.where(self.concentration > 1, mean_, mean_.new_full((), math.inf))

    @property
    def variance(self) -> Tensor:
        variance_ = self.rate.square() / ((self.concentration - 1).square() * (self.concentration - 2))
        return f.where(self.concentration > 2, variance_, variance_.new_full((), math.inf))

    def entropy(self) -> Tensor:
        a = self.concentration
        return gamma_entropy(a) + self.rate.log() - 2 * a.digamma()
