"""The greatest or least elements along one dimension, with their indices.

Extrema without indices are rows of `reduction`, running extrema are in `scan`.

The tensor is seen as (outer, n, inner), each with its own step. The CPU compares vectors of elements along contiguous
rows, or down neighbouring columns (`registers.argminmax`). NaN wins, and the first of equal elements.
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
from ...kernel.library.cuda_block import load_4, joining_threads
from ...kernel.registers import argminmax
from ...kernel.specialize import specialized
from . import block_reduce
from ..op import Op, Plan
from .scan import comparing

_TILE = 512  # columns of a task: their results stay in the first-level cache
_SCALAR_COLUMNS = 16  # columns of a task of the scalar kernel
_TRANSPOSED_LENGTH = 256  # elements of a column from which transposing pays
_VECTOR_ELEMENTS = 4  # elements that a GPU thread loads at once
_MAX_CHUNKS, _MIN_CHUNK = 64, 1 << 12  # maximum number of chunks of a row, and their minimum length
_BLOCK = 128  # threads of a GPU block, which may compute several tasks


def lines_kernel(x, values, indices, outer, inner, outer_step, inner_step, n, step, tiles, *, beats):
    """values, indices (outer, inner) = the first extremum of x (outer, n, inner) along n, for `tiles` runs of inner in
    parallel.
    """
    for task in parallel_range(outer * tiles):
        row = int64(task) // tiles
        for c in range(inner * (int64(task) % tiles) // tiles, inner * (int64(task) % tiles + 1) // tiles):
            base = row * outer_step + c * inner_step
            best = x[uintp(base)]
            position = int64(0)
            for k in range(1, n):
                value = x[uintp(base + k * step)]
                better = beats(value, best) | ((value != value) & (best == best))
                best = value if better else best
                position = k if better else position
            values[uintp(row * inner + c)] = best
            indices[uintp(row * inner + c)] = position


def rows_kernel(
    x, values, indices, best, where, outer, inner, outer_step, inner_step, n, chunks, *, beats, extreme_in_row
):
    """`lines_kernel` for contiguous rows, in `chunks` parts whose extrema are best, where (outer, inner, chunks).

    With a single chunk, best and where are values and indices.
    """
    for task in parallel_range(outer * inner * chunks):
        line = int64(task) // chunks
        chunk = int64(task) % chunks
        start = n * chunk // chunks
        line_start = (line // inner) * outer_step + (line % inner) * inner_step
        position = start + extreme_in_row(x, line_start + start, n * (chunk + 1) // chunks - start)
        best[uintp(task)] = x[uintp(line_start + position)]
        where[uintp(task)] = position
    for line in range(outer * inner if chunks != 1 else 0):
        chosen = line * chunks
        for k in range(line * chunks, (line + 1) * chunks):
            if beats(best[uintp(k)], best[uintp(chosen)]) or (
                best[uintp(k)] != best[uintp(k)] and best[uintp(chosen)] == best[uintp(chosen)]
            ):
                chosen = k
        values[uintp(line)] = best[uintp(chosen)]
        indices[uintp(line)] = where[uintp(chosen)]


def columns_kernel(
    x, values, indices, positions, outer, inner, outer_step, n, step, tiles, lines, *, extreme_in_columns
):
    """`lines_kernel` for adjacent columns, `lines` rows at a time, for `tiles` runs of columns in parallel.

    positions (outer, inner) is scratch.
    """
    for task in parallel_range(outer * tiles):
        row = int64(task) // tiles
        first = inner * (int64(task) % tiles) // tiles
        last = inner * (int64(task) % tiles + 1) // tiles
        base = row * outer_step + first
        result_at = row * inner + first
        for c in range(last - first):
            values[uintp(result_at + c)] = x[uintp(base + c)]
            positions[uintp(result_at + c)] = 0
        for k in range(0, n, lines):
            extreme_in_columns(
                x, base + k * step, step, min(lines, n - k), k, values, result_at, positions, result_at, last - first
            )
        for c in range(last - first):
            indices[uintp(result_at + c)] = positions[uintp(result_at + c)]


def block_kernel(
    x,
    x_positions,
    values,
    indices,
    outer,
    inner,
    outer_step,
    inner_step,
    n,
    chunks,
    chunk,
    has_positions,
    *,
    TASKS,
    NUMBER,
    THREADS,
    beats,
    keeps,
):
    """`rows_kernel` with THREADS GPU threads for each task, a chunk of a row, and TASKS tasks in a block.

    `beats` compares strictly, `keeps` does not. If `has_positions`, x has the extrema of chunks, and x_positions their
    indices. Several tasks share a block, since a multiprocessor cannot hold enough blocks of one warp to keep its
    memory busy.
    """
    shared, elements = shared_array(THREADS * TASKS, NUMBER, SHARED), cuda.local.array(16, NUMBER)
    positions = shared_array(THREADS * TASKS, int64, SHARED)
    thread, first_thread, tasks = (
        int64(cuda.threadIdx.x) % THREADS,
        int64(cuda.threadIdx.x) // THREADS * THREADS,
        outer * inner * chunks,
    )
    for first in range(int64(cuda.blockIdx.x) * TASKS, tasks, int64(cuda.gridDim.x) * TASKS):
        task = min(first + first_thread // THREADS, tasks - 1)  # surplus threads repeat the last task
        row = task // chunks
        base = (row // inner) * outer_step + (row % inner) * inner_step
        start = (task % chunks) * chunk
        stop = min(start + chunk, n)
        unrolled_stop = start + (stop - start) // (16 * THREADS) * (16 * THREADS)
        position = start + 4 * thread if unrolled_stop > start else min(start + thread, stop - 1)
        best = x[uintp(base + position)]
        for k in range(start + 4 * thread, unrolled_stop, 16 * THREADS):
            for part in range(4):  # all loads are in flight at once
                load_4(elements, 4 * part, x, uintp(base + k + 4 * THREADS * part))
            offset = int32(-1)  # an offset from k in 32 bits: cheaper to select than the index
            for slot in range(16):
                value = elements[slot]
                better = (not keeps(best, value)) & (best == best)
                best = value if better else best
                offset = int32(slot // 4 * 4 * THREADS + slot % 4) if better else offset
            position = k + offset if offset != -1 else position
        for k in range(unrolled_stop + thread, stop, THREADS):
            value = x[uintp(base + k)]
            better = beats(value, best) | ((value != value) & (best == best))
            best = value if better else best
            position = k if better else position
        count = THREADS
        for survivors in (joining_threads(THREADS), 1):  # these threads combine the results of `count` threads
            shared[uintp(first_thread + thread)] = best
            positions[uintp(first_thread + thread)] = position
            cuda.syncthreads()
            if thread < survivors:
                for k in range(thread + survivors, count, survivors):
                    value = shared[uintp(first_thread + k)]
                    other_position = positions[uintp(first_thread + k)]
                    is_equal = (value == best) | ((value != value) & (best != best))
                    better = (
                        beats(value, best)
                        | ((value != value) & (best == best))
                        | (is_equal & (other_position < position))
                    )
                    best = value if better else best
                    position = other_position if better else position
            count = survivors
            cuda.syncthreads()
        if thread == 0:
            values[uintp(task)] = best
            indices[uintp(task)] = x_positions[uintp(base + position)] if has_positions != 0 else position


class Extremum(Op):
    """(values, indices) of the extrema along `dim` of a tensor that is `readable`. Gradients are scattered to the
    indices.
    """

    takes = "x[*s]~:buif; dim=axis keepdim=flag"
    inputs, attributes, outputs = ("x",), ("dim", "keepdim"), ("values", "indices")
    gradients = {"x": lambda grads, indices, layout, dim, keepdim: _scatter(grads[0], indices, layout, dim, keepdim)}

    def __init__(self, name: str, least: bool) -> None:
        super().__init__(name)
        self.least = least

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        return (
            None
            if readable(arguments[0], attributes[0])
            else f"x with strides {arguments[0].strides} must be made contiguous first"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (dim, keepdim) = arguments, attributes
        if x.ndim and x.shape[dim] == 0:
            raise IndexError(f"{self.name}(): Expected reduction dim {dim} to have non-zero size.")
        shape = tuple(x.shape[:dim]) + ((1,) if keepdim and x.ndim else ()) + tuple(x.shape[dim + 1 :])
        results = layout(shape, x.dtype, x.device), layout(shape, dtypes.int64, x.device)
        return Plan(results, _launch(self.name, x, dim, self.least) if results[0].size else lambda *_: None)


class ArgExtremum(Extremum):
    """The indices of extrema."""

    outputs, gradients, differentiable = (), {}, False

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        plan = super().prepare(arguments, attributes)
        (values, indices), launch, empty = plan.layout, plan.launch, arguments[0].device.empty
        return Plan(indices, lambda x_data, out: launch(x_data, empty(values.size, values.storage), out))


def _collapsed(x: Layout, dim: int) -> tuple[list[int], list[int], int, int]:
    """Sizes and steps of the other dimensions, merged where possible, and the size and step of `dim`."""
    other_dims = [d for d in range(x.ndim) if d != dim]
    sizes, (steps,) = emit.collapse([x.shape[d] for d in other_dims], [[x.strides[d] for d in other_dims]])
    n, step = (x.shape[dim], x.strides[dim]) if x.ndim else (1, 1)
    return sizes, steps, n, step if n > 1 else 1


def readable(x: Layout, dim: int) -> bool:
    """Whether the kernels read this layout. Others are made contiguous first, which is faster."""
    sizes, steps, _, step = _collapsed(x, dim)
    return x.dense or (len(sizes) <= 2 and (step == 1 or steps[-1] == 1))


def prefers_transposed(x: Layout, dim: int) -> bool:
    """Whether columns are so long and few that a transposed copy is faster, on a CPU."""
    if x.device.backend.is_gpu or x.ndim < 2 or x.shape[dim] < _TRANSPOSED_LENGTH or x.size == 0:
        return False
    sizes, steps, _, step = _collapsed(x, dim)
    return step != 1 and steps[-1] == 1 and sizes[-1] < argminmax.least_columns(x.storage.itemsize)


def _launch(name: str, x: Layout, dim: int, least: bool) -> Callable:
    sizes, steps, n, step = _collapsed(x, dim)
    (outer, inner), (outer_step, inner_step) = ([1] * (2 - len(sizes)) + sizes, [0] * (2 - len(steps)) + steps)
    work, on_gpu = x.size if outer * inner > 1 else 1, x.device.backend.is_gpu

    def launcher(kernel: Callable, scratch: tuple, numbers: int, work: int) -> Callable:
        signature = bind.signature(x, x, "int64", *scratch, numbers=numbers)
        return bind.launcher(x.device, name, specialized(comparing(kernel, least)), signature, x.dtype, work)

    if step == 1 and block_reduce.sharing(x, n):
        return _launch_by_blocks(x, name, least, (outer, inner, outer_step, inner_step, n))
    if step == 1 and not on_gpu and n >= argminmax.lanes(x.storage.itemsize):
        chunks = min(_MAX_CHUNKS, n // _MIN_CHUNK) if outer * inner < _MAX_CHUNKS and n >= 2 * _MIN_CHUNK else 1
        run = launcher(rows_kernel, (x, "int64"), 6, x.size)
        return _launch_in_chunks(x, run, outer * inner * chunks, (outer, inner, outer_step, inner_step, n, chunks))
    if inner_step == 1 and not on_gpu and inner >= argminmax.least_columns(x.storage.itemsize) and n < 1 << 31:
        index_storage = np.dtype(np.int64 if x.storage.itemsize == 8 else np.int32)
        run = launcher(columns_kernel, (index_storage,), 7, x.size)
        numbers, empty = (outer, inner, outer_step, n, step, -(-inner // _TILE), argminmax.LINES), x.device.empty
        count = outer * inner
        return lambda x_data, values, indices: run(x_data, values, indices, empty(count, index_storage), *numbers)
    run = launcher(lines_kernel, (), 7, work)
    numbers = (outer, inner, outer_step, inner_step, n, step, inner if on_gpu else -(-inner // _SCALAR_COLUMNS))
    return lambda x_data, values, indices: run(x_data, values, indices, *numbers)


def _launch_by_blocks(x: Layout, name: str, least: bool, shape: tuple) -> Callable:
    """The launch of the block kernel; long rows are cut into chunks, whose extrema are reduced by a second launch."""
    outer, inner, *_, n = shape
    chunks = x.device.backend.chunks(outer * inner, n, True)
    chunk = -(-n // chunks)
    chunk = chunk if chunks == 1 else -(-chunk // _VECTOR_ELEMENTS) * _VECTOR_ELEMENTS
    chunks = -(-n // chunk)  # none is empty
    parts, kernel = outer * inner * chunks, partial(comparing(block_kernel, least), NUMBER=x.storage)
    signature = bind.signature(x, "int64", x, "int64", numbers=8)
    run = block_reduce.launcher(
        x,
        name,
        kernel,
        signature,
        parts,
        block_reduce.sharing(x, chunk, per_thread=block_reduce.ELEMENTS_PER_THREAD) or 32,
        _BLOCK,
    )
    if chunks == 1:
        return lambda x_data, values, indices: run(x_data, indices, values, indices, *shape, 1, n, 0)
    join = block_reduce.launcher(x, name, kernel, signature, outer * inner, x.device.backend.threads_per_row(chunks))
    empty = x.device.empty

    def launch(x_data: object, values: object, indices: object) -> None:
        extrema, positions = empty(parts, x.storage), empty(parts, np.dtype(np.int64))
        run(x_data, positions, extrema, positions, *shape, chunks, chunk, 0)
        join(extrema, positions, values, indices, 1, outer * inner, 0, chunks, chunks, 1, chunks, 1)

    return launch


def _launch_in_chunks(x: Layout, run: Callable, parts: int, numbers: tuple) -> Callable:
    """The launch of `rows_kernel`. A single chunk writes the result directly; several write to scratch memory first."""
    if numbers[-1] == 1:
        return lambda x_data, values, indices: run(x_data, values, indices, values, indices, *numbers)
    empty, index_storage = x.device.empty, np.dtype(np.int64)
    return lambda x_data, values, indices: run(
        x_data, values, indices, empty(parts, x.storage), empty(parts, index_storage), *numbers
    )


def _scatter(g: object, indices: object, layout: Layout, dim: int, keepdim: bool) -> object:
    """Scatter g to the extrema."""
    if not layout.ndim:
        return g
    g, indices = (g, indices) if keepdim else (g.unsqueeze(dim), indices.unsqueeze(dim))
    return g.new_zeros(layout.shape).scatter_(dim, indices, g)


max_, min_ = Extremum("max", False), Extremum("min", True)
argmax, argmin = ArgExtremum("argmax", False), ArgExtremum("argmin", True)
