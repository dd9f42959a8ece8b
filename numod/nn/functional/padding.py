"""Padding of the last dimensions: constant, reflected, replicated or circular."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ... import dtypes
from ...core import creation, functions as f
from ...core.tensor import Tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Padded by (left, right, top, bottom, ...) from the last dimension on; negative sizes crop.

    Modes: "constant" (of `value`), "reflect", "replicate", "circular". Raises RuntimeError for sizes that do not fit.
    """
    if mode == "constant":
        return f.pad_constant(input, pad, 0.0 if value is None else value)
    if value:
        raise ValueError(f"Padding mode \"{mode}\" doesn't take in value argument")
    if mode not in _PLACES:
        raise NotImplementedError(f"Unrecognised padding mode {mode}; expected 'constant', 'reflect', 'replicate' or 'circular'")
    pad = tuple(pad)
    if len(pad) % 2 or len(pad) // 2 not in (1, 2, 3) or input.ndim not in (len(pad) // 2 + 1, len(pad) // 2 + 2):
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got padding of {len(pad)} numbers for {input.ndim} dimensions"
        )
    ndim = len(pad) // 2
    if mode != "circular" and 0 in input.shape[input.ndim - ndim - 1 if input.ndim == ndim + 1 else 1 :]:
        raise RuntimeError(
            f"Expected {ndim + 1}D or {ndim + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, but got: {list(input.shape)}"
        )
    result = input
    for k in range(ndim):
        before, after = pad[2 * k], pad[2 * k + 1]
        if before or after:
            dim = input.ndim - 1 - k
            if mode == "circular":  # cropped elements do not reappear on the other side
                left, right = max(-before, 0), max(-after, 0)
                result = f.narrow(result, dim, left, max(result.shape[dim] - left - right, 0))
                before, after = max(before, 0), max(after, 0)
            result = _padded(result, dim, before, after, _index(mode, result.shape[dim], before, after, dim))
    return result if result is not input else f.clone(input)


_SLICES = 2  # places on both sides up to which each is a slice of its own: that costs less than to gather elements, but each has a gradient of its own


def _padded(x: Tensor, dim: int, before: int, after: int, places: np.ndarray) -> Tensor:
    """x between what goes before and after it: x itself is copied as a block."""
    start = max(-before, 0)
    sides = places[: max(before, 0)], places[len(places) - max(after, 0) :]
    if sum(map(len, sides)) <= _SLICES:
        left, right = ([f.narrow(x, dim, place, 1) for place in side.tolist()] for side in sides)
    else:
        left, right = ([f.index_select(x, dim, creation.computed(side, dtypes.int64, x.device))] for side in sides)
    parts = [*left, f.narrow(x, dim, start, x.shape[dim] - start - max(-after, 0)), *right]
    return f.cat(parts, dim) if len(parts) > 1 else parts[0]


def _index(mode: str, n: int, before: int, after: int, dim: int) -> np.ndarray:
    """The source index of each element of the padded dimension."""
    limit = {"reflect": n - 1, "circular": n, "replicate": before + after + n}[mode]
    if before > limit or after > limit:
        raise RuntimeError(
            f"Padding size should be less than the corresponding input dimension, but got: padding ({before}, {after}) at dimension {dim} of input of size {n}"
        )
    if n + before + after <= 0:
        raise RuntimeError(f"padding ({before}, {after}) at dimension {dim} leaves nothing of size {n}")
    return _PLACES[mode](np.arange(-before, n + after), n)


_PLACES = {
    "reflect": lambda k, n: n - 1 - abs(n - 1 - abs(k)),
    "replicate": lambda k, n: k.clip(0, n - 1),
    "circular": lambda k, n: k % n,
}
