"""Lines resampled: each place of a line of the result is a weighted sum of a few places of x's line.

Image sizes change so, one dimension after the other.

Dense tensors seen as (outer, n, inner); index int64 and weight (m, taps) say what the m places of a result's line are
sums of. The weights are constants: they have no gradient. x's gradient is the same map turned around, and that one's is
the map itself.
"""

from __future__ import annotations

import numpy as np

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..index.indexing import columns, ones
from ..op import Op, Plan, single_device
from ..reduce.softmax import split

_PARTS = 16  # runs of places that threads share


def resample_kernel(x, index, weight, out, outer, n, inner, m, taps, parts, width, blocks):
    """out (outer, m, inner) = the sums of weight (m, taps) times x (outer, n, inner) at index (m, taps); a task has one
    of `parts` runs of m and `blocks` of inner.
    """
    for task in parallel_range(outer * parts * blocks):
        row, part, first = int64(task) // (parts * blocks), int64(task) // blocks % parts, int64(task) % blocks * width
        last = min(first + width, inner)
        for j in range(part * m // parts, (part + 1) * m // parts):
            target = (row * m + j) * inner
            for tap in range(0, taps, 2):  # two at a time, so that the result is written half as often
                again = min(tap + 1, taps - 1)
                a, b = (
                    (row * n + index[uintp(j * taps + tap)]) * inner,
                    (row * n + index[uintp(j * taps + again)]) * inner,
                )
                u, v = weight[uintp(j * taps + tap)], weight[uintp(j * taps + again)]
                if tap == 0 and taps > 1:
                    for k in range(first, last):
                        out[uintp(target + k)] = u * x[uintp(a + k)] + v * x[uintp(b + k)]
                elif tap == 0:
                    for k in range(first, last):
                        out[uintp(target + k)] = u * x[uintp(a + k)]
                elif again > tap:
                    for k in range(first, last):
                        out[uintp(target + k)] += u * x[uintp(a + k)] + v * x[uintp(b + k)]
                else:
                    for k in range(first, last):
                        out[uintp(target + k)] += u * x[uintp(a + k)]


def resample_last_kernel(x, index, weight, out, outer, n, m, taps):
    """The same for inner = 1: out (outer, m) = the sums of weight (m, taps) times x (outer, n) at index (m, taps)."""
    for task in parallel_range(outer):
        row = int64(task)
        for j in range(m):
            total = x.dtype.type(0)
            for tap in range(taps):
                total += weight[uintp(j * taps + tap)] * x[uintp(row * n + index[uintp(j * taps + tap)])]
            out[uintp(row * m + j)] = total


def resample_back_kernel(g, index, weight, out, outer, n, inner, m, taps, width, blocks):
    """out (outer, n, inner) = g (outer, m, inner), each place given back to those it is a sum of; each task has one of
    `blocks` runs of `width` columns.
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
                target, share = (row * n + index[uintp(tap)]) * inner, weight[uintp(tap)]
                for k in range(first, last):
                    out[uintp(target + k)] += share * g[uintp(source + k)]


class Resample(Op):
    """x with `size` places along parameter `dim` in place of those it has, or, where `back`, the gradient of that."""

    takes = "x[*s]:f index[m t]:int64 weight[m t]; dim=axis size=0.. back=flag"
    inputs, parameters = ("x", "index", "weight"), ("dim", "size", "back")
    reusable = True

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        dim, size, back = parameters
        m = (sizes["s"] or (1,))[dim] if back else size
        return (
            None
            if m == sizes["m"] and sizes["s"]
            else f"attribute 'size' must fit {sizes['m']} places, got {size} for x of shape {sizes['s']}"
        )

    def further_limits(self, arguments: tuple, parameters: tuple, sizes: dict) -> dict[int, int]:
        """As `Op.further_limits`."""
        dim, size, back = parameters
        return {1: size if back else sizes["s"][dim]}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x, index, weight), (dim, size, back) = arguments, parameters
        out = layout((*x.shape[:dim], size, *x.shape[dim + 1 :]), x.dtype, single_device(self.name, [x, index, weight]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        kernel, (outer, n, inner), (m, taps) = (
            resample_back_kernel if back else resample_kernel,
            split((out if back else x).shape, dim),
            index.shape,
        )
        flat = x.device.backend.is_gpu
        if inner == 1 and not (flat or back):
            # LLVM unrolls the loop over few taps
            text = specialized(resample_last_kernel, **({"taps": np.int64(taps)} if taps <= 4 else {}))
            signature = bind.signature(x, "int64", x, x, numbers=4)
            return Plan(
                out, bind.launcher(x.device, self.name, text, signature, x.dtype, taps * out.size), (outer, n, m, taps)
            )
        width = inner if not (flat or back) else columns(x, inner)
        numbers = (
            outer,
            n,
            inner,
            m,
            taps,
            *([] if back else [m if flat else min(m, -(-_PARTS // outer))]),
            width,
            -(-inner // width),
        )
        signature, text = (
            bind.signature(x, "int64", x, x, numbers=len(numbers)),
            specialized(kernel, **ones(x, inner=inner)),
        )
        launch = bind.launcher(
            x.device, f"{self.name}{'_back' * back}", text, signature, x.dtype, taps * max(x.size, out.size)
        )
        return Plan(out, launch, numbers)


def _gradient(g: object, layout: Layout, index: object, weight: object, dim: int, back: bool) -> object:
    return resample.apply((g.contiguous(), index, weight), (dim, layout.shape[dim], not back))


resample: Resample = Resample("resample")
resample.gradients = {"x": _gradient}
