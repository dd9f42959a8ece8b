"""Long rows sorted by blocks of GPU threads, digit by digit of eight bits from the lowest: for `sort`, where merges
would take more rounds than that.

A pass has three steps: blocks count the digits of their tiles; a running total of the counts, the digits' before the
tiles', says where each tile's keys of a digit go; and blocks move them there. A block first sorts its tile in shared
memory, so that what it writes lies together: by four bits at a time, of which each thread counts those of its own
neighbouring keys, and a running total of these counts, again the digits' before the threads', is where they go. Every
step keeps the order of equal digits, and so is the sort stable. What is moved inside of a block is a word of a key's
digit and its place in the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel.language import cuda, int32, int64, SHARED, shared_array, uint16, uint32, uint64, uintp
from ...kernel.library.teams import team_sum_before
from ...kernel.scalar import scalar
from ..reduce import scan, block_reduce
from .radix_keys import key_storage, keyed

# that a block sorts of a row, from which it takes fewer rounds by digits; and in all twice as many for each byte of a
# key, to be worth the launches
_RUNS = 32


def suits(x: Layout, n: int, runs: int) -> bool:
    """Whether to sort rows of n elements, each of so many `runs` that blocks sort, by digits.

    In the simulator, where runs are short, never.
    """
    return (
        not x.device.backend.SIMULATED
        and runs >= _RUNS
        and x.size // n * runs >= 2 * _RUNS * key_storage(x.dtype).itemsize
    )


@scalar
def apart(place):
    """Where a word of a tile lies: a gap behind sixteen keeps threads that go along sixteen each to banks of their own.

    Of a multiple of TEAM and a thread's number it is the sum of both, of which the compiler knows the one: else it
    would hold a register for each.
    """
    return uintp(place + (place >> 4))


@scalar
def apart_twice(place):
    """The same for counts of two bytes."""
    return uintp(place + (place >> 4) * 2)


def count_digits(x, keys, counts, rows, n, tiles, start, shift, flip, *, EACH, KEYS, TEAM, key_of):
    """counts (rows, 256, tiles) = how many keys of each tile of a row have each digit, the eight bits from `shift` on.

    They are those of x if `start` is -1.
    """
    found = shared_array(256, int32, SHARED)
    given, raw = cuda.local.array(EACH, KEYS), cuda.local.array(EACH, x.dtype)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * tiles, int64(cuda.gridDim.x)):
        row, tile = task // tiles, task % tiles
        low = tile * EACH * TEAM
        # the thread's first, and how many of the row are from there on
        mine, left = row * n + low + thread, n - low - thread
        for digit in range(thread, 256, TEAM):
            found[uintp(digit)] = 0
        if start < 0:
            for j in range(EACH):  # all loads are under way before a key is made
                raw[j] = 0  # else the compiler would keep what the turn before left there
                if j * TEAM < left:
                    raw[j] = x[uintp(mine + j * TEAM)]
            for j in range(EACH):
                given[j] = key_of(raw[j]) ^ (uint64(0) - uint64(flip))
        else:
            for j in range(EACH):
                given[j] = 0
                if j * TEAM < left:
                    given[j] = keys[uintp(start + mine + j * TEAM)]
        cuda.syncthreads()
        for j in range(EACH):
            if j * TEAM < left:
                cuda.atomic.add(found, int64((uint64(given[j]) >> uint64(shift)) & uint64(255)), 1)
        cuda.syncthreads()
        for digit in range(thread, 256, TEAM):
            counts[uintp((row * 256 + digit) * tiles + tile)] = found[uintp(digit)]


def move_digits(x, keys, places, counts, sums, rows, n, tiles, start, target, shift, flip, *, EACH, KEYS, TEAM, key_of):
    """The keys and places of each tile from `start` on (-1: of x) to where they belong by their digit, from `target`
    on. sums: the running total of counts.
    """
    words = shared_array(17 * EACH * TEAM // 16, uint32, SHARED)
    given = shared_array(EACH * TEAM, KEYS, SHARED)
    ranks = shared_array(18 * TEAM, uint16, SHARED)
    shared = shared_array(2 * TEAM, int32, SHARED)
    begins = shared_array(256, int64, SHARED)
    moved, raw = cuda.local.array(EACH, KEYS), cuda.local.array(EACH, x.dtype)
    held, found = cuda.local.array(EACH, uint32), cuda.local.array(EACH, uint16)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * tiles, int64(cuda.gridDim.x)):
        row, tile = task // tiles, task % tiles
        low = tile * EACH * TEAM
        count = min(n - low, EACH * TEAM)
        mine, left = row * n + low + thread, count - thread
        for digit in range(thread, 256, TEAM):
            at = (row * 256 + digit) * tiles + tile
            begins[uintp(digit)] = target + row * n + sums[uintp(at)] - counts[uintp(at)]
        if start < 0:
            for j in range(EACH):
                raw[j] = 0
                if j * TEAM < left:
                    raw[j] = x[uintp(mine + j * TEAM)]
            for j in range(EACH):
                moved[j] = key_of(raw[j]) ^ (uint64(0) - uint64(flip))
        else:
            for j in range(EACH):
                moved[j] = 0
                if j * TEAM < left:
                    moved[j] = keys[uintp(start + mine + j * TEAM)]
        for j in range(EACH):
            given[uintp(j * TEAM + thread)] = moved[j]
            # what fills up the tile is last
            digit = int64((uint64(moved[j]) >> uint64(shift)) & uint64(255)) if j * TEAM < left else int64(255)
            words[apart(j * TEAM) + apart(thread)] = (digit << 16) + thread + j * TEAM
        cuda.syncthreads()
        for bits in range(16, 24, 4):
            for digit in range(16):
                ranks[apart_twice(digit * TEAM) + apart_twice(thread)] = 0
            for j in range(EACH):
                at = apart_twice((int64(words[apart(thread * EACH + j)]) >> bits & 15) * TEAM) + apart_twice(thread)
                ranks[at] = ranks[at] + 1
            cuda.syncthreads()
            total = int64(0)
            for k in range(16):
                total += int64(ranks[apart_twice(16 * thread + k)])
            before = team_sum_before(total, shared, thread, TEAM)
            for k in range(16):
                at = apart_twice(16 * thread + k)
                here = int64(ranks[at])
                ranks[at] = before
                before += here
            cuda.syncthreads()
            # read again: what would be held of them all this time takes more registers than there are for all blocks
            for j in range(EACH):
                held[j] = words[apart(thread * EACH + j)]
                at = apart_twice((int64(held[j]) >> bits & 15) * TEAM) + apart_twice(thread)
                found[j] = ranks[at]
                ranks[at] = found[j] + 1
            cuda.syncthreads()
            for j in range(EACH):
                words[apart(int64(found[j]))] = held[j]
            cuda.syncthreads()
        for k in range(thread, count, TEAM):
            digit = int64(words[apart(k)]) >> 16
            if k == 0 or int64(words[apart(k - 1)]) >> 16 != digit:
                begins[uintp(digit)] -= k
        cuda.syncthreads()
        for j in range(EACH):
            moved[j] = 0
            if (start >= 0) & (j * TEAM < left):
                moved[j] = places[uintp(start + mine + j * TEAM)]
        for k in range(thread, count, TEAM):
            word = int64(words[apart(k)])
            keys[uintp(begins[uintp(word >> 16)] + k)] = given[uintp(word & 65535)]
        cuda.syncthreads()
        if start >= 0:
            for j in range(EACH):
                given[uintp(j * TEAM + thread)] = moved[j]
        else:
            for k in range(thread, count, TEAM):
                given[uintp(k)] = low + k
        cuda.syncthreads()
        for k in range(thread, count, TEAM):
            word = int64(words[apart(k)])
            places[uintp(begins[uintp(word >> 16)] + k)] = given[uintp(word & 65535)]
        cuda.syncthreads()


def by_digits(x: Layout, n: int, flip: int, take: Callable) -> Callable:
    """The launch of a sort of rows of n elements. take(x, values, indices, places, size, n, start) writes what the
    places from `start` on say.
    """
    key, element, empty, rows, threads = (
        key_storage(x.dtype),
        x.storage.name,
        x.device.empty,
        x.size // n,
        block_reduce.sharing(x, n),
    )
    each = 64 // key.itemsize
    tiles = -(-n // (each * threads))
    counted = layout((rows, 256 * tiles), dtypes.int32, x.device)
    total = scan.cumsum.prepare((counted,), (1,))

    def launcher(kernel: Callable, arrays: str, numbers: int) -> Callable:
        made = partial(keyed(x, kernel), EACH=each, KEYS=key)
        return block_reduce.launcher(
            x, kernel.__name__, made, f"{element}[], {key.name}[], {arrays}{', int64' * numbers}", rows * tiles, threads
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
