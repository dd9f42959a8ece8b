"""Convolution of floats on the CPU as implicit GEMM by register tiles. Shapes are those of `convolution`;
`kernel.library.grid` explains the grid.

A block of output rows reads its im2col matrix from a grid that fits the second-level cache. If zeros of the border may
have turned an infinity into a NaN, the result is recomputed by the definition (`kernel.library.direct`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import isfinite, prod
from typing import NamedTuple

import numpy as np

from ...device import Layout, threads
from ...kernel import bind, build, specialize
from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, convolve_plane_back, convolve_row, correlate_tap
from ...kernel.library.grid import (
    fill_columns,
    fill_taps,
    grid_reach,
    multiply_grid,
    multiply_grid_rows,
    pack_taps,
    pad_features,
    copy_to_grid,
    copy_outputs_to_grid,
    transpose_outputs,
    transpose_sums,
)
from ...kernel.registers import tiles
from ...kernel.registers.primitives import spread1, spread2, spread3
from ..matmul.epilogue import Epilogue
from .direct import geometry, launcher

_GRID = 1 << 17  # elements of a grid: it stays in the second-level cache
# elements of a grid on processors with 16 vector registers, which have small caches and tiles with few rows, so that
# the grid is read more often
_SMALL = 1 << 15
_WORKERS = 8  # iterations of the parallel loop, each with its own grid
_TASKS = 4  # minimum number of tasks, so that threads can share a convolution
_LARGE = 1 << 15  # size of a weight from which workers share the sums of its gradient, if
_WHOLE = 1 << 22  # a grid of all images has at most this many elements and stays in the shared cache
_HUGE = 1 << 17  # features times channels from which the weight is packed tile by tile, not as a whole
_MANY = 64  # rows of a product from which workers share a grid
_FEWEST = 16  # rows per worker that shares a grid
_COPY = 24  # cost of copying an element to a grid, in products
_NEAR = 1 << 13  # elements of a run that all rows use before the next run, with 16 registers: first-level cache
_DEEP = 512  # products summed at a time, with 16 registers: the rows of a tile stay in the first-level cache
_ALL = 1 << 40  # products summed at a time, else
_PACKED = 16  # rows of tiles that a worker packs at a time
_RUN = 48  # granularity of runs of positions: whole tiles on every processor
_ROWS = 4  # minimum number of output rows of a grid: fewer would copy its borders too often
_FULL = 8  # rows of a tile on processors with 32 vector registers
_FEW = 2  # rows of a product up to which they are computed one by one


class GridPlan(NamedTuple):
    """How a convolution is cut into tasks, and the sizes of the grid that one task needs."""

    workers: int  # iterations of the parallel loop
    tasks: int
    # parts of the rows (features or channels); more than one: all images are on one grid, which all workers read
    shares: int
    blocks: int  # parts of the output's height
    rows: int  # output rows of a block
    size: int  # elements of a grid
    low_d: int  # the first slab, line and column of the grid, in elements of a phase
    low_h: int
    low_w: int
    variants: int  # phases of the width, or columns of the kernel
    apart: int  # whether every column of the kernel has a variant of its own
    grid_d: int  # the sizes of one phase of the grid
    grid_h: int
    stack: int  # images of a grid
    grid_w: int
    run: int  # positions of the grid that all rows use before the next ones
    deep: int  # products summed at a time


def forward_grid(
    x, weight, out, padded, grid, tile, table, columns, plan: GridPlan, conv: Geometry, *, multiply, TILE_ROWS, LANES
):
    """out = weight (features, taps) @ the im2col matrix, for the images and output rows of one grid at a time."""
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_rows = -(-conv.features // TILE_ROWS) * TILE_ROWS
    fill_columns(
        columns,
        conv.kernel_w,
        conv.pad_w,
        conv.step_w,
        conv.stride_w,
        conv.stride_w,
        plan.low_w,
        plan.variants,
        plan.apart,
        plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
    )
    fill_taps(
        table, conv.channels, conv, conv.stride_d, conv.stride_h, plan.low_d, plan.low_h, columns, plan.variants, plan
    )
    pad_features(weight, padded, conv.features, padded_rows, taps)
    if plan.shares > 1:  # all images are on one grid, and features are divided among workers
        for channel in parallel_range(conv.channels):
            channel_at = int64(channel)
            copy_to_grid(
                x,
                channel_at * conv.depth * conv.height * conv.width,
                conv.channels * conv.depth * conv.height * conv.width,
                grid,
                channel_at
                * conv.stride_d
                * conv.stride_h
                * plan.variants
                * plan.grid_d
                * plan.grid_h
                * plan.stack
                * plan.grid_w,
                conv.images,
                1,
                conv.depth,
                conv.height,
                conv.width,
                conv.stride_d,
                conv.stride_h,
                conv.stride_w,
                plan.low_d,
                plan.low_h,
                columns,
                plan.variants,
                plan,
                conv,
            )
    for worker in parallel_range(plan.workers):
        grid_at, tile_at = (
            int64(worker) * plan.size if plan.shares == 1 else 0,
            int64(worker) * (tile.size // plan.workers),
        )
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            share, block = task % plan.shares, task // plan.shares
            first, group, image = (
                block % plan.blocks * plan.rows,
                block // plan.blocks % conv.groups,
                block // (plan.blocks * conv.groups) * plan.stack,
            )
            count, lines = min(plan.stack, conv.images - image), min(plan.rows, conv.out_h - first)
            if plan.shares == 1:
                copy_to_grid(
                    x,
                    (image * conv.groups + group) * conv.channels * conv.depth * conv.height * conv.width,
                    conv.groups * conv.channels * conv.depth * conv.height * conv.width,
                    grid,
                    grid_at,
                    count,
                    conv.channels,
                    conv.depth,
                    conv.height,
                    conv.width,
                    conv.stride_d,
                    conv.stride_h,
                    conv.stride_w,
                    plan.low_d,
                    plan.low_h + first,
                    columns,
                    plan.variants,
                    plan,
                    conv,
                )
            first_row = share * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS
            row_count = (
                min(conv.features, (share + 1) * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS) - first_row
            )
            target = (
                ((image * conv.groups + group) * conv.features + first_row) * conv.out_d * conv.out_h + first
            ) * conv.out_w
            if padded.size > 0:
                multiply(
                    padded,
                    (group * padded_rows + first_row) * taps,
                    taps,
                    row_count,
                    taps,
                    grid,
                    grid_at,
                    table,
                    0,
                    out,
                    target,
                    conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                    conv.out_d * conv.out_h * conv.out_w,
                    conv.out_h * conv.out_w,
                    conv.out_w,
                    1,
                    count,
                    conv.out_d,
                    lines,
                    conv.out_w,
                    plan,
                    tile,
                    tile_at,
                    TILE_ROWS,
                    LANES,
                )
            else:
                multiply(
                    weight,
                    (group * conv.features + first_row) * taps,
                    taps,
                    row_count,
                    taps,
                    grid,
                    grid_at,
                    table,
                    0,
                    out,
                    target,
                    conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                    conv.out_d * conv.out_h * conv.out_w,
                    conv.out_h * conv.out_w,
                    conv.out_w,
                    1,
                    count,
                    conv.out_d,
                    lines,
                    conv.out_w,
                    plan,
                    tile,
                    tile_at,
                    TILE_ROWS,
                    LANES,
                )
            low, high = first * conv.out_w, (first + conv.out_d * lines) * conv.out_w  # of a plane
            for plane in range(count * row_count):
                batch, row = image + plane // row_count, group * conv.features + first_row + plane % row_count
                line = (batch * conv.groups * conv.features + row) * conv.out_d * conv.out_h * conv.out_w
                if not isfinite(out[uintp(line + low)]):  # an infinite weight affects all elements of a plane
                    for output_line in range((line + low) // conv.out_w, (line + high) // conv.out_w):
                        convolve_row(x, weight, out, output_line, conv)
                EPILOGUE(batch, row, line, low, high)


def input_grid(
    g,
    weight,
    out,
    panels,
    grid,
    tile,
    table,
    columns,
    order,
    plan: GridPlan,
    conv: Geometry,
    *,
    multiply,
    TILE_ROWS,
    LANES,
    PACKED,
):
    """out = the gradient of the input. Its elements are divided into phases by the stride, with different taps."""
    taps = conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_rows = -(-conv.channels // TILE_ROWS) * TILE_ROWS
    plane = plan.grid_d * plan.grid_h * plan.stack * plan.grid_w
    fill_columns(
        columns, conv.kernel_w, conv.pad_w, conv.step_w, conv.stride_w, 0, plan.low_w, plan.variants, plan.apart, plane
    )
    phases = conv.stride_d * conv.stride_h * conv.stride_w
    ordered = int64(0)
    # order: the taps, phase by phase; after them where each phase begins. table: where in the grid they lead
    for phase in range(phases):
        r_d, r_h, r_w = (
            phase // (conv.stride_h * conv.stride_w),
            phase // conv.stride_w % conv.stride_h,
            phase % conv.stride_w,
        )
        order[taps + phase] = ordered
        for tap in range(taps):
            v_d = r_d + conv.pad_d - tap // (conv.kernel_h * conv.kernel_w) * conv.step_d
            v_h = r_h + conv.pad_h - tap // conv.kernel_w % conv.kernel_h * conv.step_h
            v_w = r_w + conv.pad_w - tap % conv.kernel_w * conv.step_w
            if v_d % conv.stride_d == 0 and v_h % conv.stride_h == 0 and v_w % conv.stride_w == 0:
                order[ordered] = tap
                ordered += 1
        begin = order[taps + phase]
        for j in range(begin, ordered):
            tap = order[j]
            v_d = (
                r_d + conv.pad_d - tap // (conv.kernel_h * conv.kernel_w) * conv.step_d
            ) // conv.stride_d - plan.low_d
            v_h = (r_h + conv.pad_h - tap // conv.kernel_w % conv.kernel_h * conv.step_h) // conv.stride_h - plan.low_h
            for output_feature in range(conv.features):
                table[uintp(conv.features * begin + output_feature * (ordered - begin) + j - begin)] = (
                    output_feature * plan.variants * plane
                    + (v_d * plan.grid_h + v_h) * plan.stack * plan.grid_w
                    + columns[tap % conv.kernel_w]
                )
    order[taps + phases] = ordered
    if plan.shares == 1:
        blocks_of_group = (padded_rows // TILE_ROWS + PACKED - 1) // PACKED
        for part in parallel_range(conv.groups * blocks_of_group):
            group, first_row = int64(part) // blocks_of_group, int64(part) % blocks_of_group * PACKED * TILE_ROWS
            pack_taps(
                weight,
                (group * conv.features * conv.channels + first_row) * taps,
                conv.features,
                conv.channels,
                taps,
                panels,
                (group * padded_rows + first_row) * conv.features * taps,
                min(PACKED * TILE_ROWS, padded_rows - first_row),
                TILE_ROWS,
                conv.channels - first_row,
                order,
                phases,
            )
    if plan.shares > 1:  # as in forward_grid
        for feature in parallel_range(conv.features):
            output_feature = int64(feature)
            copy_to_grid(
                g,
                output_feature * conv.out_d * conv.out_h * conv.out_w,
                conv.features * conv.out_d * conv.out_h * conv.out_w,
                grid,
                output_feature * plan.variants * plane,
                conv.images,
                1,
                conv.out_d,
                conv.out_h,
                conv.out_w,
                1,
                1,
                1,
                plan.low_d,
                plan.low_h,
                columns,
                plan.variants,
                plan,
                conv,
            )
    for worker in parallel_range(plan.workers):
        grid_at, tile_at = (
            int64(worker) * plan.size if plan.shares == 1 else 0,
            int64(worker) * (tile.size // plan.workers),
        )
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            share, block = task % plan.shares, task // plan.shares
            first, group, image = (
                block % plan.blocks * plan.rows,
                block // plan.blocks % conv.groups,
                block // (plan.blocks * conv.groups) * plan.stack,
            )
            count = min(plan.stack, conv.images - image)
            if plan.shares == 1:
                copy_to_grid(
                    g,
                    (image * conv.groups + group) * conv.features * conv.out_d * conv.out_h * conv.out_w,
                    conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                    grid,
                    grid_at,
                    count,
                    conv.features,
                    conv.out_d,
                    conv.out_h,
                    conv.out_w,
                    1,
                    1,
                    1,
                    plan.low_d,
                    plan.low_h + first,
                    columns,
                    plan.variants,
                    plan,
                    conv,
                )
            first_row = share * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS
            row_count = (
                min(conv.channels, (share + 1) * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS) - first_row
            )
            panel, packed = (group * padded_rows + first_row) * conv.features * taps, row_count
            # each worker packs the rows that it needs next into its own memory, which stays in the cache
            if plan.shares > 1:
                panel, packed = int64(worker) * TILE_ROWS * conv.features * taps, TILE_ROWS
            for row in range(first_row, first_row + row_count, packed):
                if plan.shares > 1:
                    pack_taps(
                        weight,
                        row * taps,
                        conv.features,
                        conv.channels,
                        taps,
                        panels,
                        panel,
                        TILE_ROWS,
                        TILE_ROWS,
                        conv.channels - row,
                        order,
                        phases,
                    )
                for phase in range(phases):
                    r_d, r_h, r_w = (
                        phase // (conv.stride_h * conv.stride_w),
                        phase // conv.stride_w % conv.stride_h,
                        phase % conv.stride_w,
                    )
                    slabs, phase_width = (
                        (conv.depth - r_d + conv.stride_d - 1) // conv.stride_d,
                        (conv.width - r_w + conv.stride_w - 1) // conv.stride_w,
                    )
                    lines = min(plan.rows, (conv.height - r_h + conv.stride_h - 1) // conv.stride_h - first)
                    begin, tap_count = order[taps + phase], order[taps + phase + 1] - order[taps + phase]
                    target = (
                        (((image * conv.groups + group) * conv.channels + row) * conv.depth + r_d) * conv.height
                        + r_h
                        + first * conv.stride_h
                    ) * conv.width + r_w
                    if lines > 0 and slabs > 0 and phase_width > 0:
                        multiply(
                            panels,
                            panel + TILE_ROWS * conv.features * begin,
                            conv.features * taps,
                            min(packed, first_row + row_count - row),
                            conv.features * tap_count,
                            grid,
                            grid_at,
                            table,
                            conv.features * begin,
                            out,
                            target,
                            conv.groups * conv.channels * conv.depth * conv.height * conv.width,
                            conv.depth * conv.height * conv.width,
                            conv.stride_d * conv.height * conv.width,
                            conv.stride_h * conv.width,
                            conv.stride_w,
                            count,
                            slabs,
                            lines,
                            phase_width,
                            plan,
                            tile,
                            tile_at,
                            TILE_ROWS,
                            LANES,
                        )
    # as in forward_grid; every phase has taps of its own
    for plane in parallel_range(conv.images * conv.groups * conv.channels):
        whole = True
        for r_d in range(min(conv.stride_d, conv.depth)):
            for r_h in range(min(conv.stride_h, conv.height)):
                for r_w in range(min(conv.stride_w, conv.width)):
                    whole &= isfinite(
                        out[uintp(((int64(plane) * conv.depth + r_d) * conv.height + r_h) * conv.width + r_w)]
                    )
        if not whole:
            convolve_plane_back(g, weight, out, int64(plane), conv)


def weight_grid(g, x, out, transposed, sums, grid, table, columns, plan: GridPlan, conv: Geometry, *, TILE_ROWS, LANES):
    """sums (workers, groups, taps, features) += im2col matrix (taps, positions) @ g (positions, features). out is
    the transposed sum over workers.
    """
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_taps, padded_features = -(-taps // TILE_ROWS) * TILE_ROWS, -(-conv.features // LANES) * LANES
    panel = 2 * LANES if padded_features // LANES % 3 == 1 else 3 * LANES  # a last panel of one vector would be slow
    fill_columns(
        columns,
        conv.kernel_w,
        conv.pad_w,
        conv.step_w,
        conv.stride_w,
        conv.stride_w,
        plan.low_w,
        plan.variants,
        plan.apart,
        plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
    )
    fill_taps(
        table, conv.channels, conv, conv.stride_d, conv.stride_h, plan.low_d, plan.low_h, columns, plan.variants, plan
    )
    for tap in range(taps, padded_taps):
        table[tap] = 0
    for worker in parallel_range(plan.workers):
        grid_at, sums_at = int64(worker) * plan.size, int64(worker) * conv.groups * padded_taps * padded_features
        transposed_at = int64(worker) * (transposed.size // plan.workers)
        for k in range(conv.groups * padded_taps * padded_features):
            sums[uintp(sums_at + k)] = 0
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            first = task % plan.blocks * plan.rows
            group = task // plan.blocks % conv.groups
            image = task // (plan.blocks * conv.groups) * plan.stack
            count = min(plan.stack, conv.images - image)
            lines = min(plan.rows, conv.out_h - first)
            end = grid_reach(count, plan, conv.out_d, lines, conv.out_w)
            copy_to_grid(
                x,
                (image * conv.groups + group) * conv.channels * conv.depth * conv.height * conv.width,
                conv.groups * conv.channels * conv.depth * conv.height * conv.width,
                grid,
                grid_at,
                count,
                conv.channels,
                conv.depth,
                conv.height,
                conv.width,
                conv.stride_d,
                conv.stride_h,
                conv.stride_w,
                plan.low_d,
                plan.low_h + first,
                columns,
                plan.variants,
                plan,
                conv,
            )
            transpose_outputs(
                g,
                (image * conv.groups + group) * conv.features * conv.out_d * conv.out_h * conv.out_w,
                conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                conv.out_d * conv.out_h * conv.out_w,
                conv.features,
                transposed,
                transposed_at,
                first,
                count,
                conv.out_d,
                lines,
                conv.out_h,
                conv.out_w,
                plan,
                end,
                panel,
                LANES,
            )
            for feature in range(0, padded_features, panel):
                panel_width = min(panel, padded_features - feature)
                for tap in range(0, padded_taps, TILE_ROWS):
                    target = sums_at + (group * padded_taps + tap) * padded_features + feature
                    if panel_width > 2 * LANES:
                        spread3(
                            grid,
                            grid_at,
                            0,
                            1,
                            transposed,
                            transposed_at + feature * end,
                            panel,
                            table,
                            tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            1,
                        )
                    elif panel_width > LANES:
                        spread2(
                            grid,
                            grid_at,
                            0,
                            1,
                            transposed,
                            transposed_at + feature * end,
                            panel,
                            table,
                            tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            1,
                        )
                    else:
                        spread1(
                            grid,
                            grid_at,
                            0,
                            1,
                            transposed,
                            transposed_at + feature * end,
                            panel,
                            table,
                            tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            1,
                        )
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
    fill_columns(
        columns,
        conv.kernel_w,
        conv.pad_w,
        conv.step_w,
        conv.stride_w,
        conv.stride_w,
        plan.low_w,
        plan.variants,
        plan.apart,
        plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
    )
    fill_taps(
        table, conv.channels, conv, conv.stride_d, conv.stride_h, plan.low_d, plan.low_h, columns, plan.variants, plan
    )
    for tap in range(taps, table.size):
        table[tap] = 0
    end = grid_reach(conv.images, plan, conv.out_d, conv.out_h, conv.out_w)
    for channel in parallel_range(conv.channels):
        c = int64(channel)
        copy_to_grid(
            x,
            c * conv.depth * conv.height * conv.width,
            conv.channels * conv.depth * conv.height * conv.width,
            grid,
            c * conv.stride_d * conv.stride_h * plan.variants * plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
            conv.images,
            1,
            conv.depth,
            conv.height,
            conv.width,
            conv.stride_d,
            conv.stride_h,
            conv.stride_w,
            plan.low_d,
            plan.low_h,
            columns,
            plan.variants,
            plan,
            conv,
        )
    for part in parallel_range((conv.features + panel - 1) // panel):
        feature = int64(part) * panel
        transpose_outputs(
            g,
            feature * conv.out_d * conv.out_h * conv.out_w,
            conv.features * conv.out_d * conv.out_h * conv.out_w,
            conv.out_d * conv.out_h * conv.out_w,
            min(panel, conv.features - feature),
            transposed,
            feature * end,
            0,
            conv.images,
            conv.out_d,
            conv.out_h,
            conv.out_h,
            conv.out_w,
            plan,
            end,
            panel,
            LANES,
        )
    for worker in parallel_range(plan.workers):
        sums_at = int64(worker) * plan.rows * padded_features
        for block in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            first, tap_count = block * plan.rows, min(plan.rows, taps - block * plan.rows)
            for feature in range(0, padded_features, panel):
                panel_width = min(panel, padded_features - feature)
                for tap in range(0, tap_count, TILE_ROWS):
                    target = sums_at + tap * padded_features + feature
                    if panel_width > 2 * LANES:
                        spread3(
                            grid,
                            0,
                            0,
                            1,
                            transposed,
                            feature * end,
                            panel,
                            table,
                            first + tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            0,
                        )
                    elif panel_width > LANES:
                        spread2(
                            grid,
                            0,
                            0,
                            1,
                            transposed,
                            feature * end,
                            panel,
                            table,
                            first + tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            0,
                        )
                    else:
                        spread1(
                            grid,
                            0,
                            0,
                            1,
                            transposed,
                            feature * end,
                            panel,
                            table,
                            first + tap,
                            sums,
                            target,
                            padded_features,
                            end,
                            0,
                        )
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
    fill_columns(
        columns,
        conv.kernel_w,
        conv.pad_w,
        conv.step_w,
        conv.stride_w,
        conv.stride_w,
        plan.low_w,
        plan.variants,
        plan.apart,
        plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
    )
    fill_taps(
        table, conv.channels, conv, conv.stride_d, conv.stride_h, plan.low_d, plan.low_h, columns, plan.variants, plan
    )
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
                copy_to_grid(
                    x,
                    (image * conv.groups + group) * conv.channels * conv.depth * conv.height * conv.width,
                    conv.groups * conv.channels * conv.depth * conv.height * conv.width,
                    grid,
                    grid_at,
                    count,
                    conv.channels,
                    conv.depth,
                    conv.height,
                    conv.width,
                    conv.stride_d,
                    conv.stride_h,
                    conv.stride_w,
                    plan.low_d,
                    plan.low_h + first,
                    columns,
                    plan.variants,
                    plan,
                    conv,
                )
                for feature in range(conv.features):
                    base = (
                        ((image * conv.groups + group) * conv.features + feature) * conv.out_d * conv.out_h * conv.out_w
                    )
                    copy_outputs_to_grid(
                        g,
                        base,
                        conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w,
                        g_grid,
                        g_at,
                        first,
                        count,
                        conv.out_d,
                        lines,
                        conv.out_h,
                        conv.out_w,
                        plan,
                        end,
                    )
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


def flip_weight(weight, flipped, groups, features, channels, taps):
    """flipped (groups, channels, features, taps) = weight (groups, features, channels, taps), with the taps in
    reverse order.
    """
    for row in parallel_range(groups * features):
        group, feature = int64(row) // features, int64(row) % features
        for channel in range(channels):
            target, last = (
                ((group * channels + channel) * features + feature) * taps,
                (int64(row) * channels + channel + 1) * taps - 1,
            )
            for tap in range(taps):
                flipped[uintp(target + tap)] = weight[uintp(last - tap)]


def flipped_launcher(out: Layout, x: tuple, weight: tuple, result: tuple, parameters: tuple, work: int) -> Callable:
    """The input's gradient of a convolution with stride 1 by the forward kernel, so that only one kernel is
    compiled: g is convolved with the flipped weight.
    """
    stride, padding, dilation, groups = parameters
    shape = (x[1], weight[0] // groups, *weight[2:])
    borders = tuple(step * (taps - 1) - pad for taps, pad, step in zip(weight[2:], padding, dilation))
    numbers, flipped = geometry(result, shape, x, stride, borders, dilation, groups), (prod(weight), out.storage)
    sizes = groups, weight[0] // groups, weight[1], prod(weight[2:])
    array, make = f"{out.storage.name}[]", out.device.backend.scratch
    flip = bind.launcher(
        out.device,
        "flip_weight",
        specialize.specialized(flip_weight),
        f"{array}, {array}, int64, int64, int64, int64",
        out.dtype,
        0,
    )
    run, shared_by = _grid_kernel("convolution", out, numbers, shape, (stride, borders, dilation, groups), work)

    def launch(g: object, weight: object, result: object) -> None:
        scratch, constants = shared_by(threads.get_num_threads())
        flipped_weight, *others = make((flipped, *scratch))
        flip(weight, flipped_weight, *sizes)
        run(g, flipped_weight, result, *others, *constants)

    return launch


def grid_launcher(
    op: str,
    out: Layout,
    numbers: Geometry,
    weight: tuple,
    parameters: tuple,
    work: int,
    epilogue: Epilogue | None = None,
) -> Callable:
    """A launcher of op's kernel that allocates its scratch memory. `parameters` are (stride, padding, dilation,
    groups).
    """
    run, shared_by = _grid_kernel(op, out, numbers, weight, parameters, work, epilogue)
    make = out.device.backend.scratch

    def launch(first: object, second: object, result: object, *further: object) -> None:
        scratch, constants = shared_by(threads.get_num_threads())
        run(first, second, result, *make(scratch), *constants, *further)

    return launch


def _grid_kernel(
    op: str,
    out: Layout,
    numbers: Geometry,
    weight: tuple,
    parameters: tuple,
    work: int,
    epilogue: Epilogue | None = None,
) -> tuple[Callable, Callable[[int], tuple]]:
    """The launcher of op's kernel, and a function of the number of threads that returns (scratch memory, constants).

    There are as many workers as threads, each with its own scratch memory. Gradients of weights always have the same
    number of workers, so that sums do not depend on the number of threads.
    """
    backward, on_weight, storage, index = (
        op == "convolution_input",
        op == "convolution_weight",
        out.storage,
        np.dtype("int64"),
    )
    groups, channels, features, lanes = (
        parameters[3],
        weight[1],
        weight[0] // parameters[3],
        tiles.host().lanes(out.storage.itemsize),
    )
    few = (max(channels, features) if on_weight else channels if backward else features) <= _FEW
    tile_rows, taps = 1 if few else tiles.host().rows, prod(weight[1:])
    plan, reach = _cut(numbers, backward, on_weight, channels if backward else features)
    whole = on_weight and plan.shares > 1
    if whole:
        rows = tiles.VECTORS * max(lanes, tile_rows)
        plan = plan._replace(rows=rows, tasks=-(-taps // rows))
    plan = plan._replace(size=plan.size + 2 * tiles.LINE * lanes)
    tile_size, elements = lanes * (tiles.LINE if few else tile_rows * tiles.VECTORS), features * prod(weight[2:])
    if plan.deep < _ALL:
        row_tiles = -(-(channels if backward else features) // tile_rows)
        tile_size *= row_tiles * (-(-plan.run // (tiles.VECTORS * lanes)) + 1)
    columns = weight[-1] + plan.variants, index
    of_weight = weight_lines if few else weight_whole if whole else weight_grid
    kernel = input_grid if backward else of_weight if on_weight else forward_grid

    @cache
    def shared_by(threads: int) -> tuple[tuple, tuple]:
        workers = min(_WORKERS, plan.tasks, _WORKERS if on_weight else threads)
        grids = workers if plan.shares == 1 else 1
        grid, tile = (grids * plan.size, storage), (workers * tile_size, storage)
        if backward:
            packed = groups * _ceil(channels, tile_rows) if plan.shares == 1 else workers * tile_rows
            scratch = (
                (packed * elements, storage),
                grid,
                tile,
                (elements, index),
                columns,
                (prod(weight[2:]) + prod(parameters[0]) + 1, index),
            )
        elif not on_weight:
            padded = 0 if features % tile_rows == 0 else groups * _ceil(features, tile_rows) * taps
            scratch = ((padded, storage), grid, tile, (taps, index), columns)
        elif few:
            scratch = ((workers * (reach + lanes), storage), grid, (taps, index), columns)
        else:
            sums = workers * (plan.rows if whole else groups * _ceil(taps, tile_rows)) * _ceil(features, lanes)
            transposed = grids * _ceil(features, tiles.VECTORS * lanes) * reach
            scratch = ((transposed, storage), (sums, storage), grid, (_ceil(taps, tile_rows), index), columns)
        return scratch, (*plan._replace(workers=workers), *numbers)

    values = {
        "multiply": multiply_grid_rows if few else multiply_grid,
        "TILE_ROWS": tile_rows,
        "LANES": lanes,
        "PACKED": _PACKED,
    }
    arrays = (*[storage.name] * 3, *(kind.name for _, kind in shared_by(1)[0]))
    fastmath = build.FAST_REDUCTION if kernel is weight_lines else build.FAST_POINTWISE
    values = {name: value for name, value in values.items() if specialize.has(kernel, name)}
    return launcher(op, kernel, out, arrays, work, epilogue, fastmath, **values), shared_by


def _ceil(n: int, step: int) -> int:
    return -(-n // step) * step


def _cut(conv: Geometry, backward: bool, on_weight: bool, outer: int) -> tuple[GridPlan, int]:
    """A plan, without its workers, and the number of positions of a grid.

    The grid holds x, or g if `backward`. `outer` is the number of rows of the product (features, or channels). If
    there is more than one share, all images are on one grid, which all workers read.
    """
    images, groups, by_name = conv.images, conv.groups, conv._asdict()
    lows, spans, counts, phases, strides = [], [], [], [], [by_name[f"stride_{letter}"] for letter in "dhw"]
    for axis, letter in zip(("depth", "height", "width"), "dhw"):
        stride, pad, reach = (
            by_name[f"stride_{letter}"],
            by_name[f"pad_{letter}"],
            (by_name[f"kernel_{letter}"] - 1) * by_name[f"step_{letter}"],
        )
        low, high = (
            ((pad - reach) // stride, (stride - 1 + pad) // stride)
            if backward
            else (-pad // stride, (reach - pad) // stride)
        )
        lows.append(low)
        spans.append(high - low)
        counts.append(-(-by_name[axis] // stride) if backward else by_name[f"out_{letter}"])
        phases.append(1 if backward else stride)
    taps = conv.kernel_d * conv.kernel_h * conv.kernel_w // (prod(strides) if backward else 1)
    small = tiles.host().rows < _FULL and not on_weight
    copies = conv.kernel_w - phases[2]  # additional copies of the input
    apart = conv.kernel_w == 1 or spans[2] * outer * taps > _COPY * counts[2] * copies
    if apart:
        spans[2], phases[2] = 0, conv.kernel_w
    planes, most = (
        prod(phases) * (conv.features if backward else conv.channels),
        (_SMALL if small else _GRID) * (2 if apart else 1),
    )
    line = planes * (counts[2] + spans[2])
    image = line * (counts[0] + spans[0]) * (counts[1] + spans[1])
    rows = counts[1]

    def positions(stack: int) -> int:
        return (((counts[0] - 1) * (counts[1] + spans[1]) + counts[1] - 1) * stack + stack - 1) * (
            counts[2] + spans[2]
        ) + counts[2]

    if on_weight:
        weights = conv.channels * conv.features * conv.kernel_d * conv.kernel_h * conv.kernel_w
        one_grid = groups == 1 and outer > _FEW and weights >= _LARGE and images * image <= _WHOLE
    else:
        few = images < _TASKS and images * image <= most
        wide = conv.channels * conv.features >= _HUGE and images * image <= 2 * most
        one_grid = groups == 1 and outer >= _MANY and (few or wide)
    stack = images
    if not one_grid:
        stack = max(1, min(most // image, images * groups // _TASKS, images))
        # the fewest vectors for an image
        stack = min(range(stack, 0, -1), key=lambda count: -(-positions(count) // 16) / count)
        if counts[0] == 1 and spans[0] == 0:
            rows = min(rows, max(_ROWS, most // line - spans[1], 1))
            if images * groups < _TASKS and image > _GRID // 8:
                rows = min(rows, -(-counts[1] * images * groups // _TASKS))
            rows = -(-counts[1] // -(-counts[1] // rows))  # blocks of equal height
    shares = max(1, min(_WORKERS, outer // _FEWEST)) if one_grid else 1
    blocks, sets = -(-counts[1] // rows), -(-images // stack)
    sizes = (counts[0] + spans[0], rows + spans[1], stack, counts[2] + spans[2])
    tasks = groups * sets * blocks * shares
    run_size, depth, deep = _NEAR if small else 2 * most, planes // prod(phases) * taps, _ALL
    few = planes * prod(sizes) <= run_size  # else all rows use one run of the grid before the next
    run = prod(sizes) if few else max(1, (_NEAR if small else most) // planes // _RUN) * _RUN
    if small and counts[0] == 1 and outer > _FEW and 2 * depth > 3 * _DEEP:
        deep = -(-depth // -(-depth // _DEEP))
        run = max(1, _NEAR * depth // deep // planes // _RUN) * _RUN
    size = planes * prod(sizes)
    return GridPlan(0, tasks, shares, blocks, rows, size, *lows, phases[2], int(apart), *sizes, run, deep), prod(sizes)
