"""The gradient of a convolution's input by one matrix product and col2im: for few windows of many taps.

An implicit GEMM (`implicit_gemm`) multiplies every element of the input by all taps of its phase, most of which lie
outside of all windows if the kernel is almost as large as the input. Here only necessary products are computed, at the
price of a matrix with a sum for each tap of each window.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.any_size import for_all_sizes
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.direct import Geometry
from ...kernel.specialize import specialized
from ..matmul.matmul import matmul
from .direct import launcher

_SUM_COST = 55  # cost of writing a sum and adding it, in products
_TAP_COST = 400  # cost of the implicit GEMM's search for each tap of a phase, in products
_MIN_COST_RATIO = 1.3  # minimum ratio of the estimated costs
_SINGLE_ROW_CHANNELS = 2  # channels up to which the tiles of the implicit GEMM have single rows
_MAX_SUMS = 1 << 24


def is_faster(x: tuple, weight: tuple, result: tuple, stride: tuple, groups: int, tile_rows: int) -> bool:
    """Whether this is expected to be faster than the implicit GEMM."""
    channels, features, phases = weight[1], weight[0] // groups, prod(stride)
    sums = x[0] * groups * prod(weight[1:]) * prod(result[2:])
    padded = 1 if channels <= _SINGLE_ROW_CHANNELS else -(-channels // tile_rows) * tile_rows / channels
    by_grid = sums * features * padded * prod(x[2:]) / (phases * prod(result[2:])) + _TAP_COST * phases * prod(
        weight[2:]
    )
    return sums <= _MAX_SUMS and not for_all_sizes.get() and by_grid > _MIN_COST_RATIO * sums * (features + _SUM_COST)


def transpose_by_window(g, transposed, images, groups, features, windows):
    """transposed (groups, images, windows, features) = g (images, groups, features, windows)."""
    for part in parallel_range(groups * images):
        group, image = int64(part) // images, int64(part) % images
        source, target = (image * groups + group) * features * windows, int64(part) * windows * features
        for window in range(windows):
            for feature in range(features):
                transposed[uintp(target + window * features + feature)] = g[uintp(source + feature * windows + window)]


def add_windows(sums, out, conv: Geometry):
    """out (images, groups, channels, depth, height, width) = sums (groups, images, windows, channels, taps) by col2im.

    Each task computes a plane.
    """
    windows, taps = conv.out_d * conv.out_h * conv.out_w, conv.kernel_d * conv.kernel_h * conv.kernel_w
    for plane in parallel_range(conv.images * conv.groups * conv.channels):
        channel, group, image = (
            int64(plane) % conv.channels,
            int64(plane) // conv.channels % conv.groups,
            int64(plane) // (conv.channels * conv.groups),
        )
        base = int64(plane) * conv.depth * conv.height * conv.width
        for k in range(conv.depth * conv.height * conv.width):
            out[uintp(base + k)] = 0
        for window in range(windows):
            z, y, left = (
                window // (conv.out_h * conv.out_w) * conv.stride_d - conv.pad_d,
                window // conv.out_w % conv.out_h * conv.stride_h - conv.pad_h,
                window % conv.out_w * conv.stride_w - conv.pad_w,
            )
            source = (((group * conv.images + image) * windows + window) * conv.channels + channel) * taps
            first, end = (
                max(int64(0), -(left // conv.step_w)),
                min(conv.kernel_w, (conv.width - 1 - left) // conv.step_w + 1),
            )
            for line in range(conv.kernel_d * conv.kernel_h):
                row, column = z + line // conv.kernel_h * conv.step_d, y + line % conv.kernel_h * conv.step_h
                if (row >= 0) & (row < conv.depth) & (column >= 0) & (column < conv.height):
                    target = base + (row * conv.height + column) * conv.width + left
                    for k in range(first, end):
                        out[uintp(target + k * conv.step_w)] += sums[uintp(source + line * conv.kernel_w + k)]


def fold_launcher(out: Layout, numbers: Geometry, weight: tuple, dilation: tuple) -> Callable:
    """A launcher of the three steps."""
    images, groups, channels, features, *sizes = numbers
    taps, windows = prod(sizes[3:6]), prod(sizes[6:9])
    transpose = bind.launcher(
        out.device,
        "transpose_by_window",
        specialized(transpose_by_window),
        bind.signature(out, out, numbers=4),
        out.dtype,
        images * weight[0] * windows,
    )
    product = matmul.prepare(
        tuple(
            layout((groups, *shape), out.dtype, out.device)
            for shape in ((images * windows, features), (features, channels * taps))
        ),
        (False, False),
    )
    add = launcher(
        "convolution_input",
        add_windows,
        out,
        (out.storage.name,) * 2,
        product.layout.size,
        **({"step_w": 1} if dilation[-1] == 1 else {}),
    )
    empty = out.device.empty

    def launch(g: object, weight: object, result: object) -> None:
        transposed = empty(images * groups * windows * features, out.storage)
        sums = empty(product.layout.size, out.storage)
        transpose(g, transposed, images, groups, features, windows)
        product.launch(transposed, weight, sums, *product.constants)
        add(sums, result, *numbers)

    return launch
