"""Resizing, one dimension after the other: each output element is a weighted sum of input elements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import floor, isfinite, prod
from operator import index
from typing import Any

import numpy as np

from ...errors import warn_caller
from ... import dtypes
from ...core import functions as f
from ...core.apply import apply
from ...core.create.creation import full
from ...core.create.ranges import arange
from ...core.create.values import computed
from ...core.tensor import Tensor
from ...kernel.any_size import tables_by_steps
from ...ops import table as t
from ...ops.image.interpolate import resample
from ...ops.index.indexing import select_known
from .pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d

__all__ = ["interpolate", "upsample", "upsample_bilinear", "upsample_nearest"]


def interpolate(
    input: Tensor,
    size: int | Sequence[int] | None = None,
    scale_factor: float | Sequence[float] | None = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """Resize (N, C, *sizes).

    The mode is "nearest", "nearest-exact", "linear" (1d), "bilinear", "bicubic" (2d), "trilinear" (3d) or "area".

    Example:

        >>> F.interpolate(torch.tensor([[[[1.0, 2.0]]]]), scale_factor=2).shape
        numod.Size([1, 1, 2, 4])
    """
    ndim = input.ndim - 2
    sizes, scales = _target_sizes(input, size, scale_factor, recompute_scale_factor, ndim)
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}.get(mode) != ndim:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the "
            f"modes: nearest | linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if antialias and mode not in ("bilinear", "bicubic"):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode == "area":
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[ndim - 1](input, sizes)
    weighted = "nearest" not in mode and not input.is_floating_point()
    if weighted and input.dtype is not dtypes.uint8:
        raise NotImplementedError(
            f"\"interpolate\" with mode {mode} not implemented for '{input.dtype.short}'; convert first, for example "
            "with .float()"
        )
    shape = [*input.shape[:2], *sizes]
    if prod(shape) * input.dtype.itemsize >= 1 << 63:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={shape}")
    # 16-bit floats are rounded once, not after every dimension
    wide = weighted or ("nearest" not in mode and input.dtype.itemsize == 2 and ndim > 1)
    result = input.float() if wide else input
    # the last dimension is the slowest one, so it is resized while there are fewer lines of it
    last_first = weighted or sizes[-1] > input.shape[-1] or tables_by_steps.get()
    for k in reversed(range(ndim)) if last_first else range(ndim):
        result = _resized(result, 2 + k, sizes[k], scales[k], mode, bool(align_corners), antialias)
        if weighted:  # as in PyTorch and Pillow, bytes are rounded after every dimension, rows first
            result = (result + 0.5).floor().clamp(0, 255)
    if wide:
        return result.to(input.dtype)
    return result if result is not input else f.clone(input)


def _per_dimension(value: object, ndim: int) -> list:
    """A value per dimension: a number (also of NumPy, or a tensor) repeated, or the entries of a sequence."""
    return [value] * ndim if isinstance(value, (int, float)) or getattr(value, "ndim", 1) == 0 else list(value)


def _target_sizes(
    x: Tensor, size: object, factor: object, recompute: bool | None, ndim: int
) -> tuple[list[int], list[float | None]]:
    """(output sizes, scale of each dimension if it is given and not to be recomputed)."""
    if ndim not in (1, 2, 3):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.ndim}D)")
    if (size is None) == (factor is None):
        raise ValueError(
            "only one of size or scale_factor should be defined"
            if size is not None
            else "either size or scale_factor should be defined"
        )
    if size is not None:
        sizes = _per_dimension(size, ndim)
        if len(sizes) != ndim:
            raise ValueError(
                "Input and output must have the same number of spatial dimensions, but got "
                f"input with spatial dimensions of {list(x.shape[2:])} and output size of {size}."
            )
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        try:
            return [index(n) for n in sizes], [None] * ndim
        except TypeError:
            raise TypeError(
                "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got "
                f"size with types {[type(n) for n in sizes]}"
            ) from None
    factors = [float(value) for value in _per_dimension(factor, ndim)]
    if len(factors) != ndim:
        raise ValueError(
            "Input and scale_factor must have the same number of spatial dimensions, but got "
            f"input with spatial dimensions of {list(x.shape[2:])} and scale_factor of shape {factor}."
        )
    if not all(isfinite(n * factor) for n, factor in zip(x.shape[2:], factors)):
        raise RuntimeError(f"interpolate: sizes {list(x.shape[2:])} times scale_factor {factor} are not finite")
    sizes = [floor(n * factor) for n, factor in zip(x.shape[2:], factors)]
    return sizes, [None] * ndim if recompute else factors


def _resized(x: Tensor, dim: int, size: int, factor: float | None, mode: str, corners: bool, antialias: bool) -> Tensor:
    n = x.shape[dim]
    if size <= 0 or n == 0:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(x.shape)} and output size {size}"
        )
    if tables_by_steps.get():
        return _resized_by_steps(x, dim, size, factor, mode, corners, antialias)
    scale = 1.0 / factor if factor else n / size
    if mode in ("nearest", "nearest-exact"):
        positions = _source_positions(n, size, scale, mode)
        return apply(select_known, (f.contiguous(x), computed(positions, dtypes.int64, x.device)), (dim,))
    if n == size and (corners or factor is None or scale == 1.0):
        return x
    index, weight = _table(n, size, scale, corners, mode, antialias)
    index, weight = computed(index, dtypes.int64, x.device), computed(weight, x.dtype, x.device)
    return apply(resample, (f.contiguous(x), index, weight), (dim, size, False))


def _resized_by_steps(
    x: Tensor, dim: int, size: int, factor: float | None, mode: str, corners: bool, antialias: bool
) -> Tensor:
    """As `_resized`, with a table that is computed by tensors, so that a program can follow other sizes."""
    if antialias:
        raise RuntimeError("interpolate: how many elements antialiasing reads follows from the sizes; fix the sizes")
    k = arange(size, dtype=dtypes.float64, device=x.device)
    sizes = (x.shape[dim], size)
    length, count = (full((), number, dtype=dtypes.int64, device=x.device).double() for number in sizes)
    scale, last = 1.0 / factor if factor else length / count, length - 1.0
    if mode in ("nearest", "nearest-exact"):
        positions = _nearest(t, k, last, scale, mode)
        return apply(select_known, (f.contiguous(x), positions.to(dtypes.int64)), (dim,))
    indices, weights = _taps(t, k, last, count - 1.0, scale, corners, mode)
    index, weight = f.stack(indices, 1).to(dtypes.int64), f.stack(weights, 1).to(x.dtype)
    return apply(resample, (f.contiguous(x), index, weight), (dim, size, False))


# ---- the table of a dimension: `xp` is NumPy, or `ops.table` for tensors


@lru_cache(256)
def _source_positions(n: int, size: int, scale: float, mode: str) -> np.ndarray:
    """The index of the input element for each output element."""
    return _nearest(np, np.arange(size), n - 1, scale, mode)


def _nearest(xp: Any, k: Any, last: Any, scale: Any, mode: str) -> Any:
    """The index of the input element for the output elements k; `last` is the last index."""
    return xp.minimum(xp.floor((k + (0.5 if mode == "nearest-exact" else 0.0)) * scale), last)


@lru_cache(256)
def _table(n: int, size: int, scale: float, corners: bool, mode: str, antialias: bool) -> tuple[np.ndarray, np.ndarray]:
    """Indices and weights (size, taps) of the input elements for each output element."""
    positions, weights = (
        _antialiased(n, size, scale, corners, mode)
        if antialias
        else _taps(np, np.arange(size), n - 1, size - 1, scale, corners, mode)
    )
    return np.stack(positions, 1), np.stack(weights, 1)


def _taps(
    xp: Any, k: Any, last: Any, last_output: Any, scale: Any, corners: bool, mode: str
) -> tuple[list[Any], list[Any]]:
    """For each tap the indices and the weights of the input elements for the output elements k."""
    x = k * last / xp.maximum(last_output, 1) if corners else (k + 0.5) * scale - 0.5
    if mode == "bicubic":
        low, taps = xp.floor(x), range(-1, 3)
        return [xp.minimum(xp.maximum(low + tap, 0), last) for tap in taps], [cubic(xp, x - low - tap) for tap in taps]
    x = xp.maximum(x, 0.0)
    low = xp.minimum(xp.floor(x), last)
    share = xp.minimum(x - low, 1.0)
    return [low, xp.minimum(low + 1, last)], [1.0 - share, share]


def cubic(xp: Any, x: Any, a: float = -0.75) -> Any:
    """Keys' convolution kernel (1981) at distance x."""
    x = abs(x)
    near, far = ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
    return xp.where(x <= 1, near, xp.where(x < 2, far, 0.0))


