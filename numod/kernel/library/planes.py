"""Functions of kernels that convolve planes side by side: a board holds as many planes as a register has lanes, an element of each at every place.

So a tap is a register times a register wherever it leads: strides, dilation and borders cost nothing, and only elements that exist are multiplied.
"""

from __future__ import annotations

from ..scalar import scalar, shared_scalar


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
def correlate_lines(
    g, g_at, x, x_at, first, sums, sums_at, lines, out_w, height, width, kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, step_h, step_w, out_h, top, lanes,
):  # fmt: skip
    """sums (kernel_h, kernel_w, lanes) += the products of g, output lines from `first` on, and x, input lines from `top` on, both boards."""
    low, high = (
        first_meeting(0, pad_w, stride_w, step_w),
        end_of_meeting(kernel_w - 1, width, out_w, pad_w, stride_w, step_w),
    )  # where all columns of the kernel meet
    for b in range(kernel_h):
        begin = max(first, first_meeting(b, pad_h, stride_h, step_h))
        rows = min(first + lines, end_of_meeting(b, height, out_h, pad_h, stride_h, step_h)) - begin
        if rows > 0:
            given, source = (
                g_at + (begin - first) * out_w * lanes,
                x_at + ((begin * stride_h - pad_h + b * step_h - top) * width - pad_w) * lanes,
            )
            g_row, x_row, x_column, apart = out_w * lanes, stride_h * width * lanes, stride_w * lanes, step_w * lanes
            k = 0
            while k < kernel_w:
                at, here, there, taps = (
                    sums_at + (b * kernel_w + k) * lanes,
                    source + low * x_column + k * apart,
                    given + low * lanes,
                    max(0, high - low),
                )
                if kernel_w - k >= 4:
                    weigh4(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 4
                elif kernel_w - k == 3:
                    weigh3(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 3
                else:
                    weigh1(x, here, x_row, x_column, apart, g, there, g_row, lanes, rows, taps, sums, at, lanes, 1)
                    k += 1
            for k in range(kernel_w):  # where only some do
                begin_w, end_w = (
                    first_meeting(k, pad_w, stride_w, step_w),
                    end_of_meeting(k, width, out_w, pad_w, stride_w, step_w),
                )
                stop = min(low, end_w) if low < high else end_w
                at = sums_at + (b * kernel_w + k) * lanes
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
