"""flip and roll along a dimension. Dense tensors are seen as (outer, n, inner)."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ...device import Layout
from ...device.layout import layout
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized
from ..op import Op, Plan


def reversed_elements(x, out, outer, n, inner):
    """Reverse n on a GPU, with one thread per element."""
    for element in parallel_range(outer * n * inner):
        row = int64(element) // inner
        out[uintp(element)] = x[uintp((row + n - 1 - 2 * (row % n)) * inner + int64(element) % inner)]


def reversed_rows(x, out, outer, n, inner):
    """Reverse n, by copying rows of `inner` elements."""
    for task in parallel_range(outer * n):
        row = int64(task)
        source = (row + n - 1 - 2 * (row % n)) * inner
        for k in range(inner):
            out[uintp(row * inner + k)] = x[uintp(source + k)]


def reversed_lines(x, out, outer, n, inner):
    """Reverse n where inner is 1."""
    for task in parallel_range(outer):
        base = int64(task) * n
        for k in range(n):
            out[uintp(base + k)] = x[uintp(base + n - 1 - k)]


def rolled_elements(x, out, outer, n, inner, first):
    """out = x from element `first` of n on, then the elements before, on a GPU with one thread per element."""
    for element in parallel_range(outer * n * inner):
        row = int64(element) // inner
        k = row % n + first
        out[uintp(element)] = x[uintp((row - row % n + (k if k < n else k - n)) * inner + int64(element) % inner)]


def rolled_runs(x, out, outer, n, inner, first):
    """`rolled_elements` by two runs of copies."""
    for task in parallel_range(outer):
        base, before = int64(task) * n * inner, first * inner
        after = n * inner - before
        for k in range(after):
            out[uintp(base + k)] = x[uintp(base + before + k)]
        for k in range(before):
            out[uintp(base + after + k)] = x[uintp(base + k)]


class _Neighbours(Op):
    """Base: reorder x along neighbouring dimensions `dims`, which are treated as one."""

    inputs, attributes, upcasts_half, wide_unsigned = ("x",), ("dims",), False, True
    kernels: tuple[Callable, Callable, Callable]  # for a GPU, for an inner size of 1, for others

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        (x,), (dims, *first) = arguments, attributes
        if not x.ndim or not dims or dims != tuple(range(dims[0], dims[-1] + 1)):
            return f"attribute 'dims' must be neighbouring dimensions, got {dims}"
        count = prod(x.shape[dims[0] : dims[-1] + 1])
        return (
            f"attribute 'first' must be below {count}, got {first[0]}"
            if first and count and first[0] >= count
            else None
        )

    def prepare(self, arguments: tuple[Layout], attributes: tuple) -> Plan:
        (x,), (dims, *numbers) = arguments, attributes
        out = layout(tuple(x.shape), x.dtype, x.device)
        sizes = tuple(map(prod, (x.shape[: dims[0]], x.shape[dims[0] : dims[-1] + 1], x.shape[dims[-1] + 1 :])))
        if out.size == 0:
            return Plan(out, lambda *_: None)
        constants, array = (*sizes, *numbers), x.storage
        elements, lines, rows = self.kernels
        source = specialized(elements if x.device.backend.is_gpu else lines if sizes[2] == 1 else rows)
        return Plan(
            out,
            bind.launcher(
                x.device, self.name, source, bind.signature(array, array, numbers=len(constants)), x.dtype, x.size
            ),
            constants,
        )


class Flip(_Neighbours):
    """x reversed along `dims`."""

    takes = "x[*s]:buwifc; dims=axis^*"
    kernels, gradients = (reversed_elements, reversed_lines, reversed_rows), {"x": lambda g, dims: g.flip(dims)}


class Roll(_Neighbours):
    """x from element `first` along `dims` on, 0 < first < n, then the elements before."""

    takes = "x[*s]:buwifc; dims=axis^* first=1.."
    attributes, kernels = ("dims", "first"), (rolled_elements, rolled_runs, rolled_runs)
    gradients = {
        "x": lambda g, dims, first: roll.apply((g.contiguous(),), (dims, prod(g.shape[dims[0] : dims[-1] + 1]) - first))
    }


flip, roll = Flip("flip"), Roll("roll")
