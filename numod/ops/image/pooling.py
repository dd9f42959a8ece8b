"""Max pooling and average pooling over one to three spatial dimensions, and their gradients.

The last one to three dimensions of a dense x (..., depth, height, width) are pooled. Kernels always have three, and
count the dimensions before them as planes. A window begins at o * stride - pad and has kernel elements `step` apart.
An adaptive window (stride 0) begins at floor(o * n / out) and ends at ceil((o + 1) * n / out). Elements outside the
input are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float64, int64, local_array, parallel_range, real, uintp
from ...kernel.library.division import quotient
from ...kernel.library.rows import row_sum
from ...kernel.library.cuda_block import store_4
from ...kernel.library.windows import (
    Pooling,
    fill_windows,
    first_window,
    last_window,
    next_line,
    window_size,
    window_start,
    window_stop,
)
from ...kernel.registers import pool_rows, tiles
from ...kernel.registers.primitives import fold_rows_argmax, fold_rows_max, fold_rows_sum, fold_windows
from ...kernel.specialize import specialized
from ..reduce import reduction
from ..op import Op, Plan

_WORKERS = 8  # iterations of the parallel loop, each with its own folded lines
# output lines between the two passes: long enough for the stores of one to reach the cache before the other loads them
_BLOCK = 8
_AHEAD = 4  # windows of a line that a GPU thread loads before it compares them, at most
_INDEX = np.dtype(np.int64)


def max_pool_kernel(x, out, indices, pool: Pooling, *, LINES):
    """out = the maximum of each window; NaN wins. indices = its index in the plane: the first of equal elements, the
    last NaN. With LINES, a task computes a row of outputs, else one output.
    """
    for task in parallel_range(pool.planes * pool.out_d * pool.out_h * pool.out_w // (pool.out_w if LINES else 1)):
        begin = int64(task) * (pool.out_w if LINES else 1)
        row = quotient(begin, pool.out_w)
        slab = quotient(row, pool.out_h)
        plane = quotient(slab, pool.out_d)
        oh, od = row - slab * pool.out_h, slab - plane * pool.out_d
        plane *= pool.depth * pool.height * pool.width
        d_first, d_last = (
            window_start(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, pool.step_d),
            window_stop(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, pool.step_d, pool.kernel_d),
        )
        h_first, h_last = (
            window_start(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, pool.step_h),
            window_stop(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, pool.step_h, pool.kernel_h),
        )
        for window in range(begin, begin + (pool.out_w if LINES else 1)):
            ow = window - row * pool.out_w
            w_first, w_last = (
                window_start(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, pool.step_w),
                window_stop(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, pool.step_w, pool.kernel_w),
            )
            best_at = (d_first * pool.height + h_first) * pool.width + w_first
            best = x[uintp(plane + best_at)]
            d = d_first
            while d < d_last:  # a range with a step would need a division
                h = h_first
                while h < h_last:
                    line, w = (d * pool.height + h) * pool.width, w_first
                    while w < w_last:
                        value = x[uintp(plane + line + w)]
                        better = (value > best) | (value != value)
                        best, best_at = value if better else best, line + w if better else best_at
                        w += pool.step_w
                    h += pool.step_h
                d += pool.step_d
            out[uintp(window)] = best
            indices[uintp(window)] = best_at


def max_pool_rows(
    x, out, folded, table, workers, row_size, margin, pool: Pooling, *, fold_windows_of_row, BLOCK, REGULAR
):
    """Max pooling of floats without indices, a row of the output at a time: rows of the input are folded into one,
    then its windows. Adaptive windows are folded one by one (REGULAR is False).
    """
    fill_windows(table, pool, 0)
    for worker in parallel_range(workers):
        folded_at = int64(worker) * BLOCK * row_size
        for k in range(BLOCK * row_size):
            folded[uintp(folded_at + k)] = -1e400
        begin, end = (
            worker * pool.planes * pool.out_d * pool.out_h // workers,
            (worker + 1) * pool.planes * pool.out_d * pool.out_h // workers,
        )
        oh, od, plane_at = (
            begin % pool.out_h,
            begin // pool.out_h % pool.out_d,
            begin // (pool.out_h * pool.out_d) * pool.depth * pool.height * pool.width,
        )
        for first in range(begin, end, BLOCK):
            for line in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (pool.out_h + od)
                fold_rows_max(
                    x,
                    plane_at,
                    (table[d] * pool.height + table[h]) * pool.width,
                    table[d + 1],
                    pool.step_d * pool.height * pool.width,
                    table[h + 1],
                    pool.step_h * pool.width,
                    pool.width,
                    folded,
                    folded_at + (line - first) * row_size + margin,
                    table,
                    0,
                )
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    fold_windows_of_row(
                        folded,
                        window_at + (-pool.pad_w if REGULAR else window_start(o, pool.width, pool.out_w, 0, 0, 1)),
                        table,
                        0,
                        pool.step_w,
                        pool.kernel_w
                        if REGULAR
                        else window_stop(o, pool.width, pool.out_w, 0, 0, 1, 0)
                        - window_start(o, pool.width, pool.out_w, 0, 0, 1),
                        out,
                        line * pool.out_w + o,
                        table,
                        0,
                        pool.out_w if REGULAR else 1,
                        x,
                        0,
                        1.0,
                        pool.stride_w,
                    )


def max_pool_rows_with_indices(
    x,
    out,
    indices,
    folded,
    folded_indices,
    table,
    workers,
    row_size,
    margin,
    pool: Pooling,
    *,
    fold_windows_of_row,
    BLOCK,
    REGULAR,
):
    """`max_pool_rows` with indices."""
    fill_windows(table, pool, 0)
    for worker in parallel_range(workers):
        folded_at = int64(worker) * BLOCK * row_size
        for k in range(BLOCK * row_size):
            folded[uintp(folded_at + k)] = -1e400
            folded_indices[uintp(folded_at + k)] = -1
        begin, end = (
            worker * pool.planes * pool.out_d * pool.out_h // workers,
            (worker + 1) * pool.planes * pool.out_d * pool.out_h // workers,
        )
        oh, od, plane_at = (
            begin % pool.out_h,
            begin // pool.out_h % pool.out_d,
            begin // (pool.out_h * pool.out_d) * pool.depth * pool.height * pool.width,
        )
        for first in range(begin, end, BLOCK):
            for line in range(first, min(first + BLOCK, end)):
                h, d, target = 3 * oh, 3 * (pool.out_h + od), folded_at + (line - first) * row_size + margin
                fold_rows_argmax(
                    x,
                    plane_at,
                    (table[d] * pool.height + table[h]) * pool.width,
                    table[d + 1],
                    pool.step_d * pool.height * pool.width,
                    table[h + 1],
                    pool.step_h * pool.width,
                    pool.width,
                    folded,
                    target,
                    folded_indices,
                    target,
                )
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    first_window_at, out_at = (
                        window_at + (-pool.pad_w if REGULAR else window_start(o, pool.width, pool.out_w, 0, 0, 1)),
                        line * pool.out_w + o,
                    )
                    fold_windows_of_row(
                        folded,
                        first_window_at,
                        folded_indices,
                        first_window_at,
                        pool.step_w,
                        pool.kernel_w
                        if REGULAR
                        else window_stop(o, pool.width, pool.out_w, 0, 0, 1, 0)
                        - window_start(o, pool.width, pool.out_w, 0, 0, 1),
                        out,
                        out_at,
                        indices,
                        out_at,
                        pool.out_w if REGULAR else 1,
                        x,
                        0,
                        1.0,
                        pool.stride_w,
                    )


def place_gradient_kernel(g, indices, out, pool: Pooling):
    """out (planes, depth * height * width) = g, added at the indices."""
    for task in parallel_range(pool.planes):
        plane = int64(task)
        base = plane * pool.depth * pool.height * pool.width
        for k in range(pool.depth * pool.height * pool.width):
            out[uintp(base + k)] = 0
        for k in range(
            plane * pool.out_d * pool.out_h * pool.out_w, (plane + 1) * pool.out_d * pool.out_h * pool.out_w
        ):
            if indices[uintp(k)] >= 0:  # -1: a dilated window without elements
                out[uintp(base + indices[uintp(k)])] += g[uintp(k)]


def place_gradient_elements(g, indices, out, pool: Pooling, *, AHEAD):
    """`place_gradient_kernel` for a GPU: a thread computes four neighbouring elements, each as the sum of g over the
    windows with its index, in order.

    Window sizes are compile-time constants, to avoid divisions. AHEAD windows are loaded before they are compared, so
    that the loads overlap.
    """
    total, gradients, offsets = (
        local_array(4, g.dtype),
        local_array(AHEAD, g.dtype),
        local_array(AHEAD, indices.dtype),
    )
    groups_per_line = quotient(pool.width + 3, 4)
    for task in parallel_range(pool.planes * pool.depth * pool.height * groups_per_line):
        line = quotient(int64(task), groups_per_line)
        slab = quotient(line, pool.height)
        plane = quotient(slab, pool.depth)
        w, h, d = 4 * (int64(task) - line * groups_per_line), line - slab * pool.height, slab - plane * pool.depth
        input_element = (d * pool.height + h) * pool.width + w
        for j in range(4):
            total[j] = 0
        w_first = first_window(w, pool.width, pool.out_w, pool.stride_w, pool.pad_w, pool.step_w, pool.kernel_w)
        w_last = last_window(min(w + 3, pool.width - 1), pool.width, pool.out_w, pool.stride_w, pool.pad_w)
        for od in range(
            first_window(d, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, pool.step_d, pool.kernel_d),
            last_window(d, pool.depth, pool.out_d, pool.stride_d, pool.pad_d),
        ):
            for oh in range(
                first_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h, pool.step_h, pool.kernel_h),
                last_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h),
            ):
                row = ((plane * pool.out_d + od) * pool.out_h + oh) * pool.out_w
                ow = w_first
                while ow < w_last:
                    for o in range(AHEAD):
                        offsets[o], gradients[o] = -1, 0
                        if ow + o < w_last:
                            offsets[o], gradients[o] = indices[uintp(row + ow + o)], g[uintp(row + ow + o)]
                    for o in range(AHEAD):
                        offsets[o] -= input_element
                        for j in range(4):
                            total[j] += gradients[o] if offsets[o] == j else g.dtype.type(0)
                    ow += AHEAD
        if w + 4 <= pool.width:
            store_4(out, uintp(line * pool.width + w), total, 0)
        else:
            for j in range(4):
                if w + j < pool.width:
                    out[uintp(line * pool.width + w + j)] = total[j]


def average_kernel(x, out, counts_borders, divisor, pool: Pooling, *, LINES):
    """out = the sum of each window, divided by its size with padding (counts_borders), its size without, or a divisor.

    LINES: see `max_pool_kernel`.
    """
    for task in parallel_range(pool.planes * pool.out_d * pool.out_h * pool.out_w // (pool.out_w if LINES else 1)):
        begin = int64(task) * (pool.out_w if LINES else 1)
        row = quotient(begin, pool.out_w)
        slab = quotient(row, pool.out_h)
        plane = quotient(slab, pool.out_d)
        oh, od = row - slab * pool.out_h, slab - plane * pool.out_d
        plane *= pool.depth * pool.height * pool.width
        d_first, d_last = (
            window_start(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1),
            window_stop(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d),
        )
        h_first, h_last = (
            window_start(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1),
            window_stop(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h),
        )
        sizes = window_size(od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, d_last - d_first, counts_borders)
        sizes *= window_size(
            oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, h_last - h_first, counts_borders
        )
        for window in range(begin, begin + (pool.out_w if LINES else 1)):
            ow = window - row * pool.out_w
            w_first, w_last = (
                window_start(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1),
                window_stop(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w),
            )
            total = x.dtype.type(0)
            for d in range(d_first, d_last):
                for h in range(h_first, h_last):
                    for w in range(w_first, w_last):
                        total += x[uintp(plane + (d * pool.height + h) * pool.width + w)]
            size = (
                divisor
                if divisor != 0
                else sizes
                * window_size(
                    ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, w_last - w_first, counts_borders
                )
            )
            out[uintp(window)] = total / real(size)


def average_pool_rows(
    x,
    out,
    folded,
    table,
    sizes,
    workers,
    row_size,
    margin,
    counts_borders,
    divisor,
    pool: Pooling,
    *,
    fold_windows_of_row,
    BLOCK,
    REGULAR,
):
    """Average pooling of floats by rows (see `max_pool_rows`). sizes (out_w) = the columns counted in each window."""
    fill_windows(table, pool, counts_borders)
    for ow in range(pool.out_w):
        inside = window_stop(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w) - window_start(
            ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1
        )
        sizes[uintp(ow)] = (
            divisor
            if divisor != 0
            else window_size(ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, inside, counts_borders)
        )
    for worker in parallel_range(workers):
        folded_at = int64(worker) * BLOCK * row_size
        for k in range(BLOCK * row_size):
            folded[uintp(folded_at + k)] = 0
        begin, end = (
            worker * pool.planes * pool.out_d * pool.out_h // workers,
            (worker + 1) * pool.planes * pool.out_d * pool.out_h // workers,
        )
        oh, od, plane_at = (
            begin % pool.out_h,
            begin // pool.out_h % pool.out_d,
            begin // (pool.out_h * pool.out_d) * pool.depth * pool.height * pool.width,
        )
        for first in range(begin, end, BLOCK):
            down_h, down_d = oh, od
            for line in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (pool.out_h + od)
                fold_rows_sum(
                    x,
                    plane_at,
                    (table[d] * pool.height + table[h]) * pool.width,
                    table[d + 1],
                    pool.height * pool.width,
                    table[h + 1],
                    pool.width,
                    pool.width,
                    folded,
                    folded_at + (line - first) * row_size + margin,
                    table,
                    0,
                )
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                rows = 1 if divisor != 0 else table[3 * down_h + 2] * table[3 * (pool.out_h + down_d) + 2]
                down_h, down_d, _ = next_line(down_h, down_d, 0, pool.out_h, pool.out_d, 0)
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    fold_windows_of_row(
                        folded,
                        window_at + (-pool.pad_w if REGULAR else window_start(o, pool.width, pool.out_w, 0, 0, 1)),
                        table,
                        0,
                        1,
                        pool.kernel_w
                        if REGULAR
                        else window_stop(o, pool.width, pool.out_w, 0, 0, 1, 0)
                        - window_start(o, pool.width, pool.out_w, 0, 0, 1),
                        out,
                        line * pool.out_w + o,
                        table,
                        0,
                        pool.out_w if REGULAR else 1,
                        sizes,
                        o,
                        real(rows),
                        pool.stride_w,
                    )


def average_planes(x, out, counts_borders, divisor, pool: Pooling):
    """out (planes) = the mean of each plane (global pooling)."""
    for task in parallel_range(pool.planes):
        n = pool.depth * pool.height * pool.width
        out[uintp(int64(task))] = row_sum(x, int64(task) * n, n) / float64(n)


def average_planes_gradient(g, out, counts_borders, divisor, pool: Pooling):
    """The gradient of `average_planes`: out = g divided by the size of the plane."""
    for task in parallel_range(pool.planes):
        n = pool.depth * pool.height * pool.width
        share = g[uintp(int64(task))] / real(n)
        for k in range(n):
            out[uintp(int64(task) * n + k)] = share


def average_gradient_kernel(g, out, counts_borders, divisor, pool: Pooling):
    """out = g divided by the size of its window, added to all elements of the window."""
    for task in parallel_range(pool.planes):
        plane = int64(task) * pool.depth * pool.height * pool.width
        for k in range(pool.depth * pool.height * pool.width):
            out[uintp(plane + k)] = 0
        for od in range(pool.out_d):
            d_first, d_last = (
                window_start(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1),
                window_stop(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d),
            )
            for oh in range(pool.out_h):
                h_first, h_last = (
                    window_start(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1),
                    window_stop(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h),
                )
                sizes = window_size(
                    od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, d_last - d_first, counts_borders
                )
                sizes *= window_size(
                    oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, h_last - h_first, counts_borders
                )
                for ow in range(pool.out_w):
                    w_first, w_last = (
                        window_start(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1),
                        window_stop(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w),
                    )
                    size = (
                        divisor
                        if divisor != 0
                        else sizes
                        * window_size(
                            ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, w_last - w_first, counts_borders
                        )
                    )
                    share = g[uintp(((int64(task) * pool.out_d + od) * pool.out_h + oh) * pool.out_w + ow)] / real(size)
                    for d in range(d_first, d_last):
                        for h in range(h_first, h_last):
                            for w in range(w_first, w_last):
                                out[uintp(plane + (d * pool.height + h) * pool.width + w)] += share


def average_gradient_elements(g, out, counts_borders, divisor, pool: Pooling):
    """`average_gradient_kernel` for a GPU: a thread computes one element, as the sum over the windows that contain it,
    in order.
    """
    for task in parallel_range(pool.planes * pool.depth * pool.height * pool.width):
        element, total = int64(task), g.dtype.type(0)
        line = quotient(element, pool.width)
        slab = quotient(line, pool.height)
        plane = quotient(slab, pool.depth)
        w, h, d = element - line * pool.width, line - slab * pool.height, slab - plane * pool.depth
        for od in range(
            first_window(d, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d),
            last_window(d, pool.depth, pool.out_d, pool.stride_d, pool.pad_d),
        ):
            inside = window_stop(
                od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d
            ) - window_start(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1)
            size_d = window_size(od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, inside, counts_borders)
            for oh in range(
                first_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h),
                last_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h),
            ):
                inside = window_stop(
                    oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h
                ) - window_start(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1)
                size_h = window_size(oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, inside, counts_borders)
                for ow in range(
                    first_window(w, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w),
                    last_window(w, pool.width, pool.out_w, pool.stride_w, pool.pad_w),
                ):
                    inside = window_stop(
                        ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w
                    ) - window_start(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1)
                    size = (
                        divisor
                        if divisor != 0
                        else size_d
                        * size_h
                        * window_size(ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, inside, counts_borders)
                    )
                    total += g[uintp(((plane * pool.out_d + od) * pool.out_h + oh) * pool.out_w + ow)] / real(size)
        out[uintp(element)] = total


class _Pool(Op):
    """Base.

    Parameters (kernel, stride, padding, dilation, sizes) are tuples with a number for each spatial dimension; `sizes`
    are the spatial sizes of the result.
    """

    parameters = ("kernel", "stride", "padding", "dilation", "sizes")

    def check(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return _size_error(sizes["s"], _replaced(sizes["s"], parameters[4]), parameters)

    def _plan(
        self,
        kernel: Callable,
        results: tuple[Layout, ...],
        arrays: tuple[np.dtype, ...],
        x: tuple,
        out: tuple,
        parameters: tuple,
        numbers: tuple = (),
        scratch: tuple = (),
    ) -> Plan:
        """A plan for a kernel. `arrays`: storages of inputs and results; `scratch`: sizes and storages of scratch
        memory; x and out: shapes.
        """
        result, pool = results if self.outputs else results[0], _pooling(x, out, parameters)
        if results[0].size == 0:
            return Plan(result, lambda *_: None)
        constants = (*numbers, *pool)
        signature = bind.signature(*arrays, *(kind for _, kind in scratch), numbers=len(constants))
        flags = build.FAST_REDUCTION if kernel is average_planes else build.FAST_POINTWISE
        size, windows = pool.depth * pool.height * pool.width, pool.out_d * pool.out_h * pool.out_w
        work = pool.planes * max(windows * pool.kernel_d * pool.kernel_h * pool.kernel_w, size)
        if kernel is place_gradient_elements:
            # the number of windows that contain one of four neighbours
            window_count = (3 + (pool.kernel_w - 1) * pool.step_w) // pool.stride_w + 1 if pool.stride_w else _AHEAD
            kernel, work = partial(kernel, AHEAD=min(window_count, _AHEAD), **_fixed(pool)), pool.planes * size // 4
        run = bind.launcher(results[0].device, self.name, specialized(kernel), signature, results[0].dtype, work, flags)
        count, make = len(arrays), results[0].device.backend.scratch if scratch else None

        def launch(*arguments: object) -> None:
            run(*arguments[:count], *make(scratch), *arguments[count:])

        return Plan(result, launch if scratch else run, constants)

    def _lines(self, x: Layout, parameters: tuple) -> tuple[tuple[int, int, int], tuple]:
        """The numbers and scratch memory of a kernel that computes whole rows: folded rows, and a table of windows."""
        (window, stride, padding, step), sizes = (
            (parameter[-1] for parameter in parameters[:4]),
            _three(parameters[4], 1),
        )
        workers, size = min(_WORKERS, prod(x.shape[: -len(parameters[0])]) * sizes[0] * sizes[1]), x.storage.itemsize
        margin = max(pool_rows.MARGIN // size, padding)
        line = margin + pool_rows.reach(tiles.host().lanes(size), x.shape[-1], sizes[2], stride, window, step)
        return (workers, line, margin), ((workers * _BLOCK * line, x.storage), (3 * (sizes[0] + sizes[1]), _INDEX))


def _three(values: tuple, filler: int) -> tuple[int, ...]:
    return (filler,) * (3 - len(values)) + tuple(values)


def _pooling(x: tuple, out: tuple, parameters: tuple) -> Pooling:
    """The sizes of a pooling of these shapes."""
    window, stride, padding, dilation = (
        _three(parameter, filler) for parameter, filler in zip(parameters, (1, 1, 0, 1))
    )
    ndim = len(parameters[0])
    return Pooling(
        prod(x[:-ndim]), *_three(x[-ndim:], 1), *window, *_three(out[-ndim:], 1), *stride, *padding, *dilation
    )


def _by_lines(kernel: Callable, kind: str, parameters: tuple) -> Callable:
    """A kernel that computes whole rows, specialised for a stride and kind of windows."""
    stride = parameters[1][-1]
    primitive = fold_windows(kind, (stride or 1) if stride in (0, *pool_rows.STRIDES) else "any")
    return partial(kernel, fold_windows_of_row=primitive, BLOCK=_BLOCK, REGULAR=stride != 0)


def _replaced(shape: tuple, sizes: tuple) -> tuple[int, ...]:
    """A shape with other spatial sizes."""
    return (*shape[: -len(sizes)], *sizes)


def _size_error(inner: tuple, outer: tuple, parameters: tuple) -> str | None:
    """An error message if windows over the last sizes of `inner` do not give those of `outer`, or if one begins after
    the last element; else None.
    """
    kernel, stride, padding, dilation, sizes = parameters[:5]
    rank = len(sizes)
    if not 1 <= rank <= min(3, len(inner)) or any(len(parameter) != rank for parameter in parameters[:4]):
        return (
            f"attributes must have one entry for each of 1 to 3 dimensions, got kernel {kernel}, stride {stride}, "
            f"padding {padding} and sizes {sizes}"
        )
    for n, o, k, s, p, d in zip(inner[-rank:], outer[-rank:], kernel, stride, padding, dilation):
        if (o and not n) or (not s and (p or d != 1)) or p > d * k or (s and o and (o - 1) * s - p >= n):
            return (
                f"attribute 'sizes' must fit windows over {inner}, got {sizes}; kernel {kernel}, stride {stride}, "
                f"padding {padding}, dilation {dilation}"
            )
    return None


def _fixed(pool: Pooling) -> dict[str, int]:
    """The fields that are compile-time constants, since a network has few values of them: windows, and a depth of 1."""
    names = [name for name in pool._fields if name.partition("_")[0] in ("kernel", "stride", "pad", "step")]
    return {name: getattr(pool, name) for name in names} | {
        name: 1 for name in ("depth", "out_d") if getattr(pool, name) == 1
    }


def _in_lines(x: Layout) -> bool:
    """Whether whole rows are computed at once: for floats on the CPU."""
    return not x.device.backend.is_gpu and x.dtype.is_floating_point


class MaxPool(_Pool):
    """(values, indices) of a dense x. Indices are int32 for planes of fewer than 2^31 elements, to save memory."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs, outputs = ("x",), ("values", "indices")
    gradients = {
        "x": lambda grads, indices, kernel, stride, padding, dilation, layout: _scatter(
            grads[0], indices, (kernel, stride, padding, dilation), layout
        )
    }

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        shape = _replaced(x.shape, parameters[4])
        index = dtypes.int32 if prod(x.shape[-len(parameters[4]) :]) < 1 << 31 else dtypes.int64
        results = layout(shape, x.dtype, x.device), layout(shape, index, x.device)
        kernel, numbers, scratch = partial(max_pool_kernel, LINES=not x.device.backend.is_gpu), (), ()
        if _in_lines(x) and index is dtypes.int32:
            numbers, (folded, table) = self._lines(x, parameters)
            kernel, scratch = (
                _by_lines(max_pool_rows_with_indices, "argmax", parameters),
                (folded, (folded[0], index.storage), table),
            )
        return self._plan(
            kernel, results, (x.storage, x.storage, index.storage), x.shape, shape, parameters, numbers, scratch
        )


