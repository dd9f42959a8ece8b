"""Running totals and extrema of contiguous rows on a GPU, with blocks of threads for each row.

A block scans a tile at a time. Each thread loads four times four neighbouring elements before it uses them. The totals
of these groups of four are stored in shared memory in the order of the elements; each thread combines four neighbouring
totals, and the results are scanned by doubling (with the thread 1, 2, 4 ... before). The prefix of each group is
written back to shared memory and its elements are loaded again, from the L1 cache: keeping them in a wide dtype would
take the registers of half of the blocks.

A few long rows are cut into chunks. A first launch (`writing` = 0) writes only the total of each chunk; in the second
launch each block first scans the totals of the chunks before its own, in place of a tile. The order of operations
depends only on the sizes, so results are reproducible.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, log1p

import numpy as np

from ...device import Layout
from ...kernel.language import cuda, int64, SHARED, shared_array, uintp
from ...kernel.library.cuda_block import store_4, load_4
from ...kernel.scalar import scalar
from . import block_reduce


@scalar
def join_sum(a, b):
    """Combine the sums of two adjacent runs."""
    return a + b


@scalar
def join_product(a, b):
    """Combine the products of two adjacent runs."""
    return a * b


@scalar
def join_exponentials(a, b):
    """Combine the logarithms of sums of exponentials of two adjacent runs."""
    high = b if b > a or b != b else a
    low = a if b > a or b != b else b
    return high if high == low and high - high != 0 else high + log1p(exp(low - high))


@scalar
def spaced(position):
    """The shared-memory index of a group's total: a gap after every sixteen avoids bank conflicts."""
    return uintp(position + (position >> 4))


def running_block(
    x, totals, out, rows, n, chunk, chunks, writing, *, IDENTITY, JOIN, NUMBER, RESULT, THREADS, ACCUMULATOR
):
    """out (rows, n) = the running total of x (rows, n) if `writing`, else totals (rows, chunks) = the totals of `chunk`
    elements each.
    """
    group_totals = shared_array(4 * THREADS + THREADS // 4, ACCUMULATOR, SHARED)
    shared = shared_array(2 * THREADS, ACCUMULATOR, SHARED)
    elements, prefixes = cuda.local.array(16, NUMBER), cuda.local.array(4, RESULT)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * chunks, int64(cuda.gridDim.x)):
        row, chunk_index = task // chunks, task % chunks
        begin, stop, total = chunk_index * chunk, min((chunk_index + 1) * chunk, n), ACCUMULATOR(IDENTITY)
        # an extra first iteration for the totals of the chunks before
        for low in range(begin - 16 * THREADS if (writing != 0) & (chunk_index != 0) else begin, stop, 16 * THREADS):
            for step in range(4):
                first = low + 4 * (step * THREADS + thread)
                if (low >= begin) & (first + 4 <= stop):
                    load_4(elements, 4 * step, x, uintp(row * n + first))
                else:
                    for k in range(4):
                        elements[4 * step + k] = (
                            x[uintp(row * n + first + k)]
                            if (low >= begin) & (first + k < stop)
                            else NUMBER(ACCUMULATOR(IDENTITY))
                        )
            for step in range(4):
                group, value = step * THREADS + thread, ACCUMULATOR(IDENTITY)
                for k in range(4):
                    value = JOIN(value, ACCUMULATOR(elements[4 * step + k]))
                group_totals[spaced(group)] = (
                    totals[uintp(row * chunks + group)] if (low < begin) & (group < chunk_index) else value
                )
            cuda.syncthreads()
            value = ACCUMULATOR(IDENTITY)
            for k in range(4):
                value = JOIN(value, group_totals[spaced(4 * thread + k)])
            half = 0  # double buffer: one half is read while the other is written
            shared[uintp(thread)] = value
            cuda.syncthreads()
            width = 1
            while width < THREADS:
                value = JOIN(shared[uintp(half + thread - width)], value) if thread >= width else value
                half = THREADS - half
                shared[uintp(half + thread)] = value
                cuda.syncthreads()
                width = width * 2
            prefix = JOIN(total, shared[uintp(half + thread - 1)]) if thread != 0 else total
            total = JOIN(total, shared[uintp(half + THREADS - 1)])
            if writing != 0:
                for k in range(4):
                    value = group_totals[spaced(4 * thread + k)]
                    group_totals[spaced(4 * thread + k)] = prefix
                    prefix = JOIN(prefix, value)
                cuda.syncthreads()
                for step in range(4 if low >= begin else 0):
                    first, value = low + 4 * (step * THREADS + thread), group_totals[spaced(step * THREADS + thread)]
                    if first + 4 <= stop:
                        load_4(elements, 0, x, uintp(row * n + first))
                        for k in range(4):
                            value = JOIN(value, ACCUMULATOR(elements[k]))
                            prefixes[k] = value
                        store_4(out, uintp(row * n + first), prefixes, 0)
                    else:
                        for k in range(first, stop):
                            value = JOIN(value, ACCUMULATOR(x[uintp(row * n + k)]))
                            out[uintp(row * n + k)] = value
        if (thread == 0) & (writing == 0):
            totals[uintp(task)] = total


