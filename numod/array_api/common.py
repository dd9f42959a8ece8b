"""What several files share: axes, and shapes as PyTorch's functions take them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .. import Tensor

Axis = int | Sequence[int] | None


def shape_of(shape: int | Sequence[int]) -> tuple[int, ...]:
    """A shape that may be given as one number."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def axes_of(x: Tensor, axis: Axis) -> tuple[int, ...]:
    """The axes as numbers of x's dimensions; None means all of them. Raises IndexError for one that x has not."""
    axes = range(x.ndim) if axis is None else (axis,) if isinstance(axis, int) else axis
    if any(not -x.ndim <= number < x.ndim for number in axes):
        raise IndexError(f"axis {axis} of an array of {x.ndim} dimensions")
    return tuple(number % x.ndim for number in axes)


def over_axes(x: Tensor, axis: Axis, keepdims: bool, reduce: Any) -> Tensor:
    """`reduce(x, dim)` over several axes, for a function of PyTorch that takes one."""
    axes = axes_of(x, axis)
    others = [number for number in range(x.ndim) if number not in axes]
    sizes = [*(x.shape[number] for number in others), math.prod(x.shape[number] for number in axes)]
    result = reduce(x.permute(*others, *axes).reshape(sizes), -1)
    return (
        result.reshape([1 if number in axes else size for number, size in enumerate(x.shape)]) if keepdims else result
    )
