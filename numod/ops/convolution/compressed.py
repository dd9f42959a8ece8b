"""Convolutions of float32 whose weight is stored without its zeros, for exported programs.

The form is that of `ops.matmul.compressed` with blocks of one element: a row is an output channel, a column a tap of
an input channel of its group. Each element is multiplied by a shifted plane of the input, without scratch memory.
"""

from __future__ import annotations

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, build
from ...kernel.language import float32, int64, parallel_range, uintp
from ...kernel.library.direct import Geometry
from ...kernel.specialize import specialized
from ..matmul.compressed import COLUMNS
from ..op import Op, Plan
from .convolution import convolution
from .direct import geometry


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
