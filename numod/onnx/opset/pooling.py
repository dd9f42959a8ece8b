"""Pooling over windows and over whole channels."""

from __future__ import annotations

import numpy as np

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import operator
from .windows import is_symmetric, padded, per_axis, spatial_pads

_MAX = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_AVERAGE = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}


def _windows(
    x: Tensor,
    kernel: list[int],
    strides: list[int] | None,
    dilations: list[int] | None,
    auto_pad: str,
    pads: list[int] | None,
    ceil_mode: int,
) -> tuple[list[int], list[int], list[tuple[int, int]], list[int]]:
    """(strides, dilations, padding, with `ceil_mode` the elements that the last window lacks) of each axis."""
    count = x.ndim - 2
    kernel = per_axis("kernel_shape", kernel, count)
    strides, dilations = per_axis("strides", strides, count), per_axis("dilations", dilations, count)
    ends = spatial_pads(x.shape[2:], kernel, strides, dilations, auto_pad, pads)
    more = [0] * count
    if ceil_mode and not auto_pad.startswith("SAME"):
        for axis, (size, (low, high)) in enumerate(zip(x.shape[2:], ends)):
            window, stride = (kernel[axis] - 1) * dilations[axis] + 1, strides[axis]
            number = -(-(size + low + high - window) // stride) + 1
            if (number - 1) * stride >= size + low:  # windows begin within the input or the padding before it
                number -= 1
            more[axis] = max((number - 1) * stride + window - (size + low + high), 0)
    return strides, dilations, ends, more


@operator("MaxPool")
def max_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    storage_order: int = 0,
    strides: list[int] | None = None,
    outputs: int,
) -> object:
    """Maxima of windows, and their places in the flattened input if a second output is asked for."""
    strides, dilations, ends, more = _windows(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    if x.ndim - 2 not in _MAX:
        raise NotImplementedError(f"pooling is over 1 to 3 spatial axes, got an input of shape {list(x.shape)}")
    function = _MAX[x.ndim - 2]
    halves = all(2 * low <= size for (low, _), size in zip(ends, kernel_shape))
    has_function = x.dtype.is_floating_point or x.is_quantized
    if outputs == 1 and is_symmetric(ends) and not any(more) and halves and has_function:
        return function(x, kernel_shape, strides, [low for low, _ in ends], dilations)
    ends = [(low, high + extra) for (low, high), extra in zip(ends, more)]
    if outputs == 1 and x.dtype.is_floating_point:
        return function(padded(x, ends, -np.inf), kernel_shape, strides, 0, dilations)
    integers = not x.dtype.is_floating_point
    wide = x.to(numod.float32) if integers else x
    values, places = function(padded(wide, ends, -np.inf), kernel_shape, strides, 0, dilations, return_indices=True)
    values = values.to(x.dtype) if integers else values
    return values if outputs == 1 else (values, _places(places, x.shape, ends, storage_order))


def _places(places: Tensor, shape: tuple, ends: list[tuple[int, int]], storage_order: int) -> Tensor:
    """Places in the flattened padded image as places in the whole flattened input."""
    remaining, coordinates = places, []
    for size, (low, high) in reversed(list(zip(shape[2:], ends))):
        coordinates.insert(0, remaining % (size + low + high) - low)
        remaining = remaining // (size + low + high)
    axes = list(zip(coordinates, shape[2:]))
    if storage_order:  # column-major
        axes.reverse()
    flat_index = numod.zeros_like(places)
    for coordinate, size in axes:
        flat_index = flat_index * size + coordinate
    images = numod.arange(shape[0] * shape[1]).reshape(shape[0], shape[1], *[1] * (len(shape) - 2))
    return flat_index + images * _count(shape[2:])


def _count(sizes: tuple) -> int:
    return int(np.prod(sizes, dtype=np.int64))


@operator("AveragePool")
def average_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Means of windows, with or without the padding. Elements that `ceil_mode` adds do not count."""
    strides, dilations, ends, more = _windows(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    no_pads = not any(low or high for low, high in ends) and not any(more)
    plain = set(dilations) == {1} and x.ndim - 2 in _AVERAGE and not any(more)
    halves = is_symmetric(ends) and all(2 * low <= size for (low, _), size in zip(ends, kernel_shape))
    if plain and (no_pads or halves):
        padding = [low for low, _ in ends]
        function = _AVERAGE[x.ndim - 2]
        return function(x, kernel_shape, strides, padding, count_include_pad=bool(count_include_pad))
    extra = [(0, size) for size in more]
    total = _window_sum(padded(padded(x, ends), extra), kernel_shape, strides, dilations)
    ones = numod.ones(1, 1, *x.shape[2:], dtype=x.dtype)
    counted = padded(padded(ones, ends, 1.0 if count_include_pad else 0.0), extra)
    return total / _window_sum(counted, kernel_shape, strides, dilations)


def _window_sum(x: Tensor, kernel: list[int], strides: list[int], dilations: list[int]) -> Tensor:
    """Sums of windows, one axis after another."""
    for axis, (length, stride, dilation) in enumerate(zip(kernel, strides, dilations), start=2):
        number = (x.shape[axis] - (length - 1) * dilation - 1) // stride + 1
        index = [slice(None)] * x.ndim
        parts = []
        for tap in range(length):
            start = tap * dilation
            index[axis] = slice(start, start + (number - 1) * stride + 1, stride)
            parts.append(x[tuple(index)])
        x = sum(parts[1:], parts[0])
    return x


@operator("LpPool", since=1)
def lp_pool_in_first_version(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    kernel_shape: list[int],
    p: float = 2.0,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """`lp_pool` of opset 1, where p is a float."""
    return lp_pool(x, auto_pad=auto_pad, kernel_shape=kernel_shape, p=p, pads=pads, strides=strides)


@operator("LpPool", since=2)
def lp_pool(
    x: Tensor,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: list[int] | None = None,
    kernel_shape: list[int],
    p: int = 2,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """p-norms of windows."""
    strides, dilations, ends, more = _windows(x, kernel_shape, strides, dilations, auto_pad, pads, ceil_mode)
    ends = [(low, high + extra) for (low, high), extra in zip(ends, more)]
    return _window_sum(padded(x.abs() ** p, ends), kernel_shape, strides, dilations) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Tensor:
    """The mean of each channel."""
    return x.mean(tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Tensor:
    """The maximum of each channel."""
    return x.amax(tuple(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: int = 2) -> Tensor:
    """The p-norm of each channel."""
    return (x.abs() ** p).sum(tuple(range(2, x.ndim)), keepdim=True) ** (1 / p)


@operator("MaxUnpool", since=9, host="output_shape")
def max_unpool(
    x: Tensor,
    places: Tensor,
    output_shape: np.ndarray | None = None,
    *,
    kernel_shape: list[int],
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Values at the places of the flattened output that MaxPool reports, zeros elsewhere."""
    strides = per_axis("strides", strides, x.ndim - 2)
    ends = spatial_pads(x.shape[2:], kernel_shape, strides, [1] * (x.ndim - 2), "NOTSET", pads)
    spatial = [
        (size - 1) * stride + length - low - high
        for size, stride, length, (low, high) in zip(x.shape[2:], strides, kernel_shape, ends)
    ]
    shape = (*x.shape[:2], *spatial)
    wanted = shape if output_shape is None else tuple(int(size) for size in output_shape)
    # places count in the shape without output_shape
    out = numod.zeros(_count(shape), dtype=x.dtype).scatter(0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    return padded(out, [(0, size - now) for size, now in zip(wanted[2:], shape[2:])])
