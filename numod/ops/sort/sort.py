"""Stable sorts along the last dimension of a contiguous tensor, seen as (rows, n).

Elements become unsigned keys (`radix_keys`), so that one kernel sorts all dtypes. `flip` inverts the bits of the keys
to sort in descending order. On the CPU a task sorts whole rows, by merge sort or radix sort. On a GPU blocks of threads
sort runs, which are then merged; long rows are sorted by `radix_cuda`.
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

_INSERTION_LENGTH = 64  # maximum row length for insertion sort
_MERGE_LENGTH = 256  # maximum row length for merge sort of words
# row lengths from which 11-bit digits are faster than 8 bits, and from which 10 bits are, since the caches cannot hold
# the write positions of 2^11 digits
_DIGIT11_LENGTH, _DIGIT10_LENGTH = 1 << 10, 1 << 18
_POSITION = np.dtype(np.uint32)


def sort_packed_kernel(x, values, indices, words, counts, rows, n, tasks, digit, flip, *, key_of, value_of):
    """values, indices (rows, n) = x (rows, n) sorted. words (tasks, 2, n) and counts (tasks, 4, 2^digit) are scratch.

    A word holds a key of up to 32 bits and its index. All words are different, so any sort of them is stable.
    """
    for index in parallel_range(tasks):
        task = int64(index)
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
            sorted_at = radix_words(words, counts, start, n, n, task * 4 << digit, digit, high - low)
            special_count = int64(0)
            for k in range(n):
                word = words[uintp(sorted_at + k)]
                value = value_of(((word >> uint64(32)) + low) ^ uint64(flip))
                special_count += int64((value == 0) | (value != value))
                indices[uintp(base + k)] = int64(word & uint64(0xFFFFFFFF))
                values[uintp(base + k)] = value
            if special_count != 0:  # keys do not preserve the sign of zero and the payload of NaN
                take_words(x, values, indices, words, base, sorted_at, n)


def merge_packed_kernel(x, values, indices, words, rows, n, tasks, flip, *, key_of):
    """`sort_packed_kernel` for short rows, by merge sort. words (tasks, 2, n) is scratch."""
    for index in parallel_range(tasks):
        task = int64(index)
        start = task * 2 * n
        for row in range(task, rows, tasks):
            base = row * n
            for k in range(n):
                words[uintp(start + k)] = ((key_of(x[uintp(base + k)]) ^ uint64(flip)) << uint64(32)) | uint64(k)
            take_words(x, values, indices, words, base, merge_words(words, start, n), n)


@scalar
def limits_of(keys, start, n):
    """The minimum and maximum of n keys."""
    low, high = keys[uintp(start)], keys[uintp(start)]
    for k in range(n):
        low = min(low, keys[uintp(start + k)])
        high = max(high, keys[uintp(start + k)])
    return low, high


@scalar
def take_words(x, values, indices, words, base, start, n):
    """Write the row of n elements at `base` in the order of the words at `start`."""
    for k in range(n):
        source = int64(words[uintp(start + k)] & uint64(0xFFFFFFFF))
        indices[uintp(base + k)] = source
        values[uintp(base + k)] = x[uintp(base + source)]


@shared_scalar
def merge_words(words, start, n):
    """Sort the n different words at `start`, with scratch memory behind them. Returns where the result is: `start` or
    `start` + n.

    No branch depends on the values.
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
def prefix_sums(counts, first, n, before):
    """Replace counts by their exclusive prefix sums, plus `before`."""
    for k in range(n):
        count = counts[uintp(first + k)]
        counts[uintp(first + k)] = before
        before += count


