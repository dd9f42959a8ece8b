"""Convolutions of float32 and of bytes whose weight is stored without its zeros, for exported programs.

The form is that of `ops.matmul.compressed` with blocks of one element: a row is an output channel, a column a tap of
an input channel of its group. Each element is multiplied by a shifted plane of the input, without scratch memory, or
for bytes, whose channels are innermost, by a shifted line.
"""

from __future__ import annotations

import numpy as np

from ... import dtypes
from ...device import Layout, target, threads
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float32, int32, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry
from ...kernel.library.requantize import scaled_by_float, scaled_by_integers
from ...kernel.specialize import specialized
from ..matmul.compressed import COLUMNS
from ..op import Op, Plan
from .convolution import convolution
from .direct import geometry
from .int8 import byte_convolution


def sparse_planes(x, values, columns, starts, out, stored, conv: Geometry):
    """Each task computes a plane (image, output channel) of the output."""
    rows, taps = conv.groups * conv.features, conv.kernel_d * conv.kernel_h * conv.kernel_w
    size = conv.out_d * conv.out_h * conv.out_w
    for task in parallel_range(conv.images * rows):
        image, row = int64(task) // rows, int64(task) % rows
        channel_at = (image * conv.groups + row // conv.features) * conv.channels
        first, last = max(int64(starts[uintp(row)]), 0), min(int64(starts[uintp(row + 1)]), stored)
        for p in range(size):
            out[uintp(int64(task) * size + p)] = float32(0.0)
        for e in range(first, last):
            value, column = values[uintp(e)], min(int64(columns[uintp(e)]), conv.channels * taps - 1)
            channel, tap = channel_at + column // taps, column % taps
            begin_d = tap // (conv.kernel_h * conv.kernel_w) * conv.step_d - conv.pad_d
            begin_h = tap // conv.kernel_w % conv.kernel_h * conv.step_h - conv.pad_h
            begin_w = tap % conv.kernel_w * conv.step_w - conv.pad_w
            low = (max(-begin_w, 0) + conv.stride_w - 1) // conv.stride_w
            high = min(conv.out_w, (max(conv.width - begin_w, 0) + conv.stride_w - 1) // conv.stride_w)
            for z in range(conv.out_d):
                z_at = z * conv.stride_d + begin_d
                for y in range(conv.out_h):
                    y_at = y * conv.stride_h + begin_h
                    if 0 <= z_at and z_at < conv.depth and 0 <= y_at and y_at < conv.height:
                        x_at = ((channel * conv.depth + z_at) * conv.height + y_at) * conv.width + begin_w
                        out_at = int64(task) * size + (z * conv.out_h + y) * conv.out_w
                        for p in range(low, high):
                            out[uintp(out_at + p)] += value * x[uintp(x_at + p * conv.stride_w)]


class CompressedConvolution(Op):
    """x (n, c, *s) of float32 convolved by a compressed weight (o, c / groups, *kernel) -> (n, o, *t)."""

    differentiable, wide_unsigned = False, True
    takes = (
        "x[n c *s]:float32 values[v]:float32 columns[v]:any starts[r]:int32; "
        "kernel=1..^s stride=1..^s padding=0..^s dilation=1..^s groups=1.."
    )
    inputs = "x", "values", "columns", "starts"
    attributes = "kernel", "stride", "padding", "dilation", "groups"

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        x, _, columns, starts = arguments
        if columns.dtype not in COLUMNS:
            return f"input 'columns' must be of uint8 or uint16, got {columns.dtype}"
        if starts.size < 2 or not x.size:
            return f"expected elements and the starts of rows, got shapes {tuple(x.shape)} and {tuple(starts.shape)}"
        if x.shape[1] % attributes[-1]:
            return f"attribute 'groups' {attributes[-1]} must divide the {x.shape[1]} channels"
        return convolution.check((x, self._weight(arguments, attributes)), (*attributes[1:], None), sizes)

    @staticmethod
    def _weight(arguments: tuple, attributes: tuple) -> Layout:
        x, _, _, starts = arguments
        return layout((starts.size - 1, x.shape[1] // attributes[-1], *attributes[0]), x.dtype, x.device)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, values, columns = arguments[:3]
        shapes = convolution.shapes(x, self._weight(arguments, attributes), (*attributes[1:], None))
        out = layout(shapes[2], x.dtype, x.device)
        if not out.size:
            return Plan(out, lambda *_: None)
        source = specialized(sparse_planes)
        numbers = values.size, *geometry(*shapes, *attributes[1:])
        signature = bind.signature("float32", "float32", columns, "int32", "float32", numbers=len(numbers))
        work = out.size // out.shape[1] * max(values.size, out.shape[1])
        return Plan(
            out,
            bind.launcher(x.device, self.name, source, signature, dtypes.float32, work, build.FAST_REDUCTION),
            numbers,
        )


compressed_convolution = CompressedConvolution("compressed_convolution")


def sparse_lines(
    x, values, columns, starts, offset, multiplier, out, sums, stored, images, height, width, channels, out_height,
    out_width, filters, taps_y, taps_x, step_y, step_x, pad_y, pad_x, gap_y, gap_x, groups, fill, zero, low, high,
    workers,
    *, number, scaled,
):  # fmt: skip
    """As `int8.plain_convolution`, line by line of an output channel. Scratch: sums (OW) for each worker.

    `number`: the dtype of indices along a line.
    """
    depth, lines, step = number(channels // groups), images * out_height, number(step_x * channels)
    columns_out, wide, most = number(out_width), number(width), number(taps_y * taps_x * depth - 1)
    for worker in parallel_range(workers):
        sums_at = number(int64(worker) * out_width)
        for line in range(int64(worker) * lines // workers, (int64(worker) + 1) * lines // workers):
            top, image_at = number(line % out_height * step_y - pad_y), line // out_height * height
            for f in range(filters):
                first, last = max(int64(starts[uintp(f)]), 0), min(int64(starts[uintp(f + 1)]), stored)
                channel = f // (filters // groups) * depth
                for p in range(columns_out):
                    sums[uintp(number(sums_at + p))] = offset[uintp(f)]
                # the place of an element among the taps follows from that of the last one, without a division
                y, tap_x, c, before = top, number(0), number(0), number(0)
                for e in range(number(first), number(last)):
                    value, column = int32(values[uintp(e)]), min(number(columns[uintp(e)]), most)
                    if column < before:  # rows of a file may be unordered
                        y, tap_x, c, before = top, number(0), number(0), number(0)
                    c, before = number(c + number(column - before)), column
                    while c >= depth:
                        c, tap_x = number(c - depth), number(tap_x + 1)
                        if tap_x == taps_x:
                            y, tap_x = number(y + gap_y), number(0)
                    begin, end, left = number(0), number(0), number(number(tap_x * gap_x) - pad_x)
                    if number(0) <= y and y < height:
                        end, x_at = columns_out, left
                        while begin < end and x_at < number(0):
                            begin, x_at = number(begin + 1), number(x_at + step_x)
                        while end > begin and number(left + number(number(end - 1) * step_x)) >= wide:
                            end = number(end - 1)
                        row = number(number(image_at + y) * wide)
                        at = number(number(number(row + x_at) * channels) + number(channel + c))
                        for p in range(begin, end):
                            sums[uintp(number(sums_at + p))] += value * int32(x[uintp(at)])
                            at = number(at + step)
                    outside = int32(value * int32(fill))
                    for p in range(begin):
                        sums[uintp(number(sums_at + p))] += outside
                    for p in range(end, columns_out):
                        sums[uintp(number(sums_at + p))] += outside
                out_at = number(line * out_width * filters + f)
                for p in range(columns_out):
                    total = sums[uintp(number(sums_at + p))]
                    whole = scaled(total, multiplier[uintp(f)], low - zero, high - zero)
                    out[uintp(number(out_at + number(p * filters)))] = whole + int32(zero)


class CompressedByteConvolution(Op):
    """As `byte_convolution`, for compressed filters (O, KH, KW, C / groups)."""

    differentiable, wide_unsigned = False, True
    takes = (
        "x[n h w c]:any values[v]:int8 columns[v]:any starts[r]:int32 offset[o]:int32 multiplier[o]:float32; "
        "kernel=1..^2 stride=1..^2 padding=0..^2 dilation=1..^2 groups=1.. fill=int zero=int low=int high=int"
    )
    inputs = "x", "values", "columns", "starts", "offset", "multiplier"
    attributes = "kernel", "stride", "padding", "dilation", "groups", "fill", "zero", "low", "high"

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        x, columns, groups = arguments[0], arguments[2], attributes[4]
        if columns.dtype not in COLUMNS:
            return f"input 'columns' must be of uint8 or uint16, got {columns.dtype}"
        if sizes["o"] != sizes["r"] - 1 or not sizes["o"] or not sizes["c"] or sizes["c"] % groups:
            return f"{sizes['r']} starts and {groups} groups do not fit {sizes['o']} offsets and images {x.shape}"
        dense = x, self._weight(arguments, attributes), *arguments[4:]
        return byte_convolution.check(dense, attributes[1:], {**sizes, "d": sizes["c"] // groups})

    @staticmethod
    def _weight(arguments: tuple, attributes: tuple) -> Layout:
        x, offset = arguments[0], arguments[4]
        return layout((offset.size, *attributes[0], x.shape[3] // attributes[4]), dtypes.int8, x.device)

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, values, columns, _, *rows = arguments
        out, sizes = byte_convolution.shapes((x, self._weight(arguments, attributes), *rows), attributes[1:])
        if not out.size:
            return Plan(out, lambda *_: None)
        constants = {
            "scaled": scaled_by_float if target.has_floats() else scaled_by_integers,
            "number": np.dtype("int64" if target.has_vectors() else "int32"),
        }
        types = x, "int8", columns, "int32", "int32", "float32", x, "int32"
        signature, work = bind.signature(*types, numbers=len(sizes) + 2), out.size // out.shape[3] * values.size
        run = bind.launcher(
            x.device, self.name, specialized(sparse_lines, **constants), signature, dtypes.float32, work
        )
        scratch, lines = x.device.backend.scratch, out.shape[0] * out.shape[1]

        def launch(*arrays: object) -> None:
            workers = min(threads.get_num_threads(), lines)
            run(*arrays, *scratch(((workers * out.shape[2], np.dtype("int32")),)), values.size, *sizes, workers)

        return Plan(out, launch)


compressed_byte_convolution = CompressedByteConvolution("compressed_byte_convolution")
