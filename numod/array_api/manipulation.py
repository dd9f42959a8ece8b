"""The standard's functions that rearrange arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numod

from .. import Tensor, moveaxis
from .common import Axis, axes_of

__all__ = [
    "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack",
    "take", "tile", "unstack",
]  # fmt: skip


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """The arrays joined along an axis; with None they are flattened first."""
    return numod.cat(
        [array.reshape(-1) for array in arrays] if axis is None else list(arrays), 0 if axis is None else axis
    )


def stack(arrays: Sequence[Tensor], /, *, axis: int = 0) -> Tensor:
    """The arrays joined along a new axis."""
    return numod.stack(list(arrays), axis)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The parts of an array along an axis."""
    return tuple(numod.unbind(x, axis))


def expand_dims(x: Tensor, /, *, axis: int = 0) -> Tensor:
    """The array with a new axis of size 1. Raises IndexError for a place that the result has not."""
    return numod.unsqueeze(x, axis)


def squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """The array without axes of size 1. Raises ValueError for an axis of another size."""
    axes = axes_of(x, axis)
    if any(x.shape[number] != 1 for number in axes):
        raise ValueError(f"squeeze: axis {axis} of shape {tuple(x.shape)} is not of size 1")
    return numod.squeeze(x, axes)


def flip(x: Tensor, /, *, axis: Axis = None) -> Tensor:
    """The elements in reverse order along the axes."""
    return numod.flip(x, axes_of(x, axis))


def permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """The array with its axes in another order."""
    return numod.permute(x, axes)


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """The elements in another shape. `copy=False` raises ValueError if the memory cannot be shared."""
    if copy is False:
        try:
            return x.view(shape)
        except RuntimeError as error:
            raise ValueError(f"reshape: {error}") from None
    return numod.reshape(x.clone() if copy else x, shape)


def roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: Axis = None) -> Tensor:
    """The elements moved by `shift` places along the axes; those that leave return at the other end."""
    return numod.roll(x, shift) if axis is None else numod.roll(x, shift, axis)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Each element several times along the axis; with None of the flattened array."""
    return numod.repeat_interleave(x.reshape(-1) if axis is None else x, repeats, 0 if axis is None else axis)


def tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """Copies of the array side by side."""
    return numod.tile(x, tuple(repetitions))


def take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The parts of an array at `indices` along an axis, which an array of one axis need not name."""
    if axis is None and x.ndim != 1:
        raise ValueError("take: axis must be given for an array of several dimensions")
    return numod.index_select(x, 0 if axis is None else axis, indices)
