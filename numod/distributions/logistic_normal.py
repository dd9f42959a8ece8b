"""The logistic normal distribution on the simplex."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .normal import Normal
from .transformed_distribution import TransformedDistribution
from .transforms import StickBreakingTransform


class LogisticNormal(TransformedDistribution):
    """Normal vectors (..., K - 1), mapped to the simplex (..., K) by stick breaking.

    Example:

        >>> from numod.distributions import LogisticNormal
        >>> LogisticNormal(torch.zeros(3), torch.ones(3)).sample().shape
        numod.Size([4])
    """

    arg_constraints, support, has_rsample = {"loc": c.real, "scale": c.positive}, c.simplex, True

    def __init__(self, loc: Tensor, scale: Tensor, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(
            base if base.batch_shape else base.expand((1,)), StickBreakingTransform(), validate_args=validate_args
        )

    loc = property(lambda self: self.base_dist.base_dist.loc)
    scale = property(lambda self: self.base_dist.base_dist.scale)
