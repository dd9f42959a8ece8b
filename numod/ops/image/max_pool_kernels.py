"""Kernels of max pooling: values, indices, and gradients (see `pooling`)."""

from __future__ import annotations

from ...kernel.language import int64, local_array, parallel_range, uintp
from ...kernel.library.division import quotient
from ...kernel.library.cuda_block import store_4
from ...kernel.library.windows import (
    Pooling,
    fill_windows,
    first_window,
    last_window,
    line_position,
    lines_of_worker,
    next_line,
    window_bounds,
)
from ...kernel.registers.primitives.images import fold_rows_argmax, fold_rows_max


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
        d_first, d_last = window_bounds(
            od, pool.depth, pool.out_d, pool.stride_d, pool.pad_d, pool.step_d, pool.kernel_d
        )
        h_first, h_last = window_bounds(
            oh, pool.height, pool.out_h, pool.stride_h, pool.pad_h, pool.step_h, pool.kernel_h
        )
        for window in range(begin, begin + (pool.out_w if LINES else 1)):
            ow = window - row * pool.out_w
            w_first, w_last = window_bounds(
                ow, pool.width, pool.out_w, pool.stride_w, pool.pad_w, pool.step_w, pool.kernel_w
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
        begin, end = lines_of_worker(worker, workers, pool)
        oh, od, plane_at = line_position(begin, pool)
        for first in range(begin, end, BLOCK):
            for line in range(first, min(first + BLOCK, end)):
                h, d = 3 * oh, 3 * (pool.out_h + od)
                fold_rows_max(
                    x, plane_at, (table[d] * pool.height + table[h]) * pool.width, table[d + 1],
                    pool.step_d * pool.height * pool.width, table[h + 1], pool.step_h * pool.width, pool.width, folded,
                    folded_at + (line - first) * row_size + margin, table, 0,
                )  # fmt: skip
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    if REGULAR:
                        start, stop = -pool.pad_w, pool.kernel_w - pool.pad_w
                    else:
                        start, stop = window_bounds(o, pool.width, pool.out_w, 0, 0, 1, 0)
                    fold_windows_of_row(
                        folded, window_at + start, table, 0, pool.step_w, stop - start, out, line * pool.out_w + o,
                        table, 0, pool.out_w if REGULAR else 1, x, 0, 1.0, pool.stride_w,
                    )  # fmt: skip


def max_pool_rows_with_indices(
    x, out, indices, folded, folded_indices, table, workers, row_size, margin, pool: Pooling, *, fold_windows_of_row,
    BLOCK, REGULAR,
):  # fmt: skip
    """`max_pool_rows` with indices."""
    fill_windows(table, pool, 0)
    for worker in parallel_range(workers):
        folded_at = int64(worker) * BLOCK * row_size
        for k in range(BLOCK * row_size):
            folded[uintp(folded_at + k)] = -1e400
            folded_indices[uintp(folded_at + k)] = -1
        begin, end = lines_of_worker(worker, workers, pool)
        oh, od, plane_at = line_position(begin, pool)
        for first in range(begin, end, BLOCK):
            for line in range(first, min(first + BLOCK, end)):
                h, d, target = 3 * oh, 3 * (pool.out_h + od), folded_at + (line - first) * row_size + margin
                fold_rows_argmax(
                    x, plane_at, (table[d] * pool.height + table[h]) * pool.width, table[d + 1],
                    pool.step_d * pool.height * pool.width, table[h + 1], pool.step_h * pool.width, pool.width, folded,
                    target, folded_indices, target,
                )  # fmt: skip
                oh, od, plane_at = next_line(
                    oh, od, plane_at, pool.out_h, pool.out_d, pool.depth * pool.height * pool.width
                )
            for line in range(first, min(first + BLOCK, end)):
                window_at = folded_at + (line - first) * row_size + margin
                for o in range(1 if REGULAR else pool.out_w):
                    if REGULAR:
                        start, stop = -pool.pad_w, pool.kernel_w - pool.pad_w
                    else:
                        start, stop = window_bounds(o, pool.width, pool.out_w, 0, 0, 1, 0)
                    first_window_at, out_at = window_at + start, line * pool.out_w + o
                    fold_windows_of_row(
                        folded, first_window_at, folded_indices, first_window_at, pool.step_w, stop - start, out,
                        out_at, indices, out_at, pool.out_w if REGULAR else 1, x, 0, 1.0, pool.stride_w,
                    )  # fmt: skip


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
