"""Invertible maps of tensors with the logarithm of their Jacobian's determinant, for TransformedDistribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..core import Tensor, functions as f, ones
from ..dtypes import finfo
from ..nn.functional import softplus
from . import constraints as c

__all__ = [
    "AbsTransform", "AffineTransform", "ComposeTransform", "ExpTransform", "IndependentTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class Transform:
    """`y = t(x)`, `x = t.inv(y)`, `t.log_abs_det_jacobian(x, y)`. `event_dim` dimensions at the right are one event; with `cache_size=1` the last pair is kept."""

    bijective = True
    event_dim = 0
    sign: Any = 1
    domain: c.Constraint = c.real
    codomain: c.Constraint = c.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size, self._kept = cache_size, (None, None)

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size and x is self._kept[0]:
            return self._kept[1]
        y = self._call(x)
        self._kept = (x, y) if self._cache_size else (None, None)
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and y is self._kept[1]:
            return self._kept[0]
        x = self._inverse(y)
        self._kept = (x, y) if self._cache_size else (None, None)
        return x

    @property
    def inv(self) -> Transform:
        """The inverse map."""
        return _Inverse(self)

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward map")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy / dx|."""
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian")

    def forward_shape(self, shape: tuple) -> tuple:
        """The shape of y."""
        return shape

    def inverse_shape(self, shape: tuple) -> tuple:
        """The shape of x."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """A transform the other way round."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.bijective, self.event_dim, self.sign = transform.bijective, transform.event_dim, transform.sign
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def inv(self) -> Transform:
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: tuple) -> tuple:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: tuple) -> tuple:
        return self._inv.forward_shape(shape)


class AffineTransform(Transform):
    """loc + scale * x."""

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale, self.event_dim = loc, scale, event_dim

    @property
    def sign(self) -> Any:
        """Whether it keeps the order."""
        return self.scale.sign() if isinstance(self.scale, Tensor) else (self.scale > 0) - (self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        result = self.scale.abs().log() if isinstance(self.scale, Tensor) else x.new_full((), math.log(abs(self.scale)))
        result = result.expand(x.shape)
        return _summed(result, self.event_dim)


def _summed(x: Tensor, dims: int) -> Tensor:
    return x.sum(list(range(-dims, 0))) if dims else x


class ExpTransform(Transform):
    """exp(x)."""

    codomain = c.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """x ** exponent of positive x."""

    domain = codomain = c.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()


class SigmoidTransform(Transform):
    """1 / (1 + exp(-x))."""

    codomain = c.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        return x.sigmoid().clamp(finfo(x.dtype).tiny, 1.0 - finfo(x.dtype).eps)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x) - softplus(x)


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain = c.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -softplus(-x)


class TanhTransform(Transform):
    """tanh(x)."""

    codomain = c.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|; its inverse is the positive side."""

    bijective, codomain = False, c.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class SoftmaxTransform(Transform):
    """softmax along the last dimension; no Jacobian."""

    bijective, event_dim, domain, codomain = False, 1, c.real_vector, c.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """n real numbers to n + 1 chances, by breaking a stick in turn."""

    event_dim, domain, codomain = 1, c.real_vector, c.simplex

    def _call(self, x: Tensor) -> Tensor:
        offset = x.shape[-1] + 1 - ones(x.shape[-1], dtype=x.dtype).cumsum(-1)
        z = (x - offset.log()).sigmoid()
        return f.pad_constant(z, (0, 1), 1.0) * f.pad_constant((1 - z).cumprod(-1), (1, 0), 1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        offset = y.shape[-1] - ones(head.shape[-1], dtype=y.dtype).cumsum(-1)
        return head.log() - (1 - head.cumsum(-1)).clamp_min(1e-38).log() + offset.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        offset = x.shape[-1] + 1 - ones(x.shape[-1], dtype=x.dtype).cumsum(-1)
        x = x - offset.log()
        return (-x + -softplus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: tuple) -> tuple:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: tuple) -> tuple:
        return (*shape[:-1], shape[-1] - 1)


class ReshapeTransform(Transform):
    """The right end of the shape, `in_shape`, as `out_shape`."""

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.event_dim = len(self.in_shape)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: tuple) -> tuple:
        return (*shape[: len(shape) - len(self.in_shape)], *self.out_shape)

    def inverse_shape(self, shape: tuple) -> tuple:
        return (*shape[: len(shape) - len(self.out_shape)], *self.in_shape)


class IndependentTransform(Transform):
    """A transform whose Jacobian is summed over more dimensions."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform, self.reinterpreted_batch_ndims = base_transform, reinterpreted_batch_ndims
        self.bijective, self.sign = base_transform.bijective, base_transform.sign
        self.event_dim = base_transform.event_dim + reinterpreted_batch_ndims
        self.codomain = c.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _summed(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = parts
        self.event_dim = max((part.event_dim for part in parts), default=0)
        self.bijective = all(part.bijective for part in parts)
        self.codomain = parts[-1].codomain if parts else c.real

    @property
    def sign(self) -> Any:
        """Whether it keeps the order."""
        result: Any = 1
        for part in self.parts:
            result = result * part.sign
        return result

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        total = None
        for part in self.parts:
            following = part(x)
            term = _summed(part.log_abs_det_jacobian(x, following), self.event_dim - part.event_dim)
            total, x = term if total is None else total + term, following
        return total

    def forward_shape(self, shape: tuple) -> tuple:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: tuple) -> tuple:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape


identity_transform = ComposeTransform([])
