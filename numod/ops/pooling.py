"""Pooling over windows of one to three spatial dimensions: the greatest element with its place, the mean, and their gradients.

Dense x (planes, depth, height, width). A window begins at o * stride - pad and has kernel elements `step` apart; an adaptive one (stride 0)
begins at floor(o * n / out) and ends at ceil((o + 1) * n / out). Elements outside the input do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel import bind, build
from .op import Op, Plan

_WORKERS = 8  # scratch lines: one for each turn of the parallel loop
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


def max_pool_lines(x, out, indices, best, where, workers):
    """The same for windows at regular steps, a line of the output at a time: first down the columns of the input, then across. best, where (workers, width)."""
    for turn in parallel_range(workers):
        own = int64(turn) * width
        for place in range(turn * planes * out_d * out_h // workers, (turn + 1) * planes * out_d * out_h // workers):
            oh = place % out_h
            od = (place // out_h) % out_d
            plane = place // (out_h * out_d) * depth * height * width
            for w in range(width):
                where[uintp(own + w)] = -1
            for d in range(window_start(od, depth, out_d, stride_d, pad_d, step_d), window_stop(od, depth, out_d, stride_d, pad_d, step_d, kernel_d), step_d):
                for h in range(window_start(oh, height, out_h, stride_h, pad_h, step_h), window_stop(oh, height, out_h, stride_h, pad_h, step_h, kernel_h), step_h):
                    line = (d * height + h) * width
                    greatest_down(x, plane + line, line, best, where, own, width)
            base = place * out_w
            for ow in range(out_w):
                indices[uintp(base + ow)] = -1
            for k in range(kernel_w):
                shift = k * step_w - pad_w
                low = max(0, -(shift // stride_w))
                high = min(out_w, (width - 1 - shift) // stride_w + 1)
                if stride_w == 1:
                    greatest_across(best, where, own + shift, 1, out, indices, base, low, high)
                elif stride_w == 2:
                    greatest_across(best, where, own + shift, 2, out, indices, base, low, high)
                else:
                    greatest_across(best, where, own + shift, stride_w, out, indices, base, low, high)


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
            total = x.dtype.type(0)
            for d in range(d_first, d_last):
                for h in range(h_first, h_last):
                    for w in range(w_first, w_last):
                        total += x[uintp(plane + (d * height + h) * width + w)]
            size = divisor if divisor != 0 else sizes * window_size(ow, width, stride_w, pad_w, kernel_w, w_last - w_first, counts_borders)
            out[uintp(place * out_w + ow)] = total / real(size)


def average_lines(x, out, sums, workers, counts_borders, divisor):
    """The same for windows at regular steps, a line of the output at a time: first down the columns of the input, then across. sums (workers, width)."""
    for turn in parallel_range(workers):
        own = int64(turn) * width
        for place in range(turn * planes * out_d * out_h // workers, (turn + 1) * planes * out_d * out_h // workers):
            oh = place % out_h
            od = (place // out_h) % out_d
            plane = place // (out_h * out_d) * depth * height * width
            d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, 1), window_stop(od, depth, out_d, stride_d, pad_d, 1, kernel_d)
            h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, 1), window_stop(oh, height, out_h, stride_h, pad_h, 1, kernel_h)
            sizes = window_size(od, depth, stride_d, pad_d, kernel_d, d_last - d_first, counts_borders)
            sizes *= window_size(oh, height, stride_h, pad_h, kernel_h, h_last - h_first, counts_borders)
            for w in range(width):
                sums[uintp(own + w)] = 0
            for d in range(d_first, d_last):
                for h in range(h_first, h_last):
                    add_line(x, plane + (d * height + h) * width, 1, sums, own, 0, width)
            base = place * out_w
            for ow in range(out_w):
                out[uintp(base + ow)] = 0
            for k in range(kernel_w):
                shift = k - pad_w
                low = max(0, -(shift // stride_w))
                high = min(out_w, (width - 1 - shift) // stride_w + 1)
                if stride_w == 1:
                    add_line(sums, own + shift, 1, out, base, low, high)
                elif stride_w == 2:
                    add_line(sums, own + shift, 2, out, base, low, high)
                else:
                    add_line(sums, own + shift, stride_w, out, base, low, high)
            for ow in range(out_w):
                w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, 1), window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w)
                size = divisor if divisor != 0 else sizes * window_size(ow, width, stride_w, pad_w, kernel_w, w_last - w_first, counts_borders)
                out[uintp(base + ow)] = out[uintp(base + ow)] / real(size)


def average_planes(x, out, counts_borders, divisor):
    """out (planes) = the mean of each plane: a single window that holds all of it."""
    for task in parallel_range(planes):
        n = depth * height * width
        out[uintp(int64(task))] = row_sum(x, int64(task) * n, n) / float64(n)


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

    def _plan(self, kernel: Callable, arrays: tuple[str, ...], results: tuple[Layout, ...], planes: int, x: tuple, out: tuple, parameters: tuple, numbers: tuple = (), lines: tuple[str, ...] = ()) -> Plan:
        """`lines`: names of the storages of scratch lines, one of the input's width for each worker, which come after the results."""
        window, stride, padding, dilation = parameters[:4]
        result = results if self.outputs else results[0]
        if results[0].size == 0:
            return Plan(result, lambda *_: None)
        workers = min(_WORKERS, planes * out[0] * out[1])
        constants = (*((workers,) if lines else ()), *numbers, planes, *x, *window, *out, *stride, *padding, *dilation)
        signature = ", ".join([*arrays, *(f"{each}[]" for each in lines), *["int64"] * len(constants)])
        work = planes * max(prod(out) * prod(window), prod(x))
        flags = build.FAST_REDUCTION if kernel is average_planes else build.FAST_POINTWISE
        run = bind.launcher(results[0].device, self.name, _source(kernel), signature, results[0].dtype, work, flags)
        storages, empty, count = [np.dtype(each) for each in lines], results[0].device.empty, len(arrays)

        def launch(*arguments: object) -> None:
            run(*arguments[:count], *[empty(workers * x[2], each) for each in storages], *arguments[count:])

        return Plan(result, launch if lines else run, constants)


