"""The log-normal distribution."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import ExpTransform


class LogNormal(TransformedDistribution):
    """exp of a normal variable with mean `loc` and standard deviation `scale`.

    Example:

        >>> torch.distributions.LogNormal(torch.tensor(0.0), torch.tensor(1.0)).mean
        tensor(1.6487)
    """

    arg_constraints, support, has_rsample = {"loc": c.real, "scale": c.positive}, c.positive, True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    loc = property(lambda self: self.base_dist.loc)
    scale = property(lambda self: self.base_dist.scale)
    mean = property(lambda self: (self.loc + self.scale**2 / 2).exp())
    mode = property(lambda self: (self.loc - self.scale**2).exp())
    variance = property(lambda self: (self.scale**2).expm1() * (2 * self.loc + self.scale**2).exp())

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc
