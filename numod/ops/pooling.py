"""Pooling over windows of one to three spatial dimensions: the greatest element with its place, the mean, and their gradients.

Dense x (planes, depth, height, width). A window begins at o * stride - pad and has kernel elements `step` apart; an adaptive one (stride 0)
begins at floor(o * n / out) and ends at ceil((o + 1) * n / out). Elements outside the input do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from .op import Op, Plan

_GEOMETRY = (
    "planes", "depth", "height", "width", "kernel_d", "kernel_h", "kernel_w", "out_d", "out_h", "out_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "step_d", "step_h", "step_w",
)  # fmt: skip


def max_pool_kernel(x, out, indices):
    """out = the greatest element of each window, NaN first; indices = its place in the plane, the first of several."""
    for task in parallel_range(planes * out_d * out_h):
        place = int64(task)
        oh = place % out_h
        od = (place // out_h) % out_d
        plane = place // (out_h * out_d) * depth * height * width
        d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, step_d), window_stop(od, depth, out_d, stride_d, pad_d, step_d, kernel_d)
        h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, step_h), window_stop(oh, height, out_h, stride_h, pad_h, step_h, kernel_h)
        for ow in range(out_w):
            w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, step_w), window_stop(ow, width, out_w, stride_w, pad_w, step_w, kernel_w)
            where = (d_first * height + h_first) * width + w_first
            best = x[uintp(plane + where)]
            for d in range(d_first, d_last, step_d):
                for h in range(h_first, h_last, step_h):
                    line = (d * height + h) * width
                    for w in range(w_first, w_last, step_w):
                        value = x[uintp(plane + line + w)]
                        if (value > best) | ((value != value) & (best == best)):
                            best = value
                            where = line + w
            out[uintp(place * out_w + ow)] = best
            indices[uintp(place * out_w + ow)] = where


def place_gradient_kernel(g, indices, out):
    """out (planes, depth * height * width) = each g added at its index."""
    for task in parallel_range(planes):
        plane = int64(task)
        base = plane * depth * height * width
        for k in range(depth * height * width):
            out[uintp(base + k)] = 0
        for k in range(plane * out_d * out_h * out_w, (plane + 1) * out_d * out_h * out_w):
            out[uintp(base + indices[uintp(k)])] += g[uintp(k)]


def average_kernel(x, out, counts_borders, divisor):
    """out = the sum of each window over its size: with borders, without, or the given divisor."""
    for task in parallel_range(planes * out_d * out_h):
        place = int64(task)
        oh = place % out_h
        od = (place // out_h) % out_d
        plane = place // (out_h * out_d) * depth * height * width
        d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, 1), window_stop(od, depth, out_d, stride_d, pad_d, 1, kernel_d)
        h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, 1), window_stop(oh, height, out_h, stride_h, pad_h, 1, kernel_h)
        sizes = window_size(od, depth, stride_d, pad_d, kernel_d, d_last - d_first, counts_borders)
        sizes *= window_size(oh, height, stride_h, pad_h, kernel_h, h_last - h_first, counts_borders)
        for ow in range(out_w):
            w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, 1), window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w)
            total = x[0] * 0
            for d in range(d_first, d_last):
                for h in range(h_first, h_last):
                    for w in range(w_first, w_last):
                        total += x[uintp(plane + (d * height + h) * width + w)]
            size = divisor if divisor != 0 else sizes * window_size(ow, width, stride_w, pad_w, kernel_w, w_last - w_first, counts_borders)
            out[uintp(place * out_w + ow)] = total / real(size)


def average_gradient_kernel(g, out, counts_borders, divisor):
    """out = each g over its window's size, added to all elements of the window."""
    for task in parallel_range(planes):
        plane = int64(task) * depth * height * width
        for k in range(depth * height * width):
            out[uintp(plane + k)] = 0
        for od in range(out_d):
            d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, 1), window_stop(od, depth, out_d, stride_d, pad_d, 1, kernel_d)
            for oh in range(out_h):
                h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, 1), window_stop(oh, height, out_h, stride_h, pad_h, 1, kernel_h)
                sizes = window_size(od, depth, stride_d, pad_d, kernel_d, d_last - d_first, counts_borders)
                sizes *= window_size(oh, height, stride_h, pad_h, kernel_h, h_last - h_first, counts_borders)
                for ow in range(out_w):
                    w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, 1), window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w)
                    size = divisor if divisor != 0 else sizes * window_size(ow, width, stride_w, pad_w, kernel_w, w_last - w_first, counts_borders)
                    share = g[uintp(((int64(task) * out_d + od) * out_h + oh) * out_w + ow)] / real(size)
                    for d in range(d_first, d_last):
                        for h in range(h_first, h_last):
                            for w in range(w_first, w_last):
                                out[uintp(plane + (d * height + h) * width + w)] += share


