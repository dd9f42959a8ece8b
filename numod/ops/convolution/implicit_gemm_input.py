"""The kernel of a convolution's input gradient by implicit GEMM (see `implicit_gemm`)."""

from __future__ import annotations

from math import isfinite

from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.direct import Geometry, convolve_plane_back
from ...kernel.library.grid import copy_to_grid, fill_columns, pack_taps
from .implicit_gemm_grid import block_of
from .implicit_gemm_plan import GridPlan


def input_grid(
    g, weight, out, panels, grid, tile, table, columns, order, plan: GridPlan, conv: Geometry, *, multiply, TILE_ROWS,
    LANES, PACKED,
):  # fmt: skip
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
                weight, (group * conv.features * conv.channels + first_row) * taps, conv.features, conv.channels, taps,
                panels, (group * padded_rows + first_row) * conv.features * taps,
                min(PACKED * TILE_ROWS, padded_rows - first_row), TILE_ROWS, conv.channels - first_row, order, phases,
            )  # fmt: skip
    if plan.shares > 1:  # all images are on one grid, and channels are divided among workers
        for feature in parallel_range(conv.features):
            output_feature = int64(feature)
            copy_to_grid(
                g, output_feature * conv.out_d * conv.out_h * conv.out_w,
                conv.features * conv.out_d * conv.out_h * conv.out_w, grid, output_feature * plan.variants * plane,
                conv.images, 1, conv.out_d, conv.out_h, conv.out_w, 1, 1, 1, plan.low_d, plan.low_h, columns,
                plan.variants, plan, conv,
            )  # fmt: skip
    for worker in parallel_range(plan.workers):
        grid_at, tile_at = (
            int64(worker) * plan.size if plan.shares == 1 else 0,
            int64(worker) * (tile.size // plan.workers),
        )
        for task in range(worker * plan.tasks // plan.workers, (worker + 1) * plan.tasks // plan.workers):
            share = task % plan.shares
            first, group, image = block_of(task // plan.shares, plan, conv)
            count = min(plan.stack, conv.images - image)
            if plan.shares == 1:
                copy_to_grid(
                    g, (image * conv.groups + group) * conv.features * conv.out_d * conv.out_h * conv.out_w,
                    conv.groups * conv.features * conv.out_d * conv.out_h * conv.out_w, grid, grid_at, count,
                    conv.features, conv.out_d, conv.out_h, conv.out_w, 1, 1, 1, plan.low_d, plan.low_h + first, columns,
                    plan.variants, plan, conv,
                )  # fmt: skip
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
                        weight, row * taps, conv.features, conv.channels, taps, panels, panel, TILE_ROWS, TILE_ROWS,
                        conv.channels - row, order, phases,
                    )  # fmt: skip
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
                            panels, panel + TILE_ROWS * conv.features * begin, conv.features * taps,
                            min(packed, first_row + row_count - row), conv.features * tap_count, grid, grid_at, table,
                            conv.features * begin, out, target,
                            conv.groups * conv.channels * conv.depth * conv.height * conv.width,
                            conv.depth * conv.height * conv.width, conv.stride_d * conv.height * conv.width,
                            conv.stride_h * conv.width, conv.stride_w, count, slabs, lines, phase_width, plan, tile,
                            tile_at, TILE_ROWS, LANES,
                        )  # fmt: skip
    # zeros of the grid's borders times an infinite weight are NaN: such planes are computed by the definition. All
    # phases are checked, since they have different taps
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
