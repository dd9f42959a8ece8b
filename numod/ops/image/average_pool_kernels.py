"""Kernels of average pooling and its gradient (see `pooling`)."""

from __future__ import annotations

from ...kernel.language import float64, int64, parallel_range, real, uintp
from ...kernel.library.division import quotient
from ...kernel.library.rows import row_sum
from ...kernel.library.windows import (
    Pooling,
    fill_windows,
    first_window,
    last_window,
    line_position,
    lines_of_worker,
    next_line,
    window_bounds,
    window_size,
)
from ...kernel.registers.primitives.images import fold_rows_sum


def average_kernel(x, out, counts_borders, divisor, pool: Pooling, *, LINES):
    """out = the sum of each window, divided by its size with padding (counts_borders), its size without, or a divisor.

    With LINES, a task computes a row of outputs, else one output.
    """
    for task in parallel_range(pool.planes * pool.out_d * pool.out_h * pool.out_w // (pool.out_w if LINES else 1)):
        begin = int64(task) * (pool.out_w if LINES else 1)
        row = quotient(begin, pool.out_w)
        slab = quotient(row, pool.out_h)
        plane = quotient(slab, pool.out_d)
        oh, od = row - slab * pool.out_h, slab - plane * pool.out_d
        plane *= pool.depth * pool.height * pool.width
        d_first, d_last = window_bounds(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d)
        h_first, h_last = window_bounds(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h)
        sizes = window_size(od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, d_last - d_first, counts_borders)
        sizes *= window_size(
            oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, h_last - h_first, counts_borders
        )
        for window in range(begin, begin + (pool.out_w if LINES else 1)):
            ow = window - row * pool.out_w
            w_first, w_last = window_bounds(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w)
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
    x, out, folded, table, sizes, workers, row_size, margin, counts_borders, divisor, pool: Pooling, *,
    fold_windows_of_row, BLOCK, REGULAR,
):  # fmt: skip
    """Average pooling of floats by rows, as `max_pool_kernels.max_pool_rows` does.

    sizes (out_w) = the columns counted in each window.
    """
    fill_windows(table, pool, counts_borders)
    for ow in range(pool.out_w):
        start, stop = window_bounds(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w)
        inside = stop - start
        sizes[uintp(ow)] = (
            divisor
            if divisor != 0
            else window_size(ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, inside, counts_borders)
        )
    for worker in parallel_range(workers):
        folded_at = int64(worker) * BLOCK * row_size
        for k in range(BLOCK * row_size):
            folded[uintp(folded_at + k)] = 0
        begin, end = lines_of_worker(worker, workers, pool)
        oh, od, plane_at = line_position(begin, pool)
        for first in range(begin, end, BLOCK):
            down_h, down_d = oh, od
            for line in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (pool.out_h + od)
                fold_rows_sum(
                    x, plane_at, (table[d] * pool.height + table[h]) * pool.width, table[d + 1],
                    pool.height * pool.width, table[h + 1], pool.width, pool.width, folded,
                    folded_at + (line - first) * row_size + margin, table, 0,
                )  # fmt: skip
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                rows = 1 if divisor != 0 else table[3 * down_h + 2] * table[3 * (pool.out_h + down_d) + 2]
                down_h, down_d, _ = next_line(down_h, down_d, 0, pool.out_h, pool.out_d, 0)
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    if REGULAR:
                        start, stop = -pool.pad_w, pool.kernel_w - pool.pad_w
                    else:
                        start, stop = window_bounds(o, pool.width, pool.out_w, 0, 0, 1, 0)
                    fold_windows_of_row(
                        folded, window_at + start, table, 0, 1, stop - start, out, line * pool.out_w + o, table, 0,
                        pool.out_w if REGULAR else 1, sizes, o, real(rows), pool.stride_w,
                    )  # fmt: skip


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
            d_first, d_last = window_bounds(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d)
            for oh in range(pool.out_h):
                h_first, h_last = window_bounds(
                    oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h
                )
                sizes = window_size(
                    od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, d_last - d_first, counts_borders
                )
                sizes *= window_size(
                    oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, h_last - h_first, counts_borders
                )
                for ow in range(pool.out_w):
                    w_first, w_last = window_bounds(
                        ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w
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
            start, stop = window_bounds(od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, 1, pool.kernel_d)
            inside = stop - start
            size_d = window_size(od, pool.depth, pool.stride_d, pool.pad_d, pool.kernel_d, inside, counts_borders)
            for oh in range(
                first_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h),
                last_window(h, pool.height, pool.out_h, pool.stride_h, pool.pad_h),
            ):
                start, stop = window_bounds(oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, 1, pool.kernel_h)
                inside = stop - start
                size_h = window_size(oh, pool.height, pool.stride_h, pool.pad_h, pool.kernel_h, inside, counts_borders)
                for ow in range(
                    first_window(w, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w),
                    last_window(w, pool.width, pool.out_w, pool.stride_w, pool.pad_w),
                ):
                    start, stop = window_bounds(ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, 1, pool.kernel_w)
                    inside = stop - start
                    size = (
                        divisor
                        if divisor != 0
                        else size_d
                        * size_h
                        * window_size(ow, pool.width, pool.stride_w, pool.pad_w, pool.kernel_w, inside, counts_borders)
                    )
                    total += g[uintp(((plane * pool.out_d + od) * pool.out_h + oh) * pool.out_w + ow)] / real(size)
        out[uintp(element)] = total
