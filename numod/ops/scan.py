"""Running sums and the places of extrema, along one dimension of a dense tensor seen as (outer, n, inner)."""

from __future__ import annotations

from collections.abc import Callable

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel import bind
from .op import Op, Plan
from .softmax import split


def cumsum_kernel(x, out, outer, n, inner):
    """out[k] = x[0] + ... + x[k] along n, accumulated wide."""
    for task in parallel_range(outer * inner):
        place = int64(task)
        base = (place // inner) * n * inner + place % inner
        total = wide(0)
        for k in range(n):
            total += wide(x[uintp(base + k * inner)])
            out[uintp(base + k * inner)] = total


def argmax_kernel(x, out, outer, n, inner):
    """out = the first place of the greatest element along n; NaN counts as greatest."""
    for task in parallel_range(outer * inner):
        place = int64(task)
        base = (place // inner) * n * inner + place % inner
        best = x[uintp(base)]
        where = 0
        for k in range(1, n):
            value = x[uintp(base + k * inner)]
            if value > best or (value != value and best == best):
                best = value
                where = k
        out[uintp(place)] = where


def argmin_kernel(x, out, outer, n, inner):
    """out = the first place of the least element along n; NaN counts as least."""
    for task in parallel_range(outer * inner):
        place = int64(task)
        base = (place // inner) * n * inner + place % inner
        best = x[uintp(base)]
        where = 0
        for k in range(1, n):
            value = x[uintp(base + k * inner)]
            if value < best or (value != value and best == best):
                best = value
                where = k
        out[uintp(place)] = where


class Cumsum(Op):
    """Running sum along parameter `dim`; integers and bool give int64, or parameter `dtype`."""

    inputs, parameters = ("x",), ("dim",)
    gradients = {"x": lambda g, dim: g.flip(dim).cumsum(dim).flip(dim)}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (dim,) = arguments, parameters
        result = x.dtype if x.dtype.is_floating_point else dtypes.int64
        wide = "float64" if result.is_floating_point else "int64"
        source = bind.source_of(cumsum_kernel).replace("wide(", f"{wide}(")
        return _plan(self.name, source, x, x.shape, result, dim)


class ArgExtremum(Op):
    """Index of an extremum along parameter `dim`, of the first where there are several; parameter `keepdim`."""

    inputs, parameters, gradients, differentiable = ("x",), ("dim", "keepdim"), {}, False

    def __init__(self, name: str, kernel: Callable) -> None:
        super().__init__(name)
        self.kernel = kernel

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (dim, keepdim) = arguments, parameters
        if x.ndim and x.shape[dim] == 0:
            raise IndexError(f"{self.name}(): Expected reduction dim {dim} to have non-zero size.")
        shape = x.shape[:dim] + ((1,) if keepdim and x.ndim else ()) + x.shape[dim + 1 :]
        return _plan(self.name, bind.source_of(self.kernel), x, shape, dtypes.int64, dim)


def _plan(name: str, source: str, x: Layout, shape: tuple, result: object, dim: int) -> Plan:
    out = layout(tuple(shape), result, x.device)
    if out.size == 0:
        return Plan(out, lambda *_: None)
    launch = bind.launcher(x.device, name, source, f"{x.storage.name}[], {out.storage.name}[], int64, int64, int64", x.dtype, x.size)
    return Plan(out, launch, split(x.shape, dim))


cumsum = Cumsum("cumsum")
argmax, argmin = ArgExtremum("argmax", argmax_kernel), ArgExtremum("argmin", argmin_kernel)
