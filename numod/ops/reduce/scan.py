"""Running sums, products and extrema along one dimension of a dense tensor, seen as (outer, n, inner).

`scan_cuda` has the kernels for contiguous rows on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, inf, log1p

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, language
from ...kernel.language import float64, int64, parallel_range, uintp
from ...kernel.library.softmax import first_column
from ...kernel.specialize import has, specialized
from . import scan_cuda, block_reduce
from ..index.indexing import sizes_of_one
from ..op import Op, Plan
from .softmax import split

_COLUMNS = 256  # neighbouring columns of a task if n is not the last axis
_MIN_COLUMNS = 8  # minimum number of such columns


def cumsum_kernel(x, out, outer, n, inner, *, wide):
    """out[k] = x[0] + ... + x[k] along n, accumulated wide."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        total = wide(0)
        for k in range(n):
            total += wide(x[uintp(base + k * inner)])
            out[uintp(base + k * inner)] = total


def cumprod_kernel(x, out, outer, n, inner, *, wide):
    """out[k] = x[0] * ... * x[k] along n, accumulated wide."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        total = wide(1)
        for k in range(n):
            total *= wide(x[uintp(base + k * inner)])
            out[uintp(base + k * inner)] = total


def running_columns(x, totals, out, outer, n, inner, *, COLUMNS, wide, identity, join):
    """A running total, COLUMNS neighbouring columns at a time. totals (outer, inner) is scratch."""
    tiles = (inner + COLUMNS - 1) // COLUMNS
    for task in parallel_range(outer * tiles):
        column, base, width = first_column(int64(task), tiles, n, inner, COLUMNS)
        for j in range(width):
            totals[uintp(column + j)] = wide(identity)
        for k in range(n):
            for j in range(width):
                totals[uintp(column + j)] = join(totals[uintp(column + j)], wide(x[uintp(base + k * inner + j)]))
                out[uintp(base + k * inner + j)] = totals[uintp(column + j)]


def logcumsumexp_kernel(x, out, outer, n, inner, *, wide):
    """out[k] = log(exp(x[0]) + ... + exp(x[k])) along n, by high + log1p(exp(low - high))."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        total = wide(x[uintp(base)])
        out[uintp(base)] = total
        for k in range(1, n):
            value = wide(x[uintp(base + k * inner)])
            high = value if value > total or value != value else total
            low = total if value > total or value != value else value
            total = high if high == low and high - high != wide(0) else high + log1p(exp(low - high))
            out[uintp(base + k * inner)] = total


