"""The Kumaraswamy distribution."""

from __future__ import annotations

from ..core import Tensor, functions as f, ones_like, zeros_like
from . import constraints as c
from .gumbel import EULER
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all


class Kumaraswamy(TransformedDistribution):
    """Numbers in [0, 1] with P(x <= t) = 1 - (1 - t^concentration1)^concentration0, similar to Beta.

    Example:

        >>> torch.distributions.Kumaraswamy(torch.tensor(1.0), torch.tensor(1.0)).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}
    support = c.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        unit = Uniform(zeros_like(b), ones_like(b), validate_args=validate_args)
        super().__init__(
            unit,
            [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())],
            validate_args=validate_args,
        )

    def expand(self, batch_shape: tuple, _instance: object = None) -> Kumaraswamy:
        result = object.__new__(type(self)) if _instance is None else _instance
        Kumaraswamy.__init__(
            result,
            self.concentration1.expand(batch_shape),
            self.concentration0.expand(batch_shape),
            validate_args=False,
        )
        return result

    def _moment(self, n: int) -> Tensor:
        """The expectation of x^n."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        mode_ = (b.reciprocal() * (-b).log1p() - (-b * a).log1p()).exp()
        return f.where((a < 1) | (b < 1), float("nan"), mode_)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self.mean**2

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * ((b + 1).digamma() + EULER) - a.log() - b.log()
