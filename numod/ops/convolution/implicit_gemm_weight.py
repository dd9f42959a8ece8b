"""The kernels of a convolution's weight gradient by implicit GEMM (see `implicit_gemm`).

They multiply the zeros of the padding too, and zero times an infinity is NaN. Results that are not finite are therefore
computed again from the definition, by `correlate_tap`.
"""

from __future__ import annotations

from math import isfinite

from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, correlate_tap
from ...kernel.library.grid import grid_reach
from ...kernel.library.grid_products import copy_outputs_to_grid, transpose_outputs, transpose_sums
from ...kernel.registers.primitives.tiles import spread1, spread2, spread3
from ...kernel.specialize import template
from .implicit_gemm_grid import block_of, copy_block, copy_channel, fill_tables
from .implicit_gemm_plan import GridPlan


@template
def multiply_panel(
    grid, grid_at, transposed, transposed_at, panel, table, tap, sums, sums_at, padded_features, end, accumulates,
    panel_width, lanes,
):  # fmt: skip
    """sums (a tile's taps, panel_width) = (or += if `accumulates`) rows of the grid @ a panel of transposed outputs."""
    if panel_width > 2 * lanes:
        spread3(
            grid, grid_at, 0, 1, transposed, transposed_at, panel, table, tap, sums, sums_at, padded_features, end,
            accumulates,
        )  # fmt: skip
    elif panel_width > lanes:
        spread2(
            grid, grid_at, 0, 1, transposed, transposed_at, panel, table, tap, sums, sums_at, padded_features, end,
            accumulates,
        )  # fmt: skip
    else:
        spread1(
            grid, grid_at, 0, 1, transposed, transposed_at, panel, table, tap, sums, sums_at, padded_features, end,
            accumulates,
        )  # fmt: skip


