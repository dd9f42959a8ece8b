"""Device functions of pooling: the elements of a window, and the windows that contain an element."""

from __future__ import annotations

from typing import NamedTuple

from ..language import uintp
from ..scalar import inlined_scalar, scalar, shared_scalar
from .division import quotient


class Pooling(NamedTuple):
    """The sizes of a pooling. `planes` is the product of the dimensions before the pooled ones; missing ones have size
    1.
    """

    planes: int
    depth: int  # of the input, as height and width
    height: int
    width: int
    kernel_d: int
    kernel_h: int
    kernel_w: int
    out_d: int
    out_h: int
    out_w: int
    stride_d: int  # 0: adaptive windows
    stride_h: int
    stride_w: int
    pad_d: int
    pad_h: int
    pad_w: int
    step_d: int  # dilation: how far apart neighbouring elements of a window are
    step_h: int
    step_w: int


class Windows(NamedTuple):
    """The sizes of a pooling along the depth and the height."""

    depth: int
    height: int
    kernel_d: int
    kernel_h: int
    out_d: int
    out_h: int
    stride_d: int
    stride_h: int
    pad_d: int
    pad_h: int
    step_d: int
    step_h: int


@scalar
def window_start(o, n, out, stride, pad, step):
    """The first element of window `o` inside the input. Windows with stride 0 are adaptive."""
    first = o * stride - pad if stride > 0 else quotient(o * n, out)
    return first if first >= 0 else first + quotient(step - 1 - first, step) * step


@scalar
def window_stop(o, n, out, stride, pad, step, kernel):
    """One past the last element of window `o` inside the input."""
    last = o * stride - pad + (kernel - 1) * step + 1 if stride > 0 else quotient((o + 1) * n + out - 1, out)
    return min(last, n)


@inlined_scalar
def window_bounds(o, n, out, stride, pad, step, kernel):
    """The first element of window `o` inside the input, and one past the last."""
    return window_start(o, n, out, stride, pad, step), window_stop(o, n, out, stride, pad, step, kernel)


@scalar
def first_window(k, n, out, stride, pad, step, kernel):
    """The first window that can contain element k."""
    return quotient(max(k + pad - (kernel - 1) * step + stride - 1, 0), stride) if stride > 0 else quotient(k * out, n)


@scalar
def last_window(k, n, out, stride, pad):
    """One past the last window that can contain element k."""
    return min(quotient(k + pad, stride) + 1, out) if stride > 0 else quotient((k + 1) * out + n - 1, n)


@scalar
def window_size(o, n, stride, pad, kernel, inside, counts_borders):
    """The divisor of the mean over a window along one dimension."""
    first = o * stride - pad
    return min(first + kernel, n + pad) - first if counts_borders != 0 and stride > 0 else inside


@shared_scalar
def fill_windows(table, pool: Windows, counts_borders):
    """table (out_h + out_d, 3) = for each window along the height, then the depth: its first element, the number of
    elements inside, and the divisor of a mean.
    """
    for o in range(pool.out_h + pool.out_d):
        if o < pool.out_h:
            at, n, out, kernel = o, pool.height, pool.out_h, pool.kernel_h
            stride, pad, step = pool.stride_h, pool.pad_h, pool.step_h
        else:
            at, n, out, kernel = o - pool.out_h, pool.depth, pool.out_d, pool.kernel_d
            stride, pad, step = pool.stride_d, pool.pad_d, pool.step_d
        first, stop = window_bounds(at, n, out, stride, pad, step, kernel)
        count = max(0, (stop - first + step - 1) // step)
        table[uintp(3 * o)], table[uintp(3 * o + 1)] = first, count
        table[uintp(3 * o + 2)] = window_size(at, n, stride, pad, kernel, count, counts_borders)


@inlined_scalar
def lines_of_worker(worker, workers, pool: Pooling):
    """The first output row of a worker, and one past the last."""
    lines = pool.planes * pool.out_d * pool.out_h
    return worker * lines // workers, (worker + 1) * lines // workers


@inlined_scalar
def line_position(line, pool: Pooling):
    """(oh, od) of an output row, and the offset of its plane in the input."""
    plane = line // (pool.out_h * pool.out_d)
    return line % pool.out_h, line // pool.out_h % pool.out_d, plane * pool.depth * pool.height * pool.width


@scalar
def next_line(oh, od, at, out_h, out_d, plane):
    """The output row after (od, oh), and the offset of its plane. Avoids a division per row."""
    oh += 1
    if oh < out_h:
        return oh, od, at
    return (0, od + 1, at) if od + 1 < out_d else (0, 0, at + plane)
