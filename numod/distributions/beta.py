"""The beta distribution on the unit interval."""

from __future__ import annotations

from ..core import Tensor, functions as f
from ..ops.density import beta_log_density
from . import constraints as c
from .dirichlet import Dirichlet
from .distribution import Distribution
from .utils import broadcast_all


class Beta(Distribution):
    """Density ~ x^(concentration1 - 1) (1 - x)^(concentration0 - 1) on [0, 1].

    It is the first entry of a Dirichlet of two.

    Example:

        >>> torch.distributions.Beta(torch.tensor(2.0), torch.tensor(2.0)).mean
        tensor(0.5000)
    """

    arg_constraints = {"concentration1": c.positive, "concentration0": c.positive}
    support = c.unit_interval
    has_rsample = True

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        both = f.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet.batch_shape, validate_args=validate_args)

    concentration1 = property(lambda self: self._dirichlet.concentration[..., 0])
    concentration0 = property(lambda self: self._dirichlet.concentration[..., 1])
    mean = property(lambda self: self.concentration1 / (self.concentration1 + self.concentration0))
    mode = property(lambda self: self._dirichlet.mode[..., 0])

    @property
    def variance(self) -> Tensor:
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total**2 * (total + 1))

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return beta_log_density(value, self.concentration1, self.concentration0)

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()