class MaxPoolValues(_Pool):
    """The values of max pooling of a dense x, without indices."""

    takes = "x[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("x",)
    gradients = {
        "x": lambda g, x, kernel, stride, padding, dilation, layout: _scatter(
            g, _indices(x, g, (kernel, stride, padding, dilation)), (kernel, stride, padding, dilation), layout
        )
    }

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        out = layout(_replaced(x.shape, parameters[4]), x.dtype, x.device)
        if _in_lines(x):
            return self._plan(
                _by_lines(max_pool_rows, "max", parameters),
                (out,),
                (x.storage, x.storage),
                x.shape,
                out.shape,
                parameters,
                *self._lines(x, parameters),
            )
        both, empty = max_pool.prepare(arguments, parameters), x.device.empty
        indices = both.layout[1]
        return Plan(
            out,
            lambda x_data, values, *constants: both.launch(
                x_data, values, empty(indices.size, indices.storage), *constants
            ),
            both.constants,
        )


def _scatter(g: object, indices: object, windows: tuple, layout: Layout) -> object:
    return place_gradient.apply((g.contiguous(), indices), (*windows, tuple(layout.shape[-len(windows[0]) :])))


def _indices(x: object, g: object, windows: tuple) -> object:
    return max_pool.apply((x,), (*windows, tuple(g.shape[-len(windows[0]) :])))[1]


