"""The distribution of transformed random variables."""

from __future__ import annotations

from typing import Any

from ..core import Tensor
from . import constraints as c
from .distribution import Distribution
from .independent import Independent
from .transforms import ComposeTransform, Transform
from .utils import sum_rightmost


class TransformedDistribution(Distribution):
    """The distribution of `base_distribution`'s values after one or several transforms.

    Its density is log p(y) = log p(x) - log |dy / dx|.

    Example:

        >>> base = torch.distributions.Normal(torch.tensor(0.0), torch.tensor(1.0))
        >>> d = torch.distributions.TransformedDistribution(base, [torch.distributions.ExpTransform()])
        >>> d.log_prob(torch.tensor(1.0))
        tensor(-0.9189)
    """

    arg_constraints: dict[str, c.Constraint] = {}

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif isinstance(transforms, list):
            if not all(isinstance(transform, Transform) for transform in transforms):
                raise ValueError("transforms must be a Transform or a list of Transforms")
            self.transforms = transforms
        else:
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        whole = ComposeTransform(self.transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        base_event_dim = len(base_distribution.event_shape)
        result_shape = tuple(whole.forward_shape(shape))
        base_shape = tuple(whole.inverse_shape(result_shape))
        if base_shape != tuple(shape):  # parameters of a transform broadcast the base
            base_distribution = base_distribution.expand(base_shape[: len(base_shape) - base_event_dim])
        missing = whole.domain.event_dim - base_event_dim
        self.base_dist = Independent(base_distribution, missing) if missing > 0 else base_distribution
        cut = len(result_shape) - whole.codomain.event_dim - max(base_event_dim - whole.domain.event_dim, 0)
        super().__init__(result_shape[:cut], result_shape[cut:], validate_args=validate_args)

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @c.dependent_property
    def support(self) -> Any:
        """The last transform's codomain, for whole events."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        missing = len(self.event_shape) - support.event_dim
        return c.independent(support, missing) if missing > 0 else support

    def expand(self, batch_shape: tuple, _instance: Any = None) -> TransformedDistribution:
        result = self._expanded(batch_shape, _instance)
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        result.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return result

    def _transformed(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: tuple = ()) -> Tensor:
        return self._transformed(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: tuple = ()) -> Tensor:
        return self._transformed(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        self._validate_sample(value)
        event_dim, y, volume = len(self.event_shape), value, 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event_dim += transform.domain.event_dim - transform.codomain.event_dim
            volume = volume + sum_rightmost(
                transform.log_abs_det_jacobian(x, y), event_dim - transform.domain.event_dim
            )
            y = x
        return sum_rightmost(self.base_dist.log_prob(y), event_dim - len(self.base_dist.event_shape)) - volume

    def _ordered(self, probability: Tensor) -> Tensor:
        """A cumulative probability, or its complement if the transforms are decreasing."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return probability if isinstance(sign, int) and sign == 1 else sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        self.base_dist._validate_sample(value)
        return self._ordered(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._transformed(self.base_dist.icdf(self._ordered(value)))
