"""Device functions of the depthwise convolution: a tile buffer holds as many planes as a register has lanes,
interleaved.

A tap is one register times one register for any stride, dilation or padding, and only elements inside the input are
multiplied.
"""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..registers.primitives.images import depthwise_fma1, depthwise_fma2, depthwise_fma3, depthwise_fma4
from ..registers.primitives.tiles import transpose_block, transpose_edge
from ..scalar import scalar, shared_scalar


class Planes(NamedTuple):
    """The sizes of a depthwise convolution that the gradient of its weight needs."""

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
def fill_tap_table(tap_table, base, n, source, kernel, stride, pad, step, back):
    """tap_table[base:] (n, 4) = for each output position along an axis: the number of taps inside the source, the
    first of them, the position that it reads, and how many following outputs have the same taps.

    For the input's gradient (`back`), an output has the taps of the one `stride` positions before it.
    """
    for i in range(n):
        taps, first, read_at = 0, 0, 0
        for last in range(kernel):
            k = kernel - 1 - last
            v = i + pad - k * step if back else i * stride - pad + k * step
            if not back or v % stride == 0:
                v = v // stride if back else v
                if 0 <= v < source:
                    taps, first, read_at = taps + 1, k, v
        (
            tap_table[uintp(base + 4 * i)],
            tap_table[uintp(base + 4 * i + 1)],
            tap_table[uintp(base + 4 * i + 2)],
            tap_table[uintp(base + 4 * i + 3)],
        ) = taps, first, read_at, 1
    apart, along = (stride, 1) if back else (1, stride)
    for distance in range(apart, n):
        entry = base + 4 * (n - 1 - distance)
        next_entry = entry + 4 * apart
        if (
            tap_table[uintp(entry)] == tap_table[uintp(next_entry)]
            and tap_table[uintp(entry + 1)] == tap_table[uintp(next_entry + 1)]
            and tap_table[uintp(entry + 2)] + along == tap_table[uintp(next_entry + 2)]
        ):
            tap_table[uintp(entry + 3)] = tap_table[uintp(next_entry + 3)] + 1


@scalar
def load_transposed(x, base, step, plane_count, n, tile, tile_at, lanes):
    """tile[tile_at:] (n, lanes) = n elements of each of `plane_count` planes, which begin `step` apart from x[base]
    on. Missing planes repeat the last one.
    """
    if n < lanes:
        for lane in range(lanes):
            for k in range(n):
                tile[uintp(tile_at + k * lanes + lane)] = x[uintp(base + min(lane, plane_count - 1) * step + k)]
        return
    for start in range(0, n, lanes):
        k = min(start, n - lanes)  # the last square overlaps the one before
        transpose_edge(x, base + k, step, tile, tile_at + k * lanes, lanes, plane_count)


@scalar
def load_weights_transposed(weight, channel, plane_count, channels, taps, weights, weights_at, lanes):
    """weights[weights_at:] (taps, lanes) = the weights of `plane_count` planes, from `channel` on.

    Channels wrap around.
    """
    whole = (taps + lanes - 1) // lanes * lanes
    if channel + plane_count <= channels and (channel + plane_count - 1) * taps + whole <= weight.size:
        for tap in range(0, taps, lanes):  # lanes beyond the last tap are not used
            transpose_edge(weight, channel * taps + tap, taps, weights, weights_at + tap * lanes, lanes, plane_count)
        return
    for lane in range(lanes):
        base = (channel + min(lane, plane_count - 1)) % channels * taps
        for tap in range(taps):
            weights[uintp(weights_at + tap * lanes + lane)] = weight[uintp(base + tap)]


@scalar
def store_transposed(tile, tile_at, plane_count, n, out, base, step, lanes):
    """Store tile[tile_at:] (n, lanes) as n elements of each of `plane_count` planes, which begin `step` apart from
    out[base] on.
    """
    if n < lanes or plane_count < lanes:
        for lane in range(plane_count):
            for k in range(n):
                out[uintp(base + lane * step + k)] = tile[uintp(tile_at + k * lanes + lane)]
        return
    for start in range(0, n, lanes):
        k = min(start, n - lanes)
        transpose_block(tile, tile_at + k * lanes, lanes, out, base + k, step)


