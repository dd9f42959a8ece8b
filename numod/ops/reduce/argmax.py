"""The greatest or least elements along one dimension, with their places.

Extremes without places are rows of `reduction`, running ones `scan`'s.

The tensor is seen as (outer, n, inner), each with a step of its own. On a processor vectors of elements are compared
(`registers.argminmax`): along contiguous rows, or down neighbouring columns. NaN counts as extreme, and of
equal elements the first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel import bind, emit
from ...kernel.language import cuda, int32, int64, parallel_range, SHARED, shared_array, uintp
from ...kernel.library.teams import hold_4, joining
from ...kernel.registers import argminmax
from ...kernel.specialize import specialized
from . import block_reduce
from ..op import Op, Plan
from .scan import comparing

_TILE = 512  # columns for one task: what is known of them stays in the first-level cache
_RUN = 16  # columns for one task where no vectors of them are compared
_LONG = 256  # elements of a column that is worth turning
_ALIGNED = 4  # elements that a GPU's threads read at once
_CHUNKS, _CHUNK = 64, 1 << 12  # parts of a row that threads share, at most so many and none shorter
_BESIDE = 128  # threads of a GPU's block, of which several teams may be


def lines_kernel(x, values, indices, outer, inner, outer_step, inner_step, n, step, tiles, *, beats):
    """values, indices (outer, inner) = the first greatest of x (outer, n, inner) along n, one after the other in
    `tiles` runs of inner.
    """
    for task in parallel_range(outer * tiles):
        row = int64(task) // tiles
        for c in range(inner * (int64(task) % tiles) // tiles, inner * (int64(task) % tiles + 1) // tiles):
            base = row * outer_step + c * inner_step
            best = x[uintp(base)]
            where = int64(0)
            for k in range(1, n):
                value = x[uintp(base + k * step)]
                better = beats(value, best) | ((value != value) & (best == best))
                best = value if better else best
                where = k if better else where
            values[uintp(row * inner + c)] = best
            indices[uintp(row * inner + c)] = where


def rows_kernel(
    x, values, indices, best, where, outer, inner, outer_step, inner_step, n, chunks, *, beats, extreme_in_row
):
    """The same along rows of step 1, in `chunks` parts of which best, where (outer, inner, chunks) are told first; with
    one part they are values, indices.
    """
    for task in parallel_range(outer * inner * chunks):
        place = int64(task) // chunks
        part = int64(task) % chunks
        start = n * part // chunks
        base = (place // inner) * outer_step + (place % inner) * inner_step
        found = start + extreme_in_row(x, base + start, n * (part + 1) // chunks - start)
        best[uintp(task)] = x[uintp(base + found)]
        where[uintp(task)] = found
    for place in range(outer * inner if chunks != 1 else 0):
        chosen = place * chunks
        for k in range(place * chunks, (place + 1) * chunks):
            if beats(best[uintp(k)], best[uintp(chosen)]) or (
                best[uintp(k)] != best[uintp(k)] and best[uintp(chosen)] == best[uintp(chosen)]
            ):
                chosen = k
        values[uintp(place)] = best[uintp(chosen)]
        indices[uintp(place)] = where[uintp(chosen)]


def columns_kernel(x, values, indices, where, outer, inner, outer_step, n, step, tiles, lines, *, extreme_in_columns):
    """The same down columns of step 1 beside each other, `lines` elements of each at a time, in `tiles` runs of
    columns. where (outer, inner) is scratch.
    """
    for task in parallel_range(outer * tiles):
        row = int64(task) // tiles
        first = inner * (int64(task) % tiles) // tiles
        last = inner * (int64(task) % tiles + 1) // tiles
        base = row * outer_step + first
        own = row * inner + first
        for c in range(last - first):
            values[uintp(own + c)] = x[uintp(base + c)]
            where[uintp(own + c)] = 0
        for k in range(0, n, lines):
            extreme_in_columns(x, base + k * step, step, min(lines, n - k), k, values, own, where, own, last - first)
        for c in range(last - first):
            indices[uintp(own + c)] = where[uintp(own + c)]


def team_kernel(
    x,
    told,
    values,
    indices,
    outer,
    inner,
    outer_step,
    inner_step,
    n,
    chunks,
    chunk,
    telling,
    *,
    BESIDE,
    NUMBER,
    TEAM,
    beats,
    keeps,
):
    """`rows_kernel` by teams of GPU threads, BESIDE of them a block: each finds the greatest of `chunk` elements of a
    row. If `telling`, the place of an element is what `told` has for it. Of blocks of one warp there cannot be as many
    as would keep enough loads in flight.
    """
    shared, held = shared_array(TEAM * BESIDE, NUMBER, SHARED), cuda.local.array(16, NUMBER)
    places = shared_array(TEAM * BESIDE, int64, SHARED)
    thread, own, tasks = int64(cuda.threadIdx.x) % TEAM, int64(cuda.threadIdx.x) // TEAM * TEAM, outer * inner * chunks
    for first in range(int64(cuda.blockIdx.x) * BESIDE, tasks, int64(cuda.gridDim.x) * BESIDE):
        task = min(first + own // TEAM, tasks - 1)  # a team without a task does the last one again
        row = task // chunks
        base = (row // inner) * outer_step + (row % inner) * inner_step
        start = (task % chunks) * chunk
        stop = min(start + chunk, n)
        whole = start + (stop - start) // (16 * TEAM) * (16 * TEAM)
        where = start + 4 * thread if whole > start else min(start + thread, stop - 1)
        best = x[uintp(base + where)]
        for k in range(start + 4 * thread, whole, 16 * TEAM):
            for part in range(4):  # all loads are in flight at once
                hold_4(held, 4 * part, x, uintp(base + k + 4 * TEAM * part))
            found = int32(-1)  # of these, so that one word is chosen for each, not two
            for slot in range(16):
                value = held[slot]
                better = (not keeps(best, value)) & (best == best)
                best = value if better else best
                found = int32(slot // 4 * 4 * TEAM + slot % 4) if better else found
            where = k + found if found != -1 else where
        for k in range(whole + thread, stop, TEAM):
            value = x[uintp(base + k)]
            better = beats(value, best) | ((value != value) & (best == best))
            best = value if better else best
            where = k if better else where
        count = TEAM
        for fewer in (joining(TEAM), 1):  # these threads join what `count` have found
            shared[uintp(own + thread)] = best
            places[uintp(own + thread)] = where
            cuda.syncthreads()
            if thread < fewer:
                for k in range(thread + fewer, count, fewer):
                    value = shared[uintp(own + k)]
                    place = places[uintp(own + k)]
                    same = (value == best) | ((value != value) & (best != best))
                    better = beats(value, best) | ((value != value) & (best == best)) | (same & (place < where))
                    best = value if better else best
                    where = place if better else where
            count = fewer
            cuda.syncthreads()
        if thread == 0:
            values[uintp(task)] = best
            indices[uintp(task)] = told[uintp(base + where)] if telling != 0 else where


class Extremum(Op):
    """(values, indices) of the extreme elements along parameter `dim` of a tensor that is `readable`; parameter
    `keepdim`. Gradients go to the places.
    """

    takes = "x[*s]~:buif; dim=axis keepdim=flag"
    inputs, parameters, outputs = ("x",), ("dim", "keepdim"), ("values", "indices")
    gradients = {"x": lambda grads, indices, layout, dim, keepdim: _back(grads[0], indices, layout, dim, keepdim)}

    def __init__(self, name: str, least: bool) -> None:
        super().__init__(name)
        self.least = least

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        return (
            None
            if readable(arguments[0], parameters[0])
            else f"x with strides {arguments[0].strides} must be made contiguous first"
        )

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (dim, keepdim) = arguments, parameters
        if x.ndim and x.shape[dim] == 0:
            raise IndexError(f"{self.name}(): Expected reduction dim {dim} to have non-zero size.")
        shape = tuple(x.shape[:dim]) + ((1,) if keepdim and x.ndim else ()) + tuple(x.shape[dim + 1 :])
        results = layout(shape, x.dtype, x.device), layout(shape, dtypes.int64, x.device)
        return Plan(results, _launch(self.name, x, dim, self.least) if results[0].size else lambda *_: None)


class ArgExtremum(Extremum):
    """The indices alone."""

    outputs, gradients, differentiable = (), {}, False

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        plan = super().prepare(arguments, parameters)
        (values, indices), launch, empty = plan.layout, plan.launch, arguments[0].device.empty
        return Plan(indices, lambda x_data, out: launch(x_data, empty(values.size, values.storage), out))


def _seen(x: Layout, dim: int) -> tuple[list[int], list[int], int, int]:
    """Sizes and steps of the kept dimensions, merged where they can be, and the size and step of `dim`."""
    kept = [d for d in range(x.ndim) if d != dim]
    sizes, (steps,) = emit.collapse([x.shape[d] for d in kept], [[x.strides[d] for d in kept]])
    n, step = (x.shape[dim], x.strides[dim]) if x.ndim else (1, 1)
    return sizes, steps, n, step if n > 1 else 1


def readable(x: Layout, dim: int) -> bool:
    """Whether the ops take x as it lies: where not, a dense copy is quicker read than x itself."""
    sizes, steps, _, step = _seen(x, dim)
    return x.dense or (len(sizes) <= 2 and (step == 1 or steps[-1] == 1))


def narrow(x: Layout, dim: int) -> bool:
    """Whether columns are long, but so few beside each other that a turned copy is quicker read: on a processor."""
    if x.device.backend.is_gpu or x.ndim < 2 or x.shape[dim] < _LONG or x.size == 0:
        return False
    sizes, steps, _, step = _seen(x, dim)
    return step != 1 and steps[-1] == 1 and sizes[-1] < argminmax.least_columns(x.storage.itemsize)


def _launch(name: str, x: Layout, dim: int, least: bool) -> Callable:
    sizes, steps, n, step = _seen(x, dim)
    (outer, inner), (outer_step, inner_step) = ([1] * (2 - len(sizes)) + sizes, [0] * (2 - len(steps)) + steps)
    work, flat = x.size if outer * inner > 1 else 1, x.device.backend.is_gpu

    def launcher(kernel: Callable, scratch: tuple, numbers: int, work: int) -> Callable:
        signature = bind.signature(x, x, "int64", *scratch, numbers=numbers)
        return bind.launcher(x.device, name, specialized(comparing(kernel, least)), signature, x.dtype, work)

    if step == 1 and block_reduce.sharing(x, n):
        return _by_teams(x, name, least, (outer, inner, outer_step, inner_step, n))
    if step == 1 and not flat and n >= argminmax.lanes(x.storage.itemsize):
        chunks = min(_CHUNKS, n // _CHUNK) if outer * inner < _CHUNKS and n >= 2 * _CHUNK else 1
        run = launcher(rows_kernel, (x, "int64"), 6, x.size)
        return _in_chunks(x, run, outer * inner * chunks, (outer, inner, outer_step, inner_step, n, chunks))
    if inner_step == 1 and not flat and inner >= argminmax.least_columns(x.storage.itemsize) and n < 1 << 31:
        places = np.dtype(np.int64 if x.storage.itemsize == 8 else np.int32)
        run = launcher(columns_kernel, (places,), 7, x.size)
        numbers, empty = (outer, inner, outer_step, n, step, -(-inner // _TILE), argminmax.LINES), x.device.empty
        return lambda x_data, values, indices: run(x_data, values, indices, empty(outer * inner, places), *numbers)
    run, numbers = (
        launcher(lines_kernel, (), 7, work),
        (outer, inner, outer_step, inner_step, n, step, inner if flat else -(-inner // _RUN)),
    )
    return lambda x_data, values, indices: run(x_data, values, indices, *numbers)


def _by_teams(x: Layout, name: str, least: bool, seen: tuple) -> Callable:
    """The launch of rows that blocks of GPU threads share: long ones in parts, the extremes of which are compared
    behind.
    """
    outer, inner, *_, n = seen
    chunks = x.device.backend.chunks(outer * inner, n, True)
    chunk = -(-n // chunks)
    chunk = chunk if chunks == 1 else -(-chunk // _ALIGNED) * _ALIGNED
    chunks = -(-n // chunk)  # none is empty
    parts, kernel = outer * inner * chunks, partial(comparing(team_kernel, least), NUMBER=x.storage)
    signature = bind.signature(x, "int64", x, "int64", numbers=8)
    run = block_reduce.launcher(
        x, name, kernel, signature, parts, block_reduce.sharing(x, chunk, each=block_reduce.REDUCED) or 32, _BESIDE
    )
    if chunks == 1:
        return lambda x_data, values, indices: run(x_data, indices, values, indices, *seen, 1, n, 0)
    join, empty = (
        block_reduce.launcher(x, name, kernel, signature, outer * inner, x.device.backend.team(chunks)),
        x.device.empty,
    )

    def launch(x_data: object, values: object, indices: object) -> None:
        best, where = empty(parts, x.storage), empty(parts, np.dtype(np.int64))
        run(x_data, where, best, where, *seen, chunks, chunk, 0)
        join(best, where, values, indices, 1, outer * inner, 0, chunks, chunks, 1, chunks, 1)

    return launch


def _in_chunks(x: Layout, run: Callable, parts: int, numbers: tuple) -> Callable:
    """The launch for rows that are searched in parts.

    A single part writes the result itself; several first write their extremes to memory of their own.
    """
    if numbers[-1] == 1:
        return lambda x_data, values, indices: run(x_data, values, indices, values, indices, *numbers)
    empty, places = x.device.empty, np.dtype(np.int64)
    return lambda x_data, values, indices: run(
        x_data, values, indices, empty(parts, x.storage), empty(parts, places), *numbers
    )


def _back(g: object, indices: object, layout: Layout, dim: int, keepdim: bool) -> object:
    """Zero but for g at the extremes."""
    if not layout.ndim:
        return g
    g, indices = (g, indices) if keepdim else (g.unsqueeze(dim), indices.unsqueeze(dim))
    return g.new_zeros(layout.shape).scatter_(dim, indices, g)


max_, min_ = Extremum("max", False), Extremum("min", True)
argmax, argmin = ArgExtremum("argmax", False), ArgExtremum("argmin", True)
