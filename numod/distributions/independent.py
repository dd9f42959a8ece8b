"""Batch dimensions of a distribution as parts of one event."""

from __future__ import annotations

from typing import Any

from ..core import Tensor
from . import constraints as c
from .distribution import Distribution


class Independent(Distribution):
    """A distribution whose last `reinterpreted_batch_ndims` batch dimensions are parts of one event.

    Example:

        >>> normal = torch.distributions.Normal(torch.zeros(3), torch.ones(3))
        >>> torch.distributions.Independent(normal, 1).event_shape
        numod.Size([3])
    """

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        event = reinterpreted_batch_ndims + len(base_distribution.event_shape)
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        super().__init__(shape[: len(shape) - event], shape[len(shape) - event :], validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    mean = property(lambda self: self.base_dist.mean)
    mode = property(lambda self: self.base_dist.mode)
    variance = property(lambda self: self.base_dist.variance)

    @c.dependent_property
    def support(self) -> Any:
        """The base distribution's support, for whole events."""
        base = self.base_dist.support
        return None if base is None else c.independent(base, self.reinterpreted_batch_ndims)

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def _sum(self, value: Tensor) -> Tensor:
        return value.sum(list(range(-self.reinterpreted_batch_ndims, 0))) if self.reinterpreted_batch_ndims else value

    def log_prob(self, value: Tensor) -> Tensor:
        return self._sum(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._sum(self.base_dist.entropy())

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError(
                "the values of an Independent are a cartesian product, which is not supported; enumerate the "
                "base distribution"
            )
        return self.base_dist.enumerate_support(expand=expand)

    has_enumerate_support = property(
        lambda self: self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support
    )

    def expand(self, batch_shape: tuple, _instance: Any = None) -> Independent:
        base = self.base_dist.expand((*batch_shape, *self.event_shape[: self.reinterpreted_batch_ndims]))
        result = object.__new__(type(self)) if _instance is None else _instance
        Independent.__init__(result, base, self.reinterpreted_batch_ndims, validate_args=False)
        return result

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
