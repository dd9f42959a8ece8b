"""Selection along the last dimension of a contiguous tensor, seen as (rows, n): the k-th element, the first k, the
median. Sorting is in `sort`.

Radix select: digits of the keys (`keys`) are counted from the highest until the key at the wanted rank is known; then
the elements are picked in order of position. For small k a sorted buffer is kept instead, while the row is read once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ... import dtypes
from ...device import Layout
from ...device.layout import layout
from ...kernel.language import greater_or_equal, int64, less_or_equal, parallel_range, uint64, uintp
from ...kernel.scalar import scalar
from .radix_keys import TASKS, digits, key_storage, keyed_launcher, scatter_back
from ..op import Op, Plan

RANK, FIRST, MEDIAN, NANMEDIAN = range(4)  # what to select
ORDERED = 32  # up to so many first elements are returned in order
_THREADS = 1024  # tasks on a GPU


def select_kernel(
    x, values, indices, keys, counts, rows, n, tasks, m, rank, digit, passes, flip, first, median, skips, *, key_of
):
    """values, indices (rows, m) = the element at `rank` of each row of x (rows, n), or with `first` the m = rank + 1
    first, in the order they stand.

    With `median` it is the middle one, or the first NaN where there is one; if it also `skips`, the middle of those
    that are not NaN. keys (rows, n) and counts (tasks, 2^digit) are scratch. Where few are wanted of many, a sample
    tells a key that more than enough do not pass, and the others are left out.
    """
    for place in parallel_range(tasks):
        task, sample, block = int64(place), int64(4096), int64(64)
        for row in range(task, rows, tasks):
            base = row * n
            # from here on stand the places of those whose keys stand before it, where these are not all
            half = base + n // 2
            seen = n
            if first != 0 and n >= 32 * m and n >= 4 * sample:
                for k in range(sample):
                    keys[uintp(base + k)] = key_of(x[uintp(base + k * (n // sample))]) ^ uint64(flip)
                enough = 2 * m * sample // n + 16  # twice as many as are wanted of the sample, and some
                limit, _ = key_at_rank(keys, counts, base, sample, task << digit, enough, digit, passes)
                seen = int64(0)
                for low in range(0, n, block):
                    found = int64(0)
                    for k in range(low, min(low + block, n)):
                        found += int64((key_of(x[uintp(base + k)]) ^ uint64(flip)) <= limit)
                    if found > 0 and seen + block <= n // 2:
                        for k in range(low, min(low + block, n)):
                            key = key_of(x[uintp(base + k)]) ^ uint64(flip)
                            if key <= limit:
                                keys[uintp(base + seen)] = key
                                keys[uintp(half + seen)] = k
                                seen += 1
            few = seen >= m and seen + block <= n // 2
            missing = int64(0)
            if not few:
                seen = n
                for k in range(n):
                    value = x[uintp(base + k)]
                    missing += int64(value != value)
                    keys[uintp(base + k)] = key_of(value) ^ uint64(flip)
            prefix, equals = key_at_rank(
                keys, counts, base, seen, task << digit, rank_for(rank, n, missing, median, skips), digit, passes
            )
            filled = int64(0)
            for k in range(seen):
                key = uint64(keys[uintp(base + k)])
                if (key < prefix and first != 0) or (key == prefix and filled < m and equals >= 0):
                    equals -= int64(key == prefix)
                    source = int64(keys[uintp(half + k)]) if few else k
                    indices[uintp(row * m + filled)] = source
                    values[uintp(row * m + filled)] = x[uintp(base + source)]
                    filled += 1


def first_kernel(x, values, indices, keys, rows, n, tasks, m, flip, *, key_of, reaches):
    """values, indices (rows, m) = the m first of each row of x (rows, n), in order, equal ones as they stand. keys
    (tasks, m) is scratch, `flip` what turns a key.

    Most blocks hold nothing that passes the last of them, which vectors of comparisons find out.
    """
    for place in parallel_range(tasks):
        task = int64(place)
        for row in range(task, rows, tasks):
            base, own, first = row * n, task * m, row * m
            for k in range(m):
                place_key(keys, indices, own, first, k, key_of(x[uintp(base + k)]) ^ uint64(flip), k)
            limit = x[uintp(base + indices[uintp(first + m - 1)])]
            for low in range(m, n, 64):
                found = int64(0)
                for k in range(low, min(low + 64, n)):
                    found += int64(not reaches(x[uintp(base + k)], limit))
                if found > 0:
                    for k in range(low, min(low + 64, n)):
                        if not reaches(x[uintp(base + k)], limit):
                            key = key_of(x[uintp(base + k)]) ^ uint64(flip)
                            if key < uint64(keys[uintp(own + m - 1)]):
                                place_key(keys, indices, own, first, m - 1, key, k)
                                limit = x[uintp(base + indices[uintp(first + m - 1)])]
            for k in range(m):
                values[uintp(first + k)] = x[uintp(base + indices[uintp(first + k)])]


@scalar
def place_key(keys, indices, own, first, hole, key, k):
    """Insert a key into a sorted buffer whose slot `hole` is free or to be dropped."""
    while hole > 0 and uint64(keys[uintp(own + hole - 1)]) > key:
        keys[uintp(own + hole)] = keys[uintp(own + hole - 1)]
        indices[uintp(first + hole)] = indices[uintp(first + hole - 1)]
        hole -= 1
    keys[uintp(own + hole)] = key
    indices[uintp(first + hole)] = k


@scalar
def rank_for(rank, n, missing, median, skips):
    """The wanted rank in a row of n, of which `missing` are NaN (the largest)."""
    if median == 0:
        return rank
    if missing == 0 or (skips != 0 and missing < n):
        return (n - missing - 1) // 2
    return n - missing


@scalar
def key_at_rank(keys, counts, base, n, first, rank, digit, passes):
    """The key at a rank of a row, and how many equal ones rank before it."""
    prefix = uint64(0)
    for step in range(passes):
        shift = uint64((passes - 1 - step) * digit)
        for k in range(int64(1) << digit):
            counts[uintp(first + k)] = 0
        for k in range(n):
            part = uint64(keys[uintp(base + k)]) >> shift
            if part >> uint64(digit) == prefix:
                counts[uintp(first + (int64(part) & ((int64(1) << digit) - 1)))] += 1
        chosen = int64(0)
        while rank >= counts[uintp(first + chosen)]:
            rank -= counts[uintp(first + chosen)]
            chosen += 1
        prefix = (prefix << uint64(digit)) | uint64(chosen)
    return prefix, rank


class Select(Op):
    """Of each row the elements parameter `aim` names, and where they are:

    (rows, n) -> (rows, m). Parameters `m`, `rank`, `descending`, `aim`.

    On the CPU up to ORDERED first ones come in order, others as they stand.
    """

    takes = "x[*l n]:buif; m=0.. rank=0.. descending=flag aim=0..3"
    inputs, parameters, outputs = ("x",), ("m", "rank", "descending", "aim"), ("values", "indices")
    gradients = {"x": scatter_back}

    def misfit(self, arguments: tuple, parameters: tuple, sizes: dict) -> str | None:
        """As `Op.misfit`."""
        (m, rank, _, aim), n = parameters, sizes["n"]
        if m > n or (aim != FIRST and m > 1):
            return f"attribute 'm' must be at most {n if aim == FIRST else min(n, 1)}, got {m}"
        right = rank == m - 1 if aim == FIRST else rank < n
        return (
            None
            if right or not m
            else f"attribute 'rank' must be {m - 1 if aim == FIRST else f'below {n}'}, got {rank}"
        )

    def prepare(self, arguments: tuple, parameters: tuple) -> Plan:
        (x,), (m, rank, descending, aim) = arguments, parameters
        shape = (*x.shape[:-1], m)
        results = layout(shape, x.dtype, x.device), layout(shape, dtypes.int64, x.device)
        if results[0].size == 0:
            return Plan(results, lambda *_: None)
        n = x.shape[-1]
        rows, flat, key = x.size // n, x.device.backend.is_gpu, key_storage(x.dtype)
        if aim == FIRST and m <= ORDERED and not flat:
            return Plan(results, _first(x, rows, n, m, descending))
        # short digits, since each thread has its own counts
        tasks, (digit, passes) = min(rows, _THREADS if flat else TASKS), digits(x.dtype, 0 if flat else n)
        arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[], int64[]"
        run = keyed_launcher(x, "select", select_kernel, arrays, 11, x.size * 4 if rows > 1 else 1)
        empty, flip = x.device.empty, _turning(key, descending)
        flags = int(aim == FIRST), int(aim in (MEDIAN, NANMEDIAN)), int(aim == NANMEDIAN)

        def launch(x_data: object, values: object, indices: object) -> None:
            keys, counts = empty(rows * n, key), empty(tasks << digit, np.dtype(np.int64))
            run(x_data, values, indices, keys, counts, rows, n, tasks, m, rank, digit, passes, flip, *flags)

        return Plan(results, launch)


def _turning(key: np.dtype, descending: bool) -> int:
    """The mask that reverses the order of keys: all bits."""
    return 0 if not descending else -1 if key.itemsize == 8 else 0xFFFFFFFF


def _first(x: Layout, rows: int, n: int, m: int, descending: bool) -> Callable:
    tasks, key, empty = min(rows, TASKS), key_storage(x.dtype), x.device.empty
    flip = _turning(key, descending)
    kernel = partial(first_kernel, reaches=less_or_equal if descending else greater_or_equal)
    run = keyed_launcher(
        x,
        "first",
        kernel,
        f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[]",
        5,
        x.size if rows > 1 else 1,
    )

    def launch(x_data: object, values: object, indices: object) -> None:
        run(x_data, values, indices, empty(tasks * m, key), rows, n, tasks, m, flip)

    return launch


select = Select("select")
