"""Elements in reverse order along a dimension. Dense tensors seen as (outer, n, inner)."""

from __future__ import annotations

from math import prod

from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from .op import Op, Plan


def reversed_elements(x, out, outer, n, inner):
    """A GPU thread an element."""
    for place in parallel_range(outer * n * inner):
        row = int64(place) // inner
        out[uintp(place)] = x[uintp((row + n - 1 - 2 * (row % n)) * inner + int64(place) % inner)]


def reversed_rows(x, out, outer, n, inner):
    """Rows of `inner` elements as they are, in reverse order."""
    for task in parallel_range(outer * n):
        row = int64(task)
        source = (row + n - 1 - 2 * (row % n)) * inner
        for k in range(inner):
            out[uintp(row * inner + k)] = x[uintp(source + k)]


def reversed_lines(x, out, outer, n, inner):
    """Neighbouring elements in reverse order: inner is 1."""
    for task in parallel_range(outer):
        base = int64(task) * n
        for k in range(n):
            out[uintp(base + k)] = x[uintp(base + n - 1 - k)]


class Flip(Op):
    """x reversed along parameter `dims`, neighbours in ascending order, which are reversed like one dimension; so is its gradient."""

    inputs, parameters, widens = ("x",), ("dims",), False
    gradients = {"x": lambda g, dims: g.flip(dims)}

    def prepare(self, arguments: tuple[Layout], parameters: tuple) -> Plan:
        (x,), (dims,) = arguments, parameters
        out, sizes = layout(tuple(x.shape), x.dtype, x.device), tuple(map(prod, (x.shape[: dims[0]], x.shape[dims[0] : dims[-1] + 1], x.shape[dims[-1] + 1 :])))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        kernel = reversed_elements if x.device.backend.FLAT else reversed_lines if sizes[2] == 1 else reversed_rows
        array = f"{x.storage.name}[]"
        return Plan(out, bind.launcher(x.device, self.name, bind.source_of(kernel), f"{array}, {array}, int64, int64, int64", x.dtype, x.size), sizes)


flip = Flip("flip")
