"""Images sampled at the places that a grid names: nearest, (tri)linear or cubic, with what lies outside 0, the border,
or reflected at it; and the gradients.

Dense x (images, channels, *sizes) and grid (images, *places, axes), the last axis of x first, in [-1, 1]; a kernel sees
three sizes, of which an image in two dimensions has depth 1. A sample is a sum over taps, a few along each axis, and a
tap's weight the product of its shares in each axis. `orders` counts for each axis how often the shares are
differentiated by the grid, so that derivatives of any order are samples again. The gradient by x adds samples in order,
whatever the number of threads. A coordinate that is NaN is the first of its axis where there is a border or reflection;
else, and in cubic samples, the sample is NaN, as on PyTorch's CPU. Jaderberg et al., Spatial Transformer Networks,
2015; Keys, Cubic Convolution Interpolation for Digital Image Processing, 1981, with a = -0.75.
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
_RUN = 64  # samples whose places and weights are found at once, for all channels
# turns of the parallel loop, with tables of their own, and the fewest channels for which an image's tables are made
# anew
_WORKERS, _CHANNELS = 16, 4


@inlined_scalar
def grid_place(x, n, taps, padding, corners):
    """(the first tap's coordinate, how far the sample lies beyond the tap below it, d coordinate / dx) of a sample at x
    along an axis of n elements.
    """
    scale = 0.5 * real(n - 1 if corners else n)
    at = (x + 1.0) * scale - (0.0 if corners else 0.5)
    if taps < 4:
        at, sign = grid_border(at, n, padding, corners)
        scale = scale * sign
    low = round_even(at) if taps == 1 else floor(at)
    return low - real((taps - 1) // 2), at - low, scale


@inlined_scalar
def grid_border(at, n, padding, corners):
    """(the coordinate inside 0 ... n - 1 that stands for `at`, the derivative of that): the nearest, or the one that
    reflection at the border gives.
    """
    sign = 1.0
    if padding == 2:
        low = 0.0 if corners else -0.5
        span = real(n - 1 if corners else n)
        away = fabs(at - low)
        away = away - floor(away / (2.0 * span)) * (2.0 * span) if span > 0.0 else 0.0
        sign = -1.0 if (at < low) != (away > span) else 1.0
        at = low + min(away, 2.0 * span - away)
    if padding != 0:
        sign = sign if (at > 0.0) & (at < real(n - 1)) else 0.0
        at = min(at, real(n - 1)) if at > 0.0 else 0.0  # a NaN too
    return at, sign


@inlined_scalar
def grid_tap(first, k, n, taps, padding, corners):
    """The element that is tap k of those from the coordinate `first` on, or -1 outside."""
    at = first + real(k)
    if taps == 4:
        at, sign = grid_border(at, n, padding, corners)
    return int64(at) if (at >= 0.0) & (at <= real(n - 1)) else int64(-1)


@inlined_scalar
def grid_share(t, k, taps, order):
    """The share of tap k in a sample that lies t beyond the tap below it, differentiated `order` times by t."""
    if taps == 1:
        return 1.0 if order == 0 else 0.0
    if taps == 2:
        return (t if k == 1 else 1.0 - t) if order == 0 else (1.0 if k == 1 else -1.0) if order == 1 else 0.0
    sign = 1.0 if k < 2 else -1.0  # the distance from the tap is t + 1, t, 1 - t, 2 - t
    x = t + 1.0 if k == 0 else t if k == 1 else 1.0 - t if k == 2 else 2.0 - t
    near = (k == 1) | (k == 2)
    a, b, c, d = (1.25, -2.25, 0.0, 1.0) if near else (-0.75, 3.75, -6.0, 3.0)
    if order == 0:
        return ((a * x + b) * x + c) * x + d
    if order == 1:
        return sign * ((3.0 * a * x + 2.0 * b) * x + c)
    return 6.0 * a * x + 2.0 * b if order == 2 else sign * 6.0 * a if order == 3 else 0.0


@inlined_scalar
def fill_grid_taps(
    grid,
    at,
    count,
    place,
    weight,
    own,
    first,
    depth,
    height,
    width,
    corners,
    axes,
    taps,
    taps_d,
    padding,
    order_d,
    order_h,
    order_w,
):
    """place from `own` on, weight from `first` on, (count, taps_d * taps * taps) = the taps of `count` samples, whose
    grid begins at `at`: elements of a plane, or -1 outside.
    """
    for j in range(count):
        w, t_w, scale_w = grid_place(grid[uintp(at + j * axes)], width, taps, padding, corners)
        h, t_h, scale_h = grid_place(grid[uintp(at + j * axes + 1)], height, taps, padding, corners)
        d, t_d, scale_d = grid_place(
            grid[uintp(at + j * axes + 2)] if axes == 3 else 0.0, depth, taps_d, padding, corners
        )
        scale, tap = scale_d**order_d * scale_h**order_h * scale_w**order_w, j * taps_d * taps * taps
        for k_d in range(taps_d):
            p_d, share_d = (
                grid_tap(d, k_d, depth, taps_d, padding, corners),
                scale * grid_share(t_d, k_d, taps_d, order_d),
            )
            for k_h in range(taps):
                p_h, share_h = (
                    grid_tap(h, k_h, height, taps, padding, corners),
                    share_d * grid_share(t_h, k_h, taps, order_h),
                )
                for k_w in range(taps):
                    p_w, share_w = (
                        grid_tap(w, k_w, width, taps, padding, corners),
                        share_h * grid_share(t_w, k_w, taps, order_w),
                    )
                    place[uintp(own + tap)] = (
                        (p_d * height + p_h) * width + p_w if min(p_d, p_h, p_w) >= 0 else int64(-1)
                    )
                    weight[uintp(first + tap)] = share_w
                    tap += 1


def sample_kernel(
    x, grid, out, place, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
):  # fmt: skip
    """out (images, channels, samples) = x (images, channels, depth, height, width) at grid (images, samples, axes).

    A unit of a worker's is RUN samples of an image.
    """
    for worker in parallel_range(workers):
        own, runs, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, first = unit // runs, unit % runs * RUN
            count = min(RUN, samples - first)
            fill_grid_taps(
                grid, (image * samples + first) * AXES, count, place, weight, own, own, depth, height, width, corners,
                AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
            )  # fmt: skip
            for c in range(image * channels, (image + 1) * channels):
                for j in range(count):
                    total = real(0)
                    for tap in range(COUNT):
                        p = place[uintp(own + j * COUNT + tap)]
                        total += weight[uintp(own + j * COUNT + tap)] * (x[uintp(c * plane + p)] if p >= 0 else real(0))
                    out[uintp(c * samples + first + j)] = total


def spread_kernel(
    g, grid, out, place, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING, ORDER_D, ORDER_H, ORDER_W,
):  # fmt: skip
    """out (images, channels, depth, height, width) = g (images, channels, samples), each given back to the elements it
    was sampled from. A unit of a worker's is a run of an image's channels.
    """
    for worker in parallel_range(workers):
        own, parts, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, part = unit // parts, unit % parts
            begin, end = image * channels + part * channels // parts, image * channels + (part + 1) * channels // parts
            for k in range(begin * plane, end * plane):
                out[uintp(k)] = 0
            for first in range(0, samples, RUN):
                count = min(RUN, samples - first)
                fill_grid_taps(
                    grid,
                    (image * samples + first) * AXES,
                    count,
                    place,
                    weight,
                    own,
                    own,
                    depth,
                    height,
                    width,
                    corners,
                    AXES,
                    TAPS,
                    TAPS_D,
                    PADDING,
                    ORDER_D,
                    ORDER_H,
                    ORDER_W,
                )
                for c in range(begin, end):
                    for j in range(count):
                        value = g[uintp(c * samples + first + j)]
                        for tap in range(COUNT):
                            p = place[uintp(own + j * COUNT + tap)]
                            if p >= 0:
                                out[uintp(c * plane + p)] += weight[uintp(own + j * COUNT + tap)] * value


def slope_kernel(
    g, x, grid, out, place, weight, images, channels, samples, depth, height, width, corners, units, workers,
    *, RUN, COUNT, AXES, TAPS, TAPS_D, PADDING,
):  # fmt: skip
    """out (images, samples, axes) = the gradient of grid for g (images, channels, samples).

    A unit of a worker's is RUN samples of an image; weight has a table for each axis.
    """
    for worker in parallel_range(workers):
        own, runs, plane = int64(worker) * RUN * COUNT, units // images, depth * height * width
        for unit in range(int64(worker) * units // workers, (int64(worker) + 1) * units // workers):
            image, first = unit // runs, unit % runs * RUN
            count, at = min(RUN, samples - first), (image * samples + first) * AXES
            for axis in range(AXES):
                fill_grid_taps(
                    grid, at, count, place, weight, own, own * AXES + axis * RUN * COUNT, depth, height, width, corners,
                    AXES, TAPS, TAPS_D, PADDING, int64(axis == 2), int64(axis == 1), int64(axis == 0),
                )  # fmt: skip
            for k in range(at, at + count * AXES):
                out[uintp(k)] = 0
            for c in range(image * channels, (image + 1) * channels):
                for j in range(count):
                    along_d, along_h, along_w = real(0), real(0), real(0)
                    for tap in range(j * COUNT, (j + 1) * COUNT):
                        p, k = place[uintp(own + tap)], own * AXES + tap
                        value = x[uintp(c * plane + p)] if p >= 0 else real(0)
                        along_w += weight[uintp(k)] * value
                        along_h += weight[uintp(k + RUN * COUNT)] * value
                        if AXES == 3:
                            along_d += weight[uintp(k + 2 * RUN * COUNT)] * value
                    value = g[uintp(c * samples + first + j)]
                    out[uintp(at + j * AXES)] += along_w * value
                    out[uintp(at + j * AXES + 1)] += along_h * value
                    if AXES == 3:
                        out[uintp(at + j * AXES + 2)] += along_d * value


class GridSample(Op):
    """Samples (images, channels, *places) of a dense x at a dense grid.

    Parameters: mode, padding and align_corners as in `nn.functional.grid_sample`, and orders, one for each size of x.
    """

    takes = (
        "x[n c *s]:f grid[n *t r]; mode=nearest|bilinear|bicubic padding=zeros|border|reflection corners=flag "
        "orders=0..3^s"
    )
    inputs, parameters = ("x", "grid"), ("mode", "padding", "corners", "orders")

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return _misfit(sizes["s"], sizes)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        x, grid = arguments
        return _plan(
            self.name,
            sample_kernel,
            arguments,
            layout((*x.shape[:2], *grid.shape[1:-1]), x.dtype, single_device(self.name, [x, grid])),
            x.shape,
            grid,
            parameters,
        )


class GridSpread(Op):
    """The gradient by x, of shape parameter `shape`, of samples whose gradient is `given`, dense."""

    takes = (
        "given[n c *t]:f grid[n *t r]; shape=0..^* mode=nearest|bilinear|bicubic padding=zeros|border|reflection "
        "corners=flag orders=0..3^t"
    )
    inputs, parameters = ("given", "grid"), ("shape", *GridSample.parameters)

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        shape = parameters[0]
        if shape[:2] != (sizes["n"], sizes["c"]):
            return f"attribute 'shape' must begin with {sizes['n']}, {sizes['c']}, got {shape}"
        return _misfit(shape[2:], sizes)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (given, grid), (shape, *rest) = arguments, parameters
        return _plan(
            self.name, spread_kernel, arguments, layout(shape, given.dtype, given.device), shape, grid, tuple(rest)
        )


class GridSlope(Op):
    """The gradient by grid of samples whose gradient is `given`, dense.

    It is not differentiated: where that is wanted, the gradient is made of samples of a higher order.
    """

    takes = (
        "given[n c *t]:f x[n c *s] grid[n *t r]; mode=nearest|bilinear|bicubic padding=zeros|border|reflection "
        "corners=flag"
    )
    inputs, parameters, differentiable = ("given", "x", "grid"), GridSample.parameters[:3], False

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return _misfit(sizes["s"], sizes)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        _, x, grid = arguments
        return _plan(
            self.name, slope_kernel, arguments, layout(grid.shape, x.dtype, x.device), x.shape, grid, (*parameters, ())
        )


def _misfit(spatial: tuple, sizes: dict) -> str | None:
    """What is wrong with a grid for an image of these spatial sizes, if anything is."""
    rank = len(spatial)
    fits = rank in (2, 3) and len(sizes["t"]) == rank == sizes["r"]
    return None if fits else f"grid must be of {rank} coordinates and dimensions, got {sizes['t']} of {sizes['r']}"


def _plan(
    name: str, kernel: Callable, arguments: tuple, out: Layout, shape: tuple, grid: Layout, parameters: tuple
) -> Plan:
    if out.size == 0:
        return Plan(out, lambda *_: None)
    mode, padding, corners, orders = parameters
    (images, channels, *sizes), samples, taps = shape, prod(grid.shape[1:-1]), _TAPS[mode]
    axes, count, flat, backend = len(sizes), taps ** len(sizes), out.device.backend.is_gpu, out.device.backend
    run = 1 if flat else _RUN
    units = images * (
        -(-samples // run)
        if kernel is not spread_kernel
        else channels
        if flat
        else max(1, min(channels // _CHANNELS, -(-_WORKERS // images)))
    )
    workers = units if flat else min(units, _WORKERS)
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
    kept, numbers = len(arguments) + 1, (images, channels, samples, *(1, *sizes)[-3:], int(corners), units, workers)
    signature = bind.signature(*[out] * kept, "int64", out, numbers=len(numbers))
    launch = bind.launcher(
        out.device, name, text, signature, out.dtype, max(images * samples * count * (channels + 4), out.size)
    )
    scratch = (
        (workers * run * count, np.dtype(np.int64)),
        (workers * run * count * (axes if kernel is slope_kernel else 1), out.storage),
    )
    return Plan(out, lambda *given: launch(*given[:kept], *backend.scratch(scratch), *given[kept:]), numbers)


def _slope(
    g: object, x: object, grid: object, mode: str, padding: str, corners: bool, orders: tuple, recording: bool
) -> object:
    """The gradient by grid of g times the samples of x."""
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
    "given": lambda g, grid, mode, padding, corners, orders: grid_sample.apply(
        (g.contiguous(), grid), (mode, padding, corners, orders)
    ),
    "grid": lambda g, given, grid, mode, padding, corners, orders, recording: _slope(
        given, g.contiguous(), grid, mode, padding, corners, orders, recording
    ),
}
