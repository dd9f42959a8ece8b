"""The Pareto distribution, which has a heavy tail."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, ExpTransform
from .utils import broadcast_all


class Pareto(TransformedDistribution):
    """scale * exp(e), where e is exponentially distributed with rate `alpha`.

    Example:

        >>> torch.distributions.Pareto(torch.tensor(1.0), torch.tensor(3.0)).mean
        tensor(1.5000)
    """

    arg_constraints = {"alpha": c.positive, "scale": c.positive}

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(
            Exponential(self.alpha, validate_args),
            [ExpTransform(), AffineTransform(0, self.scale)],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: tuple, _instance: object = None) -> Pareto:
        result = super().expand(batch_shape, _instance)
        result.transforms = [ExpTransform(), AffineTransform(0, result.scale)]
        return result

    @c.dependent_property
    def support(self) -> c.Constraint:
        """Values from `scale`."""
        return c.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        alpha = self.alpha.clamp(min=1)  # division by 0 yields infinity
        return alpha * self.scale / (alpha - 1)

    mode = property(lambda self: self.scale)

    @property
    def variance(self) -> Tensor:
        alpha = self.alpha.clamp(min=2)
        return self.scale**2 * alpha / ((alpha - 1) ** 2 * (alpha - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())
