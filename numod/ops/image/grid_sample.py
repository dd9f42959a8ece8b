"""grid_sample and its gradients: nearest, (tri)linear or cubic sampling with zero, border or reflection padding.

x (images, channels, *sizes) and grid (images, *points, axes) are dense; grid coordinates are in [-1, 1], the last axis
of x first. Kernels see three sizes; two-dimensional images have depth 1. A sample is a sum over a few taps along each
axis; the weight of a tap is the product of its weights along the axes. `orders` is the order of the derivative of these
weights for each axis, so that derivatives of any order are samples, too. The gradient of x adds samples in order,
independent of the number of threads. A NaN coordinate becomes 0 with border or reflection padding; else, and in cubic
mode, the sample is NaN, as on PyTorch's CPU.

Jaderberg et al., Spatial Transformer Networks, 2015; Keys, Cubic Convolution Interpolation for Digital Image
Processing, 1981, with a = -0.75.
"""

from __future__ import annotations

from collections.abc import Callable
from math import fabs, prod

import numpy as np

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import floor, int64, parallel_range, real, uintp
from ...kernel.library.arithmetic import round_even
from ...kernel.scalar import inlined_scalar
from ...kernel.specialize import specialized
from ..index.concat import cat
from ..op import Op, Plan, single_device

_TAPS = {"nearest": 1, "bilinear": 2, "bicubic": 4}
_PADDINGS = {"zeros": 0, "border": 1, "reflection": 2}
_TABLE_SAMPLES = 64  # samples whose tap tables are computed at a time, for all channels
# iterations of the parallel loop, each with its own tables, and channels per task for which tables are recomputed
_WORKERS, _CHANNELS = 16, 4


