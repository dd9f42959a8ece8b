"""Pooling over windows of one to three spatial dimensions: the greatest element with its place, the mean, and their gradients.

Dense x (..., depth, height, width), of which the last one to three dimensions are pooled; a kernel has all three, and counts what stands before them as planes.
A window begins at o * stride - pad and has kernel elements `step` apart; an adaptive one (stride 0) begins at floor(o * n / out) and ends at ceil((o + 1) * n /
out). Elements outside the input do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from .. import dtypes
from ..device import Layout, lines, tiles
from ..device.layout import layout
from ..kernel import bind, build
from ..kernel.specialize import specialized
from . import reduction
from .op import Op, Plan

_WORKERS = 8  # turns of the parallel loop, with folded lines of their own
_BLOCK = 8  # output lines of a turn: what one pass wrote lies in the cache, and no longer on its way there, when the next reads it
_AHEAD = 4  # most windows of a line that a GPU thread reads before it compares any
_INDEX = np.dtype(np.int64)
_GEOMETRY = (
    "planes", "depth", "height", "width", "kernel_d", "kernel_h", "kernel_w", "out_d", "out_h", "out_w",
    "stride_d", "stride_h", "stride_w", "pad_d", "pad_h", "pad_w", "step_d", "step_h", "step_w",
)  # fmt: skip
_FIRST, _LAST = "window_start(o, width, out_w, 0, 0, 1)", "window_stop(o, width, out_w, 0, 0, 1, 0)"
_ALONE = ("TURNS", "out_w"), ("SPAN", 1), ("FIRST", _FIRST), ("TAPS", f"{_LAST} - {_FIRST}")  # adaptive windows, which begin at no regular steps
_WINDOWS = "depth, height, kernel_d, kernel_h, out_d, out_h, stride_d, stride_h, pad_d, pad_h, step_d, step_h"


def max_pool_kernel(x, out, indices):
    """out = the greatest element of each window, NaN first; indices = its place in the plane, the first of several, the last of NaNs. A task has RUN
    neighbours: a line, or a GPU thread one."""
    for task in parallel_range(planes * out_d * out_h * out_w // RUN):
        begin = int64(task) * RUN
        row = quotient(begin, out_w)
        level = quotient(row, out_h)
        plane = quotient(level, out_d)
        oh, od = row - level * out_h, level - plane * out_d
        plane *= depth * height * width
        d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, step_d), window_stop(od, depth, out_d, stride_d, pad_d, step_d, kernel_d)
        h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, step_h), window_stop(oh, height, out_h, stride_h, pad_h, step_h, kernel_h)
        for place in range(begin, begin + RUN):
            ow = place - row * out_w
            w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, step_w), window_stop(ow, width, out_w, stride_w, pad_w, step_w, kernel_w)
            where = (d_first * height + h_first) * width + w_first
            best = x[uintp(plane + where)]
            d = d_first
            while d < d_last:  # a range with a step would be divided to know how many turns it has
                h = h_first
                while h < h_last:
                    line, w = (d * height + h) * width, w_first
                    while w < w_last:
                        value = x[uintp(plane + line + w)]
                        better = (value > best) | (value != value)
                        best, where = value if better else best, line + w if better else where
                        w += step_w
                    h += step_h
                d += step_d
            out[uintp(place)] = best
            indices[uintp(place)] = where


def greatest_lines(x, out, folded, table, workers, line, margin):
    """Only the greatest elements, of floats: a line of the output at a time, first down the lines of the input, then across; adaptive windows one by one (SPAN
    is 1)."""
    fill_windows(table, WINDOWS, 0)
    for turn in parallel_range(workers):
        own = int64(turn) * BLOCK * line
        for k in range(BLOCK * line):
            folded[uintp(own + k)] = -1e400
        begin, end = turn * planes * out_d * out_h // workers, (turn + 1) * planes * out_d * out_h // workers
        oh, od, at = begin % out_h, begin // out_h % out_d, begin // (out_h * out_d) * depth * height * width
        for first in range(begin, end, BLOCK):
            for place in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (out_h + od)
                down_greatest(
                    x, at, (table[d] * height + table[h]) * width, table[d + 1], step_d * height * width, table[h + 1], step_h * width, width,
                    folded, own + (place - first) * line + margin, table, 0,
                )
                oh, od, at = next_line(oh, od, at, out_h, out_d, depth * height * width)
            for place in range(first, min(first + BLOCK, end)):
                begun = own + (place - first) * line + margin
                for o in range(TURNS):
                    along_greatest_STEP(folded, begun + FIRST, table, 0, step_w, TAPS, out, place * out_w + o, table, 0, SPAN, x, 0, 1.0, STRIDE)


def placed_lines(x, out, indices, folded, places, table, workers, line, margin):
    """The same with the indices."""
    fill_windows(table, WINDOWS, 0)
    for turn in parallel_range(workers):
        own = int64(turn) * BLOCK * line
        for k in range(BLOCK * line):
            folded[uintp(own + k)] = -1e400
            places[uintp(own + k)] = -1
        begin, end = turn * planes * out_d * out_h // workers, (turn + 1) * planes * out_d * out_h // workers
        oh, od, at = begin % out_h, begin // out_h % out_d, begin // (out_h * out_d) * depth * height * width
        for first in range(begin, end, BLOCK):
            for place in range(first, min(first + BLOCK, end)):
                h, d, into = 3 * oh, 3 * (out_h + od), own + (place - first) * line + margin
                down_placed(
                    x, at, (table[d] * height + table[h]) * width, table[d + 1], step_d * height * width, table[h + 1], step_h * width, width, folded, into,
                    places, into,
                )
                oh, od, at = next_line(oh, od, at, out_h, out_d, depth * height * width)
            for place in range(first, min(first + BLOCK, end)):
                begun = own + (place - first) * line + margin
                for o in range(TURNS):
                    at_first, to = begun + FIRST, place * out_w + o
                    along_placed_STEP(folded, at_first, places, at_first, step_w, TAPS, out, to, indices, to, SPAN, x, 0, 1.0, STRIDE)


def place_gradient_kernel(g, indices, out):
    """out (planes, depth * height * width) = each g added at its index."""
    for task in parallel_range(planes):
        plane = int64(task)
        base = plane * depth * height * width
        for k in range(depth * height * width):
            out[uintp(base + k)] = 0
        for k in range(plane * out_d * out_h * out_w, (plane + 1) * out_d * out_h * out_w):
            if indices[uintp(k)] >= 0:  # a dilated window can lie beside all elements
                out[uintp(base + indices[uintp(k)])] += g[uintp(k)]


def place_gradient_elements(g, indices, out):
    """The same for GPU threads, one for each four neighbours of out: in the same order, of the windows that hold any of them those whose index they are.

    What the windows are is told in the text, so that only the thread's number is divided. Up to AHEAD windows are read before one is compared: all these loads
    are under way at once. Neighbouring threads read neighbouring windows, and write neighbouring fours.
    """
    total, given, found = cuda.local.array(4, g.dtype), cuda.local.array(AHEAD, g.dtype), cuda.local.array(AHEAD, indices.dtype)
    fours = quotient(width + 3, 4)
    for task in parallel_range(planes * depth * height * fours):
        line = quotient(int64(task), fours)
        level = quotient(line, height)
        plane = quotient(level, depth)
        w, h, d = 4 * (int64(task) - line * fours), line - level * height, level - plane * depth
        where = (d * height + h) * width + w
        for j in range(4):
            total[j] = 0
        w_first = first_window(w, width, out_w, stride_w, pad_w, step_w, kernel_w)
        w_last = last_window(min(w + 3, width - 1), width, out_w, stride_w, pad_w)
        for od in range(first_window(d, depth, out_d, stride_d, pad_d, step_d, kernel_d), last_window(d, depth, out_d, stride_d, pad_d)):
            for oh in range(first_window(h, height, out_h, stride_h, pad_h, step_h, kernel_h), last_window(h, height, out_h, stride_h, pad_h)):
                row = ((plane * out_d + od) * out_h + oh) * out_w
                ow = w_first
                while ow < w_last:
                    for o in range(AHEAD):
                        found[o], given[o] = -1, 0
                        if ow + o < w_last:
                            found[o], given[o] = indices[uintp(row + ow + o)], g[uintp(row + ow + o)]
                    for o in range(AHEAD):
                        found[o] -= where
                        for j in range(4):
                            total[j] += given[o] if found[o] == j else g.dtype.type(0)
                    ow += AHEAD
        if w + 4 <= width:
            give_4(out, uintp(line * width + w), total, 0)
        else:
            for j in range(4):
                if w + j < width:
                    out[uintp(line * width + w + j)] = total[j]


def average_kernel(x, out, counts_borders, divisor):
    """out = the sum of each window over its size: with borders, without, or the given divisor. RUN: as in max_pool_kernel."""
    for task in parallel_range(planes * out_d * out_h * out_w // RUN):
        begin = int64(task) * RUN
        row = quotient(begin, out_w)
        level = quotient(row, out_h)
        plane = quotient(level, out_d)
        oh, od = row - level * out_h, level - plane * out_d
        plane *= depth * height * width
        d_first, d_last = window_start(od, depth, out_d, stride_d, pad_d, 1), window_stop(od, depth, out_d, stride_d, pad_d, 1, kernel_d)
        h_first, h_last = window_start(oh, height, out_h, stride_h, pad_h, 1), window_stop(oh, height, out_h, stride_h, pad_h, 1, kernel_h)
        sizes = window_size(od, depth, stride_d, pad_d, kernel_d, d_last - d_first, counts_borders)
        sizes *= window_size(oh, height, stride_h, pad_h, kernel_h, h_last - h_first, counts_borders)
        for place in range(begin, begin + RUN):
            ow = place - row * out_w
            w_first, w_last = window_start(ow, width, out_w, stride_w, pad_w, 1), window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w)
            total = x.dtype.type(0)
            for d in range(d_first, d_last):
                for h in range(h_first, h_last):
                    for w in range(w_first, w_last):
                        total += x[uintp(plane + (d * height + h) * width + w)]
            size = divisor if divisor != 0 else sizes * window_size(ow, width, stride_w, pad_w, kernel_w, w_last - w_first, counts_borders)
            out[uintp(place)] = total / real(size)


def average_lines(x, out, folded, table, sizes, workers, line, margin, counts_borders, divisor):
    """The same of floats, as in greatest_lines. sizes (out_w) = the columns of each window that count."""
    fill_windows(table, WINDOWS, counts_borders)
    for ow in range(out_w):
        inside = window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w) - window_start(ow, width, out_w, stride_w, pad_w, 1)
        sizes[uintp(ow)] = divisor if divisor != 0 else window_size(ow, width, stride_w, pad_w, kernel_w, inside, counts_borders)
    for turn in parallel_range(workers):
        own = int64(turn) * BLOCK * line
        for k in range(BLOCK * line):
            folded[uintp(own + k)] = 0
        begin, end = turn * planes * out_d * out_h // workers, (turn + 1) * planes * out_d * out_h // workers
        oh, od, at = begin % out_h, begin // out_h % out_d, begin // (out_h * out_d) * depth * height * width
        for first in range(begin, end, BLOCK):
            down_h, down_d = oh, od
            for place in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (out_h + od)
                down_sum(
                    x, at, (table[d] * height + table[h]) * width, table[d + 1], height * width, table[h + 1], width, width,
                    folded, own + (place - first) * line + margin, table, 0,
                )
                oh, od, at = next_line(oh, od, at, out_h, out_d, depth * height * width)
            for place in range(first, min(first + BLOCK, end)):
                rows = 1 if divisor != 0 else table[3 * down_h + 2] * table[3 * (out_h + down_d) + 2]
                down_h, down_d, _ = next_line(down_h, down_d, 0, out_h, out_d, 0)
                begun = own + (place - first) * line + margin
                for o in range(TURNS):
                    along_sum_STEP(folded, begun + FIRST, table, 0, 1, TAPS, out, place * out_w + o, table, 0, SPAN, sizes, o, real(rows), STRIDE)


def average_planes(x, out, counts_borders, divisor):
    """out (planes) = the mean of each plane: a single window that holds all of it."""
    for task in parallel_range(planes):
        n = depth * height * width
        out[uintp(int64(task))] = row_sum(x, int64(task) * n, n) / float64(n)


def spread_planes(g, out, counts_borders, divisor):
    """Its gradient: out = each g over the size of its plane."""
    for task in parallel_range(planes):
        n = depth * height * width
        share = g[uintp(int64(task))] / real(n)
        for k in range(n):
            out[uintp(int64(task) * n + k)] = share


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


def average_gradient_elements(g, out, counts_borders, divisor):
    """The same for GPU threads, one for each element of out: in the same order, the shares of the windows that hold it."""
    for task in parallel_range(planes * depth * height * width):
        place, total = int64(task), g.dtype.type(0)
        line = quotient(place, width)
        level = quotient(line, height)
        plane = quotient(level, depth)
        w, h, d = place - line * width, line - level * height, level - plane * depth
        for od in range(first_window(d, depth, out_d, stride_d, pad_d, 1, kernel_d), last_window(d, depth, out_d, stride_d, pad_d)):
            inside = window_stop(od, depth, out_d, stride_d, pad_d, 1, kernel_d) - window_start(od, depth, out_d, stride_d, pad_d, 1)
            deep = window_size(od, depth, stride_d, pad_d, kernel_d, inside, counts_borders)
            for oh in range(first_window(h, height, out_h, stride_h, pad_h, 1, kernel_h), last_window(h, height, out_h, stride_h, pad_h)):
                inside = window_stop(oh, height, out_h, stride_h, pad_h, 1, kernel_h) - window_start(oh, height, out_h, stride_h, pad_h, 1)
                high = window_size(oh, height, stride_h, pad_h, kernel_h, inside, counts_borders)
                for ow in range(first_window(w, width, out_w, stride_w, pad_w, 1, kernel_w), last_window(w, width, out_w, stride_w, pad_w)):
                    inside = window_stop(ow, width, out_w, stride_w, pad_w, 1, kernel_w) - window_start(ow, width, out_w, stride_w, pad_w, 1)
                    size = divisor if divisor != 0 else deep * high * window_size(ow, width, stride_w, pad_w, kernel_w, inside, counts_borders)
                    total += g[uintp(((plane * out_d + od) * out_h + oh) * out_w + ow)] / real(size)
        out[uintp(place)] = total


class _Pool(Op):
    """Base. Parameters (kernel, stride, padding, dilation, sizes): tuples of a number for each spatial dimension, the last of x; `sizes` are those of the
    result (for gradients, of x)."""

    parameters = ("kernel", "stride", "padding", "dilation", "sizes")

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return _misfit(sizes["s"], _replaced(sizes["s"], parameters[4]), parameters)

    def _plan(
        self, kernel: Callable, results: tuple[Layout, ...], arrays: tuple[np.dtype, ...], x: tuple, out: tuple, parameters: tuple, numbers: tuple = (),
        scratch: tuple = (),
    ) -> Plan:  # fmt: skip
        """`arrays`: the storages of inputs and results. `scratch`: counts and storages of memory that comes after them. x and out: shapes."""
        window, stride, padding, dilation = (_three(each, filler) for each, filler in zip(parameters, (1, 1, 0, 1)))
        result, ndim = results if self.outputs else results[0], len(parameters[0])
        if results[0].size == 0:
            return Plan(result, lambda *_: None)
        planes, sizes, places = prod(x[:-ndim]), _three(x[-ndim:], 1), _three(out[-ndim:], 1)
        constants = (*numbers, planes, *sizes, *window, *places, *stride, *padding, *dilation)
        signature = bind.signature(*arrays, *(kind for _, kind in scratch), numbers=len(constants))
        flags = build.FAST_REDUCTION if kernel is average_planes else build.FAST_POINTWISE
        words, fixed = _words(stride[2]) if scratch else (("RUN", 1 if results[0].device.backend.FLAT else "out_w"),), ()
        work = planes * max(prod(places) * prod(window), prod(sizes))
        if kernel is place_gradient_elements:
            most = (3 + (window[2] - 1) * dilation[2]) // stride[2] + 1 if stride[2] else _AHEAD  # windows that hold some of four neighbours
            words, fixed, work = (("AHEAD", min(most, _AHEAD)),), _fixed(constants), planes * prod(sizes) // 4
        run = bind.launcher(results[0].device, self.name, _source(kernel, words, fixed), signature, results[0].dtype, work, flags)
        count, make = len(arrays), results[0].device.backend.scratch if scratch else None

        def launch(*arguments: object) -> None:
            run(*arguments[:count], *make(scratch), *arguments[count:])

        return Plan(result, launch if scratch else run, constants)

    def _lines(self, x: Layout, parameters: tuple) -> tuple[tuple[int, int, int], tuple]:
        """For a kernel that does whole lines of windows at once: its numbers, and its scratch: folded lines of each turn, and a table of windows."""
        (window, stride, padding, step), sizes = (each[-1] for each in parameters[:4]), _three(parameters[4], 1)
        workers, size = min(_WORKERS, prod(x.shape[: -len(parameters[0])]) * sizes[0] * sizes[1]), x.storage.itemsize
        margin = max(lines.MARGIN // size, padding)
        line = margin + lines.reach(tiles.host().lanes(size), x.shape[-1], sizes[2], stride, window, step)
        return (workers, line, margin), ((workers * _BLOCK * line, x.storage), (3 * (sizes[0] + sizes[1]), _INDEX))


def _three(values: tuple, filler: int) -> tuple[int, ...]:
    return (filler,) * (3 - len(values)) + tuple(values)


def _replaced(shape: tuple, sizes: tuple) -> tuple[int, ...]:
    """A shape with other spatial sizes."""
    return (*shape[: -len(sizes)], *sizes)


def _misfit(inner: tuple, outer: tuple, parameters: tuple) -> str | None:
    """What is wrong with windows over the last sizes of `inner` that make those of `outer`, if anything is: each must begin at an element, or before the
    first."""
    kernel, stride, padding, dilation, sizes = parameters[:5]
    rank = len(sizes)
    if not 1 <= rank <= min(3, len(inner)) or any(len(each) != rank for each in parameters[:4]):
        return f"attributes must have one entry for each of 1 to 3 dimensions, got kernel {kernel}, stride {stride}, padding {padding} and sizes {sizes}"
    for n, o, k, s, p, d in zip(inner[-rank:], outer[-rank:], kernel, stride, padding, dilation):
        if (o and not n) or (not s and (p or d != 1)) or p > d * k or (s and o and (o - 1) * s - p >= n):
            return f"attribute 'sizes' must fit windows over {inner}, got {sizes}; kernel {kernel}, stride {stride}, padding {padding}, dilation {dilation}"
    return None


@cache
def _source(kernel: Callable, words: tuple[tuple[str, object], ...], fixed: tuple[tuple[str, int], ...] = ()) -> str:
    """The kernel's text with the geometry's names as its last arguments, `words` replaced, and what is `fixed` as constants in place of what is given."""
    constants = "".join(f"\n    {name} = {value}" for name, value in fixed)
    text = re.sub(r"\):", f", {', '.join(_GEOMETRY)}):{constants}", specialized(kernel), count=1)
    for word, value in words:
        text = text.replace(word, str(value))
    return text


def _fixed(geometry: tuple[int, ...]) -> tuple[tuple[str, int], ...]:
    """Names and values of what a network has few of: its windows, and that there is no depth."""
    return tuple((name, n) for name, n in zip(_GEOMETRY, geometry) if re.match("kernel|stride|pad|step", name) or name in ("depth", "out_d") and n == 1)


def _words(stride: int) -> tuple[tuple[str, object], ...]:
    """What stands in a kernel of lines for their number, for the windows that one call folds, and for which of the functions it calls."""
    known = stride in (0, *lines.STRIDES)
    span = (("TURNS", 1), ("SPAN", "out_w"), ("FIRST", "-pad_w"), ("TAPS", "kernel_w")) if stride else _ALONE
    return ("BLOCK", _BLOCK), ("STEP", (stride or 1) if known else "any"), (", STRIDE", "" if known else ", stride_w"), ("WINDOWS", _WINDOWS), *span


def _in_lines(x: Layout) -> bool:
    """Whether a whole line is done at once: on the CPU, of floats."""
    return not x.device.backend.FLAT and x.dtype.is_floating_point


class MaxPool(_Pool):
    """(values, indices) of a dense x. The indices, in its plane, are int32 where that is enough: backward keeps them."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs, outputs = ("x",), ("values", "indices")
    gradients = {"x": lambda grads, indices, kernel, stride, padding, dilation, layout: _placed(grads[0], indices, (kernel, stride, padding, dilation), layout)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        shape = _replaced(x.shape, parameters[4])
        index = dtypes.int32 if prod(x.shape[-len(parameters[4]) :]) < 1 << 31 else dtypes.int64
        results = layout(shape, x.dtype, x.device), layout(shape, index, x.device)
        kernel, numbers, scratch = max_pool_kernel, (), ()
        if _in_lines(x) and index is dtypes.int32:
            numbers, (folded, table) = self._lines(x, parameters)
            kernel, scratch = placed_lines, (folded, (folded[0], index.storage), table)
        return self._plan(kernel, results, (x.storage, x.storage, index.storage), x.shape, shape, parameters, numbers, scratch)


class Greatest(_Pool):
    """The values alone of a dense x, for when nobody asks for their places."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("x",)
    gradients = {
        "x": lambda g, x, kernel, stride, padding, dilation, layout: _placed(
            g, _places(x, g, (kernel, stride, padding, dilation)), (kernel, stride, padding, dilation), layout
        )
    }

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        out = layout(_replaced(x.shape, parameters[4]), x.dtype, x.device)
        if _in_lines(x):
            return self._plan(greatest_lines, (out,), (x.storage, x.storage), x.shape, out.shape, parameters, *self._lines(x, parameters))
        both, empty = max_pool.prepare(arguments, parameters), x.device.empty
        places = both.layout[1]
        return Plan(out, lambda given, values, *constants: both.launch(given, values, empty(places.size, places.storage), *constants), both.constants)


def _placed(g: object, indices: object, windows: tuple, layout: Layout) -> object:
    return place_gradient.apply((g.contiguous(), indices), (*windows, tuple(layout.shape[-len(windows[0]) :])))


def _places(x: object, g: object, windows: tuple) -> object:
    return max_pool.apply((x,), (*windows, tuple(g.shape[-len(windows[0]) :])))[1]


class PlaceGradient(_Pool):
    """g added at indices into planes of `sizes`; the gradient of max pooling."""

    takes = "given[*s]:buif indices[*s]:any; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("given", "indices")
    gradients = {"given": lambda g, indices, kernel: g.flatten(-len(kernel)).gather(-1, indices.flatten(-len(kernel)).to(dtypes.int64)).reshape(indices.shape)}

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        kind = dtypes.int32 if prod(parameters[4]) < 1 << 31 else dtypes.int64
        if arguments[1].dtype is not kind:
            return f"indices must be of {kind}, got {arguments[1].dtype}"
        return _misfit(_replaced(sizes["s"], parameters[4]), sizes["s"], parameters)

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """As `Op.further_limits`."""
        return {1: (prod(parameters[4]), -1)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        given, indices = arguments
        out = layout(_replaced(given.shape, parameters[4]), given.dtype, given.device)
        kernel = place_gradient_elements if given.device.backend.FLAT else place_gradient_kernel
        return self._plan(kernel, (out,), (given.storage, indices.storage, given.storage), out.shape, given.shape, parameters)


class Average(_Pool):
    """Means over the windows of a dense x, or (`backward`) their gradient, which spreads g over them; each is the other's gradient."""

    parameters = (*_Pool.parameters, "counts_borders", "divisor")

    def __init__(self, name: str, backward: bool) -> None:
        super().__init__(name)
        self.backward = backward
        self.inputs = ("given",) if backward else ("x",)

    @property
    def takes(self) -> str:
        """As `Op.takes`."""
        return f"{self.inputs[0]}[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^* counts_borders=flag divisor=0.."

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        ends = sizes["s"], _replaced(sizes["s"], parameters[4])
        return _misfit(*(reversed(ends) if self.backward else ends), parameters)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        out = layout(_replaced(x.shape, parameters[4]), x.dtype, x.device)
        inner, outer = (out.shape, x.shape) if self.backward else (x.shape, out.shape)
        numbers, scratch = (int(parameters[5]), parameters[6]), ()
        flat = x.device.backend.FLAT
        kernel = average_kernel if not self.backward else average_gradient_elements if flat else average_gradient_kernel
        ndim = len(parameters[4])
        whole = prod(outer[-ndim:]) == 1 and parameters[0] == tuple(inner[-ndim:]) and not any(parameters[2])  # one window of all elements
        whole = whole and not parameters[6] and x.dtype.is_floating_point
        if whole and flat and not self.backward:  # by blocks of threads, whose neighbours read neighbours
            return reduction.mean.prepare((x,), (tuple(range(x.ndim - ndim, x.ndim)), True, None))
        if whole and not flat:
            kernel = spread_planes if self.backward else average_planes
        elif not self.backward and _in_lines(x):
            own, scratch = self._lines(x, parameters)
            kernel, numbers, scratch = average_lines, (*own, *numbers), (*scratch, (parameters[4][-1], x.storage))
        return self._plan(kernel, (out,), (x.storage, x.storage), inner, outer, parameters, numbers, scratch)


def _other(op: Callable) -> Callable:
    def gradient(g: object, kernel: tuple, stride: tuple, padding: tuple, dilation: tuple, layout: Layout, counts_borders: bool, divisor: int) -> object:
        return op().apply((g.contiguous(),), (kernel, stride, padding, dilation, tuple(layout.shape[-len(kernel) :]), counts_borders, divisor))

    return gradient


max_pool, greatest, place_gradient = MaxPool("max_pool"), Greatest("max_pool_values"), PlaceGradient("place_gradient")
average_pool, average_pool_gradient = Average("average_pool", False), Average("average_pool_gradient", True)
average_pool.gradients = {"x": _other(lambda: average_pool_gradient)}
average_pool_gradient.gradients = {"given": _other(lambda: average_pool)}
