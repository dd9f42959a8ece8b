"""Resampling along one dimension: each element of the result is a weighted sum of a few elements of x.

Images are resized one dimension after the other. Dense tensors are seen as (outer, n, inner); index (m, taps) of int64
and weight (m, taps) are the elements and factors of the m sums. The weights have no gradient. The gradient of x is the
transposed map, whose gradient is the map itself.
"""

from __future__ import annotations

import numpy as np

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..index.indexing import columns, sizes_of_one
from ..op import Op, Plan, single_device
from ..reduce.softmax import split

_PARTS = 16  # runs of m that are divided among threads


def resample_kernel(x, index, weight, out, outer, n, inner, m, taps, parts, width, blocks):
    """out (outer, m, inner) = the sums of weight (m, taps) times x (outer, n, inner) at index (m, taps).

    Each task computes one of `parts` runs of m and one of `blocks` runs of inner.
    """
    for task in parallel_range(outer * parts * blocks):
        row, part, first = int64(task) // (parts * blocks), int64(task) // blocks % parts, int64(task) % blocks * width
        last = min(first + width, inner)
        for j in range(part * m // parts, (part + 1) * m // parts):
            target = (row * m + j) * inner
            for tap in range(0, taps, 2):  # two at a time, so that the result is written half as often
                next_tap = min(tap + 1, taps - 1)
                a, b = (
                    (row * n + index[uintp(j * taps + tap)]) * inner,
                    (row * n + index[uintp(j * taps + next_tap)]) * inner,
                )
                weight_a, weight_b = weight[uintp(j * taps + tap)], weight[uintp(j * taps + next_tap)]
                if tap == 0 and taps > 1:
                    for k in range(first, last):
                        out[uintp(target + k)] = weight_a * x[uintp(a + k)] + weight_b * x[uintp(b + k)]
                elif tap == 0:
                    for k in range(first, last):
                        out[uintp(target + k)] = weight_a * x[uintp(a + k)]
                elif next_tap > tap:
                    for k in range(first, last):
                        out[uintp(target + k)] += weight_a * x[uintp(a + k)] + weight_b * x[uintp(b + k)]
                else:
                    for k in range(first, last):
                        out[uintp(target + k)] += weight_a * x[uintp(a + k)]


def resample_last_kernel(x, index, weight, out, outer, n, m, taps):
    """`resample_kernel` for inner = 1."""
    for task in parallel_range(outer):
        row = int64(task)
        for j in range(m):
            total = x.dtype.type(0)
            for tap in range(taps):
                total += weight[uintp(j * taps + tap)] * x[uintp(row * n + index[uintp(j * taps + tap)])]
            out[uintp(row * m + j)] = total


def resample_back_kernel(g, index, weight, out, outer, n, inner, m, taps, width, blocks):
    """out (outer, n, inner) = the gradient of x for g (outer, m, inner).

    Each task computes one of `blocks` runs of `width` columns.
    """
    for task in parallel_range(outer * blocks):
        row, first = int64(task) // blocks, int64(task) % blocks * width
        last = min(first + width, inner)
        for j in range(row * n, (row + 1) * n):
            for k in range(first, last):
                out[uintp(j * inner + k)] = 0
        for j in range(m):
            source = (row * m + j) * inner
            for tap in range(j * taps, (j + 1) * taps):
                target, factor = (row * n + index[uintp(tap)]) * inner, weight[uintp(tap)]
                for k in range(first, last):
                    out[uintp(target + k)] += factor * g[uintp(source + k)]


class Resample(Op):
    """x resampled to `size` elements along `dim`, or if `back`, the gradient of that."""

    takes = "x[*s]:f index[m t]:int64 weight[m t]; dim=axis size=0.. back=flag"
    inputs, attributes = ("x", "index", "weight"), ("dim", "size", "back")
    reusable = True

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        dim, size, back = attributes
        m = (sizes["s"] or (1,))[dim] if back else size
        return (
            None
            if m == sizes["m"] and sizes["s"]
            else f"attribute 'size' must fit {sizes['m']} places, got {size} for x of shape {sizes['s']}"
        )

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        dim, size, back = attributes
        return {1: size if back else sizes["s"][dim]}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, index, weight), (dim, size, back) = arguments, attributes
        out = layout((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype, single_device(self.name, [x, index, weight]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        kernel = resample_back_kernel if back else resample_kernel
        outer, n, inner = split((out if back else x).shape, dim)
        m, taps = index.shape
        on_gpu = x.device.backend.is_gpu
        if inner == 1 and not (on_gpu or back):
            # LLVM unrolls the loop over few taps
            text = specialized(resample_last_kernel, **({"taps": np.int64(taps)} if taps <= 4 else {}))
            signature = bind.signature(x, "int64", x, x, numbers=4)
            return Plan(
                out, bind.launcher(x.device, self.name, text, signature, x.dtype, taps * out.size), (outer, n, m, taps)
            )
        width = inner if not (on_gpu or back) else columns(x, inner)
        numbers = (
            outer,
            n,
            inner,
            m,
            taps,
            *([] if back else [m if on_gpu else min(m, -(-_PARTS // outer))]),
            width,
            -(-inner // width),
        )
        signature = bind.signature(x, "int64", x, x, numbers=len(numbers))
        text = specialized(kernel, **sizes_of_one(x, inner=inner))
        launch = bind.launcher(
            x.device, f"{self.name}{'_back' * back}", text, signature, x.dtype, taps * max(x.size, out.size)
        )
        return Plan(out, launch, numbers)


def _gradient(g: object, layout: Layout, index: object, weight: object, dim: int, back: bool) -> object:
    return resample.apply((g.contiguous(), index, weight), (dim, layout.shape[dim], not back))


resample: Resample = Resample("resample")
resample.gradients = {"x": _gradient}
