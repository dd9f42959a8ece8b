"""The kernel of a convolution by implicit GEMM (see `implicit_gemm`)."""

from __future__ import annotations

from math import isfinite


from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, convolve_row
from ...kernel.library.grid import (
    fill_columns,
    fill_taps,
    pad_features,
    copy_to_grid,
)
from .implicit_gemm_plan import GridPlan


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
