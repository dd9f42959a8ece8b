"""Runs of equal elements in sorted rows: the run of each element, the starts of runs, the longest run.

Each NaN is its own run.
"""

from __future__ import annotations

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..index.indexing import sizes_of_one
from ..op import Op, Plan
from ..reduce.scan import cumsum


def runs_kernel(x, out, n, width):
    """out (n) = the index of the run of equal rows that each row of x (n, width) belongs to."""
    run = int64(0)
    out[uintp(0)] = run
    for k in range(1, n):
        differs = False
        for column in range(width):
            differs = differs or x[uintp(k * width + column)] != x[uintp((k - 1) * width + column)]
        run += int64(differs)
        out[uintp(k)] = run


def differs_kernel(x, out, n, width):
    """out (n) = 1 where a row of x (n, width) differs from the one before, else 0."""
    for task in parallel_range(n):
        k = int64(task)
        differs = False
        for column in range(width):
            differs = differs or x[uintp(k * width + column)] != x[uintp(max(k - 1, 0) * width + column)]
        out[uintp(k)] = int64(differs and k > 0)


def begins_kernel(runs, out, n, count):
    """out (count + 1) = the first index of each run, then n."""
    for task in parallel_range(n):
        k = int64(task)
        if k == 0:
            out[uintp(count)] = n
            out[uintp(0)] = 0
        elif runs[uintp(k)] != runs[uintp(k - 1)]:
            out[uintp(runs[uintp(k)])] = k


def longest_run_kernel(x, places, out, rows, n):
    """out (rows) = the last of places (rows, n) in the first of the longest runs of each row of x (rows, n)."""
    for task in parallel_range(rows):
        base = int64(task) * n
        length = int64(0)
        longest = int64(0)
        for k in range(n):
            before = k - 1 if k > 0 else k
            length = length + 1 if x[uintp(base + k)] == x[uintp(base + before)] else int64(1)
            if length > longest:
                longest = length
                out[uintp(task)] = places[uintp(base + k)]


class Runs(Op):
    """The run that each row belongs to, from 0, for a dense vector or matrix whose equal rows are adjacent."""

    takes = "x[n *w]:buwifc;"
    inputs, differentiable, wide_unsigned = ("x",), False, True

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,) = arguments
        out = layout(x.shape[:1], dtypes.int64, x.device)
        width = x.size // (x.shape[0] or 1)
        if x.size and x.device.backend.is_gpu:
            return _plan_by_threads(self.name, x, out, width)
        return _plan(
            self.name, specialized(runs_kernel, **sizes_of_one(x, width=width)), (x,), out, (x.shape[0], width), 1
        )


def _plan_by_threads(name: str, x: Layout, out: Layout, width: int) -> Plan:
    """The plan for a GPU: the running count of rows that differ from the previous one."""
    differ = _plan(name, specialized(differs_kernel), (x,), out, (x.shape[0], width), x.size)
    total = cumsum.prepare((out,), (0,))

    def launch(x_data: object, out_data: object) -> None:
        differences = out.device.empty(out.size, out.storage)
        differ.launch(x_data, differences, *differ.constants)
        total.launch(differences, out_data, *total.constants)

    return Plan(out, launch)


class RunStarts(Op):
    """The start of each of `count` runs, then the number of elements."""

    takes = "runs[n]:int64; count=0.."
    inputs, attributes, differentiable = ("runs",), ("count",), False

    def further_limits(self, arguments: tuple, attributes: tuple, sizes: dict) -> dict[int, int]:
        """See `Op.further_limits`."""
        return {0: attributes[0] + 1}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (runs,), (count,) = arguments, attributes
        return _plan(
            self.name,
            specialized(begins_kernel),
            (runs,),
            layout((count + 1,), dtypes.int64, runs.device),
            (runs.size, count),
            runs.size,
        )


class LongestRun(Op):
    """The element of `places` at the end of the longest run of each sorted row of x; the first of equal runs."""

    takes = "x[*l n]:buif places[*l n]:int64;"
    inputs, differentiable = ("x", "places"), False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        x, places = arguments
        out = layout(x.shape[:-1], dtypes.int64, x.device)
        return _plan(self.name, specialized(longest_run_kernel), (x, places), out, (out.size, x.shape[-1]), x.size)


def _plan(name: str, source: str, inputs: tuple[Layout, ...], out: Layout, sizes: tuple[int, ...], work: int) -> Plan:
    if not inputs[0].size:
        return Plan(out, lambda *_: None)
    signature = bind.signature(*inputs, out, numbers=len(sizes))
    return Plan(out, bind.launcher(out.device, name, source, signature, inputs[0].dtype, work), sizes)


runs, begins, longest_run = Runs("runs"), RunStarts("begins"), LongestRun("longest_run")
