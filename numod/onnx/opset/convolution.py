"""Convolutions over images, signals and volumes, and their transposes."""

from __future__ import annotations

import math

import numod
import numod.nn.functional as F

from ...core import Tensor
from ..registry import operator
from .windows import check_count, is_symmetric, padded, per_axis, spatial_pads

_CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
_CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def _by_rank(functions: dict, x: Tensor) -> object:
    if x.ndim - 2 not in functions:
        raise NotImplementedError(f"convolutions are of 1 to 3 spatial axes, got an input of shape {list(x.shape)}")
    return functions[x.ndim - 2]


@operator("Conv")
def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolution over 1 to 3 spatial axes."""
    function, kernel = _by_rank(_CONV, x), list(weight.shape[2:])
    if kernel_shape is not None and list(kernel_shape) != kernel:
        raise ValueError(f"kernel_shape is {kernel_shape}, the weight's {kernel}")
    strides, dilations = per_axis("strides", strides, x.ndim - 2), per_axis("dilations", dilations, x.ndim - 2)
    ends = spatial_pads(x.shape[2:], kernel, strides, dilations, auto_pad, pads)
    if is_symmetric(ends):
        return function(x, weight, bias, strides, [low for low, _ in ends], dilations, group)
    return function(padded(x, ends), weight, bias, strides, 0, dilations, group)


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    auto_pad: str = "NOTSET",
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    output_padding: list[int] | None = None,
    output_shape: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Transposed convolution. If the padding differs at the two ends, the result is computed without it, then cut."""
    function, kernel, count = _by_rank(_CONV_TRANSPOSE, x), list(weight.shape[2:]), x.ndim - 2
    strides, dilations = per_axis("strides", strides, count), per_axis("dilations", dilations, count)
    extra = [0] * count if output_padding is None else list(output_padding)
    full = [
        (size - 1) * stride + (length - 1) * dilation + 1
        for size, length, stride, dilation in zip(x.shape[2:], kernel, strides, dilations)
    ]
    ends = _transposed_pads(x.shape[2:], full, strides, extra, auto_pad, pads, output_shape)
    padding = [low for low, _ in ends]
    if is_symmetric(ends) and all(size < stride for size, stride in zip(extra, strides)) and min(padding) >= 0:
        return function(x, weight, bias, strides, padding, extra, group, dilations)
    out = function(x, weight, None, strides, 0, 0, group, dilations)
    out = padded(out, [(-low, size - high) for (low, high), size in zip(ends, extra)])
    return out if bias is None else out + bias.reshape(-1, *[1] * count)


def _transposed_pads(
    shape: list[int],
    full: list[int],
    strides: list[int],
    extra: list[int],
    auto_pad: str,
    pads: list[int] | None,
    output_shape: list[int] | None,
) -> list[tuple[int, int]]:
    """The (low, high) padding of each axis, so that the result has the shape `output_shape` if there is one."""
    count = len(shape)
    if output_shape is None and auto_pad.startswith("SAME"):
        output_shape = [size * stride for size, stride in zip(shape, strides)]
    if output_shape is None:
        if pads is None or auto_pad == "VALID":
            return [(0, 0)] * count
        check_count("pads", pads, 2 * count)
        return list(zip(pads[:count], pads[count:]))
    totals = [size + more - wanted for size, more, wanted in zip(full, extra, output_shape[-count:])]
    halves = [total // 2 for total in totals]
    if auto_pad == "SAME_UPPER":
        return [(half, total - half) for half, total in zip(halves, totals)]
    return [(total - half, half) for half, total in zip(halves, totals)]


@operator("DeformConv", since=19)
def deform_conv(
    x: Tensor,
    weight: Tensor,
    offset: Tensor,
    bias: Tensor | None = None,
    mask: Tensor | None = None,
    *,
    dilations: list[int] | None = None,
    group: int = 1,
    kernel_shape: list[int] | None = None,
    offset_group: int = 1,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Convolution in two dimensions whose taps are moved by offsets; values between pixels are interpolated."""
    (n, c, h, w), (m, _, kh, kw), (rows, columns) = x.shape, weight.shape, offset.shape[-2:]
    (sy, sx), (dy, dx) = per_axis("strides", strides, 2), per_axis("dilations", dilations, 2)
    top, left = (0, 0) if pads is None else pads[:2]
    taps = numod.arange(kh * kw)
    offset = offset.reshape(n, offset_group, kh * kw, 2, rows, columns)
    y = (numod.arange(rows) * sy - top).reshape(-1, 1) + ((taps // kw) * dy).reshape(-1, 1, 1) + offset[:, :, :, 0]
    z = (numod.arange(columns) * sx - left) + ((taps % kw) * dx).reshape(-1, 1, 1) + offset[:, :, :, 1]
    grid = numod.stack([2 * z / max(w - 1, 1) - 1, 2 * y / max(h - 1, 1) - 1], -1)
    images = x.reshape(n * offset_group, c // offset_group, h, w)
    grid = grid.reshape(n * offset_group, kh * kw, rows * columns, 2).to(x.dtype)
    samples = F.grid_sample(images, grid, align_corners=True).reshape(n, offset_group, -1, kh * kw, rows * columns)
    if mask is not None:
        samples = samples * mask.reshape(n, offset_group, 1, kh * kw, rows * columns)
    samples = samples.reshape(n, group, c // group * kh * kw, rows * columns)
    out = (weight.reshape(group, m // group, -1) @ samples).reshape(n, m, rows, columns)
    return out if bias is None else out + bias.reshape(-1, 1, 1)


@operator("Col2Im", since=18, host="image_shape block_shape")
def col2im(
    x: Tensor,
    image_shape: object,
    block_shape: object,
    *,
    dilations: list[int] | None = None,
    pads: list[int] | None = None,
    strides: list[int] | None = None,
) -> Tensor:
    """Columns of blocks added up to an image, of any number of axes."""
    image, block = [int(size) for size in image_shape], [int(size) for size in block_shape]
    count = len(image)
    strides, dilations = per_axis("strides", strides, count), per_axis("dilations", dilations, count)
    ends = spatial_pads(image, block, strides, dilations, "NOTSET", pads)
    full = [size + low + high for size, (low, high) in zip(image, ends)]
    counts = [
        (size - (length - 1) * dilation - 1) // stride + 1
        for size, length, stride, dilation in zip(full, block, strides, dilations)
    ]
    flat_index = numod.zeros((), dtype=numod.int64)
    for size, length, number, stride, dilation in zip(full, block, counts, strides, dilations):
        along = numod.arange(length).reshape(-1, 1) * dilation + numod.arange(number) * stride
        flat_index = flat_index.reshape(*flat_index.shape, 1, 1) * size + along
    order = [*range(0, 2 * count, 2), *range(1, 2 * count, 2)]
    flat_index = flat_index.permute(order).reshape(-1)
    n, channels = x.shape[0], x.shape[1] // math.prod(block)
    values = x.reshape(n, channels, -1)
    out = numod.zeros(n, channels, math.prod(full), dtype=x.dtype).scatter_add(
        2, flat_index.expand(values.shape), values
    )
    return padded(out.reshape(n, channels, *full), [(-low, -high) for low, high in ends])