@cache
def _source(kernel: Callable) -> str:
    """The kernel's text with the geometry's names as its last arguments."""
    return re.sub(r"\):", f", {', '.join(_GEOMETRY)}):", bind.source_of(kernel), count=1)


def _in_lines(x: Layout, parameters: tuple) -> bool:
    """Whether a whole line of windows is done at once: on the CPU, with windows at regular steps."""
    return not x.device.backend.FLAT and parameters[1][2] > 0


class MaxPool(_Pool):
    """(values, indices) of dense x (planes, depth, height, width). The indices are int32 where that is enough: backward keeps them."""

    inputs, outputs = ("x",), ("values", "indices")
    gradients = {"x": lambda grads, indices, kernel, stride, padding, dilation, layout: place_gradient.apply((grads[0].contiguous(), indices), (kernel, stride, padding, dilation, tuple(layout.shape[1:])))}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        shape = (x.shape[0], *parameters[4])
        index = dtypes.int32 if prod(x.shape[1:]) < 1 << 31 else dtypes.int64
        results = layout(shape, x.dtype, x.device), layout(shape, index, x.device)
        number = x.storage.name
        kernel, lines = (max_pool_lines, (number, index.name)) if _in_lines(x, parameters) and index is dtypes.int32 else (max_pool_kernel, ())
        return self._plan(kernel, (f"{number}[]", f"{number}[]", f"{index.name}[]"), results, x.shape[0], tuple(x.shape[1:]), parameters[4], parameters, (), lines)


class PlaceGradient(_Pool):
    """g (planes, ...) added at indices into planes of `sizes`; the gradient of max pooling."""

    inputs = ("given", "indices")
    gradients = {"given": lambda g, indices: g.flatten(1).gather(1, indices.flatten(1).to(dtypes.int64)).reshape(indices.shape)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        given, indices = arguments
        out = layout((given.shape[0], *parameters[4]), given.dtype, given.device)
        array = f"{given.storage.name}[]"
        return self._plan(place_gradient_kernel, (array, f"{indices.storage.name}[]", array), (out,), given.shape[0], parameters[4], tuple(given.shape[1:]), parameters)


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
        array, in_lines = f"{x.storage.name}[]", not self.backward and _in_lines(x, parameters)
        kernel = average_lines if in_lines else average_gradient_kernel if self.backward else average_kernel
        if kernel is average_kernel and prod(parameters[4]) == 1 and not any(parameters[1]) and x.dtype.is_floating_point:
            kernel = average_planes
        return self._plan(kernel, (array, array), (out,), x.shape[0], inner, outer, parameters, (int(parameters[5]), parameters[6]), (x.storage.name,) * in_lines)


def _other(op: Callable) -> Callable:
    def gradient(g: object, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, layout: Layout, counts_borders: bool, divisor: int) -> object:
        return op().apply((g.contiguous(),), (kernel, stride, padding, dilation, tuple(layout.shape[1:]), counts_borders, divisor))

    return gradient


max_pool, place_gradient = MaxPool("max_pool"), PlaceGradient("place_gradient")
average_pool, average_pool_gradient = Average("average_pool", False), Average("average_pool_gradient", True)
average_pool.gradients = {"x": _other(lambda: average_pool_gradient)}
average_pool_gradient.gradients = {"given": _other(lambda: average_pool)}
