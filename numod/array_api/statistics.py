"""The standard's sums, means and extrema."""

from __future__ import annotations

from typing import Any

import numod

from .. import Tensor
from .common import Axis, axes_of, over_axes

__all__ = ["all", "any", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var"]


def all(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether all elements along the axes are true."""
    return numod.all(x.bool(), axes_of(x, axis), keepdims) if x.ndim else x.bool()


def any(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Whether an element along the axes is true."""
    return numod.any(x.bool(), axes_of(x, axis), keepdims) if x.ndim else x.bool()


def max(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element along the axes."""
    return numod.amax(x, axes_of(x, axis), keepdims) if axis != () else x.clone()


def min(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element along the axes."""
    return numod.amin(x, axes_of(x, axis), keepdims) if axis != () else x.clone()


def _totals(x: Tensor, dtype: Any) -> tuple[Any, Any]:
    """(dtype to compute in, dtype of the result) of sums: integers are summed in int64, unsigned ones give uint64."""
    result = dtype or (x.dtype if x.dtype.differentiable else numod.uint64 if x.dtype.kind in "uw" else numod.int64)
    return numod.int64 if result.kind == "w" else result, result


def sum(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The sum along the axes; of small integers in int64, of unsigned ones in uint64."""
    compute, result = _totals(x, dtype)
    if axis == () or x.ndim == 0:
        return x.to(result, copy=True)
    return numod.sum(x, axes_of(x, axis), keepdims, dtype=compute).to(result)


def prod(x: Tensor, /, *, axis: Axis = None, dtype: Any = None, keepdims: bool = False) -> Tensor:
    """The product along the axes; of small integers in int64, of unsigned ones in uint64."""
    compute, result = _totals(x, dtype)
    if axis == () or x.ndim == 0:
        return x.to(result, copy=True)
    if isinstance(axis, int):
        return numod.prod(x, axis, keepdims, dtype=compute).to(result)
    return over_axes(x, axis, keepdims, lambda values, dim: numod.prod(values, dim, dtype=compute)).to(result)


def mean(x: Tensor, /, *, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The mean along the axes."""
    return numod.mean(x, axes_of(x, axis), keepdims) if axis != () and x.ndim else x.clone()


def var(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance along the axes, by the number of elements less `correction`."""
    if axis == ():
        return numod.zeros_like(x)
    return numod.var(x, axes_of(x, axis), correction=correction, keepdim=keepdims)


def std(x: Tensor, /, *, axis: Axis = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The standard deviation along the axes, by the number of elements less `correction`."""
    if axis == ():
        return numod.zeros_like(x)
    return numod.std(x, axes_of(x, axis), correction=correction, keepdim=keepdims)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
) -> Tensor:
    """The sums of the elements up to each, along an axis that an array of one axis need not name."""
    if axis is None and x.ndim != 1:
        raise ValueError("cumulative_sum: axis must be given for an array of several dimensions")
    compute, kind = _totals(x, dtype)
    result = numod.cumsum(x, 0 if axis is None else axis, dtype=compute).to(kind)
    if not include_initial:
        return result
    shape = [1 if number == (axis or 0) % x.ndim else size for number, size in enumerate(x.shape)]
    return numod.cat([numod.zeros(shape, dtype=result.dtype, device=x.device), result], axis or 0)
