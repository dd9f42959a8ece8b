"""Running totals and extremes of rows that blocks of GPU threads share: the kernels of `scan` for elements that lie
together. No single thread walks a row.

A block takes a tile of a row: every thread four times four neighbouring elements, all read before any is used. The
totals of the fours lie in shared memory in the order of the elements; a thread joins four neighbouring ones, and these
totals are joined each with that of the thread 1, 2, 4 ... before it. What came before each four is told back, and its
elements are read again, from the L1 cache: to hold them, as wide as they are joined, would take the registers of half
of the blocks. Of few long rows blocks take parts: first they only tell the parts' totals; then each begins with a turn
in which the totals of the parts before its own are the fours. All in an order that depends on the sizes alone, so every
run gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, log1p

import numpy as np

from ...device import Layout
from ...kernel.language import cuda, int64, SHARED, shared_array, uintp
from ...kernel.library.teams import give_4, hold_4
from ...kernel.scalar import scalar
from . import block_reduce


@scalar
def join_sum(a, b):
    """The total of two neighbouring runs, for sums."""
    return a + b


@scalar
def join_product(a, b):
    """For products."""
    return a * b


@scalar
def join_exponentials(a, b):
    """For logarithms of sums of exponentials: the greater, plus what the smaller adds to it."""
    high = b if b > a or b != b else a
    low = a if b > a or b != b else b
    return high if high == low and high - high != 0 else high + log1p(exp(low - high))


@scalar
def spaced(place):
    """Where the total of a tile's four elements lies: a gap behind sixteen keeps threads that read four neighbours each
    to banks of their own.
    """
    return uintp(place + (place >> 4))


def running_team(x, totals, out, rows, n, chunk, chunks, writing, *, IDENTITY, JOIN, NUMBER, RESULT, TEAM, WIDE):
    """out (rows, n) = the running total of x (rows, n).

    Unless `writing`, only totals (rows, chunks) are told: those of `chunk` elements each.
    """
    fours = shared_array(4 * TEAM + TEAM // 4, WIDE, SHARED)
    shared = shared_array(2 * TEAM, WIDE, SHARED)
    given, told = cuda.local.array(16, NUMBER), cuda.local.array(4, RESULT)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * chunks, int64(cuda.gridDim.x)):
        row, part = task // chunks, task % chunks
        begin, stop, total = part * chunk, min((part + 1) * chunk, n), WIDE(IDENTITY)
        # a turn before the first for the parts' totals
        for low in range(begin - 16 * TEAM if (writing != 0) & (part != 0) else begin, stop, 16 * TEAM):
            for turn in range(4):
                first = low + 4 * (turn * TEAM + thread)
                if (low >= begin) & (first + 4 <= stop):
                    hold_4(given, 4 * turn, x, uintp(row * n + first))
                else:
                    for k in range(4):
                        given[4 * turn + k] = (
                            x[uintp(row * n + first + k)]
                            if (low >= begin) & (first + k < stop)
                            else NUMBER(WIDE(IDENTITY))
                        )
            for turn in range(4):
                place, own = turn * TEAM + thread, WIDE(IDENTITY)
                for k in range(4):
                    own = JOIN(own, WIDE(given[4 * turn + k]))
                fours[spaced(place)] = totals[uintp(row * chunks + place)] if (low < begin) & (place < part) else own
            cuda.syncthreads()
            own = WIDE(IDENTITY)
            for k in range(4):
                own = JOIN(own, fours[spaced(4 * thread + k)])
            half = 0  # of the shared memory: while one is read the other is written
            shared[uintp(thread)] = own
            cuda.syncthreads()
            width = 1
            while width < TEAM:
                own = JOIN(shared[uintp(half + thread - width)], own) if thread >= width else own
                half = TEAM - half
                shared[uintp(half + thread)] = own
                cuda.syncthreads()
                width = width * 2
            before = JOIN(total, shared[uintp(half + thread - 1)]) if thread != 0 else total
            total = JOIN(total, shared[uintp(half + TEAM - 1)])
            if writing != 0:
                for k in range(4):
                    own = fours[spaced(4 * thread + k)]
                    fours[spaced(4 * thread + k)] = before
                    before = JOIN(before, own)
                cuda.syncthreads()
                for turn in range(4 if low >= begin else 0):
                    first, own = low + 4 * (turn * TEAM + thread), fours[spaced(turn * TEAM + thread)]
                    if first + 4 <= stop:
                        hold_4(given, 0, x, uintp(row * n + first))
                        for k in range(4):
                            own = JOIN(own, WIDE(given[k]))
                            told[k] = own
                        give_4(out, uintp(row * n + first), told, 0)
                    else:
                        for k in range(first, stop):
                            own = JOIN(own, WIDE(x[uintp(row * n + k)]))
                            out[uintp(row * n + k)] = own
        if (thread == 0) & (writing == 0):
            totals[uintp(task)] = total


def greatest_team(x, highs, places, values, indices, rows, n, chunk, chunks, writing, *, NUMBER, TEAM, later):
    """values, indices (rows, n) = the greatest so far of x (rows, n) and its last place; highs, places (rows, chunks)
    as `totals` above. Once NaN, always NaN.
    """
    fours = shared_array(4 * TEAM + TEAM // 4, NUMBER, SHARED)
    fours_places = shared_array(4 * TEAM + TEAM // 4, int64, SHARED)
    shared = shared_array(2 * TEAM, NUMBER, SHARED)
    shared_places = shared_array(2 * TEAM, int64, SHARED)
    given, held_places = cuda.local.array(16, NUMBER), cuda.local.array(4, int64)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * chunks, int64(cuda.gridDim.x)):
        row, part = task // chunks, task % chunks
        begin, stop = part * chunk, min((part + 1) * chunk, n)
        total, where = NUMBER(0), int64(-1)  # no place: nothing came before
        for low in range(begin - 16 * TEAM if (writing != 0) & (part != 0) else begin, stop, 16 * TEAM):
            for turn in range(4):
                first = low + 4 * (turn * TEAM + thread)
                if (low >= begin) & (first + 4 <= stop):
                    hold_4(given, 4 * turn, x, uintp(row * n + first))
                else:
                    for k in range(4):
                        given[4 * turn + k] = (
                            x[uintp(row * n + first + k)] if (low >= begin) & (first + k < stop) else NUMBER(0)
                        )
            for turn in range(4):
                first, own, place = low + 4 * (turn * TEAM + thread), NUMBER(0), int64(-1)
                for k in range(4):
                    own, place = later(
                        own, place, given[4 * turn + k], first + k if (low >= begin) & (first + k < stop) else int64(-1)
                    )
                at = turn * TEAM + thread
                if (low < begin) & (at < part):
                    own, place = highs[uintp(row * chunks + at)], places[uintp(row * chunks + at)]
                fours[spaced(at)], fours_places[spaced(at)] = own, place
            cuda.syncthreads()
            own, place = NUMBER(0), int64(-1)
            for k in range(4):
                own, place = later(own, place, fours[spaced(4 * thread + k)], fours_places[spaced(4 * thread + k)])
            half = 0
            shared[uintp(thread)], shared_places[uintp(thread)] = own, place
            cuda.syncthreads()
            width = 1
            while width < TEAM:
                if thread >= width:
                    own, place = later(
                        shared[uintp(half + thread - width)], shared_places[uintp(half + thread - width)], own, place
                    )
                half = TEAM - half
                shared[uintp(half + thread)], shared_places[uintp(half + thread)] = own, place
                cuda.syncthreads()
                width = width * 2
            before, before_place = total, where
            if thread != 0:
                before, before_place = later(
                    total, where, shared[uintp(half + thread - 1)], shared_places[uintp(half + thread - 1)]
                )
            total, where = later(total, where, shared[uintp(half + TEAM - 1)], shared_places[uintp(half + TEAM - 1)])
            if writing != 0:
                for k in range(4):
                    at = spaced(4 * thread + k)
                    own, place = fours[at], fours_places[at]
                    fours[at], fours_places[at] = before, before_place
                    before, before_place = later(before, before_place, own, place)
                cuda.syncthreads()
                for turn in range(4 if low >= begin else 0):
                    first, at = low + 4 * (turn * TEAM + thread), spaced(turn * TEAM + thread)
                    own, place = fours[at], fours_places[at]
                    if first + 4 <= stop:
                        hold_4(given, 0, x, uintp(row * n + first))
                        for k in range(4):
                            own, place = later(own, place, given[k], first + k)
                            given[k], held_places[k] = own, place
                        give_4(values, uintp(row * n + first), given, 0)
                        give_4(indices, uintp(row * n + first), held_places, 0)
                    else:
                        for k in range(first, stop):
                            own, place = later(own, place, x[uintp(row * n + k)], k)
                            values[uintp(row * n + k)], indices[uintp(row * n + k)] = own, place
        if (thread == 0) & (writing == 0):
            highs[uintp(task)], places[uintp(task)] = total, where


@scalar
def later_of_greatest(a, a_place, b, b_place):
    """Of the greatest of two neighbouring runs, with their places, the greater; of equal ones the later.

    A place of -1: the run is empty.
    """
    behind = (b_place >= 0) & ((a_place < 0) | (not a > b) & ((a == a) | (b != b)))
    return (b if behind else a), (b_place if behind else a_place)


@scalar
def later_of_least(a, a_place, b, b_place):
    """The same of the least."""
    behind = (b_place >= 0) & ((a_place < 0) | (not b > a) & ((a == a) | (b != b)))
    return (b if behind else a), (b_place if behind else a_place)


def running(
    x: Layout, name: str, join: Callable, identity: float, wide: np.dtype, result: np.dtype, n: int
) -> Callable:
    """The launch of a running total of rows of n elements, joined by a function of `kernel.library` from `identity` on
    in the type `wide`.
    """
    kernel = partial(running_team, JOIN=join, IDENTITY=identity, WIDE=wide, NUMBER=x.storage, RESULT=result)
    return _in_parts(x, name, kernel, (wide,), f"{wide.name}[], {result.name}[]", n)


def extremes(x: Layout, name: str, least: bool, n: int) -> Callable:
    """The launch of running extremes and their places."""
    kernel = partial(greatest_team, later=later_of_least if least else later_of_greatest, NUMBER=x.storage)
    number, place = x.storage, np.dtype(np.int64)
    return _in_parts(x, name, kernel, (number, place), f"{number.name}[], int64[], {number.name}[], int64[]", n)


def _in_parts(x: Layout, name: str, kernel: Callable, told: tuple[np.dtype, ...], arrays: str, n: int) -> Callable:
    rows, threads, empty = x.size // n, block_reduce.sharing(x, n), x.device.empty
    tile = 16 * threads
    chunk = -(-n // min(x.device.backend.chunks(rows, n, True), 4 * threads))  # whose totals are a turn's fours
    chunk = -(-chunk // tile) * tile
    chunks = -(-n // chunk)
    run = block_reduce.launcher(
        x, name, kernel, f"{x.storage.name}[], {arrays}" + 5 * ", int64", rows * chunks, threads
    )

    def launch(x_data: object, *results: object) -> None:
        parts = [empty(rows * chunks, each) for each in told]
        for writing in (0, 1) if chunks > 1 else (1,):
            run(x_data, *parts, *results, rows, n, chunk, chunks, writing)

    return launch
