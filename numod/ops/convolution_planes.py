"""Depthwise convolution of floats on the CPU, planes side by side: a lane of a vector for each of them (`kernel.library.planes`).

It takes the place of `convolution_grid` where every channel has a kernel of its own: there is no matrix to multiply, and borders, strides and short lines would
cost more than the products.
"""

from __future__ import annotations

from collections.abc import Callable
from math import gcd

import numpy as np

from ..device import Layout, tiles
from ..kernel import build
from .convolution_direct import geometry, launcher
from .finish import Finish

_BOARD = 1 << 14  # elements of a board, about: it stays in the cache that is near
_WORKERS = 8  # as in `convolution_grid`


def weigh_planes(
    x,
    weight,
    out,
    board,
    result,
    weights,
    reach,
    workers,
    blocks,
    rows,
    size,
    result_size,
    back,
    tap_h,
    tap_w,
    lead_h,
    lead_w,
):
    """out = x convolved, or, where `back`, the gradient that leads back. Taps that meet an element are tap_h and tap_w apart, and lead lead_h and lead_w
    further."""
    taps, planes = kernel_h * kernel_w, images * groups
    tasks = (planes + LANES - 1) // LANES * blocks
    apart = stride_w if back else 1
    fill_reach(reach, 0, out_h, height, kernel_h, stride_h, pad_h, step_h, back)
    fill_reach(reach, 4 * out_h, out_w, width, kernel_w, stride_w, pad_w, step_w, back)
    for turn in parallel_range(workers):
        own, own_result, own_weights = (
            int64(turn) * size,
            int64(turn) * result_size,
            int64(turn) * (weights.size // workers),
        )
        for task in range(turn * tasks // workers, (turn + 1) * tasks // workers):
            first, plane = task % blocks * rows, task // blocks * LANES
            held, lines = min(LANES, planes - plane), min(rows, out_h - first)
            turn_weights(weight, plane % groups, held, groups, taps, weights, own_weights, LANES)
            top, bottom = height, 0
            for line in range(4 * first, 4 * (first + lines), 4):
                if reach[uintp(line)] > 0:
                    begin, end = reach[uintp(line + 2)], reach[uintp(line + 2)] + (reach[uintp(line)] - 1) * lead_h
                    top, bottom = min(top, begin, end), max(bottom, begin + 1, end + 1)
            if top < bottom:
                turn_in(
                    x, (plane * height + top) * width, height * width, held, (bottom - top) * width, board, own, LANES
                )
            for line in range(lines):
                met = 4 * (first + line)
                weigh_line(
                    board,
                    own + (reach[uintp(met + 2)] - top) * width * LANES,
                    lead_h * width * LANES,
                    lead_w * LANES,
                    (1 if back else stride_w) * LANES,
                    weights,
                    own_weights + reach[uintp(met + 1)] * kernel_w * LANES,
                    tap_h * kernel_w * LANES,
                    tap_w * LANES,
                    LANES,
                    reach[uintp(met)],
                    reach,
                    4 * out_h,
                    out_w,
                    apart,
                    result,
                    own_result + line * out_w * LANES,
                    LANES,
                )
            turn_out(
                result, own_result, held, lines * out_w, out, (plane * out_h + first) * out_w, out_h * out_w, LANES
            )
            for each in range(plane, plane + held):
                FINISH(each // groups, each % groups, each * out_h * out_w, first * out_w, (first + lines) * out_w)


def correlate_planes(g, x, out, board, given, sums, workers, blocks, rows, size, result_size):
    """out = the weight's gradient: the products of g and the input shifted by each tap."""
    taps, parts = kernel_h * kernel_w, (groups + LANES - 1) // LANES
    for turn in parallel_range(workers):
        own, own_given, mine = int64(turn) * size, int64(turn) * result_size, int64(turn) * (sums.size // workers)
        for part in range(turn * parts // workers, (turn + 1) * parts // workers):
            channel = part * LANES
            held = min(LANES, groups - channel)
            for k in range(taps * LANES):
                sums[uintp(mine + k)] = 0
            for task in range(images * blocks):
                first, plane = task % blocks * rows, task // blocks * groups + channel
                lines = min(rows, out_h - first)
                top, bottom = (
                    max(0, first * stride_h - pad_h),
                    min(height, (first + lines - 1) * stride_h - pad_h + (kernel_h - 1) * step_h + 1),
                )
                if top < bottom:
                    turn_in(
                        x,
                        (plane * height + top) * width,
                        height * width,
                        held,
                        (bottom - top) * width,
                        board,
                        own,
                        LANES,
                    )
                    turn_in(
                        g, (plane * out_h + first) * out_w, out_h * out_w, held, lines * out_w, given, own_given, LANES
                    )
                    correlate_lines(
                        given,
                        own_given,
                        board,
                        own,
                        first,
                        sums,
                        mine,
                        lines,
                        out_w,
                        height,
                        width,
                        kernel_h,
                        kernel_w,
                        stride_h,
                        stride_w,
                        pad_h,
                        pad_w,
                        step_h,
                        step_w,
                        out_h,
                        top,
                        LANES,
                    )
            for lane in range(held):
                for tap in range(taps):
                    out[uintp((channel + lane) * taps + tap)] = sums[uintp(mine + tap * LANES + lane)]


def suits(op: str, x: tuple, weight: tuple, itemsize: int) -> bool:
    """Whether a convolution is one of planes, enough of them to fill a vector."""
    planes = x[1] if op == "convolution_weight" else x[0] * x[1]
    return len(x) == 4 and weight[0] == x[1] and weight[1] == 1 and planes >= tiles.host().lanes(itemsize)


def planes_launcher(
    op: str,
    out: Layout,
    x: tuple,
    weight: tuple,
    result: tuple,
    parameters: tuple,
    work: int,
    finish: Finish | None = None,
) -> Callable:
    """A launch of op's kernel that makes the scratch memory it needs. `parameters` are (stride, padding, dilation, groups)."""
    back, on_weight, lanes = (
        op == "convolution_input",
        op == "convolution_weight",
        tiles.host().lanes(out.storage.itemsize),
    )
    source, target = (result, x) if back else (x, result)
    stride, _, step, _ = parameters
    rows = max(1, min(target[2], _BOARD // lanes // (target[3] + source[3])))
    needed = min(
        source[2],
        (rows + (weight[2] - 1) * step[0]) // stride[0] + 2
        if back
        else (rows - 1) * stride[0] + (weight[2] - 1) * step[0] + 1,
    )
    blocks = -(-target[2] // rows)
    parts = -(-x[1] // lanes) if on_weight else -(-x[0] * x[1] // lanes) * blocks
    workers, size, target_size = min(_WORKERS, parts), needed * source[3] * lanes, rows * target[3] * lanes
    kernel_size = -(-weight[2] * weight[3] // lanes) * lanes * lanes
    storage, index = out.storage, np.dtype("int64")
    scratch = [(workers * size, storage), (workers * target_size, storage), (workers * kernel_size, storage)]
    constants = [workers, blocks, rows, size, target_size]
    if not on_weight:
        scratch.append((4 * (target[2] + target[3]), index))
        taps = [s // gcd(s, d) if back else 1 for s, d in zip(stride, step)]
        constants += [int(back), *taps, *[-(p * d // s) if back else d for p, d, s in zip(taps, step, stride)]]
    kernel = correlate_planes if on_weight else weigh_planes
    arrays = (*[storage.name] * 3, *(each.name for _, each in scratch))
    run = launcher(
        "convolution", kernel, out, arrays, len(constants), work, (("LANES", lanes),), finish, build.FAST_POINTWISE
    )
    constants, scratch, make = (
        (*constants, *geometry(source, weight, target, *parameters)),
        tuple(scratch),
        out.device.backend.scratch,
    )

    def launch(first: object, second: object, result: object, *further: object) -> None:
        run(first, second, result, *make(scratch), *constants, *further)

    return launch
