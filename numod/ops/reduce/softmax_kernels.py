"""Kernels of softmax, log-softmax and cross-entropy, and of their gradients (see `softmax`)."""

from __future__ import annotations

from math import exp, log
from ...kernel.language import cuda, float64, int64, parallel_range, real, SHARED, shared_array, uintp
from ...kernel.library.softmax import (
    exp_of_columns,
    greatest,
    highest_of_columns,
    scale_columns,
    strip,
    strips,
    sum_exp_of_columns,
    sum_of_exp,
    transpose_back,
    write_softmax,
)
from ...kernel.library.cuda_block import row_max, block_sum, row_sum_of_exp


def softmax_kernel(x, out, outer, n, inner, *, write_softmax=write_softmax):
    """out = exp(x - max) / sum(exp(x - max)) along n."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        write_softmax(x, out, (column // inner) * n * inner + column % inner, n, inner, real(1.0))


def log_softmax_kernel(x, out, outer, n, inner, *, greatest=greatest, sum_of_exp=sum_of_exp):
    """out = x - max - log(sum(exp(x - max))) along n."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        high = greatest(x, base, n, inner)
        rest = log(sum_of_exp(x, base, n, inner, high))
        for k in range(n):  # compiled without reassociation, which would lose digits of the logarithm
            out[uintp(base + k * inner)] = (x[uintp(base + k * inner)] - high) - rest


