"""Transforms of single numbers, and the namespace of all transforms."""

from __future__ import annotations

import math
from typing import Any

from ..core import Tensor, functions as f
from ..dtypes import finfo
from ..nn.functional import softplus
from . import constraints as c
from .combined_transforms import (
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    identity_transform,
)
from .transform import PlainTransform, Transform, _InverseTransform as _InverseTransform
from .utils import broadcast_all, sum_rightmost
from .vector_transforms import (
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StickBreakingTransform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftplusTransform",
    "TanhTransform", "SoftmaxTransform", "StackTransform", "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip


class ExpTransform(PlainTransform):
    """exp(x).

    Example:

        >>> torch.distributions.ExpTransform()(torch.tensor([0.0]))
        tensor([1.])
    """

    domain, codomain, bijective, sign = c.real, c.positive, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class SigmoidTransform(PlainTransform):
    """1 / (1 + exp(-x)), clamped away from 0 and 1.

    Example:

        >>> torch.distributions.SigmoidTransform()(torch.tensor([0.0]))
        tensor([0.5000])
    """

    domain, codomain, bijective, sign = c.real, c.unit_interval, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(finfo(x.dtype).tiny, 1.0 - finfo(x.dtype).eps)

    def _inverse(self, y: Tensor) -> Tensor:
        y = y.clamp(finfo(y.dtype).tiny, 1.0 - finfo(y.dtype).eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(PlainTransform):
    """log(1 + exp(x)).

    Example:

        >>> torch.distributions.SoftplusTransform()(torch.tensor([0.0]))
        tensor([0.6931])
    """

    domain, codomain, bijective, sign = c.real, c.positive, True, 1

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(PlainTransform):
    """tanh(x). With `cache_size=1`, saturated values have their exact inverse.

    Example:

        >>> torch.distributions.TanhTransform()(torch.tensor([0.0]))
        tensor([0.])
    """

    domain, codomain, bijective, sign = c.real, c.interval(-1.0, 1.0), True, 1

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))  # log(1 - tanh(x)^2) without cancellation


class AbsTransform(PlainTransform):
    """|x|. Its inverse is the positive branch.

    Example:

        >>> torch.distributions.AbsTransform()(torch.tensor([-2.0]))
        tensor([2.])
    """

    domain, codomain = c.real, c.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class PowerTransform(Transform):
    """x ** exponent, for positive x.

    Example:

        >>> torch.distributions.PowerTransform(torch.tensor(2.0))(torch.tensor([3.0]))
        tensor([9.])
    """

    domain = codomain = c.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        (self.exponent,) = broadcast_all(exponent)

    sign = property(lambda self: self.exponent.sign())

    def with_cache(self, cache_size: int = 1) -> PowerTransform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and _equal(self.exponent, other.exponent)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: tuple) -> tuple:
        return f.broadcast_shapes(shape, self.exponent.shape)

    inverse_shape = forward_shape


class AffineTransform(Transform):
    """loc + scale * x, over events of `event_dim` dimensions.

    Example:

        >>> torch.distributions.AffineTransform(1.0, 2.0)(torch.tensor([0.0, 1.0]))
        tensor([1., 3.])
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    event_dim = property(lambda self: self._event_dim)

    @property
    def domain(self) -> c.Constraint:
        """Real numbers, or arrays of real numbers."""
        return c.independent(c.real, self._event_dim) if self._event_dim else c.real

    codomain = domain

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def with_cache(self, cache_size: int = 1) -> AffineTransform:
        return (
            self
            if self._cache_size == cache_size
            else AffineTransform(self.loc, self.scale, self._event_dim, cache_size)
        )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AffineTransform) and _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        term = self.scale.abs().log() if isinstance(self.scale, Tensor) else x.new_full((), math.log(abs(self.scale)))
        shape = f.broadcast_shapes(x.shape, term.shape)
        return sum_rightmost(term.expand(shape), self._event_dim)

    def forward_shape(self, shape: tuple) -> tuple:
        return f.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution of numbers.

    Example:

        >>> from numod.distributions import Normal, transforms
        >>> transforms.CumulativeDistributionTransform(Normal(0.0, 1.0))(torch.tensor([0.0]))
        tensor([0.5000])
    """

    bijective, codomain, sign = True, c.unit_interval, 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def with_cache(self, cache_size: int = 1) -> CumulativeDistributionTransform:
        return (
            self if self._cache_size == cache_size else CumulativeDistributionTransform(self.distribution, cache_size)
        )

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)


def _equal(a: Any, b: Any) -> bool:
    """Whether two parameters, numbers or tensors, are equal everywhere."""
    test = a == b
    return bool(test.all()) if isinstance(test, Tensor) else bool(test)
