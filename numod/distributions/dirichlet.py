"""The Dirichlet distribution on the simplex."""

from __future__ import annotations

from ..core import Tensor, functions as f
from ..core.create.sampling import dirichlet
from ..nn.functional import one_hot
from . import constraints as c
from .distribution import Distribution
from .entropies import gamma_entropy


class Dirichlet(Distribution):
    """Vectors on the simplex (..., K) with density ~ the product of x_i^(concentration_i - 1).

    Example:

        >>> torch.distributions.Dirichlet(torch.tensor([1.0, 3.0])).mean
        tensor([0.2500, 0.7500])
    """

    arg_constraints, support, has_rsample = {"concentration": c.independent(c.positive, 1)}, c.simplex, True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.ndim < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdim=True)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdim=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))

    @property
    def mode(self) -> Tensor:
        above = (self.concentration - 1).clamp(min=0.0)
        normalized = above / above.sum(-1, True)
        corner = one_hot(normalized.argmax(-1), normalized.shape[-1]).to(normalized.dtype)
        return f.where((self.concentration < 1).all(-1, keepdim=True), corner, normalized)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return dirichlet(self.concentration.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        a = self.concentration
        return (a - 1.0).xlogy(value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        return gamma_entropy(a).sum(-1) - gamma_entropy(total) - (k - 1) * total.digamma()
