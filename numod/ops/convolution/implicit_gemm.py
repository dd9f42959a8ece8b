"""Convolution of floats on the CPU as implicit GEMM by register tiles. Shapes are those of `convolution`;
`kernel.library.grid` explains the grid.

A block of output rows reads its im2col matrix from a grid that fits the second-level cache. If zeros of the border may
have turned an infinity into a NaN, the result is recomputed by the definition (`kernel.library.direct`).

`implicit_gemm_plan` cuts a convolution into tasks; `implicit_gemm_forward`, `implicit_gemm_input` and
`implicit_gemm_weight` have the kernels. This module launches them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod

import numpy as np

from ...device import Layout, threads
from ...kernel import bind, build, specialize
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.direct import Geometry
from ...kernel.library.grid import copy_to_grid, copy_to_strided_grid
from ...kernel.library.grid_products import multiply_grid, multiply_grid_rows
from ...kernel.registers import tiles
from ..matmul.epilogue import Epilogue
from .direct import geometry, launcher
from .implicit_gemm_forward import forward_grid
from .implicit_gemm_input import input_grid
from .implicit_gemm_plan import UNSPLIT_DEPTH, FEW_ROWS, PACKED_ROWS, WORKERS, plan_grid, round_up
from .implicit_gemm_weight import weight_grid, weight_lines, weight_whole


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


def flipped_launcher(out: Layout, x: tuple, weight: tuple, result: tuple, attributes: tuple, work: int) -> Callable:
    """The input's gradient of a convolution with stride 1 by the forward kernel, so that only one kernel is
    compiled: g is convolved with the flipped weight.
    """
    stride, padding, dilation, groups = attributes
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
    run, resources_for = _grid_kernel("convolution", out, numbers, shape, (stride, borders, dilation, groups), work)

    def launch(g: object, weight: object, result: object) -> None:
        scratch, constants = resources_for(threads.get_num_threads())
        flipped_weight, *others = make((flipped, *scratch))
        flip(weight, flipped_weight, *sizes)
        run(g, flipped_weight, result, *others, *constants)

    return launch


def grid_launcher(
    op: str,
    out: Layout,
    numbers: Geometry,
    weight: tuple,
    attributes: tuple,
    work: int,
    epilogue: Epilogue | None = None,
) -> Callable:
    """A launcher of op's kernel that allocates its scratch memory. `attributes` are (stride, padding, dilation,
    groups).
    """
    run, resources_for = _grid_kernel(op, out, numbers, weight, attributes, work, epilogue)
    make = out.device.backend.scratch

    def launch(first: object, second: object, result: object, *further: object) -> None:
        scratch, constants = resources_for(threads.get_num_threads())
        run(first, second, result, *make(scratch), *constants, *further)

    return launch


def _grid_kernel(
    op: str,
    out: Layout,
    numbers: Geometry,
    weight: tuple,
    attributes: tuple,
    work: int,
    epilogue: Epilogue | None = None,
) -> tuple[Callable, Callable[[int], tuple]]:
    """The launcher of op's kernel, and a function of the number of threads that returns (scratch memory, constants).

    There are as many workers as threads, each with its own scratch memory. Gradients of weights always have the same
    number of workers, so that sums do not depend on the number of threads.
    """
    backward = op == "convolution_input"
    on_weight = op == "convolution_weight"
    storage = out.storage
    index = np.dtype("int64")
    groups = attributes[3]
    channels = weight[1]
    features = weight[0] // attributes[3]
    lanes = tiles.host().lanes(out.storage.itemsize)
    row_by_row = (max(channels, features) if on_weight else channels if backward else features) <= FEW_ROWS
    tile_rows, taps = 1 if row_by_row else tiles.host().rows, prod(weight[1:])
    plan, positions = plan_grid(numbers, backward, on_weight, channels if backward else features)
    uses_one_grid = on_weight and plan.shares > 1
    if uses_one_grid:
        rows = tiles.VECTORS * max(lanes, tile_rows)
        plan = plan._replace(rows=rows, tasks=-(-taps // rows))
    plan = plan._replace(size=plan.size + 2 * tiles.LINE * lanes)
    tile_size, elements = lanes * (tiles.LINE if row_by_row else tile_rows * tiles.VECTORS), features * prod(weight[2:])
    if plan.deep < UNSPLIT_DEPTH:
        row_tiles = -(-(channels if backward else features) // tile_rows)
        tile_size *= row_tiles * (-(-plan.run // (tiles.VECTORS * lanes)) + 1)
    columns = weight[-1] + plan.variants, index
    weight_kernel = weight_lines if row_by_row else weight_whole if uses_one_grid else weight_grid
    kernel = input_grid if backward else weight_kernel if on_weight else forward_grid

    @cache
    def resources_for(threads: int) -> tuple[tuple, tuple]:
        """The scratch memory and the constants of the kernel for this number of threads."""
        workers = min(WORKERS, plan.tasks, WORKERS if on_weight else threads)
        grids = workers if plan.shares == 1 else 1
        grid, tile = (grids * plan.size, storage), (workers * tile_size, storage)
        if backward:
            packed = groups * round_up(channels, tile_rows) if plan.shares == 1 else workers * tile_rows
            scratch = (
                (packed * elements, storage),
                grid,
                tile,
                (elements, index),
                columns,
                (prod(weight[2:]) + prod(attributes[0]) + 1, index),
            )
        elif not on_weight:
            padded = 0 if features % tile_rows == 0 else groups * round_up(features, tile_rows) * taps
            scratch = ((padded, storage), grid, tile, (taps, index), columns)
        elif row_by_row:
            scratch = ((workers * (positions + lanes), storage), grid, (taps, index), columns)
        else:
            sums = (
                workers
                * (plan.rows if uses_one_grid else groups * round_up(taps, tile_rows))
                * round_up(features, lanes)
            )
            transposed = grids * round_up(features, tiles.VECTORS * lanes) * positions
            scratch = ((transposed, storage), (sums, storage), grid, (round_up(taps, tile_rows), index), columns)
        return scratch, (*plan._replace(workers=workers), *numbers)

    values = {
        "multiply": multiply_grid_rows if row_by_row else multiply_grid,
        "to_grid": copy_to_grid if numbers.stride_w <= 2 else copy_to_strided_grid,
        "TILE_ROWS": tile_rows,
        "LANES": lanes,
        "PACKED": PACKED_ROWS,
    }
    arrays = (*[storage.name] * 3, *(kind.name for _, kind in resources_for(1)[0]))
    fastmath = build.FAST_REDUCTION if kernel is weight_lines else build.FAST_POINTWISE
    values = {name: value for name, value in values.items() if specialize.has(kernel, name)}
    return launcher(op, kernel, out, arrays, work, epilogue, fastmath, **values), resources_for