@inlined_scalar
def grid_position(x, n, taps, padding, corners):
    """The taps of a grid coordinate x along an axis of n elements: (index of the first tap, distance of the sample from
    the tap below it, d index / dx).
    """
    scale = 0.5 * real(n - 1 if corners else n)
    index = (x + 1.0) * scale - (0.0 if corners else 0.5)
    if taps < 4:
        index, sign = grid_border(index, n, padding, corners)
        scale = scale * sign
    low = round_even(index) if taps == 1 else floor(index)
    return low - real((taps - 1) // 2), index - low, scale


@inlined_scalar
def grid_border(index, n, padding, corners):
    """(index, its derivative): a coordinate clamped to, or reflected into, 0 ... n - 1."""
    sign = 1.0
    if padding == 2:
        low = 0.0 if corners else -0.5
        span = real(n - 1 if corners else n)
        distance = fabs(index - low)
        distance = distance - floor(distance / (2.0 * span)) * (2.0 * span) if span > 0.0 else 0.0
        sign = -1.0 if (index < low) != (distance > span) else 1.0
        index = low + min(distance, 2.0 * span - distance)
    if padding != 0:
        sign = sign if (index > 0.0) & (index < real(n - 1)) else 0.0
        index = min(index, real(n - 1)) if index > 0.0 else 0.0  # NaN becomes 0
    return index, sign


@inlined_scalar
def grid_tap(first, k, n, taps, padding, corners):
    """The element of tap k, counted from coordinate `first`; -1 outside."""
    index = first + real(k)
    if taps == 4:
        index, sign = grid_border(index, n, padding, corners)
    return int64(index) if (index >= 0.0) & (index <= real(n - 1)) else int64(-1)


@inlined_scalar
def tap_weight(t, k, taps, order):
    """The weight of tap k of a sample at distance t from the tap below it, differentiated `order` times by t."""
    if taps == 1:
        return 1.0 if order == 0 else 0.0
    if taps == 2:
        return (t if k == 1 else 1.0 - t) if order == 0 else (1.0 if k == 1 else -1.0) if order == 1 else 0.0
    sign = 1.0 if k < 2 else -1.0  # the distance from the tap is t + 1, t, 1 - t, 2 - t
    x = t + 1.0 if k == 0 else t if k == 1 else 1.0 - t if k == 2 else 2.0 - t
    is_inner = (k == 1) | (k == 2)
    a, b, c, d = (1.25, -2.25, 0.0, 1.0) if is_inner else (-0.75, 3.75, -6.0, 3.0)
    if order == 0:
        return ((a * x + b) * x + c) * x + d
    if order == 1:
        return sign * ((3.0 * a * x + 2.0 * b) * x + c)
    return 6.0 * a * x + 2.0 * b if order == 2 else sign * 6.0 * a if order == 3 else 0.0


@inlined_scalar
def fill_grid_taps(
    grid, grid_at, count, elements, weight, place_at, weight_at, depth, height, width, corners, axes, taps, taps_d,
    padding, order_d, order_h, order_w,
):  # fmt: skip
    """Fill the tables of `count` samples whose grid begins at `grid_at`: elements (the tap's element of a plane; -1
    outside) from `place_at`, weight from `weight_at`, each (count, taps_d * taps * taps).
    """
    for j in range(count):
        w, t_w, scale_w = grid_position(grid[uintp(grid_at + j * axes)], width, taps, padding, corners)
        h, t_h, scale_h = grid_position(grid[uintp(grid_at + j * axes + 1)], height, taps, padding, corners)
        d, t_d, scale_d = grid_position(
            grid[uintp(grid_at + j * axes + 2)] if axes == 3 else 0.0, depth, taps_d, padding, corners
        )
        scale, tap = scale_d**order_d * scale_h**order_h * scale_w**order_w, j * taps_d * taps * taps
        for k_d in range(taps_d):
            element_d, weight_d = (
                grid_tap(d, k_d, depth, taps_d, padding, corners),
                scale * tap_weight(t_d, k_d, taps_d, order_d),
            )
            for k_h in range(taps):
                element_h, weight_h = (
                    grid_tap(h, k_h, height, taps, padding, corners),
                    weight_d * tap_weight(t_h, k_h, taps, order_h),
                )
                for k_w in range(taps):
                    element_w, weight_w = (
                        grid_tap(w, k_w, width, taps, padding, corners),
                        weight_h * tap_weight(t_w, k_w, taps, order_w),
                    )
                    elements[uintp(place_at + tap)] = (
                        (element_d * height + element_h) * width + element_w
                        if min(element_d, element_h, element_w) >= 0
                        else int64(-1)
                    )
                    weight[uintp(weight_at + tap)] = weight_w
                    tap += 1


def sample_kernel(
    x, grid, out, elements, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
):  # fmt: skip
    """out (images, channels, samples) = x (images, channels, depth, height, width) at grid (images, samples, axes).

    A unit of work is RUN samples of an image.
    """
    for worker in parallel_range(workers):
        table_at, runs, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, first = unit // runs, unit % runs * RUN
            count = min(RUN, samples - first)
            fill_grid_taps(
                grid, (image * samples + first) * AXES, count, elements, weight, table_at, table_at,
                depth, height, width, corners, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
            )  # fmt: skip
            for c in range(image * channels, (image + 1) * channels):
                for j in range(count):
                    total = real(0)
                    for tap in range(COUNT):
                        element = elements[uintp(table_at + j * COUNT + tap)]
                        total += weight[uintp(table_at + j * COUNT + tap)] * (
                            x[uintp(c * plane + element)] if element >= 0 else real(0)
                        )
                    out[uintp(c * samples + first + j)] = total


def spread_kernel(
    g, grid, out, elements, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
):  # fmt: skip
    """out (images, channels, depth, height, width) = the gradient of x for g (images, channels, samples).

    A unit of work is a run of channels of an image.
    """
    for worker in parallel_range(workers):
        table_at, parts, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, part = unit // parts, unit % parts
            begin, end = image * channels + part * channels // parts, image * channels + (part + 1) * channels // parts
            for k in range(begin * plane, end * plane):
                out[uintp(k)] = 0
            for first in range(0, samples, RUN):
                count = min(RUN, samples - first)
                fill_grid_taps(
                    grid, (image * samples + first) * AXES, count, elements, weight, table_at, table_at,
                    depth, height, width, corners, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
                )  # fmt: skip
                for c in range(begin, end):
                    for j in range(count):
                        value = g[uintp(c * samples + first + j)]
                        for tap in range(COUNT):
                            element = elements[uintp(table_at + j * COUNT + tap)]
                            if element >= 0:
                                out[uintp(c * plane + element)] += weight[uintp(table_at + j * COUNT + tap)] * value


def slope_kernel(
    g, x, grid, out, elements, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING,
):  # fmt: skip
    """out (images, samples, axes) = the gradient of grid for g (images, channels, samples).

    A unit of work is RUN samples of an image; weight has a table for each axis.
    """
    for worker in parallel_range(workers):
        table_at, runs, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, first = unit // runs, unit % runs * RUN
            count, grid_at = min(RUN, samples - first), (image * samples + first) * AXES
            for axis in range(AXES):
                fill_grid_taps(
                    grid, grid_at, count, elements, weight, table_at, table_at * AXES + axis * RUN * COUNT,
                    depth, height, width, corners, AXES, TAPS, TAPS_D, PADDING,
                    int64(axis == 2), int64(axis == 1), int64(axis == 0),
                )  # fmt: skip
            for k in range(grid_at, grid_at + count * AXES):
                out[uintp(k)] = 0
            for c in range(image * channels, (image + 1) * channels):
                for j in range(count):
                    slope_d, slope_h, slope_w = real(0), real(0), real(0)
                    for tap in range(j * COUNT, (j + 1) * COUNT):
                        element, k = elements[uintp(table_at + tap)], table_at * AXES + tap
                        value = x[uintp(c * plane + element)] if element >= 0 else real(0)
                        slope_w += weight[uintp(k)] * value
                        slope_h += weight[uintp(k + RUN * COUNT)] * value
                        if AXES == 3:
                            slope_d += weight[uintp(k + 2 * RUN * COUNT)] * value
                    value = g[uintp(c * samples + first + j)]
                    out[uintp(grid_at + j * AXES)] += slope_w * value
                    out[uintp(grid_at + j * AXES + 1)] += slope_h * value
                    if AXES == 3:
                        out[uintp(grid_at + j * AXES + 2)] += slope_d * value


class GridSample(Op):
    """Samples (images, channels, *points) of a dense x at a dense grid.

    Attributes: mode, padding and align_corners as in `nn.functional.grid_sample`; orders, one per spatial size of x.
    """

    takes = (
        "x[n c *s]:f grid[n *t r]; mode=nearest|bilinear|bicubic padding=zeros|border|reflection corners=flag "
        "orders=0..3^s"
    )
    inputs, attributes = ("x", "grid"), ("mode", "padding", "corners", "orders")

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return _size_error(sizes["s"], sizes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, grid = arguments
        return _plan(
            self.name,
            sample_kernel,
            arguments,
            layout((*x.shape[:2], *grid.shape[1:-1]), x.dtype, single_device(self.name, [x, grid])),
            x.shape,
            grid,
            attributes,
        )


class GridSpread(Op):
    """The gradient of x, of shape `shape`, for a dense gradient `d_out` of the samples."""

    takes = (
        "d_out[n c *t]:f grid[n *t r]; shape=0..^* mode=nearest|bilinear|bicubic padding=zeros|border|reflection "
        "corners=flag orders=0..3^t"
    )
    inputs, attributes = ("d_out", "grid"), ("shape", *GridSample.attributes)

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        shape = attributes[0]
        if shape[:2] != (sizes["n"], sizes["c"]):
            return f"attribute 'shape' must begin with {sizes['n']}, {sizes['c']}, got {shape}"
        return _size_error(shape[2:], sizes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (d_out, grid), (shape, *rest) = arguments, attributes
        return _plan(
            self.name, spread_kernel, arguments, layout(shape, d_out.dtype, d_out.device), shape, grid, tuple(rest)
        )


class GridSlope(Op):
    """The gradient of grid for a dense gradient `d_out` of the samples.

    Not differentiable: for higher derivatives, the gradient is composed of samples of a higher order.
    """

    takes = (
        "d_out[n c *t]:f x[n c *s] grid[n *t r]; mode=nearest|bilinear|bicubic padding=zeros|border|reflection "
        "corners=flag"
    )
    inputs, attributes, differentiable = ("d_out", "x", "grid"), GridSample.attributes[:3], False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return _size_error(sizes["s"], sizes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        _, x, grid = arguments
        return _plan(
            self.name, slope_kernel, arguments, layout(grid.shape, x.dtype, x.device), x.shape, grid, (*attributes, ())
        )


def _size_error(spatial: tuple, sizes: dict) -> str | None:
    """An error message if a grid does not fit an image of these spatial sizes, else None."""
    rank = len(spatial)
    fits = rank in (2, 3) and len(sizes["t"]) == rank == sizes["r"]
    return None if fits else f"grid must be of {rank} coordinates and dimensions, got {sizes['t']} of {sizes['r']}"


def _plan(
    name: str, kernel: Callable, arguments: tuple, out: Layout, shape: tuple, grid: Layout, attributes: tuple
) -> Plan:
    """A plan of one of the kernels, specialised for the modes and the number of spatial dimensions."""
    if out.size == 0:
        return Plan(out, lambda *_: None)
    mode, padding, corners, orders = attributes
    (images, channels, *sizes), samples, taps = shape, prod(grid.shape[1:-1]), _TAPS[mode]
    axes, count, on_gpu, backend = len(sizes), taps ** len(sizes), out.device.backend.is_gpu, out.device.backend
    run = 1 if on_gpu else _TABLE_SAMPLES
    if kernel is not spread_kernel:
        units = images * -(-samples // run)
    elif on_gpu:
        units = images * channels
    else:
        units = images * max(1, min(channels // _CHANNELS, -(-_WORKERS // images)))
    workers = units if on_gpu else min(units, _WORKERS)
    constants = {
        "RUN": run,
        "COUNT": count,
        "AXES": axes,
        "TAPS": taps,
        "TAPS_D": taps if axes == 3 else 1,
        "PADDING": _PADDINGS[padding],
    }
    if kernel is not slope_kernel:
        constants |= zip(("ORDER_D", "ORDER_H", "ORDER_W"), (0, 0, 0, *orders)[-3:])
    text = specialized(kernel, **constants)  # constants: loops over taps are unrolled
    arrays = len(arguments) + 1
    numbers = (images, channels, samples, *(1, *sizes)[-3:], int(corners), units, workers)
    signature = bind.signature(*[out] * arrays, "int64", out, numbers=len(numbers))
    launch = bind.launcher(
        out.device, name, text, signature, out.dtype, max(images * samples * count * (channels + 4), out.size)
    )
    scratch = (
        (workers * run * count, np.dtype(np.int64)),
        (workers * run * count * (axes if kernel is slope_kernel else 1), out.storage),
    )
    return Plan(out, lambda *values: launch(*values[:arrays], *backend.scratch(scratch), *values[arrays:]), numbers)


def _slope(
    g: object, x: object, grid: object, mode: str, padding: str, corners: bool, orders: tuple, recording: bool
) -> object:
    """The gradient of grid for samples of x with gradient g."""
    if mode == "nearest":
        return grid.new_zeros(grid.shape)
    if not (recording or any(orders)):
        return grid_slope.apply((g.contiguous(), x, grid), (mode, padding, corners))
    steps = [tuple([order + (d == k) for k, order in enumerate(orders)]) for d in reversed(range(len(orders)))]
    return cat.apply(
        [(g * grid_sample.apply((x, grid), (mode, padding, corners, step))).sum(1).unsqueeze(-1) for step in steps],
        (grid.ndim - 1,),
    )


grid_sample, grid_spread, grid_slope = GridSample("grid_sample"), GridSpread("grid_spread"), GridSlope("grid_slope")
grid_sample.gradients = {
    "x": lambda g, layout, grid, mode, padding, corners, orders: grid_spread.apply(
        (g.contiguous(), grid), (layout.shape, mode, padding, corners, orders)
    ),
    "grid": _slope,
}
grid_spread.gradients = {
    "d_out": lambda g, grid, mode, padding, corners, orders: grid_sample.apply(
        (g.contiguous(), grid), (mode, padding, corners, orders)
    ),
    "grid": lambda g, d_out, grid, mode, padding, corners, orders, recording: _slope(
        d_out, g.contiguous(), grid, mode, padding, corners, orders, recording
    ),
}