@shared_scalar
def radix_words(words, counts, start, n, half_distance, first, longest, most):
    """Radix sort of n words by their upper halves, which are at most `most`. Returns where the result is: `start` or
    `start` + `half_distance`, where the scratch memory is.

    Digits have up to `longest` bits, but are as short as the number of passes allows. Each pass is stable.
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
        # skip the pass if all have the same digit
        if counts[uintp(column + (int64(words[uintp(source)] >> shift) & mask))] != n:
            target = 2 * start + half_distance - source
            prefix_sums(counts, column, mask + 1, target)
            for k in range(n):
                word = words[uintp(source + k)]
                slot = column + (int64(word >> shift) & mask)
                rank = counts[uintp(slot)]
                counts[uintp(slot)] = rank + 1
                words[uintp(rank)] = word
            source = target
    return source


def sort_rows_kernel(x, values, indices, keys, positions, counts, rows, n, tasks, digit, passes, flip, *, key_of):
    """values, indices (rows, n) = x (rows, n) sorted. keys, positions (2, rows, n) and counts (tasks, passes, 2^digit)
    are scratch.
    """
    for index in parallel_range(tasks):
        task = int64(index)
        for row in range(task, rows, tasks):
            base = row * n
            start = base
            for k in range(n):
                keys[uintp(base + k)] = key_of(x[uintp(base + k)]) ^ (uint64(0) - uint64(flip))
                positions[uintp(base + k)] = k
            low, high = limits_of(keys, base, n)
            if high - low <= uint64(0xFFFFFFFF) and passes > 0:  # the differing bits and the index fit into a word
                for k in range(n):
                    keys[uintp(base + k)] = ((keys[uintp(base + k)] - low) << uint64(32)) | uint64(k)
                take_words(
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
                    insertion_sort(keys, positions, base, n)
                else:
                    start = radix_sort(
                        keys, positions, counts, base, rows * n, n, task * passes << digit, digit, passes
                    )
                take_words(x, values, indices, positions, base, start, n)


@scalar
def insertion_sort(keys, positions, base, n):
    """Sort a short row of keys and their positions."""
    for k in range(1, n):
        key = keys[uintp(base + k)]
        source = positions[uintp(base + k)]
        hole = k
        while hole > 0 and keys[uintp(base + hole - 1)] > key:
            keys[uintp(base + hole)] = keys[uintp(base + hole - 1)]
            positions[uintp(base + hole)] = positions[uintp(base + hole - 1)]
            hole -= 1
        keys[uintp(base + hole)] = key
        positions[uintp(base + hole)] = source


@shared_scalar
def radix_sort(keys, positions, counts, base, total, n, first, digit, passes):
    """Radix sort of a row of keys and their positions. Returns where the result is: `base` or `base` + `total`."""
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
        # skip the pass if all have the same digit
        if counts[uintp(column + (int64(uint64(keys[uintp(source)]) >> shift) & mask))] != n:
            prefix_sums(counts, column, mask + 1, int64(0))
            target = 2 * base + total - source
            for k in range(n):
                key = uint64(keys[uintp(source + k)])
                slot = column + (int64(key >> shift) & mask)
                rank = counts[uintp(slot)]
                counts[uintp(slot)] = rank + 1
                keys[uintp(target + rank)] = key
                positions[uintp(target + rank)] = positions[uintp(source + k)]
            source = target
    return source


def sort_block(x, values, indices, keys, positions, rows, n, runs, flip, *, RUN, THREADS, key_of):
    """Sort each of `runs` runs of up to RUN elements of the rows of x (rows, n), with a block of GPU threads per run.

    With one run per row, values and indices are the result; else keys and positions are.

    A bitonic network in shared memory: adjacent threads compare adjacent pairs, so that bank conflicts occur only in
    the last rounds of each step.
    """
    shared = shared_array(RUN, uint64, SHARED)
    shared_positions = shared_array(RUN, uint32, SHARED)
    thread = int64(cuda.threadIdx.x)
    for task in range(int64(cuda.blockIdx.x), rows * runs, int64(cuda.gridDim.x)):
        row, start = task // runs * n, task % runs * RUN
        count = min(n - start, RUN)
        for k in range(thread, RUN, THREADS):
            shared[uintp(k)] = (
                key_of(x[uintp(row + start + k)]) ^ (uint64(0) - uint64(flip))
                if k < count
                else uint64(0xFFFFFFFFFFFFFFFF)
            )
            shared_positions[uintp(k)] = start + k  # equal keys keep their order; padding is last
        cuda.syncthreads()
        size = 2
        while size <= RUN:
            step = size // 2
            while step != 0:
                for pair in range(thread, RUN // 2, THREADS):
                    low = 2 * pair - (pair & (step - 1))
                    a, b = shared[uintp(low)], shared[uintp(low + step)]
                    a_position, b_position = shared_positions[uintp(low)], shared_positions[uintp(low + step)]
                    if ((a > b) | ((a == b) & (a_position > b_position))) == ((low & size) == 0):
                        shared[uintp(low)], shared[uintp(low + step)] = b, a
                        shared_positions[uintp(low)], shared_positions[uintp(low + step)] = b_position, a_position
                cuda.syncthreads()
                step = step // 2
            size = size * 2
        for k in range(thread, count, THREADS):
            position = int64(shared_positions[uintp(k)])
            if runs == 1:
                indices[uintp(row + k)] = position
                values[uintp(row + k)] = x[uintp(row + position)]
            else:
                keys[uintp(row + start + k)] = shared[uintp(k)]
                positions[uintp(row + start + k)] = position
        cuda.syncthreads()


def merge_kernel(keys, positions, total, n, width, start):
    """Merge pairs of sorted runs of `width` keys into the other half of keys and positions; `start`: 0 or total.

    Each element finds its rank in the other run by binary search.
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
        positions[uintp(target)] = positions[uintp(start + element)]


