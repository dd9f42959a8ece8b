"""Functions of kernels that convolve planes side by side: a board holds as many planes as a register has lanes, an element of each at every place.

So a tap is a register times a register wherever it leads: strides, dilation and borders cost nothing, and only elements that exist are multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..primitives import turn_block, turn_edge, weigh1, weigh2, weigh3, weigh4
from ..scalar import scalar, shared_scalar


class Planes(NamedTuple):
    """The sizes of a convolution of planes that the gradient of its weight needs."""

    out_w: int
    height: int
    width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    step_h: int
    step_w: int
    out_h: int


@shared_scalar
def fill_reach(reach, base, n, source, kernel, stride, pad, step, back):
    """reach[base:] (n, 4) = for each place of an axis: how many taps lead to elements of the source, the first of them, where it leads, and for how many places it is alike.

    Of the input's gradient (`back`) only each stride-th place is like the one before.
    """
    for i in range(n):
        taps, first, place = 0, 0, 0
        for last in range(kernel):
            k = kernel - 1 - last
            v = i + pad - k * step if back else i * stride - pad + k * step
            if not back or v % stride == 0:
                v = v // stride if back else v
                if 0 <= v < source:
                    taps, first, place = taps + 1, k, v
        (
            reach[uintp(base + 4 * i)],
            reach[uintp(base + 4 * i + 1)],
            reach[uintp(base + 4 * i + 2)],
            reach[uintp(base + 4 * i + 3)],
        ) = taps, first, place, 1
    apart, along = (stride, 1) if back else (1, stride)
    for turn in range(apart, n):
        here = base + 4 * (n - 1 - turn)
        there = here + 4 * apart
        if (
            reach[uintp(here)] == reach[uintp(there)]
            and reach[uintp(here + 1)] == reach[uintp(there + 1)]
            and reach[uintp(here + 2)] + along == reach[uintp(there + 2)]
        ):
            reach[uintp(here + 3)] = reach[uintp(there + 3)] + 1


@scalar
def turn_in(x, base, step, held, n, board, own, lanes):
    """board[own:] (n, lanes) = n elements of each of `held` planes, which lie `step` apart from x[base] on; the last plane stands for those that are missing."""
    if n < lanes:
        for lane in range(lanes):
            for k in range(n):
                board[uintp(own + k * lanes + lane)] = x[uintp(base + min(lane, held - 1) * step + k)]
        return
    for start in range(0, n, lanes):
        k = min(start, n - lanes)  # the last square overlaps the one before
        turn_edge(x, base + k, step, board, own + k * lanes, lanes, held)


@scalar
def turn_weights(weight, channel, held, channels, taps, weights, own, lanes):
    """weights[own:] (taps, lanes) = those of `held` planes, the first of which is of `channel`; after the last channel comes the first one."""
    whole = (taps + lanes - 1) // lanes * lanes
    if channel + held <= channels and (channel + held - 1) * taps + whole <= weight.size:
        for tap in range(0, taps, lanes):  # what is beyond the last tap is not looked at
            turn_edge(weight, channel * taps + tap, taps, weights, own + tap * lanes, lanes, held)
        return
    for lane in range(lanes):
        base = (channel + min(lane, held - 1)) % channels * taps
        for tap in range(taps):
            weights[uintp(own + tap * lanes + lane)] = weight[uintp(base + tap)]


@scalar
def turn_out(board, own, held, n, out, base, step, lanes):
    """n elements of each of `held` planes of out, `step` apart from out[base] on, = board[own:] (n, lanes)."""
    if n < lanes or held < lanes:
        for lane in range(held):
            for k in range(n):
                out[uintp(base + lane * step + k)] = board[uintp(own + k * lanes + lane)]
        return
    for start in range(0, n, lanes):
        k = min(start, n - lanes)
        turn_block(board, own + k * lanes, lanes, out, base + k, step)


@shared_scalar
def weigh_line(
    x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, w_tap, rows, reach, base, n, apart, out, out_at, lanes
):
    """A line of a board: each of its n places the sum over `rows` and the columns that `reach` tells."""
    for phase in range(min(apart, n)):
        column = phase
        while column < n:
            at = base + 4 * column
            taps, alike = reach[uintp(at)], reach[uintp(at + 3)]
            source, weight, target = (
                x_at + reach[uintp(at + 2)] * lanes,
                w_at + reach[uintp(at + 1)] * w_tap,
                out_at + column * lanes,
            )
            if alike >= 4:
                weigh4(
                    x,
                    source,
                    x_row,
                    x_column,
                    x_next,
                    w,
                    weight,
                    w_row,
                    w_column,
                    rows,
                    taps,
                    out,
                    target,
                    apart * lanes,
                    0,
                )
                column += 4 * apart
            elif alike >= 2:
                weigh2(
                    x,
                    source,
                    x_row,
                    x_column,
                    x_next,
                    w,
                    weight,
                    w_row,
                    w_column,
                    rows,
                    taps,
                    out,
                    target,
                    apart * lanes,
                    0,
                )
                column += 2 * apart
            else:
                weigh1(
                    x,
                    source,
                    x_row,
                    x_column,
                    x_next,
                    w,
                    weight,
                    w_row,
                    w_column,
                    rows,
                    taps,
                    out,
                    target,
                    apart * lanes,
                    0,
                )
                column += apart


@scalar
def first_meeting(k, pad, stride, step):
    """The first output for which tap k leads into the input."""
    return max(0, -((k * step - pad) // stride))


@scalar
def end_of_meeting(k, n, out, pad, stride, step):
    """The end of the outputs for which tap k leads into an input of n elements."""
    return max(first_meeting(k, pad, stride, step), min(out, (n - 1 - k * step + pad) // stride + 1))


@shared_scalar
def correlate_lines(g, g_at, x, x_at, first, sums, sums_at, lines, conv: Planes, top, lanes):
    """sums (kernel_h, kernel_w, lanes) += the products of g, output lines from `first` on, and x, input lines from `top` on, both boards."""
    low, high = (
        first_meeting(0, conv.pad_w, conv.stride_w, conv.step_w),
        end_of_meeting(conv.kernel_w - 1, conv.width, conv.out_w, conv.pad_w, conv.stride_w, conv.step_w),
    )  # where all columns of the kernel meet
    for b in range(conv.kernel_h):
        begin = max(first, first_meeting(b, conv.pad_h, conv.stride_h, conv.step_h))
        rows = (
            min(first + lines, end_of_meeting(b, conv.height, conv.out_h, conv.pad_h, conv.stride_h, conv.step_h))
            - begin
        )
        if rows > 0:
            given, source = (
                g_at + (begin - first) * conv.out_w * lanes,
                x_at + ((begin * conv.stride_h - conv.pad_h + b * conv.step_h - top) * conv.width - conv.pad_w) * lanes,
            )
            g_row, x_row, x_column, apart = (
                conv.out_w * lanes,
                conv.stride_h * conv.width * lanes,
                conv.stride_w * lanes,
                conv.step_w * lanes,
            )
            k = 0
            while k < conv.kernel_w:
                at, here, there, taps = (
                    sums_at + (b * conv.kernel_w + k) * lanes,
                    source + low * x_column + k * apart,
                    given + low * lanes,
                    max(0, high - low),
                )
                if conv.kernel_w - k >= 4:
                    weigh4(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 4
                elif conv.kernel_w - k == 3:
                    weigh3(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 3
                else:
                    weigh1(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 1
            for k in range(conv.kernel_w):  # where only some do
                begin_w, end_w = (
                    first_meeting(k, conv.pad_w, conv.stride_w, conv.step_w),
                    end_of_meeting(k, conv.width, conv.out_w, conv.pad_w, conv.stride_w, conv.step_w),
                )
                stop = min(low, end_w) if low < high else end_w
                at = sums_at + (b * conv.kernel_w + k) * lanes
                if begin_w < stop:
                    weigh1(
                        x,
                        source + begin_w * x_column + k * apart,
                        x_row,
                        x_column,
                        apart,
                        g,
                        given + begin_w * lanes,
                        g_row,
                        lanes,
                        rows,
                        stop - begin_w,
                        sums,
                        at,
                        lanes,
                        1,
                    )
                if low < high and high < end_w:
                    weigh1(
                        x,
                        source + high * x_column + k * apart,
                        x_row,
                        x_column,
                        apart,
                        g,
                        given + high * lanes,
                        g_row,
                        lanes,
                        rows,
                        end_w - high,
                        sums,
                        at,
                        lanes,
                        1,
                    )