def recurrence_kernel(x, decay, out, outer, n, inner):
    """out[k] = x[k] + decay[k - 1] * out[k - 1] along n."""
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        before = (column // inner) * (n - 1) * inner + column % inner - inner
        total = float64(x[uintp(base)])
        out[uintp(base)] = total
        for k in range(1, n):
            total = float64(x[uintp(base + k * inner)]) + float64(decay[uintp(before + k * inner)]) * total
            out[uintp(base + k * inner)] = total


def cummax_kernel(x, values, indices, outer, n, inner, *, beats):
    """values[k] = the extremum of x[0] ... x[k] along n, indices[k] = its last position; NaN wins.

    `beats`: greater for the maximum, less for the minimum.
    """
    for task in parallel_range(outer * inner):
        column = int64(task)
        base = (column // inner) * n * inner + column % inner
        best = x[uintp(base)]
        position = int64(0)
        k = int64(0)
        while k < n:
            value = x[uintp(base + k * inner)]
            if best == best or value != value:
                best = value
                position = k
            values[uintp(base + k * inner)] = best
            indices[uintp(base + k * inner)] = position
            k += 1
            # a separate loop, so that the comparisons do not depend on each other
            while k < n and beats(best, x[uintp(base + k * inner)]):
                values[uintp(base + k * inner)] = best
                indices[uintp(base + k * inner)] = position
                k += 1


class Running(Op):
    """A running total along `dim`; integers and bool give int64."""

    takes = "x[*s]:buwifc; dim=axis"
    inputs, attributes, wide_unsigned = ("x",), ("dim",), True

    def __init__(self, name: str, kernel: Callable, gradient: Callable, join: Callable, identity: float) -> None:
        super().__init__(name)
        self.kernel, self.gradients, self.join, self.identity = kernel, {"x": gradient}, join, identity

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (dim,) = arguments, attributes
        result = x.dtype if x.dtype.differentiable else dtypes.int64
        wide = dtypes.float64 if result.is_floating_point else dtypes.complex128 if result.is_complex else dtypes.int64
        out, (outer, n, inner) = layout(x.shape, result, x.device), split(x.shape, dim)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        if block_reduce.sharing(x, n, inner) and not result.is_complex:
            return Plan(out, scan_cuda.running(x, self.name, self.join, self.identity, wide.storage, out.storage, n))
        if inner >= _MIN_COLUMNS and self.join is not scan_cuda.join_exponentials and not x.device.backend.is_gpu:
            return Plan(out, self._launch_by_columns(x, wide, out, outer * inner), (outer, n, inner))
        text = specialized(
            self.kernel, **({"wide": wide.storage} if has(self.kernel, "wide") else {}), **sizes_of_one(x, inner=inner)
        )
        return Plan(
            out,
            bind.launcher(x.device, self.name, text, bind.signature(x, out, numbers=3), x.dtype, _work(x, dim)),
            (outer, n, inner),
        )

    def _launch_by_columns(self, x: Layout, wide: dtypes.dtype, out: Layout, column_count: int) -> Callable:
        text = specialized(running_columns, COLUMNS=_COLUMNS, wide=wide.storage, identity=self.identity, join=self.join)
        run = bind.launcher(x.device, self.name, text, bind.signature(x, wide, out, numbers=3), x.dtype, x.size)
        empty = x.device.empty
        return lambda x_data, out_data, *sizes: run(x_data, empty(column_count, wide.storage), out_data, *sizes)


class Recurrence(Op):
    """out[0] = x[0], out[k] = x[k] + decay[k - 1] * out[k - 1] along `dim`; decay has one element less there."""

    takes = "x[*s]:f decay[*d]; dim=axis"
    inputs, attributes = ("x", "decay"), ("dim",)
    gradients = {("x", "decay"): lambda g, out, decay, dim: _recurrence_gradients(g, out, decay, dim)}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        (x, decay), (dim,) = arguments, attributes
        expected = tuple(n - (d == dim) for d, n in enumerate(x.shape))
        return (
            None
            if x.ndim and tuple(decay.shape) == expected
            else f"decay must be of shape {expected}, got {tuple(decay.shape)}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x, decay), (dim,) = arguments, attributes
        out = layout(x.shape, x.dtype, x.device)
        if out.size == 0:
            return Plan(out, lambda *_: None)
        text = specialized(recurrence_kernel, **sizes_of_one(x, inner=split(x.shape, dim)[2]))
        return Plan(
            out,
            bind.launcher(x.device, self.name, text, bind.signature(x, decay, out, numbers=3), x.dtype, _work(x, dim)),
            split(x.shape, dim),
        )


class RunningExtremum(Op):
    """The greatest or least element so far along `dim`, and its index."""

    takes = "x[*s]:buif; dim=axis"
    inputs, attributes, outputs = ("x",), ("dim",), ("values", "indices")
    gradients = {
        "x": lambda grads, indices, layout, dim: grads[0].new_zeros(layout.shape).scatter_add_(dim, indices, grads[0])
    }

    def __init__(self, name: str, kernel: Callable, least: bool) -> None:
        super().__init__(name)
        self.kernel, self.least = kernel, least

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (dim,) = arguments, attributes
        results = layout(x.shape, x.dtype, x.device), layout(x.shape, dtypes.int64, x.device)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        outer, n, inner = split(x.shape, dim)
        if block_reduce.sharing(x, n, inner):
            return Plan(results, scan_cuda.extremes(x, self.name, self.least, n))
        source, signature = specialized(comparing(self.kernel, self.least)), bind.signature(x, x, "int64", numbers=3)
        launch = bind.launcher(x.device, self.name, source, signature, x.dtype, _work(x, dim))
        return Plan(results, launch, (outer, n, inner))


def comparing(kernel: Callable, least: bool) -> Callable:
    """A kernel with its comparison parameters set for maxima, or for minima."""
    functions = {
        "beats": language.less if least else language.greater,
        "keeps": language.less_or_equal if least else language.greater_or_equal,
        "extreme_in_row": language.least_in_row if least else language.greatest_in_row,
        "extreme_in_columns": language.least_in_columns if least else language.greatest_in_columns,
    }
    return partial(kernel, **{name: function for name, function in functions.items() if has(kernel, name)})


def _work(x: Layout, dim: int) -> int:
    """The amount of parallel work; 1 for a single row."""
    return x.size if x.size > (x.shape[dim] if x.ndim else 1) else 1


def _backwards(x: object, dim: int) -> object:
    """Running sums from the end to the start."""
    return x.flip(dim).cumsum(dim).flip(dim)


def _cumprod_gradient(g: object, x: object, out: object, dim: int, recording: bool) -> object:
    """d_x[i] = (sum over k >= i of g[k] out[k]) / x[i].

    After the first zero of a row the gradient is 0; at that zero it uses the products of the other elements.
    """
    if not x.ndim:
        return g
    x, out = x.conj(), out.conj()
    if not (x == 0).any()._observe():
        return _backwards(g * out, dim) / x
    if recording:
        return _recorded_cumprod_gradient(g.movedim(dim, -1), x.movedim(dim, -1)).movedim(-1, dim)
    zeros = (x == 0).cumsum(dim)
    is_first_zero = (x == 0) & (zeros == 1)
    at_first_zero = _backwards(g * x.masked_fill(is_first_zero, 1.0).cumprod(dim), dim)
    before_zeros = _backwards(g * out, dim) / x.masked_fill(zeros > 0, 1.0)
    return at_first_zero.where(is_first_zero, before_zeros.masked_fill(zeros > 0, 0.0))


def _recorded_cumprod_gradient(g: object, x: object) -> object:
    """`_cumprod_gradient` without divisions, so that it is differentiable at zeros. Takes n times the memory of x.

    d_x[i] = (prod over j < i of x[j]) * sum over k >= i of g[k] (prod over i < j <= k of x[j]).
    """
    n, ones = x.shape[-1], x.new_ones((x.shape[-1],) * 2)
    before = x.roll(1, -1).masked_fill(x.new_identity(n)[0].bool(), 1.0).cumprod(-1)
    after = x.unsqueeze(-2).expand(*x.shape, n).masked_fill(ones.tril() != 0, 1.0).cumprod(-1)  # (..., i, k)
    return before * (g.unsqueeze(-2) * after).triu().sum(-1)


def _recurrence_gradients(g: object, out: object, decay: object, dim: int) -> tuple[object, object]:
    """d_x by the recurrence from the end; d_decay[k] = d_x[k + 1] * out[k]."""
    n, dx = out.shape[dim], from_the_end(g, decay, dim)
    return dx, dx.narrow(dim, 1, n - 1) * out.narrow(dim, 0, n - 1)


def from_the_end(x: object, decay: object, dim: int) -> object:
    """`recurrence` with out[n - 1] = x[n - 1], out[k] = x[k] + decay[k] * out[k + 1]."""
    return recurrence.apply((x.flip(dim), decay.flip(dim)), (dim,)).flip(dim)


def _logcumsumexp_gradient(g: object, x: object, out: object, dim: int) -> object:
    """d_x[i] = sum over k >= i of g[k] exp(x[i] - out[k]).

    A recurrence from the end: d_out[i] = g[i] + exp(out[i] - out[i + 1]) d_out[i + 1], with factors <= 1.
    """
    share = (x - out).exp().masked_fill(out == -inf, 0.0)
    if not x.ndim or not x.shape[dim]:
        return g * share
    n = x.shape[dim]
    earlier, later = out.narrow(dim, 0, n - 1), out.narrow(dim, 1, n - 1)
    decay = (earlier - later).exp().masked_fill(earlier.isinf() & (earlier == later), 1.0)
    return share * from_the_end(g, decay, dim)


cumsum = Running("cumsum", cumsum_kernel, lambda g, dim: _backwards(g, dim), scan_cuda.join_sum, 0)
cumprod = Running("cumprod", cumprod_kernel, _cumprod_gradient, scan_cuda.join_product, 1)
logcumsumexp = Running("logcumsumexp", logcumsumexp_kernel, _logcumsumexp_gradient, scan_cuda.join_exponentials, -inf)
recurrence = Recurrence("recurrence")
cummax, cummin = RunningExtremum("cummax", cummax_kernel, False), RunningExtremum("cummin", cummax_kernel, True)