def _antialiased(n: int, size: int, scale: float, corners: bool, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """Tables (taps, size) as those of `_taps`, with a kernel as wide as the scale, which smaller images need."""
    if corners:
        scale = (n - 1) / (size - 1) if size > 1 else 0.0
    radius = (2.0 if mode == "bicubic" else 1.0) * max(scale, 1.0)
    narrow = 1.0 / max(scale, 1.0)
    center = scale * (np.arange(size) + 0.5)
    first, last = (center - radius + 0.5).astype(np.int64).clip(0), (center + radius + 0.5).astype(np.int64).clip(max=n)
    positions = first + np.arange((last - first).max())[:, None]
    distance = (positions - center + 0.5) * narrow
    weights = np.where(
        positions < last, cubic(np, distance, -0.5) if mode == "bicubic" else (1.0 - abs(distance)).clip(0.0), 0.0
    )
    return np.minimum(positions, last - 1), weights / weights.sum(0)


def upsample(
    input: Tensor,
    size: object = None,
    scale_factor: object = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """Deprecated name of `interpolate`.

    Example:

        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    warn_caller("`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: object = None, scale_factor: object = None) -> Tensor:
    """Deprecated: `interpolate` with mode "nearest".

    Example:

        >>> F.interpolate(torch.tensor([[[1.0, 2.0]]]), scale_factor=2)
        tensor([[[1., 1., 2., 2.]]])
    """
    warn_caller("`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor)


def upsample_bilinear(input: Tensor, size: object = None, scale_factor: object = None) -> Tensor:
    """Deprecated: `interpolate` with mode "bilinear" and align_corners=True.

    Example:

        >>> F.interpolate(torch.ones(1, 1, 2, 2), scale_factor=2, mode="bilinear", align_corners=True).shape
        numod.Size([1, 1, 4, 4])
    """
    warn_caller("`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.")
    return interpolate(input, size, scale_factor, "bilinear", True)
