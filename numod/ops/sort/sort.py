"""Stable sorts along the last dimension of a contiguous tensor, seen as (rows, n).

The public functions are in `core.sorting`.

Elements become keys (`keys`), so one loop sorts all dtypes, both ways and stably. On the CPU a task sorts whole rows,
by merges or digit by digit; on a GPU every element finds its own place in each round of a merge, and long rows are
`sort_digits`'. In the kernels `flip` turns every bit of a key, to sort downwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel.language import cuda, int64, parallel_range, SHARED, shared_array, uint32, uint64, uintp
from ...kernel.scalar import scalar, shared_scalar
from . import radix_cuda
from ..reduce import block_reduce
from .radix_keys import TASKS, digits, key_storage, keyed, keyed_launcher, scatter_back
from ..op import Op, Plan

_SHORT = 64  # maximum row length for insertion sort
_MERGED = 256  # maximum row length for merge sort of words
# elements from which longer digits save more passes than their counts cost, and to which the caches hold all targets of
# 11 bits
_LONG, _FAR = 1 << 10, 1 << 18
_PLACE = np.dtype(np.uint32)


def sort_packed_kernel(x, values, indices, words, counts, rows, n, tasks, digit, flip, *, key_of, value_of):
    """values, indices (rows, n) = x (rows, n) in order. words (tasks, 2, n) and counts (tasks, 4, 2^digit) are scratch.

    A key of up to 32 bits and its place are one word: no two are equal, so that any order of words is stable, and one
    number is moved instead of two.
    """
    for place in parallel_range(tasks):
        task = int64(place)
        start = task * 2 * n
        for row in range(task, rows, tasks):
            base = row * n
            low = key_of(x[uintp(base)]) ^ uint64(flip)
            high = low
            for k in range(n):
                key = key_of(x[uintp(base + k)]) ^ uint64(flip)
                low = min(low, key)
                high = max(high, key)
            for k in range(n):
                words[uintp(start + k)] = (((key_of(x[uintp(base + k)]) ^ uint64(flip)) - low) << uint64(32)) | uint64(
                    k
                )
            found = radix_words(words, counts, start, n, n, task * 4 << digit, digit, high - low)
            unlike = int64(0)
            for k in range(n):
                word = words[uintp(found + k)]
                value = value_of(((word >> uint64(32)) + low) ^ uint64(flip))
                unlike += int64((value == 0) | (value != value))
                indices[uintp(base + k)] = int64(word & uint64(0xFFFFFFFF))
                values[uintp(base + k)] = value
            if unlike != 0:  # keys do not preserve the sign of zero and the payload of NaN
                take_places(x, values, indices, words, base, found, n)


def merge_packed_kernel(x, values, indices, words, rows, n, tasks, flip, *, key_of):
    """The same for short rows, which are merged. words (tasks, 2, n) is scratch."""
    for place in parallel_range(tasks):
        task = int64(place)
        start = task * 2 * n
        for row in range(task, rows, tasks):
            base = row * n
            for k in range(n):
                words[uintp(start + k)] = ((key_of(x[uintp(base + k)]) ^ uint64(flip)) << uint64(32)) | uint64(k)
            take_places(x, values, indices, words, base, merge_words(words, start, n), n)


@scalar
def limits_of(keys, start, n):
    """The least and the greatest of n keys."""
    low, high = keys[uintp(start)], keys[uintp(start)]
    for k in range(n):
        low = min(low, keys[uintp(start + k)])
        high = max(high, keys[uintp(start + k)])
    return low, high


@scalar
def take_places(x, values, indices, words, base, found, n):
    """The row of n elements from `base` on in the order of the words from `found` on."""
    for k in range(n):
        source = int64(words[uintp(found + k)] & uint64(0xFFFFFFFF))
        indices[uintp(base + k)] = source
        values[uintp(base + k)] = x[uintp(base + source)]


@shared_scalar
def merge_words(words, start, n):
    """The n different words from `start` on in order, there or n further: which of the two is the result.

    No branch depends on what they are.
    """
    source = start + n
    for low in range(0, n, 16):
        high = min(low + 16, n)
        for k in range(low, high):
            word = words[uintp(start + k)]
            rank = low
            for other in range(low, high):
                rank += int64(words[uintp(start + other)] < word)
            words[uintp(source + rank)] = word
    width = int64(16)
    while width < n:
        target = 2 * start + n - source
        for low in range(0, n, 2 * width):
            left = source + low
            right = source + min(low + width, n)
            middle = right
            end = source + min(low + 2 * width, n)
            to = target + low
            while left < middle and right < end:
                a = words[uintp(left)]
                b = words[uintp(right)]
                words[uintp(to)] = min(a, b)
                left += int64(a < b)
                right += int64(b < a)
                to += 1
            for k in range(left, middle):
                words[uintp(to + k - left)] = words[uintp(k)]
            for k in range(right, end):
                words[uintp(to + k - right)] = words[uintp(k)]
        source = target
        width *= 2
    return source


@scalar
def add_up(counts, first, n, before):
    """Counts become how many come before, and `before` more."""
    for k in range(n):
        here = counts[uintp(first + k)]
        counts[uintp(first + k)] = before
        before += here


@shared_scalar
def radix_words(words, counts, start, n, apart, first, longest, most):
    """The same for many, by digits of up to `longest` bits of their upper halves, up to `most`, from the lowest; each
    pass is stable. The other half is `apart` from `start`.

    Digits are as short as the number of passes allows.
    """
    bits = int64(0)
    while most >> uint64(bits) != uint64(0):
        bits += 1
    passes = (bits + longest - 1) // longest
    digit = (bits + passes - 1) // max(passes, 1)
    mask = (int64(1) << digit) - 1
    for k in range(passes << digit):
        counts[uintp(first + k)] = 0
    for k in range(n):
        word = words[uintp(start + k)]
        for level in range(passes):
            counts[uintp(first + (level << digit) + (int64(word >> uint64(32 + level * digit)) & mask))] += 1
    source = start
    for level in range(passes):
        column = first + (level << digit)
        shift = uint64(32 + level * digit)
        if counts[uintp(column + (int64(words[uintp(source)] >> shift) & mask))] != n:  # else all have this digit
            target = 2 * start + apart - source
            add_up(counts, column, mask + 1, target)
            for k in range(n):
                word = words[uintp(source + k)]
                slot = column + (int64(word >> shift) & mask)
                rank = counts[uintp(slot)]
                counts[uintp(slot)] = rank + 1
                words[uintp(rank)] = word
            source = target
    return source


def sort_rows_kernel(x, values, indices, keys, places, counts, rows, n, tasks, digit, passes, flip, *, key_of):
    """values, indices (rows, n) = x (rows, n) in order. keys, places (2, rows, n) and counts (tasks, passes, 2^digit)
    are scratch.
    """
    for place in parallel_range(tasks):
        task = int64(place)
        for row in range(task, rows, tasks):
            base = row * n
            start = base
            for k in range(n):
                keys[uintp(base + k)] = key_of(x[uintp(base + k)]) ^ (uint64(0) - uint64(flip))
                places[uintp(base + k)] = k
            low, high = limits_of(keys, base, n)
            if high - low <= uint64(0xFFFFFFFF) and passes > 0:  # the differing bits fit into a word next to the index
                for k in range(n):
                    keys[uintp(base + k)] = ((keys[uintp(base + k)] - low) << uint64(32)) | uint64(k)
                take_places(
                    x,
                    values,
                    indices,
                    keys,
                    base,
                    radix_words(keys, counts, base, n, rows * n, task * passes << digit, digit, high - low),
                    n,
                )
            else:
                if passes == 0:
                    insertion_sort(keys, places, base, n)
                else:
                    start = radix_sort(keys, places, counts, base, rows * n, n, task * passes << digit, digit, passes)
                take_places(x, values, indices, places, base, start, n)


@scalar
def insertion_sort(keys, places, base, n):
    """A short row of keys and their places, in order."""
    for k in range(1, n):
        key = keys[uintp(base + k)]
        source = places[uintp(base + k)]
        hole = k
        while hole > 0 and keys[uintp(base + hole - 1)] > key:
            keys[uintp(base + hole)] = keys[uintp(base + hole - 1)]
            places[uintp(base + hole)] = places[uintp(base + hole - 1)]
            hole -= 1
        keys[uintp(base + hole)] = key
        places[uintp(base + hole)] = source


@shared_scalar
def radix_sort(keys, places, counts, base, total, n, first, digit, passes):
    """A row in order, digit by digit from the lowest, each pass stable; gives where it ends up:

    `base`, or `total` elements further.
    """
    mask = (int64(1) << digit) - 1
    for k in range(passes << digit):
        counts[uintp(first + k)] = 0
    for k in range(n):
        key = uint64(keys[uintp(base + k)])
        for level in range(passes):
            counts[uintp(first + (level << digit) + (int64(key >> uint64(level * digit)) & mask))] += 1
    source = base
    for level in range(passes):
        column = first + (level << digit)
        shift = uint64(level * digit)
        # else all have this digit
        if counts[uintp(column + (int64(uint64(keys[uintp(source)]) >> shift) & mask))] != n:
            add_up(counts, column, mask + 1, int64(0))
            target = 2 * base + total - source
            for k in range(n):
                key = uint64(keys[uintp(source + k)])
                slot = column + (int64(key >> shift) & mask)
                rank = counts[uintp(slot)]
                counts[uintp(slot)] = rank + 1
                keys[uintp(target + rank)] = key
                places[uintp(target + rank)] = places[uintp(source + k)]
            source = target
    return source


def sort_block(x, values, indices, keys, places, rows, n, runs, flip, *, RUN, TEAM, key_of):
    """Each of `runs` runs of up to RUN elements of a row of x (rows, n) in order, by a block of GPU threads.

    A single run is the result, else keys and places are.

    A bitonic network in shared memory: neighbouring threads compare neighbouring pairs, so that banks collide only in
    the last rounds of each turn.
    """
    shared = shared_array(RUN, uint64, SHARED)
    shared_places = shared_array(RUN, uint32, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * runs, int64(cuda.gridDim.x)):
        row, start = task // runs * n, task % runs * RUN
        count = min(n - start, RUN)
        for k in range(thread, RUN, TEAM):
            shared[uintp(k)] = (
                key_of(x[uintp(row + start + k)]) ^ (uint64(0) - uint64(flip))
                if k < count
                else uint64(0xFFFFFFFFFFFFFFFF)
            )
            shared_places[uintp(k)] = start + k  # of equal keys the order they had; what fills up the run is last
        cuda.syncthreads()
        size = 2
        while size <= RUN:
            step = size // 2
            while step != 0:
                for pair in range(thread, RUN // 2, TEAM):
                    low = 2 * pair - (pair & (step - 1))
                    a, b = shared[uintp(low)], shared[uintp(low + step)]
                    a_place, b_place = shared_places[uintp(low)], shared_places[uintp(low + step)]
                    if ((a > b) | ((a == b) & (a_place > b_place))) == ((low & size) == 0):
                        shared[uintp(low)], shared[uintp(low + step)] = b, a
                        shared_places[uintp(low)], shared_places[uintp(low + step)] = b_place, a_place
                cuda.syncthreads()
                step = step // 2
            size = size * 2
        for k in range(thread, count, TEAM):
            place = int64(shared_places[uintp(k)])
            if runs == 1:
                indices[uintp(row + k)] = place
                values[uintp(row + k)] = x[uintp(row + place)]
            else:
                keys[uintp(row + start + k)] = shared[uintp(k)]
                places[uintp(row + start + k)] = place
        cuda.syncthreads()


def merge_kernel(keys, places, total, n, width, start):
    """Runs of `width` sorted keys from `start` on, merged in pairs into the other half: an element's place is its own
    plus how many pass it.
    """
    for task in parallel_range(total):
        element = int64(task)
        inside = element % n
        run = inside // width
        other = (run ^ 1) * width
        key = keys[uintp(start + element)]
        low = min(other, n)
        high = min(other + width, n)
        while low < high:
            middle = (low + high) // 2
            rival = keys[uintp(start + element - inside + middle)]
            if rival < key or (rival == key and other < inside):
                low = middle + 1
            else:
                high = middle
        target = (
            total - start + element - inside + (min(run, run ^ 1) * width + inside - run * width + low - min(other, n))
        )
        keys[uintp(target)] = key
        places[uintp(target)] = places[uintp(start + element)]


def take_kernel(x, values, indices, places, total, n, start):
    """values, indices (rows, n) = elements of x (rows, n) at the places."""
    for task in parallel_range(total):
        element = int64(task)
        source = int64(places[uintp(start + element)])
        indices[uintp(element)] = source
        values[uintp(element)] = x[uintp(element - element % n + source)]


class Sort(Op):
    """All elements of each row in order, and where they were; equal ones as they stood. Parameter `descending`."""

    takes = "x[*s]:buif; descending=flag"
    inputs, parameters, outputs = ("x",), ("descending",), ("values", "indices")
    gradients = {"x": scatter_back}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (descending,) = arguments, parameters
        results = layout(x.shape, x.dtype, x.device), layout(x.shape, dtypes.int64, x.device)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        n = x.shape[-1] if x.ndim else 1
        return Plan(results, (_merging if x.device.backend.is_gpu else _by_rows)(x, n, int(descending)))


def _by_rows(x: Layout, n: int, flip: int) -> Callable:
    """A task sorts every so-many-th row."""
    if x.storage.itemsize <= 4:
        return _packed(x, n, flip)
    rows, (digit, passes), key = x.size // n, digits(x.dtype, n) if n > _SHORT else (0, 0), key_storage(x.dtype)
    tasks, halves = min(rows, TASKS), 2 if passes else 1
    arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[], uint32[], int64[]"
    run = keyed_launcher(x, "sort_rows", sort_rows_kernel, arrays, 6, x.size * 16 if rows > 1 else 1)
    empty = x.device.empty

    def launch(x_data: object, values: object, indices: object) -> None:
        scratch = (
            empty(halves * x.size, key),
            empty(halves * x.size, _PLACE),
            empty(max(tasks * passes << digit, 1), np.dtype(np.int64)),
        )
        run(x_data, values, indices, *scratch, rows, n, tasks, digit, passes, flip)

    return launch


def _packed(x: Layout, n: int, flip: int) -> Callable:
    """The same for keys that fit a word beside their places."""
    rows, work = x.size // n, x.size * 16 if x.size > n else 1
    tasks, word, empty = min(rows, TASKS), np.dtype(np.uint64), x.device.empty
    arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], uint64[]"
    turned = flip * 0xFFFFFFFF
    if n <= _MERGED:
        merge = keyed_launcher(x, "sort_rows", merge_packed_kernel, arrays, 4, work)
        return lambda x_data, values, indices: merge(
            x_data, values, indices, empty(2 * tasks * n, word), rows, n, tasks, turned
        )
    digit = 8 if n < _LONG else 11 if n < _FAR else 10
    run = keyed_launcher(x, "sort_rows", sort_packed_kernel, f"{arrays}, int64[]", 5, work)

    def launch(x_data: object, values: object, indices: object) -> None:
        run(
            x_data,
            values,
            indices,
            empty(2 * tasks * n, word),
            empty(tasks * 4 << digit, np.dtype(np.int64)),
            rows,
            n,
            tasks,
            digit,
            turned,
        )

    return launch


def _merging(x: Layout, n: int, flip: int) -> Callable:
    """Blocks of threads sort runs of rows, which are merged in rounds, in pairs, each element by a thread of its own;
    unless there are so many that digits are faster.
    """
    key, element, empty, together = (
        key_storage(x.dtype),
        x.storage.name,
        x.device.empty,
        x.device.backend.sorted_together(),
    )
    run, rows = min(max(1 << (n - 1).bit_length(), 16), together), x.size // n
    runs, threads = -(-n // run), min(x.device.backend.team(8 * run), run // 2)
    if radix_cuda.suits(x, n, runs):
        return radix_cuda.by_digits(x, n, flip, _taking(x))
    arrays = f"{element}[], {element}[], int64[], {key.name}[], uint32[]"
    begin = block_reduce.launcher(
        x, "sort_runs", partial(keyed(x, sort_block), RUN=run), arrays + 4 * ", int64", rows * runs, threads
    )
    if runs == 1:
        return lambda x_data, values, indices: begin(
            x_data, values, indices, empty(1, key), empty(1, _PLACE), rows, n, 1, flip
        )
    merge, take = keyed_launcher(x, "merge", merge_kernel, f"{key.name}[], uint32[]", 4, x.size), _taking(x)
    rounds = (runs - 1).bit_length()

    def launch(x_data: object, values: object, indices: object) -> None:
        keys, places = empty(2 * x.size, key), empty(2 * x.size, _PLACE)
        begin(x_data, values, indices, keys, places, rows, n, runs, flip)
        for turn in range(rounds):
            merge(keys, places, x.size, n, run << turn, turn % 2 * x.size)
        take(x_data, values, indices, places, x.size, n, rounds % 2 * x.size)

    return launch


def _taking(x: Layout) -> Callable:
    return keyed_launcher(
        x, "take", take_kernel, f"{x.storage.name}[], {x.storage.name}[], int64[], uint32[]", 3, x.size
    )


sort = Sort("sort")
