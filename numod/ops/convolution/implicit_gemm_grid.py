"""Parts that the kernels of implicit GEMM share: the tables of a grid, and copies of a convolution's input into it."""

from __future__ import annotations

from ...kernel.library.direct import Geometry
from ...kernel.library.grid import copy_to_strided_grid, fill_columns, fill_taps
from ...kernel.specialize import template
from .implicit_gemm_plan import GridPlan


@template
def fill_tables(table, columns, plan: GridPlan, conv: Geometry):
    """Fill the offsets in a grid of x: of each column of the kernel, and of each element of the first patch."""
    fill_columns(
        columns, conv.kernel_w, conv.pad_w, conv.step_w, conv.stride_w, conv.stride_w, plan.low_w, plan.variants,
        plan.apart, plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
    )  # fmt: skip
    fill_taps(
        table, conv.channels, conv, conv.stride_d, conv.stride_h, plan.low_d, plan.low_h, columns, plan.variants, plan
    )


@template
def block_of(task, plan: GridPlan, conv: Geometry):
    """(first output row, group, first image) of a task that computes a block of the outputs."""
    return (
        task % plan.blocks * plan.rows,
        task // plan.blocks % conv.groups,
        task // (plan.blocks * conv.groups) * plan.stack,
    )


@template
def copy_block(
    x, image, group, first, count, grid, grid_at, columns, plan: GridPlan, conv: Geometry, *,
    to_grid=copy_to_strided_grid,
):  # fmt: skip
    """Copy to a grid the input that the block of output rows from `first` on reads: `count` images of one group."""
    to_grid(
        x, (image * conv.groups + group) * conv.channels * conv.depth * conv.height * conv.width,
        conv.groups * conv.channels * conv.depth * conv.height * conv.width, grid, grid_at, count, conv.channels,
        conv.depth, conv.height, conv.width, conv.stride_d, conv.stride_h, conv.stride_w, plan.low_d,
        plan.low_h + first, columns, plan.variants, plan, conv,
    )  # fmt: skip


@template
def copy_channel(x, channel, grid, columns, plan: GridPlan, conv: Geometry, *, to_grid=copy_to_strided_grid):
    """Copy a channel of all images to the one grid that all workers read. There is one group."""
    to_grid(
        x, channel * conv.depth * conv.height * conv.width, conv.channels * conv.depth * conv.height * conv.width, grid,
        channel * conv.stride_d * conv.stride_h * plan.variants * plan.grid_d * plan.grid_h * plan.stack * plan.grid_w,
        conv.images, 1, conv.depth, conv.height, conv.width, conv.stride_d, conv.stride_h, conv.stride_w, plan.low_d,
        plan.low_h, columns, plan.variants, plan, conv,
    )  # fmt: skip
