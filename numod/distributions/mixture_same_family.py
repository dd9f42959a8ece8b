"""Mixtures of distributions of one family."""

from __future__ import annotations

from ..core import Tensor
from . import constraints as c
from .categorical import Categorical
from .distribution import Distribution


class MixtureSameFamily(Distribution):
    """A mixture of the components in the last batch dimension, chosen by a Categorical.

    Example:

        >>> mix = torch.distributions.Categorical(torch.ones(2))
        >>> parts = torch.distributions.Normal(torch.tensor([-1.0, 1.0]), torch.ones(2))
        >>> torch.distributions.MixtureSameFamily(mix, parts).mean
        tensor(0.)
    """

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an instance of torch.distributions.Categorical")
        if mixture_distribution.logits.shape[-1] != component_distribution.batch_shape[-1]:
            raise ValueError(
                f"`mixture_distribution component` ({mixture_distribution.logits.shape[-1]}) does not "
                f"equal `component_distribution.batch_shape[-1]` ({component_distribution.batch_shape[-1]})"
            )
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of torch.distributions.Distribution")
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        super().__init__(
            component_distribution.batch_shape[:-1], component_distribution.event_shape, validate_args=validate_args
        )

    mixture_distribution = property(lambda self: self._mixture_distribution)
    component_distribution = property(lambda self: self._component_distribution)

    has_rsample = False

    @c.dependent_property
    def support(self) -> c.Constraint:
        """The values that all components allow."""
        return c.MixtureSameFamilyConstraint(self._component_distribution.support)

    def _spread(self, value: Tensor) -> Tensor:
        return value.reshape((*value.shape, *(1,) * len(self.event_shape)))

    @property
    def mean(self) -> Tensor:
        return (self._spread(self._mixture_distribution.probs) * self._component_distribution.mean).sum(
            -1 - len(self.event_shape)
        )

    @property
    def variance(self) -> Tensor:
        probs, dim = self._spread(self._mixture_distribution.probs), -1 - len(self.event_shape)
        means = self._component_distribution.mean
        return (probs * self._component_distribution.variance).sum(dim) + (
            probs * (means - self.mean.unsqueeze(dim)) ** 2
        ).sum(dim)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        index = self._mixture_distribution.sample(sample_shape)
        components = self._component_distribution.sample(sample_shape)
        dim = len(sample_shape) + len(self.batch_shape)
        positions = index.reshape((*index.shape, 1, *(1,) * len(self.event_shape))).expand(
            (*index.shape, 1, *self.event_shape)
        )
        return components.gather(dim, positions.contiguous()).squeeze(dim)

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        value = value.unsqueeze(-1 - len(self.event_shape))
        return (self._component_distribution.log_prob(value) + self._mixture_distribution.logits).logsumexp(-1)

    def cdf(self, value: Tensor) -> Tensor:
        return (self._component_distribution.cdf(value.unsqueeze(-1)) * self._mixture_distribution.probs).sum(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
