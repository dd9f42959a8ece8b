"""The base class of transforms: maps with an inverse, a Jacobian, a domain and a cache.

`transforms`, `vector_transforms` and `combined_transforms` have the transforms.
"""

from __future__ import annotations

import weakref
from typing import Any

from ..core import Tensor
from . import constraints as c


class Transform:
    """`y = t(x)`, `x = t.inv(y)`, `t.log_abs_det_jacobian(x, y)`.

    With `cache_size=1` the last pair is cached, so that its inverse is free and exact.

    Example:

        >>> from numod.distributions import transforms
        >>> transforms.AffineTransform(1.0, 2.0)(torch.tensor([0.5]))
        tensor([2.])
    """

    bijective = False
    domain: c.Constraint
    codomain: c.Constraint

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size must be 0 or 1, got {cache_size}")
        super().__init__()  # for subclasses that are Modules too
        self._cache_size, self._cached_x_y, self._reverse = cache_size, (None, None), None

    @property
    def event_dim(self) -> int:
        """The number of dimensions of an event, if it is the same for x and y; otherwise ValueError."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse map. It is the same object as long as it is referenced."""
        inverse = self._reverse and self._reverse()
        if inverse is None:
            inverse = self._reversed()
            self._reverse = weakref.ref(inverse)
        return inverse

    def _reversed(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """1 for an increasing map, -1 for a decreasing one; only for maps of scalars."""
        raise NotImplementedError(f"{type(self).__name__} is not monotonic")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """This transform with another cache size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __call__(self, x: Tensor) -> Tensor:
        if not self._cache_size:
            return self._call(x)
        if x is not self._cached_x_y[0]:
            self._cached_x_y = (x, self._call(x))
        return self._cached_x_y[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        if y is not self._cached_x_y[1]:
            self._cached_x_y = (self._inverse(y), y)
        return self._cached_x_y[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no forward map")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy / dx|, with the shape of x without event dimensions."""
        raise NotImplementedError(f"{type(self).__name__} has no Jacobian")

    def forward_shape(self, shape: tuple) -> tuple:
        """The shape of y for a shape of x."""
        return shape

    def inverse_shape(self, shape: tuple) -> tuple:
        """The shape of x for a shape of y."""
        return shape

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cached_x_y": (None, None), "_reverse": None}

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PlainTransform(Transform):
    """A transform without parameters: all transforms of a type are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    __hash__ = object.__hash__


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    inv = property(lambda self: self._inv)
    sign = property(lambda self: self._inv.sign)
    bijective = property(lambda self: self._inv.bijective)
    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"