def weight_grid(g, x, out, transposed, sums, grid, table, columns, plan: GridPlan, conv: Geometry, *, TILE_ROWS, LANES):
    """sums (workers, groups, taps, features) += im2col matrix (taps, positions) @ g (positions, features). out is
    the transposed sum over workers.
    """
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_taps, padded_features = -(-taps // TILE_ROWS) * TILE_ROWS, -(-conv.features // LANES) * LANES
    panel = 2 * LANES if padded_features // LANES % 3 == 1 else 3 * LANES  # a last panel of one vector would be slow
    fill_tables(table, columns, plan, conv)
    for tap in range(taps, padded_taps):
        table[tap] = 0
    for worker in parallel_range(plan.workers):
        grid_at, sums_at = int64(worker) * plan.size, int64(worker) * conv.groups * padded_taps * padded_features
        transposed_at = int64(worker) * (transposed.size // plan.workers)
        for k in range(conv.groups * padded_taps * padded_features):
            sums[uintp(sums_at + k)] = 0
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            first, group, image = block_of(task, plan, conv)
            count = min(plan.stack, conv.images - image)
            lines = min(plan.rows, conv.out_h - first)
            end = grid_reach(count, plan, conv.out_d, lines, conv.out_w)
            copy_block(x, image, group, first, count, grid, grid_at, columns, plan, conv)
            transpose_outputs(
                g, (image * conv.groups + group) * conv.features * conv.out_d * conv.out_h * conv.out_w,
                conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                conv.out_d * conv.out_h * conv.out_w, conv.features, transposed, transposed_at, first, count,
                conv.out_d, lines, conv.out_h, conv.out_w, plan, end, panel, LANES,
            )  # fmt: skip
            for feature in range(0, padded_features, panel):
                panel_width = min(panel, padded_features - feature)
                for tap in range(0, padded_taps, TILE_ROWS):
                    target = sums_at + (group * padded_taps + tap) * padded_features + feature
                    multiply_panel(
                        grid, grid_at, transposed, transposed_at + feature * end, panel, table, tap, sums, target,
                        padded_features, end, 1, panel_width, LANES,
                    )  # fmt: skip
    for part in parallel_range(conv.groups * padded_taps // TILE_ROWS):
        group, tap = int64(part) * TILE_ROWS // padded_taps, int64(part) * TILE_ROWS % padded_taps
        for feature in range(conv.features):
            for row in range(tap, min(tap + TILE_ROWS, taps)):
                sum_at = (group * padded_taps + row) * padded_features + feature
                total = sums[uintp(sum_at)]
                for worker in range(1, plan.workers):
                    total += sums[uintp(worker * conv.groups * padded_taps * padded_features + sum_at)]
                element = (group * conv.features + feature) * taps + row
                out[uintp(element)] = total if isfinite(total) else correlate_tap(g, x, element, conv)


def weight_whole(
    g, x, out, transposed, sums, grid, table, columns, plan: GridPlan, conv: Geometry, *, TILE_ROWS, LANES
):
    """out (features, taps) if all images fit one grid: `rows` taps at a time. Their sums (taps, features) stay in the
    cache until they are transposed.
    """
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_features = -(-conv.features // LANES) * LANES
    panel = 2 * LANES if padded_features // LANES % 3 == 1 else 3 * LANES
    fill_tables(table, columns, plan, conv)
    for tap in range(taps, table.size):
        table[tap] = 0
    end = grid_reach(conv.images, plan, conv.out_d, conv.out_h, conv.out_w)
    for channel in parallel_range(conv.channels):
        copy_channel(x, int64(channel), grid, columns, plan, conv)
    for part in parallel_range((conv.features + panel - 1) // panel):
        feature = int64(part) * panel
        transpose_outputs(
            g, feature * conv.out_d * conv.out_h * conv.out_w, conv.features * conv.out_d * conv.out_h * conv.out_w,
            conv.out_d * conv.out_h * conv.out_w, min(panel, conv.features - feature), transposed, feature * end, 0,
            conv.images, conv.out_d, conv.out_h, conv.out_h, conv.out_w, plan, end, panel, LANES,
        )  # fmt: skip
    for worker in parallel_range(plan.workers):
        sums_at = int64(worker) * plan.rows * padded_features
        for block in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            first, tap_count = block * plan.rows, min(plan.rows, taps - block * plan.rows)
            for feature in range(0, padded_features, panel):
                panel_width = min(panel, padded_features - feature)
                for tap in range(0, tap_count, TILE_ROWS):
                    target = sums_at + tap * padded_features + feature
                    multiply_panel(
                        grid, 0, transposed, feature * end, panel, table, first + tap, sums, target, padded_features,
                        end, 0, panel_width, LANES,
                    )  # fmt: skip
            finite = True
            for tap in range(tap_count):
                for feature in range(conv.features):
                    finite &= isfinite(sums[uintp(sums_at + tap * padded_features + feature)])
            transpose_sums(sums, sums_at, padded_features, tap_count, conv.features, out, first, taps, LANES)
            if not finite:
                for element in range(tap_count * conv.features):
                    weight_at = element // tap_count * taps + first + element % tap_count
                    if not isfinite(out[uintp(weight_at)]):
                        out[uintp(weight_at)] = correlate_tap(g, x, weight_at, conv)


def weight_lines(g, x, out, g_grid, grid, table, columns, plan: GridPlan, conv: Geometry):
    """out = the products of each feature's g and the grid shifted by each tap, for many groups of few features and
    channels.
    """
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    fill_tables(table, columns, plan, conv)
    for worker in parallel_range(plan.workers):
        grid_at, g_at = int64(worker) * plan.size, int64(worker) * (g_grid.size // plan.workers)
        for group in range(worker * conv.groups // plan.workers, (worker + 1) * conv.groups // plan.workers):
            for k in range(conv.features * taps):
                out[uintp(group * conv.features * taps + k)] = 0
            for part in range(plan.tasks // conv.groups):
                first = part % plan.blocks * plan.rows
                image = part // plan.blocks * plan.stack
                count = min(plan.stack, conv.images - image)
                lines = min(plan.rows, conv.out_h - first)
                end = grid_reach(count, plan, conv.out_d, lines, conv.out_w)
                copy_block(x, image, group, first, count, grid, grid_at, columns, plan, conv)
                for feature in range(conv.features):
                    base = (
                        ((image * conv.groups + group) * conv.features + feature) * conv.out_d * conv.out_h * conv.out_w
                    )
                    copy_outputs_to_grid(
                        g, base, conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w, g_grid, g_at,
                        first, count, conv.out_d, lines, conv.out_h, conv.out_w, plan, end,
                    )  # fmt: skip
                    for tap in range(0, taps, 3):  # three at a time, to read g once
                        second, third = min(tap + 1, taps - 1), min(tap + 2, taps - 1)
                        s0, s1, s2 = grid_at + table[tap], grid_at + table[second], grid_at + table[third]
                        t0, t1, t2 = g.dtype.type(0), g.dtype.type(0), g.dtype.type(0)
                        for k in range(end):
                            value = g_grid[uintp(g_at + k)]
                            t0 += value * grid[uintp(s0 + k)]
                            t1 += value * grid[uintp(s1 + k)]
                            t2 += value * grid[uintp(s2 + k)]
                        base = (group * conv.features + feature) * taps
                        out[uintp(base + tap)] += t0
                        out[uintp(base + second)] += t1 if second > tap else g.dtype.type(0)
                        out[uintp(base + third)] += t2 if third > second else g.dtype.type(0)
            for element in range(group * conv.features * taps, (group + 1) * conv.features * taps):
                if not isfinite(out[uintp(element)]):
                    out[uintp(element)] = correlate_tap(g, x, element, conv)
