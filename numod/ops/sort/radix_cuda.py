"""Radix sort of long rows on a GPU, by eight-bit digits from the lowest: used by `sort` if merging takes more rounds.

A pass has three steps. Blocks count the digits of their tiles. A running sum of the counts, ordered by digit and then
by tile, gives the target of each tile's keys of a digit. Blocks move the keys there. A block first sorts its tile in
shared memory, so that it writes contiguous runs: by four bits at a time, each thread counts the digits of its own
neighbouring keys, and the running sum of these counts, ordered by digit and then by thread, gives their targets. Every
step keeps the order of equal digits, so the sort is stable. A block moves words of a key's digit and its index in the
tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel.language import cuda, int32, int64, SHARED, shared_array, uint16, uint32, uint64, uintp
from ...kernel.library.cuda_block import block_exclusive_sum
from ...kernel.scalar import scalar
from ..reduce import scan, block_reduce
from .radix_keys import key_storage, keyed

# runs per row from which radix sort takes fewer rounds than merging; in total, 2 * _RADIX_RUNS runs per byte of a key,
# so that the launches pay
_RADIX_RUNS = 32


def suits(x: Layout, n: int, runs: int) -> bool:
    """Whether to radix sort rows of n elements, which are `runs` runs of the merge sort. Never in the simulator."""
    return (
        not x.device.backend.SIMULATED
        and runs >= _RADIX_RUNS
        and x.size // n * runs >= 2 * _RADIX_RUNS * key_storage(x.dtype).itemsize
    )


@scalar
def padded(index):
    """The shared-memory index of a word of a tile: a gap after every sixteen avoids bank conflicts.

    For k * THREADS + thread, call it for both terms and add: the compiler knows the first, which saves registers.
    """
    return uintp(index + (index >> 4))


@scalar
def padded_twice(index):
    """`padded` for counts of two bytes."""
    return uintp(index + (index >> 4) * 2)


def count_digits(x, keys, counts, rows, n, tiles, start, shift, flip, *, EACH, KEYS, THREADS, key_of):
    """counts (rows, 256, tiles) = the number of keys of each tile with each digit (eight bits from `shift` on).

    The keys are at `start`, or made of x if `start` is -1. If `flip` is 1, all bits of the keys are inverted, which
    reverses the order.
    """
    digit_counts = shared_array(256, int32, SHARED)
    tile_keys, raw = cuda.local.array(EACH, KEYS), cuda.local.array(EACH, x.dtype)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * tiles, int64(cuda.gridDim.x)):
        row, tile = task // tiles, task % tiles
        low = tile * EACH * THREADS
        # the thread's first key, and the number of keys of the row from there on
        first, left = row * n + low + thread, n - low - thread
        for digit in range(thread, 256, THREADS):
            digit_counts[uintp(digit)] = 0
        if start < 0:
            for j in range(EACH):  # all loads are issued before keys are made
                raw[j] = 0  # else the compiler would keep the values of the iteration before
                if j * THREADS < left:
                    raw[j] = x[uintp(first + j * THREADS)]
            for j in range(EACH):
                tile_keys[j] = key_of(raw[j]) ^ (uint64(0) - uint64(flip))
        else:
            for j in range(EACH):
                tile_keys[j] = 0
                if j * THREADS < left:
                    tile_keys[j] = keys[uintp(start + first + j * THREADS)]
        cuda.syncthreads()
        for j in range(EACH):
            if j * THREADS < left:
                cuda.atomic.add(digit_counts, int64((uint64(tile_keys[j]) >> uint64(shift)) & uint64(255)), 1)
        cuda.syncthreads()
        for digit in range(thread, 256, THREADS):
            counts[uintp((row * 256 + digit) * tiles + tile)] = digit_counts[uintp(digit)]


def move_digits(
    x, keys, positions, counts, sums, rows, n, tiles, start, target, shift, flip, *, EACH, KEYS, THREADS, key_of
):
    """Move the keys and positions of each tile from `start` (-1: from x) to their sorted place by digit, from `target`.

    sums: the running sum of counts.
    """
    words = shared_array(17 * EACH * THREADS // 16, uint32, SHARED)
    tile_data = shared_array(EACH * THREADS, KEYS, SHARED)
    ranks = shared_array(18 * THREADS, uint16, SHARED)
    shared = shared_array(2 * THREADS, int32, SHARED)
    begins = shared_array(256, int64, SHARED)
    moved, raw = cuda.local.array(EACH, KEYS), cuda.local.array(EACH, x.dtype)
    thread_words, targets = cuda.local.array(EACH, uint32), cuda.local.array(EACH, uint16)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * tiles, int64(cuda.gridDim.x)):
        row, tile = task // tiles, task % tiles
        low = tile * EACH * THREADS
        count = min(n - low, EACH * THREADS)
        first, left = row * n + low + thread, count - thread
        for digit in range(thread, 256, THREADS):
            slot = (row * 256 + digit) * tiles + tile
            begins[uintp(digit)] = target + row * n + sums[uintp(slot)] - counts[uintp(slot)]
        if start < 0:
            for j in range(EACH):
                raw[j] = 0
                if j * THREADS < left:
                    raw[j] = x[uintp(first + j * THREADS)]
            for j in range(EACH):
                moved[j] = key_of(raw[j]) ^ (uint64(0) - uint64(flip))
        else:
            for j in range(EACH):
                moved[j] = 0
                if j * THREADS < left:
                    moved[j] = keys[uintp(start + first + j * THREADS)]
        for j in range(EACH):
            tile_data[uintp(j * THREADS + thread)] = moved[j]
            # padding of the tile is last
            digit = int64((uint64(moved[j]) >> uint64(shift)) & uint64(255)) if j * THREADS < left else int64(255)
            words[padded(j * THREADS) + padded(thread)] = (digit << 16) + thread + j * THREADS
        cuda.syncthreads()
        for bits in range(16, 24, 4):
            for digit in range(16):
                ranks[padded_twice(digit * THREADS) + padded_twice(thread)] = 0
            for j in range(EACH):
                bucket = int64(words[padded(thread * EACH + j)]) >> bits & 15
                slot = padded_twice(bucket * THREADS) + padded_twice(thread)
                ranks[slot] = ranks[slot] + 1
            cuda.syncthreads()
            total = int64(0)
            for k in range(16):
                total += int64(ranks[padded_twice(16 * thread + k)])
            before = block_exclusive_sum(total, shared, thread, THREADS)
            for k in range(16):
                slot = padded_twice(16 * thread + k)
                digit_count = int64(ranks[slot])
                ranks[slot] = before
                before += digit_count
            cuda.syncthreads()
            # load the words again: keeping them would take too many registers
            for j in range(EACH):
                thread_words[j] = words[padded(thread * EACH + j)]
                slot = padded_twice((int64(thread_words[j]) >> bits & 15) * THREADS) + padded_twice(thread)
                targets[j] = ranks[slot]
                ranks[slot] = targets[j] + 1
            cuda.syncthreads()
            for j in range(EACH):
                words[padded(int64(targets[j]))] = thread_words[j]
            cuda.syncthreads()
        for k in range(thread, count, THREADS):
            digit = int64(words[padded(k)]) >> 16
            if k == 0 or int64(words[padded(k - 1)]) >> 16 != digit:
                begins[uintp(digit)] -= k
        cuda.syncthreads()
        for j in range(EACH):
            moved[j] = 0
            if (start >= 0) & (j * THREADS < left):
                moved[j] = positions[uintp(start + first + j * THREADS)]
        for k in range(thread, count, THREADS):
            word = int64(words[padded(k)])
            keys[uintp(begins[uintp(word >> 16)] + k)] = tile_data[uintp(word & 65535)]
        cuda.syncthreads()
        if start >= 0:
            for j in range(EACH):
                tile_data[uintp(j * THREADS + thread)] = moved[j]
        else:
            for k in range(thread, count, THREADS):
                tile_data[uintp(k)] = low + k
        cuda.syncthreads()
        for k in range(thread, count, THREADS):
            word = int64(words[padded(k)])
            positions[uintp(begins[uintp(word >> 16)] + k)] = tile_data[uintp(word & 65535)]
        cuda.syncthreads()


def launch_by_digits(x: Layout, n: int, flip: int, take: Callable) -> Callable:
    """The launch of a sort of rows of n elements. take(x, values, indices, positions, size, n, start) writes the result
    for the positions at `start`.
    """
    key = key_storage(x.dtype)
    element = x.storage.name
    empty = x.device.empty
    rows = x.size // n
    threads = block_reduce.sharing(x, n)
    per_thread = 64 // key.itemsize
    tiles = -(-n // (per_thread * threads))
    counted = layout((rows, 256 * tiles), dtypes.int32, x.device)
    total = scan.cumsum.prepare((counted,), (1,))

    def launcher(kernel: Callable, arrays: str, numbers: int) -> Callable:
        specialised = partial(keyed(x, kernel), EACH=per_thread, KEYS=key)
        return block_reduce.launcher(
            x,
            kernel.__name__,
            specialised,
            f"{element}[], {key.name}[], {arrays}{', int64' * numbers}",
            rows * tiles,
            threads,
        )

    count, move = launcher(count_digits, "int32[]", 6), launcher(move_digits, "uint32[], int32[], int64[]", 7)

    def launch(x_data: object, values: object, indices: object) -> None:
        keys, places = empty(2 * x.size, key), empty(2 * x.size, np.dtype(np.uint32))
        counts, sums = empty(counted.size, counted.storage), empty(counted.size, np.dtype(np.int64))
        start, target = -1, 0
        for shift in range(0, 8 * key.itemsize, 8):
            count(x_data, keys, counts, rows, n, tiles, start, shift, flip)
            total.launch(counts, sums, *total.constants)
            move(x_data, keys, places, counts, sums, rows, n, tiles, start, target, shift, flip)
            start, target = target, x.size - target
        take(x_data, values, indices, places, x.size, n, start)

    return launch
