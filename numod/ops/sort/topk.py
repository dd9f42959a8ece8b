"""Selection along the last dimension of a contiguous tensor, seen as (rows, n): the k-th element, the first k, the
median.

Radix select: digits of the keys (`radix_keys`) are counted from the highest until the key at the wanted rank is known;
then elements are collected in order of position. For small k, a sorted buffer is updated while the row is read once.
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

RANK, FIRST, MEDIAN, NANMEDIAN = range(4)  # values of `aim`
SORTED_LIMIT = 32  # the first m elements are returned in sorted order if m is at most this
_THREADS = 1024  # tasks on a GPU


def select_kernel(
    x, values, indices, keys, counts, rows, n, tasks, m, rank, digit, passes, flip, first, median, skips, *, key_of
):
    """values, indices (rows, m) = the element at `rank` of each row of x (rows, n); with `first`, the first m = rank +
    1 elements, in order of position.

    With `median`, the middle element, or the first NaN if there is one; with `skips`, the middle of the elements that
    are not NaN. keys (rows, n) and counts (tasks, 2^digit) are scratch. If m is small, an upper limit of the keys is
    estimated from a sample, and only elements up to the limit are considered.
    """
    for index in parallel_range(tasks):
        task, sample, block = int64(index), int64(4096), int64(64)
        for row in range(task, rows, tasks):
            base = row * n
            half = base + n // 2  # the positions of candidates are stored in the second half of keys
            candidates = n
            if first != 0 and n >= 32 * m and n >= 4 * sample:
                for k in range(sample):
                    keys[uintp(base + k)] = key_of(x[uintp(base + k * (n // sample))]) ^ uint64(flip)
                sample_rank = 2 * m * sample // n + 16  # twice the expected number in the sample, and some more
                limit, _ = key_at_rank(keys, counts, base, sample, task << digit, sample_rank, digit, passes)
                candidates = int64(0)
                for low in range(0, n, block):
                    count = int64(0)
                    for k in range(low, min(low + block, n)):
                        count += int64((key_of(x[uintp(base + k)]) ^ uint64(flip)) <= limit)
                    if count > 0 and candidates + block <= n // 2:
                        for k in range(low, min(low + block, n)):
                            key = key_of(x[uintp(base + k)]) ^ uint64(flip)
                            if key <= limit:
                                keys[uintp(base + candidates)] = key
                                keys[uintp(half + candidates)] = k
                                candidates += 1
            is_filtered = candidates >= m and candidates + block <= n // 2
            missing = int64(0)
            if not is_filtered:
                candidates = n
                for k in range(n):
                    value = x[uintp(base + k)]
                    missing += int64(value != value)
                    keys[uintp(base + k)] = key_of(value) ^ uint64(flip)
            prefix, equals = key_at_rank(
                keys, counts, base, candidates, task << digit, rank_for(rank, n, missing, median, skips), digit, passes
            )
            filled = int64(0)
            for k in range(candidates):
                key = uint64(keys[uintp(base + k)])
                if (key < prefix and first != 0) or (key == prefix and filled < m and equals >= 0):
                    equals -= int64(key == prefix)
                    source = int64(keys[uintp(half + k)]) if is_filtered else k
                    indices[uintp(row * m + filled)] = source
                    values[uintp(row * m + filled)] = x[uintp(base + source)]
                    filled += 1


def first_kernel(x, values, indices, keys, rows, n, tasks, m, flip, *, key_of, reaches):
    """values, indices (rows, m) = the first m elements of each row of x (rows, n), sorted stably.

    keys (tasks, m) is scratch, `flip` is the mask of the keys. Most blocks of 64 elements have none before the current
    last one, which vectorised comparisons detect.
    """
    for index in parallel_range(tasks):
        task = int64(index)
        for row in range(task, rows, tasks):
            base, buffer, first = row * n, task * m, row * m
            for k in range(m):
                place_key(keys, indices, buffer, first, k, key_of(x[uintp(base + k)]) ^ uint64(flip), k)
            limit = x[uintp(base + indices[uintp(first + m - 1)])]
            for low in range(m, n, 64):
                count = int64(0)
                for k in range(low, min(low + 64, n)):
                    count += int64(not reaches(x[uintp(base + k)], limit))
                if count > 0:
                    for k in range(low, min(low + 64, n)):
                        if not reaches(x[uintp(base + k)], limit):
                            key = key_of(x[uintp(base + k)]) ^ uint64(flip)
                            if key < uint64(keys[uintp(buffer + m - 1)]):
                                place_key(keys, indices, buffer, first, m - 1, key, k)
                                limit = x[uintp(base + indices[uintp(first + m - 1)])]
            for k in range(m):
                values[uintp(first + k)] = x[uintp(base + indices[uintp(first + k)])]


@scalar
def place_key(keys, indices, buffer, first, hole, key, k):
    """Insert a key into a sorted buffer; slot `hole` is free or dropped."""
    while hole > 0 and uint64(keys[uintp(buffer + hole - 1)]) > key:
        keys[uintp(buffer + hole)] = keys[uintp(buffer + hole - 1)]
        indices[uintp(first + hole)] = indices[uintp(first + hole - 1)]
        hole -= 1
    keys[uintp(buffer + hole)] = key
    indices[uintp(first + hole)] = k


@scalar
def rank_for(rank, n, missing, median, skips):
    """The rank to select in a row of n elements, `missing` of them NaN (sorted last)."""
    if median == 0:
        return rank
    if missing == 0 or (skips != 0 and missing < n):
        return (n - missing - 1) // 2
    return n - missing


@scalar
def key_at_rank(keys, counts, base, n, first, rank, digit, passes):
    """The key at a rank of a row, and the number of equal keys that rank before it."""
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
    """(values, indices) of the elements of each row that `aim` selects: (rows, n) -> (rows, m).

    On the CPU, up to SORTED_LIMIT first elements are sorted; others are in order of position.
    """

    takes = "x[*l n]:buif; m=0.. rank=0.. descending=flag aim=0..3"
    inputs, attributes, outputs = ("x",), ("m", "rank", "descending", "aim"), ("values", "indices")
    gradients = {"x": scatter_back}

    def check(self, arguments: tuple, attributes: tuple, sizes: dict) -> str | None:
        """See `Op.check`."""
        (m, rank, _, aim), n = attributes, sizes["n"]
        if m > n or (aim != FIRST and m > 1):
            return f"attribute 'm' must be at most {n if aim == FIRST else min(n, 1)}, got {m}"
        right = rank == m - 1 if aim == FIRST else rank < n
        return (
            None
            if right or not m
            else f"attribute 'rank' must be {m - 1 if aim == FIRST else f'below {n}'}, got {rank}"
        )

    def prepare(self, arguments: tuple, attributes: tuple) -> Plan:
        (x,), (m, rank, descending, aim) = arguments, attributes
        shape = (*x.shape[:-1], m)
        results = layout(shape, x.dtype, x.device), layout(shape, dtypes.int64, x.device)
        if results[0].size == 0:
            return Plan(results, lambda *_: None)
        n = x.shape[-1]
        rows, on_gpu, key = x.size // n, x.device.backend.is_gpu, key_storage(x.dtype)
        if aim == FIRST and m <= SORTED_LIMIT and not on_gpu:
            return Plan(results, _launch_first(x, rows, n, m, descending))
        # short digits on a GPU, since each thread has its own counts
        tasks, (digit, passes) = min(rows, _THREADS if on_gpu else TASKS), digits(x.dtype, 0 if on_gpu else n)
        arrays = f"{x.storage.name}[], {x.storage.name}[], int64[], {key.name}[], int64[]"
        run = keyed_launcher(x, "select", select_kernel, arrays, 11, x.size * 4 if rows > 1 else 1)
        empty, flip = x.device.empty, _flip_mask(key, descending)
        flags = int(aim == FIRST), int(aim in (MEDIAN, NANMEDIAN)), int(aim == NANMEDIAN)

        def launch(x_data: object, values: object, indices: object) -> None:
            keys, counts = empty(rows * n, key), empty(tasks << digit, np.dtype(np.int64))
            run(x_data, values, indices, keys, counts, rows, n, tasks, m, rank, digit, passes, flip, *flags)

        return Plan(results, launch)


def _flip_mask(key: np.dtype, descending: bool) -> int:
    """The mask that reverses the order of keys: all bits, or none."""
    return 0 if not descending else -1 if key.itemsize == 8 else 0xFFFFFFFF


def _launch_first(x: Layout, rows: int, n: int, m: int, descending: bool) -> Callable:
    """A launch that finds the m first elements of each row without sorting it."""
    tasks, key, empty = min(rows, TASKS), key_storage(x.dtype), x.device.empty
    flip = _flip_mask(key, descending)
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
