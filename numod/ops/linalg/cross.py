"""The cross product of 3-vectors in one pass. Its gradients are cross products, too."""

from __future__ import annotations

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.library.division import quotient
from ...kernel.specialize import specialized
from ..index.indexing import sizes_of_one
from ..op import Op, Plan, single_device
from ..reduce.softmax import split


def cross_kernel(x, y, out, outer, inner):
    """out = x cross y, all (outer, 3, inner) with vectors along the middle dimension."""
    for task in parallel_range(outer * inner):
        index = int64(task)
        first = index + 2 * inner * quotient(index, inner)
        second, third = first + inner, first + 2 * inner
        a, b, c = x[uintp(first)], x[uintp(second)], x[uintp(third)]
        d, e, f = y[uintp(first)], y[uintp(second)], y[uintp(third)]
        out[uintp(first)] = b * f - c * e
        out[uintp(second)] = c * d - a * f
        out[uintp(third)] = a * e - b * d


class Cross(Op):
    """x cross y of dense tensors of equal shape and dtype, along `dim`, whose size is 3."""

    takes = "x[*s]:buifc y[*s]; dim=axis"
    inputs, attributes = ("x", "y"), ("dim",)
    gradients = {
        "x": lambda g, y, dim: cross.apply((y.conj(), g.contiguous()), (dim,)),
        "y": lambda g, x, dim: cross.apply((g.contiguous(), x.conj()), (dim,)),
    }

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        size = sizes["s"][attributes[0]] if sizes["s"] else 1
        return (
            None if size == 3 else f"attribute 'dim' must be a dimension of size 3, got {attributes[0]} of size {size}"
        )

    def prepare(self, arguments: tuple[Layout, Layout], attributes: tuple[int]) -> Plan:
        x, _ = arguments
        out = layout(tuple(x.shape), x.dtype, single_device(self.name, arguments))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        outer, _, inner = split(x.shape, *attributes)
        text = specialized(cross_kernel, **sizes_of_one(x, inner=inner))
        return Plan(
            out,
            bind.launcher(x.device, self.name, text, bind.signature(x, x, x, numbers=2), x.dtype, x.size),
            (outer, inner),
        )


cross = Cross("cross")
