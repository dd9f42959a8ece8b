"""The Weibull distribution of lifetimes."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .exponential import Exponential
from .gumbel import EULER
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all


class Weibull(TransformedDistribution):
    """scale * e ** (1 / concentration), with e exponentially distributed of rate 1.

    Example:

        >>> torch.distributions.Weibull(torch.tensor(1.0), torch.tensor(1.0)).mean
        tensor(1.)
    """

    arg_constraints, support = {"scale": c.positive, "concentration": c.positive}, c.positive

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(
            Exponential(self.scale.new_ones(self.scale.shape), validate_args),
            self._parts(),
            validate_args=validate_args,
        )

    def _parts(self) -> list:
        return [PowerTransform(exponent=1 / self.concentration), AffineTransform(0, self.scale)]

    def expand(self, batch_shape: tuple, _instance: object = None) -> Weibull:
        result = super().expand(batch_shape, _instance)
        result.transforms = result._parts()
        return result

    mean = property(lambda self: self.scale * (1 + 1 / self.concentration).lgamma().exp())

    @property
    def mode(self) -> Tensor:
        return self.scale * ((self.concentration - 1) / self.concentration) ** self.concentration.reciprocal()

    @property
    def variance(self) -> Tensor:
        first, second = (1 + 1 / self.concentration).lgamma(), (1 + 2 / self.concentration).lgamma()
        return self.scale**2 * (second.exp() - (2 * first).exp())

    def entropy(self) -> Tensor:
        reciprocal = self.concentration.reciprocal()
        return EULER * (1 - reciprocal) + (self.scale * reciprocal).log() + 1