class PlaceGradient(_Pool):
    """The gradient of max pooling: g added at indices into planes of `sizes`."""

    takes = "d_out[*s]:buif indices[*s]:any; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^*"
    inputs = ("d_out", "indices")
    gradients = {
        "d_out": lambda g, indices, kernel: (
            g.flatten(-len(kernel)).gather(-1, indices.flatten(-len(kernel)).to(dtypes.int64)).reshape(indices.shape)
        )
    }

    def check(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        kind = dtypes.int32 if prod(parameters[4]) < 1 << 31 else dtypes.int64
        if arguments[1].dtype is not kind:
            return f"indices must be of {kind}, got {arguments[1].dtype}"
        return _size_error(_replaced(sizes["s"], parameters[4]), sizes["s"], parameters)

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int | tuple[int, int]]:
        """See `Op.further_limits`."""
        return {1: (prod(parameters[4]), -1)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        d_out, indices = arguments
        out = layout(_replaced(d_out.shape, parameters[4]), d_out.dtype, d_out.device)
        kernel = place_gradient_elements if d_out.device.backend.is_gpu else place_gradient_kernel
        return self._plan(
            kernel, (out,), (d_out.storage, indices.storage, d_out.storage), out.shape, d_out.shape, parameters
        )


class AvgPool(_Pool):
    """Average pooling of a dense x or, if `backward`, its gradient. Each is the other's gradient."""

    parameters = (*_Pool.parameters, "counts_borders", "divisor")

    def __init__(self, name: str, backward: bool) -> None:
        super().__init__(name)
        self.backward = backward
        self.inputs = ("d_out",) if backward else ("x",)

    @property
    def takes(self) -> str:
        """See `Op.takes`."""
        return (
            f"{self.inputs[0]}[*s]:buif; kernel=1..^* stride=0..^* padding=0..^* dilation=1..^* sizes=0..^* "
            "counts_borders=flag divisor=0.."
        )

    def check(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        ends = sizes["s"], _replaced(sizes["s"], parameters[4])
        return _size_error(*(reversed(ends) if self.backward else ends), parameters)

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,) = arguments
        out = layout(_replaced(x.shape, parameters[4]), x.dtype, x.device)
        inner, outer = (out.shape, x.shape) if self.backward else (x.shape, out.shape)
        numbers, scratch = (int(parameters[5]), parameters[6]), ()
        on_gpu = x.device.backend.is_gpu
        kernel = (
            partial(average_kernel, LINES=not on_gpu)
            if not self.backward
            else average_gradient_elements
            if on_gpu
            else average_gradient_kernel
        )
        ndim = len(parameters[4])
        # global pooling
        whole = prod(outer[-ndim:]) == 1 and parameters[0] == tuple(inner[-ndim:]) and not any(parameters[2])
        whole = whole and not parameters[6] and x.dtype.is_floating_point
        if whole and on_gpu and not self.backward:
            return reduction.mean.prepare((x,), (tuple(range(x.ndim - ndim, x.ndim)), True, None))
        if whole and not on_gpu:
            kernel = average_planes_gradient if self.backward else average_planes
        elif not self.backward and _in_lines(x):
            line_numbers, scratch = self._lines(x, parameters)
            kernel, numbers, scratch = (
                _by_lines(average_pool_rows, "sum", parameters),
                (*line_numbers, *numbers),
                (*scratch, (parameters[4][-1], x.storage)),
            )
        return self._plan(kernel, (out,), (x.storage, x.storage), inner, outer, parameters, numbers, scratch)


def _gradient_by(op: Callable) -> Callable:
    def gradient(
        g: object,
        kernel: tuple,
        stride: tuple,
        padding: tuple,
        dilation: tuple,
        layout: Layout,
        counts_borders: bool,
        divisor: int,
    ) -> object:
        return op().apply(
            (g.contiguous(),),
            (kernel, stride, padding, dilation, tuple(layout.shape[-len(kernel) :]), counts_borders, divisor),
        )

    return gradient


max_pool, max_pool_values, place_gradient = (
    MaxPool("max_pool"),
    MaxPoolValues("max_pool_values"),
    PlaceGradient("place_gradient"),
)
average_pool, average_pool_gradient = AvgPool("average_pool", False), AvgPool("average_pool_gradient", True)
average_pool.gradients = {"x": _gradient_by(lambda: average_pool_gradient)}
average_pool_gradient.gradients = {"d_out": _gradient_by(lambda: average_pool)}
