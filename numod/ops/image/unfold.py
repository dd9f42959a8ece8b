"""Patches of images: `unfold` (im2col) copies each patch to a column, `fold` (col2im) adds columns to their patches.

Each is the other's gradient. Tensors are dense: images (planes, h, w) and columns (planes, kernel height, kernel width,
vertical patches, horizontal patches).
"""

from __future__ import annotations

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..index.indexing import sizes_of_one
from ..op import Op, Plan


def unfold_kernel(x, out, rows, h, w, k0, k1, n0, n1, d0, d1, p0, p1, s0, s1, width):
    """out (planes, k0, k1, n0, n1) = patches of x (planes, h, w), with zeros outside. A task computes `width`
    neighbours in one of `rows` rows of out.
    """
    for task in parallel_range(rows * (n1 // width)):
        base = int64(task) * width
        start, line, tap = base % n1, base // n1 % n0, base // (n1 * n0)
        row, before = line * s0 + tap // k1 % k0 * d0 - p0, p1 - tap % k1 * d1
        source = (tap // (k1 * k0) * h + row) * w - before
        first = min(max(-(-before // s1), start), start + width)
        last = min(max((w - 1 + before) // s1 + 1, first), start + width) if (row >= 0) & (row < h) else first
        for q in range(start, first):
            out[uintp(base + q - start)] = 0
        for q in range(first, last):
            out[uintp(base + q - start)] = x[uintp(source + q * s1)]
        for q in range(last, start + width):
            out[uintp(base + q - start)] = 0


def fold_kernel(x, out, rows, h, w, k0, k1, n0, n1, d0, d1, p0, p1, s0, s1, width):
    """out (planes, h, w) = sums of patches x (planes, k0, k1, n0, n1). A task computes `width` neighbours in one of
    `rows` rows of out.
    """
    for task in parallel_range(rows * (w // width)):
        base = int64(task) * width
        start, row, plane = base % w, base // w % h, base // (w * h)
        for column in range(width):
            out[uintp(base + column)] = 0
        for i in range(k0):
            above = row + p0 - i * d0
            line = above // s0
            if (above >= 0) & (line < n0) & (line * s0 == above):
                for j in range(k1):
                    source, before = (((plane * k0 + i) * k1 + j) * n0 + line) * n1, p1 - j * d1
                    for q in range(max(-(-(start + before) // s1), 0), min((start + width - 1 + before) // s1 + 1, n1)):
                        out[uintp(base - start + q * s1 - before)] += x[uintp(source + q)]


class Patches(Op):
    """Images (N, C, h, w) to columns (N, C * taps, patches) or, if `back`, the reverse. Attributes are pairs,
    vertical and horizontal; the caller checks them.
    """

    takes = "x[n c *r]:buifc; sizes=0..^2 kernel=1..^2 counts=0..^2 dilation=1..^2 padding=0..^2 stride=1..^2 back=flag"
    inputs, attributes = ("x",), ("sizes", "kernel", "counts", "dilation", "padding", "stride", "back")
    gradients = {
        "x": lambda g, sizes, kernel, counts, dilation, padding, stride, back:
            patches.apply((g.contiguous(),), (sizes, kernel, counts, dilation, padding, stride, not back)),
    }  # fmt: skip

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        shape, kernel, counts, dilation, padding, stride, back = attributes
        expected = tuple(
            (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(shape, kernel, stride, padding, dilation)
        )
        if counts != expected:
            return f"attribute 'counts' must be {expected}, got {counts}"
        if back and sizes["c"] % (kernel[0] * kernel[1]):
            return f"attribute 'kernel' must divide {sizes['c']} rows, got {kernel}"
        wanted = (counts[0] * counts[1],) if back else shape
        return None if sizes["r"] == wanted else f"x must end with sizes {wanted}, got {sizes['r']}"

    def prepare(self, arguments: tuple[Layout], attributes: tuple) -> Plan:
        (x,), (sizes, kernel, counts, *steps, back) = arguments, attributes
        taps = kernel[0] * kernel[1]
        shape = (
            (x.shape[0], x.shape[1] // taps, *sizes) if back else (x.shape[0], x.shape[1] * taps, counts[0] * counts[1])
        )
        out = layout(shape, x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        line = (sizes if back else counts)[1]
        numbers = (
            out.size // line,
            *sizes,
            *kernel,
            *counts,
            *[n for pair in steps for n in pair],
            1 if x.device.backend.is_gpu else line,
        )
        text = specialized(fold_kernel if back else unfold_kernel, **sizes_of_one(x, s1=steps[2][1]))
        signature, work = bind.signature(x, x, numbers=len(numbers)), max(x.size, out.size)
        return Plan(out, bind.launcher(x.device, "fold" if back else "unfold", text, signature, x.dtype, work), numbers)


patches: Patches = Patches("patches")
