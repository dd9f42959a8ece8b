"""Depthwise convolution of floats on the CPU, with the planes interleaved: one in each lane of a vector
(`kernel.library.planes`).

Used instead of the implicit GEMM if every channel has its own kernel: there is no matrix product, and padding, strides
and short rows would cost more than the arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd
from typing import NamedTuple

import numpy as np

from ...device import Layout
from ...kernel import build
from ...kernel.language import EPILOGUE, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry
from ...kernel.library.planes import (
    add_weight_gradient,
    fill_tap_table,
    load_transposed,
    store_transposed,
    load_weights_transposed,
    filter_row,
)
from ...kernel.registers import tiles
from ..matmul.epilogue import Epilogue
from .direct import geometry, launcher

_TILE = 1 << 14  # approximate number of elements of a tile: it stays in the second-level cache
_WORKERS = 8  # as in `implicit_gemm`


class PlanePlan(NamedTuple):
    """How a depthwise convolution is cut into tasks."""

    workers: int  # iterations of the parallel loop
    blocks: int  # parts of the output's height
    rows: int  # output rows of a block
    size: int  # elements of a worker's copy of the input
    result_size: int  # elements of a worker's copy of the output


def depthwise_kernel(
    x, weight, out, tile, result_tile, weights, tap_table, plan: PlanePlan, back, tap_h, tap_w, lead_h, lead_w,
    conv: Geometry, *, LANES,
):  # fmt: skip
    """out = the convolution of x or, if `back`, the gradient of the input.

    Taps that are used together are tap_h and tap_w apart, and read elements lead_h and lead_w apart.
    """
    taps, planes = conv.kernel_h * conv.kernel_w, conv.images * conv.groups
    tasks = (planes + LANES - 1) // LANES * plan.blocks
    apart = conv.stride_w if back else 1
    fill_tap_table(tap_table, 0, conv.out_h, conv.height, conv.kernel_h, conv.stride_h, conv.pad_h, conv.step_h, back)
    fill_tap_table(
        tap_table, 4 * conv.out_h, conv.out_w, conv.width, conv.kernel_w, conv.stride_w, conv.pad_w, conv.step_w, back
    )
    for worker in parallel_range(plan.workers):
        tile_at, result_at, weights_at = (
            int64(worker) * plan.size,
            int64(worker) * plan.result_size,
            int64(worker) * (weights.size // plan.workers),
        )
        for task in range(worker * tasks // plan.workers, (worker + 1) * tasks // plan.workers):
            first, plane = task % plan.blocks * plan.rows, task // plan.blocks * LANES
            plane_count, lines = min(LANES, planes - plane), min(plan.rows, conv.out_h - first)
            load_weights_transposed(
                weight, plane % conv.groups, plane_count, conv.groups, taps, weights, weights_at, LANES
            )
            top, bottom = conv.height, 0
            for line in range(4 * first, 4 * (first + lines), 4):
                if tap_table[uintp(line)] > 0:
                    begin, end = (
                        tap_table[uintp(line + 2)],
                        tap_table[uintp(line + 2)] + (tap_table[uintp(line)] - 1) * lead_h,
                    )
                    top, bottom = min(top, begin, end), max(bottom, begin + 1, end + 1)
            if top < bottom:
                load_transposed(
                    x, (plane * conv.height + top) * conv.width, conv.height * conv.width, plane_count,
                    (bottom - top) * conv.width, tile, tile_at, LANES,
                )  # fmt: skip
            for line in range(lines):
                entry = 4 * (first + line)
                filter_row(
                    tile, tile_at + (tap_table[uintp(entry + 2)] - top) * conv.width * LANES,
                    lead_h * conv.width * LANES, lead_w * LANES, (1 if back else conv.stride_w) * LANES, weights,
                    weights_at + tap_table[uintp(entry + 1)] * conv.kernel_w * LANES, tap_h * conv.kernel_w * LANES,
                    tap_w * LANES, LANES, tap_table[uintp(entry)], tap_table, 4 * conv.out_h, conv.out_w, apart,
                    result_tile, result_at + line * conv.out_w * LANES, LANES,
                )  # fmt: skip
            store_transposed(
                result_tile, result_at, plane_count, lines * conv.out_w, out, (plane * conv.out_h + first) * conv.out_w,
                conv.out_h * conv.out_w, LANES,
            )  # fmt: skip
            for output_plane in range(plane, plane + plane_count):
                EPILOGUE(
                    output_plane // conv.groups,
                    output_plane % conv.groups,
                    output_plane * conv.out_h * conv.out_w,
                    first * conv.out_w,
                    (first + lines) * conv.out_w,
                )


def depthwise_weight_kernel(g, x, out, tile, g_tile, sums, plan: PlanePlan, conv: Geometry, *, LANES):
    """out = the weight's gradient: the products of g and the input shifted by each tap."""
    taps, parts = conv.kernel_h * conv.kernel_w, (conv.groups + LANES - 1) // LANES
    for worker in parallel_range(plan.workers):
        tile_at, g_at, sums_at = (
            int64(worker) * plan.size,
            int64(worker) * plan.result_size,
            int64(worker) * (sums.size // plan.workers),
        )
        for part in range(worker * parts // plan.workers, (worker + 1) * parts // plan.workers):
            channel = part * LANES
            plane_count = min(LANES, conv.groups - channel)
            for k in range(taps * LANES):
                sums[uintp(sums_at + k)] = 0
            for task in range(conv.images * plan.blocks):
                first, plane = task % plan.blocks * plan.rows, task // plan.blocks * conv.groups + channel
                lines = min(plan.rows, conv.out_h - first)
                top, bottom = (
                    max(0, first * conv.stride_h - conv.pad_h),
                    min(
                        conv.height,
                        (first + lines - 1) * conv.stride_h - conv.pad_h + (conv.kernel_h - 1) * conv.step_h + 1,
                    ),
                )
                if top < bottom:
                    load_transposed(
                        x, (plane * conv.height + top) * conv.width, conv.height * conv.width, plane_count,
                        (bottom - top) * conv.width, tile, tile_at, LANES,
                    )  # fmt: skip
                    load_transposed(
                        g, (plane * conv.out_h + first) * conv.out_w, conv.out_h * conv.out_w, plane_count,
                        lines * conv.out_w, g_tile, g_at, LANES,
                    )  # fmt: skip
                    add_weight_gradient(
                        g_tile, g_at, tile, tile_at, first, sums, sums_at, lines, conv, top, LANES,
                    )  # fmt: skip
            for lane in range(plane_count):
                for tap in range(taps):
                    out[uintp((channel + lane) * taps + tap)] = sums[uintp(sums_at + tap * LANES + lane)]


def prefers_planes(op: str, x: tuple, weight: tuple, itemsize: int) -> bool:
    """Whether a convolution is depthwise, with enough planes to fill a vector."""
    planes = x[1] if op == "convolution_weight" else x[0] * x[1]
    return len(x) == 4 and weight[0] == x[1] and weight[1] == 1 and planes >= tiles.host().lanes(itemsize)


def planes_launcher(
    op: str,
    out: Layout,
    x: tuple,
    weight: tuple,
    result: tuple,
    attributes: tuple,
    work: int,
    epilogue: Epilogue | None = None,
) -> Callable:
    """A launcher of op's kernel that allocates its scratch memory. `attributes` are (stride, padding, dilation,
    groups).
    """
    backward = op == "convolution_input"
    on_weight = op == "convolution_weight"
    lanes = tiles.host().lanes(out.storage.itemsize)
    source, target = (result, x) if backward else (x, result)
    stride, _, step, _ = attributes
    rows = max(1, min(target[2], _TILE // lanes // (target[3] + source[3])))
    lines = min(
        source[2],
        (rows + (weight[2] - 1) * step[0]) // stride[0] + 2
        if backward
        else (rows - 1) * stride[0] + (weight[2] - 1) * step[0] + 1,
    )
    blocks = -(-target[2] // rows)
    tasks = -(-x[1] // lanes) if on_weight else -(-x[0] * x[1] // lanes) * blocks
    workers, size, target_size = min(_WORKERS, tasks), lines * source[3] * lanes, rows * target[3] * lanes
    kernel_size = -(-weight[2] * weight[3] // lanes) * lanes * lanes
    storage, index = out.storage, np.dtype("int64")
    scratch = [(workers * size, storage), (workers * target_size, storage), (workers * kernel_size, storage)]
    constants = [*PlanePlan(workers, blocks, rows, size, target_size)]
    if not on_weight:
        scratch.append((4 * (target[2] + target[3]), index))
        taps = [s // gcd(s, d) if backward else 1 for s, d in zip(stride, step)]
        constants += [int(backward), *taps, *[-(p * d // s) if backward else d for p, d, s in zip(taps, step, stride)]]
    kernel = depthwise_weight_kernel if on_weight else depthwise_kernel
    arrays = (*[storage.name] * 3, *(kind.name for _, kind in scratch))
    run = launcher("convolution", kernel, out, arrays, work, epilogue, build.FAST_POINTWISE, LANES=lanes)
    constants = (*constants, *geometry(source, weight, target, *attributes))
    scratch = tuple(scratch)
    make = out.device.backend.scratch

    def launch(first: object, second: object, result: object, *further: object) -> None:
        run(first, second, result, *make(scratch), *constants, *further)

    return launch