class _Pool(Op):
    """Base. Parameters (kernel, stride, padding, dilation, sizes): tuples of three numbers, `sizes` those of the result (for gradients, of x)."""

    parameters = ("kernel", "stride", "padding", "dilation", "sizes")

    def _plan(self, kernel: Callable, arrays: tuple[str, ...], results: tuple[Layout, ...], planes: int, x: tuple, out: tuple, parameters: tuple, numbers: tuple = ()) -> Plan:
        window, stride, padding, dilation = parameters[:4]
        result = results if self.outputs else results[0]
        if results[0].size == 0:
            return Plan(result, lambda *_: None)
        constants = (*numbers, planes, *x, *window, *out, *stride, *padding, *dilation)
        signature = ", ".join([*arrays, *["int64"] * len(constants)])
        work = planes * max(prod(out) * prod(window), prod(x))
        return Plan(result, bind.launcher(results[0].device, self.name, _source(kernel), signature, results[0].dtype, work), constants)


@cache
def _source(kernel: Callable) -> str:
    """The kernel's text with the geometry's names as its last arguments."""
    return re.sub(r"\):", f", {', '.join(_GEOMETRY)}):", bind.source_of(kernel), count=1)


class MaxPool(_Pool):
    """(values, indices) of dense x (planes, depth, height, width)."""

    inputs, outputs = ("x",), ("values", "indices")
    gradients = {"x": lambda grads, indices, kernel, stride, padding, dilation, layout: place_gradient.apply((grads[0].contiguous(), indices), (kernel, stride, padding, dilation, tuple(layout.shape[1:])))}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        shape = (x.shape[0], *parameters[4])
        results = layout(shape, x.dtype, x.device), layout(shape, dtypes.int64, x.device)
        return self._plan(max_pool_kernel, (f"{x.storage.name}[]", f"{x.storage.name}[]", "int64[]"), results, x.shape[0], tuple(x.shape[1:]), parameters[4], parameters)


class PlaceGradient(_Pool):
    """g (planes, ...) added at int64 indices into planes of `sizes`; the gradient of max pooling."""

    inputs = ("given", "indices")
    gradients = {"given": lambda g, indices: g.flatten(1).gather(1, indices.flatten(1)).reshape(indices.shape)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        given, _ = arguments
        out = layout((given.shape[0], *parameters[4]), given.dtype, given.device)
        array = f"{given.storage.name}[]"
        return self._plan(place_gradient_kernel, (array, "int64[]", array), (out,), given.shape[0], parameters[4], tuple(given.shape[1:]), parameters)


class Average(_Pool):
    """Means over the windows of a dense x, or (`backward`) their gradient, which spreads g over them; each is the other's gradient."""

    parameters = (*_Pool.parameters, "counts_borders", "divisor")

    def __init__(self, name: str, backward: bool) -> None:
        super().__init__(name)
        self.backward = backward
        self.inputs = ("given",) if backward else ("x",)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        out = layout((x.shape[0], *parameters[4]), x.dtype, x.device)
        inner, outer = (parameters[4], tuple(x.shape[1:])) if self.backward else (tuple(x.shape[1:]), parameters[4])
        kernel, array = average_gradient_kernel if self.backward else average_kernel, f"{x.storage.name}[]"
        return self._plan(kernel, (array, array), (out,), x.shape[0], inner, outer, parameters, (int(parameters[5]), parameters[6]))


def _other(op: Callable) -> Callable:
    def gradient(g: object, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, layout: Layout, counts_borders: bool, divisor: int) -> object:
        return op().apply((g.contiguous(),), (kernel, stride, padding, dilation, tuple(layout.shape[1:]), counts_borders, divisor))

    return gradient


max_pool, place_gradient = MaxPool("max_pool"), PlaceGradient("place_gradient")
average_pool, average_pool_gradient = Average("average_pool", False), Average("average_pool_gradient", True)
average_pool.gradients = {"x": _other(lambda: average_pool_gradient)}
average_pool_gradient.gradients = {"given": _other(lambda: average_pool)}
