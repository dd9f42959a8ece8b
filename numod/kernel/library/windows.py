"""Windows of pooling: which elements one holds, and which windows hold an element. What the parameters mean is told in `ops.pooling`."""

from __future__ import annotations

from ..scalar import scalar, shared_scalar


@scalar
def window_start(o, n, out, stride, pad, step):
    """The first element of window `o` inside the input; windows with stride 0 divide the input evenly."""
    first = o * stride - pad if stride > 0 else quotient(o * n, out)
    return first if first >= 0 else first + quotient(step - 1 - first, step) * step


@scalar
def window_stop(o, n, out, stride, pad, step, kernel):
    """One past the last element of window `o` inside the input."""
    last = o * stride - pad + (kernel - 1) * step + 1 if stride > 0 else quotient((o + 1) * n + out - 1, out)
    return min(last, n)


@scalar
def first_window(k, n, out, stride, pad, step, kernel):
    """The first window that can hold element k."""
    return quotient(max(k + pad - (kernel - 1) * step + stride - 1, 0), stride) if stride > 0 else quotient(k * out, n)


@scalar
def last_window(k, n, out, stride, pad):
    """One past the last window that can hold element k."""
    return min(quotient(k + pad, stride) + 1, out) if stride > 0 else quotient((k + 1) * out + n - 1, n)


@scalar
def window_size(o, n, stride, pad, kernel, inside, counts_borders):
    """Elements that a mean over the window divides by."""
    first = o * stride - pad
    return min(first + kernel, n + pad) - first if counts_borders != 0 and stride > 0 else inside


@shared_scalar
def fill_windows(
    table,
    depth,
    height,
    kernel_d,
    kernel_h,
    out_d,
    out_h,
    stride_d,
    stride_h,
    pad_d,
    pad_h,
    step_d,
    step_h,
    counts_borders,
):
    """table (out_h + out_d, 3) = of each window along the height, then the depth: its first element, how many are inside, and what a mean divides by."""
    for o in range(out_h + out_d):
        if o < out_h:
            at, n, out, stride, pad, step, kernel = o, height, out_h, stride_h, pad_h, step_h, kernel_h
        else:
            at, n, out, stride, pad, step, kernel = o - out_h, depth, out_d, stride_d, pad_d, step_d, kernel_d
        first = window_start(at, n, out, stride, pad, step)
        count = max(0, (window_stop(at, n, out, stride, pad, step, kernel) - first + step - 1) // step)
        table[uintp(3 * o)], table[uintp(3 * o + 1)] = first, count
        table[uintp(3 * o + 2)] = window_size(at, n, stride, pad, kernel, count, counts_borders)


@scalar
def next_line(oh, od, at, out_h, out_d, plane):
    """The output line after (od, oh), and where its plane begins: divisions would take longer than the line."""
    oh += 1
    if oh < out_h:
        return oh, od, at
    return (0, od + 1, at) if od + 1 < out_d else (0, 0, at + plane)
