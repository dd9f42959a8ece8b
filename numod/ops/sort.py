"""Stable sorts along the last dimension of a dense tensor, seen as (rows, n). Not what users call: see `core.sorting`.

Elements become keys (`keys`), so one loop sorts all dtypes, both ways and stably. On the CPU a task sorts whole rows, by insertion or digit
by digit; on a GPU every element finds its own place in each round of a merge. In the kernels `flip` 1 turns every bit of a key, to sort downwards.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .. import dtypes
from ..device import Layout
from ..device.layout import layout
from ..kernel.scalar import scalar
from .keys import TASKS, digits, key_storage, keyed_launcher, scatter_back
from .op import Op, Plan

_SHORT = 64  # elements up to which rows are sorted by insertion
_PLACE = np.dtype(np.uint32)


def sort_rows_kernel(x, values, indices, keys, places, counts, rows, n, tasks, digit, passes, flip):
    """values, indices (rows, n) = x (rows, n) in order. keys, places (2, rows, n) and counts (tasks, passes, 2^digit) are scratch."""
    for place in parallel_range(tasks):
        task = int64(place)
        for row in range(task, rows, tasks):
            base = row * n
            start = base
            for k in range(n):
                keys[uintp(base + k)] = key_of(x[uintp(base + k)]) ^ (uint64(0) - uint64(flip))
                places[uintp(base + k)] = k
            if passes == 0:
                insertion_sort(keys, places, base, n)
            else:
                start = radix_sort(keys, places, counts, base, rows * n, n, task * passes << digit, digit, passes)
            for k in range(n):
                source = int64(places[uintp(start + k)])
                indices[uintp(base + k)] = source
                values[uintp(base + k)] = x[uintp(base + source)]


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


@scalar
def radix_sort(keys, places, counts, base, total, n, first, digit, passes):
    """A row in order, digit by digit from the lowest, each pass stable; gives where it ends up: `base`, or `total` elements further."""
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
        if counts[uintp(column + (int64(uint64(keys[uintp(source)]) >> shift) & mask))] != n:  # else all have this digit
            before = int64(0)
            for k in range(mask + 1):
                here = counts[uintp(column + k)]
                counts[uintp(column + k)] = before
                before += here
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


def keys_kernel(x, keys, places, total, n, flip):
    """keys, places (rows, n) of x (rows, n) as they stand."""
    for task in parallel_range(total):
        element = int64(task)
        keys[uintp(element)] = key_of(x[uintp(element)]) ^ (uint64(0) - uint64(flip))
        places[uintp(element)] = element % n


def merge_kernel(keys, places, total, n, width, start):
    """Runs of `width` sorted keys from `start` on, merged in pairs into the other half: an element's place is its own plus how many pass it."""
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
        target = total - start + element - inside + (min(run, run ^ 1) * width + inside - run * width + low - min(other, n))
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

    inputs, parameters, outputs = ("x",), ("descending",), ("values", "indices")
    gradients = {"x": scatter_back}

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (descending,) = arguments, parameters
        results = layout(x.shape, x.dtype, x.device), layout(x.shape, dtypes.int64, x.device)
        if x.size == 0:
            return Plan(results, lambda *_: None)
        n = x.shape[-1] if x.ndim else 1
        return Plan(results, (_merging if x.device.backend.FLAT else _by_rows)(x, n, int(descending)))


def _by_rows(x: Layout, n: int, flip: int) -> Callable:
    """A task sorts every so-many-th row."""
    rows, (digit, passes), key = x.size // n, digits(x.dtype, n) if n > _SHORT else (0, 0), key_storage(x.dtype)
    tasks, halves = min(rows, TASKS), 2 if passes else 1
    arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[], uint32[], int64[]"
    run = keyed_launcher(x, "sort_rows", sort_rows_kernel, arrays, 6, x.size * 16 if rows > 1 else 1)
    empty = x.device.empty

    def launch(x_data: object, values: object, indices: object) -> None:
        scratch = empty(halves * x.size, key), empty(halves * x.size, _PLACE), empty(max(tasks * passes << digit, 1), np.dtype(np.int64))
        run(x_data, values, indices, *scratch, rows, n, tasks, digit, passes, flip)

    return launch


def _merging(x: Layout, n: int, flip: int) -> Callable:
    """Runs of 1, 2, 4 ... elements are merged in rounds, each element by a thread of its own."""
    key, element = key_storage(x.dtype), x.storage.name
    begin = keyed_launcher(x, "keys", keys_kernel, f"{element}[], {key.name}[], uint32[]", 3, x.size)
    merge = keyed_launcher(x, "merge", merge_kernel, f"{key.name}[], uint32[]", 4, x.size)
    take = keyed_launcher(x, "take", take_kernel, f"{element}[], {element}[], int64[], uint32[]", 3, x.size)
    empty, rounds = x.device.empty, (n - 1).bit_length()

    def launch(x_data: object, values: object, indices: object) -> None:
        keys, places = empty(2 * x.size, key), empty(2 * x.size, _PLACE)
        begin(x_data, keys, places, x.size, n, flip)
        for turn in range(rounds):
            merge(keys, places, x.size, n, 1 << turn, turn % 2 * x.size)
        take(x_data, values, indices, places, x.size, n, rounds % 2 * x.size)

    return launch


sort = Sort("sort")
