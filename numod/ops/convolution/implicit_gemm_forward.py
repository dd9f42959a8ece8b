"""The kernel of a convolution by implicit GEMM (see `implicit_gemm`)."""

from __future__ import annotations

from math import isfinite

from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, convolve_row
from ...kernel.library.grid import pad_features
from .implicit_gemm_grid import block_of, copy_block, copy_channel, fill_tables
from .implicit_gemm_plan import GridPlan


def forward_grid(
    x, weight, out, padded, grid, tile, table, columns, plan: GridPlan, conv: Geometry, *, multiply, TILE_ROWS, LANES
):
    """out = weight (features, taps) @ the im2col matrix, for the images and output rows of one grid at a time."""
    taps = conv.channels * conv.kernel_d * conv.kernel_h * conv.kernel_w
    padded_rows = -(-conv.features // TILE_ROWS) * TILE_ROWS
    out_plane = conv.out_d * conv.out_h * conv.out_w
    fill_tables(table, columns, plan, conv)
    pad_features(weight, padded, conv.features, padded_rows, taps)
    weight_rows = padded if padded.size > 0 else weight
    rows_of_group = padded_rows if padded.size > 0 else conv.features
    if plan.shares > 1:  # all images are on one grid, and features are divided among workers
        for channel in parallel_range(conv.channels):
            copy_channel(x, int64(channel), grid, columns, plan, conv)
    for worker in parallel_range(plan.workers):
        grid_at = int64(worker) * plan.size if plan.shares == 1 else 0
        tile_at = int64(worker) * (tile.size // plan.workers)
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            share = task % plan.shares
            first, group, image = block_of(task // plan.shares, plan, conv)
            count, lines = min(plan.stack, conv.images - image), min(plan.rows, conv.out_h - first)
            if plan.shares == 1:
                copy_block(x, image, group, first, count, grid, grid_at, columns, plan, conv)
            first_row = share * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS
            end_row = min(conv.features, (share + 1) * padded_rows // TILE_ROWS // plan.shares * TILE_ROWS)
            row_count = end_row - first_row
            target = ((image * conv.groups + group) * conv.features + first_row) * out_plane + first * conv.out_w
            multiply(
                weight_rows, (group * rows_of_group + first_row) * taps, taps, row_count, taps, grid, grid_at, table, 0,
                out, target, conv.groups * conv.features * out_plane, out_plane, conv.out_h * conv.out_w, conv.out_w, 1,
                count, conv.out_d, lines, conv.out_w, plan, tile, tile_at, TILE_ROWS, LANES,
            )  # fmt: skip
            low, high = first * conv.out_w, (first + conv.out_d * lines) * conv.out_w  # the elements of a plane
            for plane in range(count * row_count):
                batch, row = image + plane // row_count, group * conv.features + first_row + plane % row_count
                line = (batch * conv.groups * conv.features + row) * out_plane
                if not isfinite(out[uintp(line + low)]):  # an infinite weight affects all elements of a plane
                    for output_line in range((line + low) // conv.out_w, (line + high) // conv.out_w):
                        convolve_row(x, weight, out, output_line, conv)
                EPILOGUE(batch, row, line, low, high)
