"""Transforms made of other transforms, and of shapes: composed, independent, concatenated, stacked, reshaped."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ..core import Tensor, functions as f
from ..device import Size
from . import constraints as c
from .transform import Transform
from .utils import sum_rightmost


class IndependentTransform(Transform):
    """A transform with more dimensions on the right as parts of one event.

    Example:

        >>> from numod.distributions import transforms
        >>> transform = transforms.IndependentTransform(transforms.ExpTransform(), 1)
        >>> transform.log_abs_det_jacobian(torch.ones(3), torch.ones(3))
        tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)
    domain = property(lambda self: c.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: c.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))

    def with_cache(self, cache_size: int = 1) -> IndependentTransform:
        return (
            self
            if self._cache_size == cache_size
            else IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size)
        )

    def _call(self, x: Tensor) -> Tensor:
        if x.ndim < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.ndim < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: tuple) -> tuple:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: tuple) -> tuple:
        return self.base_transform.inverse_shape(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"


class ComposeTransform(Transform):
    """Transforms applied one after the other.

    Example:

        >>> from numod.distributions import transforms
        >>> transform = transforms.ComposeTransform([transforms.AffineTransform(1.0, 2.0), transforms.ExpTransform()])
        >>> transform(torch.tensor([-0.5]))
        tensor([1.])
    """

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self) -> c.Constraint:
        """The first part's domain, over the event dimensions that later parts need."""
        if not self.parts:
            return c.real
        first, needed = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            needed = max(needed + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return c.independent(first, needed - first.event_dim) if needed > first.event_dim else first

    @property
    def codomain(self) -> c.Constraint:
        """The last part's codomain, over the event dimensions that earlier parts produce."""
        if not self.parts:
            return c.real
        last, provided = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            provided = max(provided + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return c.independent(last, provided - last.event_dim) if provided > last.event_dim else last

    bijective = property(lambda self: all(part.bijective for part in self.parts))

    @property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        return math.prod(part.sign for part in self.parts) if self.parts else 1

    def _reversed(self) -> ComposeTransform:
        result = ComposeTransform([part.inv for part in reversed(self.parts)])
        result._reverse = lambda: self  # a strong reference: the inverse keeps this transform alive
        return result

    def with_cache(self, cache_size: int = 1) -> ComposeTransform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part.inv(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return x.new_zeros(x.shape)
        event_dim, total = self.domain.event_dim, 0.0
        for part in self.parts:
            next_x = y if part is self.parts[-1] else part(x)
            total = total + sum_rightmost(part.log_abs_det_jacobian(x, next_x), event_dim - part.domain.event_dim)
            event_dim += part.codomain.event_dim - part.domain.event_dim
            x = next_x
        return total

    def forward_shape(self, shape: tuple) -> tuple:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: tuple) -> tuple:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


class ReshapeTransform(Transform):
    """Reshapes the right end of the shape from `in_shape` to `out_shape`.

    Example:

        >>> torch.distributions.ReshapeTransform((4,), (2, 2))(torch.arange(4.0)).shape
        numod.Size([2, 2])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"in_shape, out_shape have different numbers of elements, got {tuple(in_shape)} and {tuple(out_shape)}"
            )
        super().__init__(cache_size)

    domain = property(lambda self: c.independent(c.real, len(self.in_shape)))
    codomain = property(lambda self: c.independent(c.real, len(self.out_shape)))

    def with_cache(self, cache_size: int = 1) -> ReshapeTransform:
        return self if self._cache_size == cache_size else ReshapeTransform(self.in_shape, self.out_shape, cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: tuple) -> tuple:
        return _with_right_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: tuple) -> tuple:
        return _with_right_end(shape, self.out_shape, self.in_shape)


def _with_right_end(shape: tuple, old: tuple, new: tuple) -> tuple:
    """A shape with its right end, which must be `old`, replaced by `new`."""
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {old} but got {shape[cut:]}")
    return (*shape[:cut], *new)


class _Parallel(Transform):
    """Transforms of the parts of a tensor along `dim`. Subclasses define how tensors are split and joined."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms = [transform.with_cache(cache_size) for transform in tseq] if cache_size else list(tseq)
        self.dim = dim

    bijective = property(lambda self: all(transform.bijective for transform in self.transforms))

    def _map(self, change: Callable, *tensors: Tensor) -> Tensor:
        return self._join(
            [
                change(transform, *parts)
                for transform, *parts in zip(self.transforms, *(self._split(x) for x in tensors))
            ]
        )

    def _call(self, x: Tensor) -> Tensor:
        return self._map(lambda transform, part: transform(part), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._map(lambda transform, part: transform.inv(part), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self._map(lambda transform, a, b: transform.log_abs_det_jacobian(a, b), x, y)


class CatTransform(_Parallel):
    """Transforms of consecutive parts of the given lengths along `dim`.

    Example:

        >>> from numod.distributions import transforms
        >>> transform = transforms.CatTransform([transforms.ExpTransform(), transforms.identity_transform])
        >>> transform(torch.tensor([0.0, 2.0]))
        tensor([1., 2.])
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    event_dim = property(lambda self: max(transform.event_dim for transform in self.transforms))
    length = property(lambda self: sum(self.lengths))
    domain = property(lambda self: c.cat([transform.domain for transform in self.transforms], self.dim, self.lengths))
    codomain = property(
        lambda self: c.cat([transform.codomain for transform in self.transforms], self.dim, self.lengths)
    )

    def with_cache(self, cache_size: int = 1) -> CatTransform:
        return (
            self
            if self._cache_size == cache_size
            else CatTransform(self.transforms, self.dim, self.lengths, cache_size)
        )

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != self.length:
            raise AssertionError(f"x.size({self.dim}) = {x.shape[self.dim]} must equal length {self.length}")
        return x.split(self.lengths, self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return f.cat(parts, self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        parts = zip(self.transforms, self._split(x), self._split(y))
        terms = [
            sum_rightmost(transform.log_abs_det_jacobian(a, b), self.event_dim - transform.event_dim)
            for transform, a, b in parts
        ]
        dim = (self.dim - x.ndim if self.dim >= 0 else self.dim) + self.event_dim
        return f.cat(terms, dim) if dim < 0 else sum(terms[1:], terms[0])  # parts of one event: their terms are added


class StackTransform(_Parallel):
    """Transforms of the slices along `dim`.

    Example:

        >>> from numod.distributions import transforms
        >>> transform = transforms.StackTransform([transforms.ExpTransform(), transforms.identity_transform])
        >>> transform(torch.tensor([0.0, 2.0]))
        tensor([1., 2.])
    """

    domain = property(lambda self: c.stack([transform.domain for transform in self.transforms], self.dim))
    codomain = property(lambda self: c.stack([transform.codomain for transform in self.transforms], self.dim))

    def with_cache(self, cache_size: int = 1) -> StackTransform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _split(self, x: Tensor) -> Sequence[Tensor]:
        if x.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"x.size({self.dim}) = {x.shape[self.dim]} must equal len(transforms) {len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def _join(self, parts: list[Tensor]) -> Tensor:
        return f.stack(parts, self.dim)


identity_transform = ComposeTransform([])