def cross_entropy_kernel(x, target, out, outer, n, inner, ignored, *, greatest=greatest, sum_of_exp=sum_of_exp):
    """out (outer, inner) = log(sum(exp(x))) - x[target] along n; 0 if target is `ignored` or outside [0, n)."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        chosen = target[uintp(column)]
        if chosen == ignored or chosen < 0 or chosen >= n:
            out[uintp(column)] = real(0.0)
        else:
            base = (column // inner) * n * inner + column % inner
            high = greatest(x, base, n, inner)
            out[uintp(column)] = log(sum_of_exp(x, base, n, inner, high)) + (high - x[uintp(base + chosen * inner)])


def cross_entropy_total_kernel(
    x, target, loss, count, invalid, outer, n, inner, ignored, mean, *, greatest=greatest, sum_of_exp=sum_of_exp
):
    """loss () = the sum or mean of cross-entropies over the targets that are not `ignored`. `count` () = the number of
    these targets, `invalid` () = the number of targets outside [0, n).
    """
    total, counted, outside = float64(0), int64(0), int64(0)
    for column in range(outer * inner):
        chosen = target[uintp(column)]
        if chosen != ignored:
            if chosen < 0 or chosen >= n:
                outside += 1
            else:
                base = (column // inner) * n * inner + column % inner
                high = greatest(x, base, n, inner)
                total += log(sum_of_exp(x, base, n, inner, high)) + (high - x[uintp(base + chosen * inner)])
                counted += 1
    count[0], invalid[0] = counted, outside
    loss[0] = total / counted if mean else total


def total_kernel(losses, target, loss, count, invalid, column_count, n, ignored, mean):
    """`cross_entropy_total_kernel` of known losses."""
    total, counted, outside = float64(0), int64(0), int64(0)
    for column in range(column_count):
        chosen = target[uintp(column)]
        total += losses[uintp(column)]
        counted += chosen != ignored and chosen >= 0 and chosen < n
        outside += chosen != ignored and (chosen < 0 or chosen >= n)
    count[0], invalid[0] = counted, outside
    loss[0] = total / counted if mean else total


def total_block(losses, target, loss, count, invalid, column_count, n, ignored, mean, *, THREADS):
    """`total_kernel` with one block of GPU threads."""
    shared = shared_array(THREADS, float64, SHARED)
    thread = int64(cuda.threadIdx.x)
    total, counted, outside = float64(0), float64(0), float64(0)
    for column in range(thread, column_count, THREADS):
        chosen = target[uintp(column)]
        is_class = (chosen >= 0) & (chosen < n)
        total += float64(losses[uintp(column)])
        counted += float64(1) if (chosen != ignored) & is_class else float64(0)
        outside += float64(0) if (chosen == ignored) | is_class else float64(1)
    total = block_sum(total, shared, thread, THREADS)
    counted = block_sum(counted, shared, thread, THREADS)
    outside = block_sum(outside, shared, thread, THREADS)
    if thread == 0:
        count[0], invalid[0] = int64(counted), int64(outside)
        loss[0] = total / counted if mean else total


def cross_entropy_gradient_kernel(
    g, x, target, count, out, outer, n, inner, ignored, g_step, mean, *, write_softmax=write_softmax
):
    """out (outer, n, inner) = g * (softmax(x) - one_hot(target)) along n; 0 if target is `ignored`.

    g_step is 0 if g has one element for all targets, else 1.
    """
    scale = real(1.0) / real(count[0]) if mean else real(1.0)
    for task in parallel_range(outer * inner):
        column = int64(task)
        chosen = target[uintp(column)]
        base = (column // inner) * n * inner + column % inner
        weight = g[uintp(column * g_step)] * scale if chosen != ignored else real(0.0)
        write_softmax(x, out, base, n, inner, weight)
        if chosen != ignored:
            out[uintp(base + chosen * inner)] -= weight


def softmax_columns(x, out, rows, results, highs, totals, outer, n, inner, *, COLUMNS, LANES):
    """`softmax_kernel`, COLUMNS neighbouring columns at a time. highs and totals (outer, inner) are scratch.

    rows and results are x and out, or if n is the last axis, scratch of the size of x for transposed strips.
    """
    for task in parallel_range(strips(outer, inner, COLUMNS)):
        column, base, width, step = strip(x, rows, int64(task), outer, n, inner, COLUMNS, LANES)
        highest_of_columns(rows, base, n, step, width, highs, column)
        exp_of_columns(rows, base, n, step, width, highs, totals, column, results)
        for j in range(width):
            totals[uintp(column + j)] = real(1.0) / totals[uintp(column + j)]
        scale_columns(results, base, n, step, width, totals, column)
        transpose_back(results, out, base, n, width, inner, LANES)


def log_softmax_columns(x, out, rows, results, highs, totals, outer, n, inner, *, COLUMNS, LANES):
    """`log_softmax_kernel`, COLUMNS neighbouring columns at a time (see `softmax_columns`)."""
    for task in parallel_range(strips(outer, inner, COLUMNS)):
        column, base, width, step = strip(x, rows, int64(task), outer, n, inner, COLUMNS, LANES)
        highest_of_columns(rows, base, n, step, width, highs, column)
        sum_exp_of_columns(rows, base, n, step, width, highs, totals, column)
        for j in range(width):
            totals[uintp(column + j)] = log(totals[uintp(column + j)])
        for k in range(n):
            for j in range(width):  # compiled without reassociation, see `log_softmax_kernel`
                results[uintp(base + k * step + j)] = (
                    rows[uintp(base + k * step + j)] - highs[uintp(column + j)]
                ) - totals[uintp(column + j)]
        transpose_back(results, out, base, n, width, inner, LANES)


def cross_entropy_columns(x, target, out, rows, results, highs, totals, outer, n, inner, ignored, *, COLUMNS, LANES):
    """`cross_entropy_kernel`, COLUMNS neighbouring columns at a time (see `softmax_columns`)."""
    for task in parallel_range(strips(outer, inner, COLUMNS)):
        column, base, width, step = strip(x, rows, int64(task), outer, n, inner, COLUMNS, LANES)
        highest_of_columns(rows, base, n, step, width, highs, column)
        sum_exp_of_columns(rows, base, n, step, width, highs, totals, column)
        for j in range(width):
            totals[uintp(column + j)] = log(totals[uintp(column + j)])
        for j in range(width):
            chosen = target[uintp(column + j)]
            known = chosen != ignored and chosen >= 0 and chosen < n
            score = rows[uintp(base + (chosen if known else 0) * step + j)]
            out[uintp(column + j)] = (
                totals[uintp(column + j)] + (highs[uintp(column + j)] - score) if known else real(0.0)
            )


def cross_entropy_gradient_columns(
    g, x, target, count, out, rows, results, highs, totals, outer, n, inner, ignored, g_step, mean, *, COLUMNS, LANES
):
    """`cross_entropy_gradient_kernel`, COLUMNS neighbouring columns at a time (see `softmax_columns`)."""
    scale = real(1.0) / real(count[0]) if mean else real(1.0)
    for task in parallel_range(strips(outer, inner, COLUMNS)):
        column, base, width, step = strip(x, rows, int64(task), outer, n, inner, COLUMNS, LANES)
        highest_of_columns(rows, base, n, step, width, highs, column)
        exp_of_columns(rows, base, n, step, width, highs, totals, column, results)
        for j in range(width):
            weight = g[uintp((column + j) * g_step)] * scale if target[uintp(column + j)] != ignored else real(0.0)
            highs[uintp(column + j)], totals[uintp(column + j)] = weight, weight / totals[uintp(column + j)]
        scale_columns(results, base, n, step, width, totals, column)
        for j in range(width):
            chosen = target[uintp(column + j)]
            if chosen != ignored:
                results[uintp(base + chosen * step + j)] -= highs[uintp(column + j)]
        transpose_back(results, out, base, n, width, inner, LANES)


def softmax_block(x, out, outer, n, inner, *, THREADS):
    """`softmax_kernel` with a block of GPU threads for each row; inner is 1.

    A row is read three times, twice from the cache.
    """
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        high = row_max(x, row * n, n, shared, thread, THREADS)
        scale = real(1.0) / row_sum_of_exp(x, row * n, n, high, shared, thread, THREADS)
        for k in range(thread, n, THREADS):
            out[uintp(row * n + k)] = exp(x[uintp(row * n + k)] - high) * scale


def log_softmax_block(x, out, outer, n, inner, *, THREADS):
    """`log_softmax_kernel` with a block of GPU threads for each row."""
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        high = row_max(x, row * n, n, shared, thread, THREADS)
        rest = log(float64(row_sum_of_exp(x, row * n, n, high, shared, thread, THREADS)))
        for k in range(thread, n, THREADS):
            out[uintp(row * n + k)] = real(float64(x[uintp(row * n + k)] - high) - rest)


def cross_entropy_block(x, target, out, outer, n, inner, ignored, *, THREADS):
    """`cross_entropy_kernel` with a block of GPU threads for each row."""
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        chosen = target[uintp(row)]
        high = row_max(x, row * n, n, shared, thread, THREADS)
        total = row_sum_of_exp(x, row * n, n, high, shared, thread, THREADS)
        if thread == 0:
            if chosen == ignored or chosen < 0 or chosen >= n:
                out[uintp(row)] = real(0.0)
            else:
                out[uintp(row)] = log(total) + (high - x[uintp(row * n + chosen)])


def cross_entropy_gradient_block(g, x, target, count, out, outer, n, inner, ignored, g_step, mean, *, THREADS):
    """`cross_entropy_gradient_kernel` with a block of GPU threads for each row."""
    shared = shared_array(THREADS, real, SHARED)
    thread = int64(cuda.threadIdx.x)
    scale = real(1.0) / real(count[0]) if mean else real(1.0)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        chosen = target[uintp(row)]
        weight = g[uintp(row * g_step)] * scale if chosen != ignored else real(0.0)
        high = row_max(x, row * n, n, shared, thread, THREADS)
        scale_of_row = weight / row_sum_of_exp(x, row * n, n, high, shared, thread, THREADS)
        for k in range(thread, n, THREADS):
            value = exp(x[uintp(row * n + k)] - high) * scale_of_row
            out[uintp(row * n + k)] = value - weight if k == chosen else value