@shared_scalar
def filter_row(
    x, x_at, x_row, x_column, x_next, w, w_at, w_row, w_column, w_tap, rows, tap_table, base, n, apart, out, out_at,
    lanes,
):  # fmt: skip
    """Filter one row of a tile buffer: each of n outputs is the sum over `rows` and over the columns in the tap
    table. Outputs with the same columns are `apart` from each other.
    """
    for phase in range(min(apart, n)):
        column = phase
        while column < n:
            entry = base + 4 * column
            taps, run = tap_table[uintp(entry)], tap_table[uintp(entry + 3)]
            source, weight, target = (
                x_at + tap_table[uintp(entry + 2)] * lanes,
                w_at + tap_table[uintp(entry + 1)] * w_tap,
                out_at + column * lanes,
            )
            if run >= 4:
                depthwise_fma4(
                    x, source, x_row, x_column, x_next, w, weight, w_row, w_column, rows, taps, out, target,
                    apart * lanes, 0,
                )  # fmt: skip
                column += 4 * apart
            elif run >= 2:
                depthwise_fma2(
                    x, source, x_row, x_column, x_next, w, weight, w_row, w_column, rows, taps, out, target,
                    apart * lanes, 0,
                )  # fmt: skip
                column += 2 * apart
            else:
                depthwise_fma1(
                    x, source, x_row, x_column, x_next, w, weight, w_row, w_column, rows, taps, out, target,
                    apart * lanes, 0,
                )  # fmt: skip
                column += apart


@scalar
def first_output(k, pad, stride, step):
    """The first output for which tap k is inside the input."""
    return max(0, -((k * step - pad) // stride))


@scalar
def end_of_outputs(k, n, out, pad, stride, step):
    """One past the last output for which tap k is inside an input of n elements."""
    return max(first_output(k, pad, stride, step), min(out, (n - 1 - k * step + pad) // stride + 1))


@shared_scalar
def add_weight_gradient(g, g_at, x, x_at, first, sums, sums_at, lines, conv: Planes, top, lanes):
    """sums (kernel_h, kernel_w, lanes) += products of g, output rows from `first` on, and x, input rows from `top`
    on. Both are tile buffers.
    """
    # outputs for which all columns of the kernel are inside the input
    low, high = (
        first_output(0, conv.pad_w, conv.stride_w, conv.step_w),
        end_of_outputs(conv.kernel_w - 1, conv.width, conv.out_w, conv.pad_w, conv.stride_w, conv.step_w),
    )
    for b in range(conv.kernel_h):
        begin = max(first, first_output(b, conv.pad_h, conv.stride_h, conv.step_h))
        rows = (
            min(first + lines, end_of_outputs(b, conv.height, conv.out_h, conv.pad_h, conv.stride_h, conv.step_h))
            - begin
        )
        if rows > 0:
            g_begin, x_begin = (
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
                sum_at, x_here, g_here, taps = (
                    sums_at + (b * conv.kernel_w + k) * lanes,
                    x_begin + low * x_column + k * apart,
                    g_begin + low * lanes,
                    max(0, high - low),
                )
                if conv.kernel_w - k >= 4:
                    depthwise_fma4(
                        x, x_here, x_row, x_column, apart, g, g_here, g_row, lanes, rows, taps, sums, sum_at, lanes, 1
                    )
                    k += 4
                elif conv.kernel_w - k == 3:
                    depthwise_fma3(
                        x, x_here, x_row, x_column, apart, g, g_here, g_row, lanes, rows, taps, sums, sum_at, lanes, 1
                    )
                    k += 3
                else:
                    depthwise_fma1(
                        x, x_here, x_row, x_column, apart, g, g_here, g_row, lanes, rows, taps, sums, sum_at, lanes, 1
                    )
                    k += 1
            for k in range(conv.kernel_w):  # outputs for which only some columns are inside
                begin_w, end_w = (
                    first_output(k, conv.pad_w, conv.stride_w, conv.step_w),
                    end_of_outputs(k, conv.width, conv.out_w, conv.pad_w, conv.stride_w, conv.step_w),
                )
                stop = min(low, end_w) if low < high else end_w
                sum_at = sums_at + (b * conv.kernel_w + k) * lanes
                if begin_w < stop:
                    depthwise_fma1(
                        x, x_begin + begin_w * x_column + k * apart, x_row, x_column, apart, g,
                        g_begin + begin_w * lanes, g_row, lanes, rows, stop - begin_w, sums, sum_at, lanes, 1,
                    )  # fmt: skip
                if low < high and high < end_w:
                    depthwise_fma1(
                        x, x_begin + high * x_column + k * apart, x_row, x_column, apart, g, g_begin + high * lanes,
                        g_row, lanes, rows, end_w - high, sums, sum_at, lanes, 1,
                    )  # fmt: skip
