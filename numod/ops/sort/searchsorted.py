"""Binary search in sorted rows."""

from __future__ import annotations

from ... import dtypes
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan, single_device


def searchsorted_kernel(values, edges, sorter, out, total, m, n, rows, right, sorted_by):
    """out (rows, m) = the number of edges before each of values (rows, m); NaN comes last.

    edges has n elements per row, or n in all if rows is 1.
    """
    for task in parallel_range(total):
        element = int64(task)
        base = (element // m) * n if rows > 1 else int64(0)
        value = values[uintp(element)]
        low = int64(0)
        high = n
        while low < high:
            middle = (low + high) // 2
            edge = edges[uintp(base + (sorter[uintp(base + middle)] if sorted_by != 0 else middle))]
            before = not edge > value if right != 0 else not edge >= value
            low = middle + 1 if before else low
            high = high if before else middle
        out[uintp(element)] = low


class Searchsorted(Op):
    """Insertion points of values among sorted edges of the same dtype.

    `sorted_by`: whether `sorter` has the order of the edges; else it is not read.
    """

    takes = "values[*v]:buif edges[*e] sorter?[*o]~:any; right=flag sorted_by=flag"
    inputs, attributes, differentiable = ("values", "edges", "sorter"), ("right", "sorted_by"), False

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        edges, rows = sizes["e"], sizes["v"][:-1]
        if not edges or (len(edges) > 1 and edges[:-1] != rows):
            return f"edges must have one dimension, or {rows} in front, got {edges}"
        fits = not attributes[1] or (
            sizes.get("o") == edges and arguments[2].dtype is dtypes.int64 and arguments[2].dense
        )
        return None if fits else f"sorter must be dense, of shape {edges} and of int64"

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {2: sizes["e"][-1]} if attributes[1] else {}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (values, edges, _), (right, sorted_by) = arguments, attributes
        out = layout(values.shape, dtypes.int64, single_device(self.name, [values, edges]))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        signature = bind.signature(values, values, "int64", "int64", numbers=6)
        launch = bind.launcher(
            out.device, self.name, specialized(searchsorted_kernel), signature, values.dtype, out.size * 8
        )
        n, m = edges.shape[-1], values.shape[-1] if values.ndim else 1
        return Plan(out, launch, (out.size, m, n, 1 if edges.ndim == 1 else 2, int(right), int(sorted_by)))


searchsorted = Searchsorted("searchsorted")
