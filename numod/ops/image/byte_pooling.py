"""Pooling of int8 or uint8 images (N, H, W, C) with channels innermost, as convolutions of integers return them.

Rows of a window are folded into one, along the whole line; then its columns. Means are those of the values that the
integers stand for, as integers of the same scale.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from ... import dtypes
from ...device import target, threads
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int32, int64, parallel_range, uintp
from ...kernel.library.requantize import quotient_by_floats, quotient_by_integers
from ...kernel.library.windows import window_bounds, window_size
from ...kernel.specialize import specialized
from ..op import Op, Plan
from .pooling import size_error


MOST_ELEMENTS = 1 << 23  # of an image, whose sum has 32 bits


def max_kernel(
    x, out, folded, images, height, width, channels, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w,
    pad_h, pad_w, step_h, step_w, counts_borders, divisor, zero, low, high, workers,
    *, REGULAR,
):  # fmt: skip
    """out (N, OH, OW, C) = the maximum of each window. Scratch for each worker: two lines with borders.

    REGULAR: windows of one size, whose maxima are computed at every column, along the whole line: the channels may be
    few.
    """
    lines, line = images * out_height, width * channels
    span = max(pad_w + width, (out_width - 1) * stride_w + (kernel_w - 1) * step_w + 1) * channels
    reach = ((out_width - 1) * stride_w + 1) * channels
    for worker in parallel_range(workers):
        start = int64(worker) * 2 * span
        at, slid = start + pad_w * channels, start + span
        for k in range(span):
            folded[uintp(start + k)] = low
        for number in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            image, oh = number // out_height, number % out_height
            first, last = window_bounds(oh, height, out_height, stride_h, pad_h, step_h, kernel_h)
            if first < last:
                for k in range(line):
                    folded[uintp(at + k)] = x[uintp((image * height + first) * line + k)]
            else:  # all rows of a dilated window are in the padding
                for k in range(line):
                    folded[uintp(at + k)] = low
            for h in range(first + step_h, last, step_h):
                for k in range(line):
                    folded[uintp(at + k)] = max(folded[uintp(at + k)], x[uintp((image * height + h) * line + k)])
            if REGULAR:
                for k in range(reach):
                    folded[uintp(slid + k)] = folded[uintp(start + k)]
                for w in range(1, kernel_w):
                    source = start + w * step_w * channels
                    for k in range(reach):
                        folded[uintp(slid + k)] = max(folded[uintp(slid + k)], folded[uintp(source + k)])
                for ow in range(out_width):
                    target_at, source = (number * out_width + ow) * channels, slid + ow * stride_w * channels
                    for c in range(channels):
                        out[uintp(target_at + c)] = folded[uintp(source + c)]
            else:
                for ow in range(out_width):
                    begin, end = window_bounds(ow, width, out_width, stride_w, pad_w, step_w, kernel_w)
                    target_at = (number * out_width + ow) * channels
                    for c in range(channels):
                        best = folded[uintp(at + begin * channels + c)]
                        for w in range(begin + step_w, end, step_w):
                            best = max(best, folded[uintp(at + w * channels + c)])
                        out[uintp(target_at + c)] = best


def mean_kernel(
    x, out, folded, images, height, width, channels, out_height, out_width, kernel_h, kernel_w, stride_h, stride_w,
    pad_h, pad_w, step_h, step_w, counts_borders, divisor, zero, low, high, workers,
    *, rounded,
):  # fmt: skip
    """out (N, OH, OW, C) = the mean of each window, of values whose zero is `zero`. Scratch: as in `max_kernel`."""
    lines, line = images * out_height, width * channels
    for worker in parallel_range(workers):
        at = int64(worker) * line
        for number in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            image, oh = number // out_height, number % out_height
            first, last = window_bounds(oh, height, out_height, stride_h, pad_h, 1, kernel_h)
            tall = window_size(oh, height, stride_h, pad_h, kernel_h, last - first, counts_borders)
            for k in range(line):
                folded[uintp(at + k)] = -int32(zero) * int32(last - first)
            for h in range(first, last):
                for k in range(line):
                    folded[uintp(at + k)] += int32(x[uintp((image * height + h) * line + k)])
            for ow in range(out_width):
                begin, end = window_bounds(ow, width, out_width, stride_w, pad_w, 1, kernel_w)
                size = tall * window_size(ow, width, stride_w, pad_w, kernel_w, end - begin, counts_borders)
                size = int32(divisor if divisor != 0 else size)
                start, target_at = at + begin * channels, (number * out_width + ow) * channels
                for c in range(channels):
                    total = int32(0)
                    for w in range(end - begin):
                        total += folded[uintp(start + w * channels + c)]
                    out[uintp(target_at + c)] = min(max(rounded(total, size, int32(zero)), int32(low)), int32(high))


def _rounded() -> Callable:
    return quotient_by_floats if target.has_floats() else quotient_by_integers


class BytePool(Op):
    """Pooling of x (N, H, W, C). Attributes are those of `pooling`, for two dimensions; of a mean also the integer that
    stands for zero.
    """

    takes = (
        "x[n h w c]:any; kernel=1..^2 stride=0..^2 padding=0..^2 dilation=1..^2 sizes=0..^2 counts_borders=flag "
        "divisor=0.. zero=int"
    )
    inputs = ("x",)
    attributes = "kernel", "stride", "padding", "dilation", "sizes", "counts_borders", "divisor", "zero"
    differentiable = False

    def __init__(self, name: str, kernel: Callable, folded: np.dtype | None) -> None:
        super().__init__(name)
        self.kernel, self.folded = kernel, folded  # None: the dtype of x

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        dtype = arguments[0].dtype
        if dtype not in (dtypes.int8, dtypes.uint8):
            return f"input 'x' must be of int8 or uint8, got {dtype}"
        low, high = dtypes.RANGES[dtype]
        if not low <= attributes[7] <= high:
            return f"zero must be an integer of {dtype}, got {attributes[7]}"
        if sizes["h"] * sizes["w"] > MOST_ELEMENTS or max(prod(attributes[0]), attributes[6]) >= 1 << 31:
            return f"means of {sizes['h']} x {sizes['w']} elements, windows {attributes[0]} exceed 32-bit sums"
        return size_error((sizes["h"], sizes["w"]), attributes[4], attributes)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (*windows, sizes, counts_borders, divisor, zero) = arguments, attributes
        (images, _, width, channels), folded = x.shape, self.folded or x.storage
        out = layout((images, *sizes, channels), x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        pairs = [number for pair in windows for number in pair]
        numbers = (
            *x.shape, *sizes, *pairs, int(counts_borders), divisor, zero, *dtypes.RANGES[x.dtype],
        )  # fmt: skip
        constants = {"REGULAR": attributes[1][1] > 0} if self.folded is None else {"rounded": _rounded()}
        source = specialized(self.kernel, **constants)
        signature = bind.signature(x, x, folded, numbers=len(numbers) + 1)
        work = out.size // max(sizes[1], 1) * width * attributes[0][0] // 16
        run = bind.launcher(x.device, self.name, source, signature, dtypes.float32, work)
        lines, scratch, (kernel, stride, padding, step) = images * sizes[0], x.device.backend.scratch, windows
        span = max(padding[1] + width, (sizes[1] - 1) * stride[1] + (kernel[1] - 1) * step[1] + 1)

        def launch(*arrays: object) -> None:
            workers = min(threads.get_num_threads(), lines)
            run(*arrays, *scratch(((workers * 2 * span * channels, folded),)), *numbers, workers)

        return Plan(out, launch)


max_pool_bytes = BytePool("max_pool_bytes", max_kernel, None)
average_pool_bytes = BytePool("average_pool_bytes", mean_kernel, np.dtype("int32"))
