"""The gradient of a convolution's input as one matrix product, whose sums are then added where their windows are: for few windows, each of many taps.

By the grid (`convolution_grid`) every element of the input meets all taps that its place among the strides allows, also those that no window brings there: for
windows that nearly cover the input these are most. Here nothing is multiplied in vain, and the price is a matrix of a sum for each tap of each window.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from ..kernel.specialize import specialized
from .convolution_direct import launcher
from .matmul import matmul

_PRICE = 55  # products that take as long as writing a sum and adding it
_TABLE = 400  # products that take as long as the grid's search for the taps of a phase, for each of them
_MARGIN = 1.3  # of the estimate, beyond which it is believed
_FEW = 2  # channels up to which the grid's tiles have single rows
_MOST = 1 << 24  # sums


def pays(x: tuple, weight: tuple, result: tuple, stride: tuple, groups: int, tile_rows: int) -> bool:
    """Whether this takes less time than the grid, whose tiles of channels are padded."""
    channels, features, phases = weight[1], weight[0] // groups, prod(stride)
    sums = x[0] * groups * prod(weight[1:]) * prod(result[2:])
    padded = 1 if channels <= _FEW else -(-channels // tile_rows) * tile_rows / channels
    by_grid = sums * features * padded * prod(x[2:]) / (phases * prod(result[2:])) + _TABLE * phases * prod(weight[2:])
    return sums <= _MOST and by_grid > _MARGIN * sums * (features + _PRICE)


def turn_outputs_by_window(g, turned, images, groups, features, windows):
    """turned (groups, images, windows, features) = g (images, groups, features, windows)."""
    for part in parallel_range(groups * images):
        group, image = int64(part) // images, int64(part) % images
        source, target = (image * groups + group) * features * windows, int64(part) * windows * features
        for window in range(windows):
            for feature in range(features):
                turned[uintp(target + window * features + feature)] = g[uintp(source + feature * windows + window)]


def add_windows(sums, out):
    """out (images, groups, channels, depth, height, width) = each of sums (groups, images, windows, channels, taps) where its window brings it, added up; a
    plane a task."""
    windows, taps = out_d * out_h * out_w, kernel_d * kernel_h * kernel_w
    for plane in parallel_range(images * groups * channels):
        channel, group, image = int64(plane) % channels, int64(plane) // channels % groups, int64(plane) // (channels * groups)
        base = int64(plane) * depth * height * width
        for k in range(depth * height * width):
            out[uintp(base + k)] = 0
        for window in range(windows):
            z, y, left = window // (out_h * out_w) * stride_d - pad_d, window // out_w % out_h * stride_h - pad_h, window % out_w * stride_w - pad_w
            source = (((group * images + image) * windows + window) * channels + channel) * taps
            first, end = max(int64(0), -(left // STEP)), min(kernel_w, (width - 1 - left) // STEP + 1)
            for line in range(kernel_d * kernel_h):
                row, column = z + line // kernel_h * step_d, y + line % kernel_h * step_h
                if (row >= 0) & (row < depth) & (column >= 0) & (column < height):
                    target = base + (row * height + column) * width + left
                    for k in range(first, end):
                        out[uintp(target + k * STEP)] += sums[uintp(source + line * kernel_w + k)]


def fold_launcher(out: Layout, numbers: tuple, weight: tuple, dilation: tuple) -> Callable:
    """A launch of the three steps, for the numbers of GEOMETRY."""
    images, groups, channels, features, *sizes = numbers
    taps, windows = prod(sizes[3:6]), prod(sizes[6:9])
    turn = bind.launcher(
        out.device, "turn_outputs_by_window", specialized(turn_outputs_by_window), bind.signature(out, out, numbers=4), out.dtype,
        images * weight[0] * windows,
    )
    product = matmul.prepare(
        tuple(layout((groups, *shape), out.dtype, out.device) for shape in ((images * windows, features), (features, channels * taps))), (False, False)
    )
    add = launcher("convolution_input", add_windows, out, (out.storage.name,) * 2, 0, product.layout.size, (("STEP", 1 if dilation[-1] == 1 else "step_w"),))
    empty = out.device.empty

    def launch(g: object, weight: object, result: object) -> None:
        turned, sums = empty(images * groups * windows * features, out.storage), empty(product.layout.size, out.storage)
        turn(g, turned, images, groups, features, windows)
        product.launch(turned, weight, sums, *product.constants)
        add(sums, result, *numbers)

    return launch