def greatest_block(
    x, chunk_values, chunk_positions, values, indices, rows, n, chunk, chunks, writing, *, NUMBER, THREADS, later
):
    """values, indices (rows, n) = the extremum so far of x (rows, n) and its last position; NaN wins.

    Unless `writing`, chunk_values and chunk_positions (rows, chunks) = those of each chunk, as in `running_block`.
    """
    group_values = shared_array(4 * THREADS + THREADS // 4, NUMBER, SHARED)
    group_positions = shared_array(4 * THREADS + THREADS // 4, int64, SHARED)
    shared = shared_array(2 * THREADS, NUMBER, SHARED)
    shared_positions = shared_array(2 * THREADS, int64, SHARED)
    elements, positions = cuda.local.array(16, NUMBER), cuda.local.array(4, int64)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * chunks, int64(cuda.gridDim.x)):
        row, chunk_index = task // chunks, task % chunks
        begin, stop = chunk_index * chunk, min((chunk_index + 1) * chunk, n)
        total, last_position = NUMBER(0), int64(-1)  # position -1: no element before
        for low in range(begin - 16 * THREADS if (writing != 0) & (chunk_index != 0) else begin, stop, 16 * THREADS):
            for step in range(4):
                first = low + 4 * (step * THREADS + thread)
                if (low >= begin) & (first + 4 <= stop):
                    load_4(elements, 4 * step, x, uintp(row * n + first))
                else:
                    for k in range(4):
                        elements[4 * step + k] = (
                            x[uintp(row * n + first + k)] if (low >= begin) & (first + k < stop) else NUMBER(0)
                        )
            for step in range(4):
                first, value, position = low + 4 * (step * THREADS + thread), NUMBER(0), int64(-1)
                for k in range(4):
                    value, position = later(
                        value,
                        position,
                        elements[4 * step + k],
                        first + k if (low >= begin) & (first + k < stop) else int64(-1),
                    )
                group = step * THREADS + thread
                if (low < begin) & (group < chunk_index):
                    value, position = (
                        chunk_values[uintp(row * chunks + group)],
                        chunk_positions[uintp(row * chunks + group)],
                    )
                group_values[spaced(group)], group_positions[spaced(group)] = value, position
            cuda.syncthreads()
            value, position = NUMBER(0), int64(-1)
            for k in range(4):
                value, position = later(
                    value, position, group_values[spaced(4 * thread + k)], group_positions[spaced(4 * thread + k)]
                )
            half = 0
            shared[uintp(thread)], shared_positions[uintp(thread)] = value, position
            cuda.syncthreads()
            width = 1
            while width < THREADS:
                if thread >= width:
                    value, position = later(
                        shared[uintp(half + thread - width)],
                        shared_positions[uintp(half + thread - width)],
                        value,
                        position,
                    )
                half = THREADS - half
                shared[uintp(half + thread)], shared_positions[uintp(half + thread)] = value, position
                cuda.syncthreads()
                width = width * 2
            prefix, prefix_position = total, last_position
            if thread != 0:
                prefix, prefix_position = later(
                    total, last_position, shared[uintp(half + thread - 1)], shared_positions[uintp(half + thread - 1)]
                )
            total, last_position = later(
                total, last_position, shared[uintp(half + THREADS - 1)], shared_positions[uintp(half + THREADS - 1)]
            )
            if writing != 0:
                for k in range(4):
                    group = spaced(4 * thread + k)
                    value, position = group_values[group], group_positions[group]
                    group_values[group], group_positions[group] = prefix, prefix_position
                    prefix, prefix_position = later(prefix, prefix_position, value, position)
                cuda.syncthreads()
                for step in range(4 if low >= begin else 0):
                    first, group = low + 4 * (step * THREADS + thread), spaced(step * THREADS + thread)
                    value, position = group_values[group], group_positions[group]
                    if first + 4 <= stop:
                        load_4(elements, 0, x, uintp(row * n + first))
                        for k in range(4):
                            value, position = later(value, position, elements[k], first + k)
                            elements[k], positions[k] = value, position
                        store_4(values, uintp(row * n + first), elements, 0)
                        store_4(indices, uintp(row * n + first), positions, 0)
                    else:
                        for k in range(first, stop):
                            value, position = later(value, position, x[uintp(row * n + k)], k)
                            values[uintp(row * n + k)], indices[uintp(row * n + k)] = value, position
        if (thread == 0) & (writing == 0):
            chunk_values[uintp(task)], chunk_positions[uintp(task)] = total, last_position


@scalar
def later_of_greatest(a, a_position, b, b_position):
    """The maximum of two adjacent runs, given their maxima and positions; the later of equal ones.

    A position of -1 means that the run is empty.
    """
    takes_b = (b_position >= 0) & ((a_position < 0) | (not a > b) & ((a == a) | (b != b)))
    return (b if takes_b else a), (b_position if takes_b else a_position)


@scalar
def later_of_least(a, a_position, b, b_position):
    """`later_of_greatest` for minima."""
    takes_b = (b_position >= 0) & ((a_position < 0) | (not b > a) & ((a == a) | (b != b)))
    return (b if takes_b else a), (b_position if takes_b else a_position)


def running(
    x: Layout, name: str, join: Callable, identity: float, wide: np.dtype, result: np.dtype, n: int
) -> Callable:
    """The launch of a running total of rows of n elements; `join` combines two totals of type `wide`."""
    kernel = partial(running_block, JOIN=join, IDENTITY=identity, ACCUMULATOR=wide, NUMBER=x.storage, RESULT=result)
    return _launch_in_chunks(x, name, kernel, (wide,), f"{wide.name}[], {result.name}[]", n)


def extremes(x: Layout, name: str, least: bool, n: int) -> Callable:
    """The launch of running extrema and their positions."""
    kernel = partial(greatest_block, later=later_of_least if least else later_of_greatest, NUMBER=x.storage)
    number, position = x.storage, np.dtype(np.int64)
    return _launch_in_chunks(
        x, name, kernel, (number, position), f"{number.name}[], int64[], {number.name}[], int64[]", n
    )


def _launch_in_chunks(
    x: Layout, name: str, kernel: Callable, total_storages: tuple[np.dtype, ...], arrays: str, n: int
) -> Callable:
    """A launch for few long rows: blocks scan chunks of a row, then add the totals of earlier chunks."""
    rows, threads, empty = x.size // n, block_reduce.sharing(x, n), x.device.empty
    tile = 16 * threads
    # a block scans the totals of the chunks in one iteration: at most 4 per thread
    chunk = -(-n // min(x.device.backend.chunks(rows, n, True), 4 * threads))
    chunk = -(-chunk // tile) * tile
    chunks = -(-n // chunk)
    run = block_reduce.launcher(
        x, name, kernel, f"{x.storage.name}[], {arrays}" + 5 * ", int64", rows * chunks, threads
    )

    def launch(x_data: object, *results: object) -> None:
        parts = [empty(rows * chunks, storage) for storage in total_storages]
        for writing in (0, 1) if chunks > 1 else (1,):
            run(x_data, *parts, *results, rows, n, chunk, chunks, writing)

    return launch