def take_kernel(x, values, indices, positions, total, n, start):
    """values, indices (rows, n) = the elements of x (rows, n) at `positions`, and these."""
    for task in parallel_range(total):
        element = int64(task)
        source = int64(positions[uintp(start + element)])
        indices[uintp(element)] = source
        values[uintp(element)] = x[uintp(element - element % n + source)]


class Sort(Op):
    """A stable sort of each row: (values, indices)."""

    takes = "x[*s]:buwif; descending=flag"
    inputs, attributes, outputs, wide_unsigned = ("x",), ("descending",), ("values", "indices"), True
    gradients = {"x": scatter_back}

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (descending,) = arguments, attributes
        results = layout(x.shape, x.dtype, x.device), layout(x.shape, dtypes.int64, x.device)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        n = x.shape[-1] if x.ndim else 1
        return Plan(results, (_launch_merging if x.device.backend.is_gpu else _launch_by_rows)(x, n, int(descending)))


def _launch_by_rows(x: Layout, n: int, flip: int) -> Callable:
    """The launch for a CPU; each task sorts whole rows."""
    if x.storage.itemsize <= 4:
        return _launch_packed(x, n, flip)
    rows, (digit, passes), key = (
        x.size // n,
        digits(x.dtype, n) if n > _INSERTION_LENGTH else (0, 0),
        key_storage(x.dtype),
    )
    tasks, halves = min(rows, TASKS), 2 if passes else 1
    arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[], uint32[], int64[]"
    run = keyed_launcher(x, "sort_rows", sort_rows_kernel, arrays, 6, x.size * 16 if rows > 1 else 1)
    empty = x.device.empty

    def launch(x_data: object, values: object, indices: object) -> None:
        scratch = (
            empty(halves * x.size, key),
            empty(halves * x.size, _POSITION),
            empty(max(tasks * passes << digit, 1), np.dtype(np.int64)),
        )
        run(x_data, values, indices, *scratch, rows, n, tasks, digit, passes, flip)

    return launch


def _launch_packed(x: Layout, n: int, flip: int) -> Callable:
    """The launch for a CPU and keys of up to 32 bits."""
    rows, work = x.size // n, x.size * 16 if x.size > n else 1
    tasks, word, empty = min(rows, TASKS), np.dtype(np.uint64), x.device.empty
    arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], uint64[]"
    mask = flip * 0xFFFFFFFF
    if n <= _MERGE_LENGTH:
        merge = keyed_launcher(x, "sort_rows", merge_packed_kernel, arrays, 4, work)
        return lambda x_data, values, indices: merge(
            x_data, values, indices, empty(2 * tasks * n, word), rows, n, tasks, mask
        )
    digit = 8 if n < _DIGIT11_LENGTH else 11 if n < _DIGIT10_LENGTH else 10
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
            mask,
        )

    return launch


def _launch_merging(x: Layout, n: int, flip: int) -> Callable:
    """The launch for a GPU: blocks of threads sort runs, which are merged in rounds; or `radix_cuda` for long rows."""
    key = key_storage(x.dtype)
    element = x.storage.name
    empty = x.device.empty
    longest_run = x.device.backend.block_sort_size()
    run, rows = min(max(1 << (n - 1).bit_length(), 16), longest_run), x.size // n
    runs, threads = -(-n // run), min(x.device.backend.threads_per_row(8 * run), run // 2)
    if radix_cuda.suits(x, n, runs):
        return radix_cuda.launch_by_digits(x, n, flip, _take_launcher(x))
    arrays = f"{element}[], {element}[], int64[], {key.name}[], uint32[]"
    begin = block_reduce.launcher(
        x, "sort_runs", partial(keyed(x, sort_block), RUN=run), arrays + 4 * ", int64", rows * runs, threads
    )
    if runs == 1:
        return lambda x_data, values, indices: begin(
            x_data, values, indices, empty(1, key), empty(1, _POSITION), rows, n, 1, flip
        )
    merge, take = keyed_launcher(x, "merge", merge_kernel, f"{key.name}[], uint32[]", 4, x.size), _take_launcher(x)
    rounds = (runs - 1).bit_length()

    def launch(x_data: object, values: object, indices: object) -> None:
        keys, places = empty(2 * x.size, key), empty(2 * x.size, _POSITION)
        begin(x_data, values, indices, keys, places, rows, n, runs, flip)
        for step in range(rounds):
            merge(keys, places, x.size, n, run << step, step % 2 * x.size)
        take(x_data, values, indices, places, x.size, n, rounds % 2 * x.size)

    return launch


def _take_launcher(x: Layout) -> Callable:
    return keyed_launcher(
        x, "take", take_kernel, f"{x.storage.name}[], {x.storage.name}[], int64[], uint32[]", 3, x.size
    )


sort = Sort("sort")
