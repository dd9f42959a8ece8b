"""The gamma distribution."""

from __future__ import annotations

from ..core import Tensor, functions as f
from ..core.create.sampling import standard_gamma
from ..dtypes import finfo
from ..ops.density import gamma_log_density
from ..core.math.special import gammainc
from . import constraints as c
from .distribution import Distribution
from .entropies import gamma_entropy
from .utils import broadcast_all


class Gamma(Distribution):
    """Density rate^a x^(a - 1) exp(-rate x) / gamma(a), with the shape a = `concentration`.

    Example:

        >>> torch.distributions.Gamma(torch.tensor(2.0), torch.tensor(4.0)).mean
        tensor(0.5000)
    """

    arg_constraints, support, has_rsample = {"concentration": c.positive, "rate": c.positive}, c.nonnegative, True

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return ((self.concentration - 1) / self.rate).clamp_min(0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        value = standard_gamma(self.concentration.expand(shape).contiguous()) / self.rate.expand(shape)
        return f.clamp(value, min=finfo(value.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = value if isinstance(value, Tensor) else self.rate.new_full((), float(value))
        self._validate_sample(value)
        return gamma_log_density(value, self.concentration, self.rate)

    def cdf(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        return gammainc(self.concentration, self.rate * value)

    def entropy(self) -> Tensor:
        return gamma_entropy(self.concentration) - self.rate.log()
