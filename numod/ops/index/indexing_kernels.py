"""Kernels that read and write elements at indices, and of nonzero and the sums of bags (see `indexing`)."""

from __future__ import annotations

from ...kernel.language import cuda, int32, int64, parallel_range, uintp
from ...kernel.library.division import quotient


def gather_kernel(x, index, out, outer, n, inner, m):
    """out (outer, m, inner) = x (outer, n, inner) at index (outer, m, inner) along n."""
    for task in parallel_range(outer * m * inner):
        element = int64(task)
        row = quotient(element, inner)
        out[uintp(element)] = x[uintp((quotient(row, m) * n + index[uintp(element)]) * inner + element - row * inner)]


def gather_runs_kernel(x, index, out, outer, n, inner, m, parts):
    """`gather_kernel` for a CPU: each task has one of `parts` runs of m, without a division per element."""
    for task in parallel_range(outer * parts):
        row, part = int64(task) // parts, int64(task) % parts
        for j in range(row * m + part * m // parts, row * m + (part + 1) * m // parts):
            for k in range(inner):
                out[uintp(j * inner + k)] = x[uintp((row * n + index[uintp(j * inner + k)]) * inner + k)]


def index_select_kernel(x, index, out, outer, n, inner, m, parts):
    """out (outer, m, inner) = x (outer, n, inner) at index (m) along n; each task has one of `parts` runs of m."""
    for task in parallel_range(outer * parts):
        row, part = int64(task) // parts, int64(task) % parts
        for j in range(part * m // parts, (part + 1) * m // parts):
            source, target = (row * n + index[uintp(j)]) * inner, (row * m + j) * inner
            for k in range(inner):
                out[uintp(target + k)] = x[uintp(source + k)]


def index_select_elements(x, index, out, outer, n, inner, m):
    """`index_select_kernel` for a GPU, with one thread per element."""
    for task in parallel_range(outer * m * inner):
        element = int64(task)
        row = quotient(element, inner)
        slab = quotient(row, m)
        out[uintp(element)] = x[uintp((slab * n + index[uintp(row - slab * m)]) * inner + element - row * inner)]


def index_add_kernel(x, index, source, outer, n, inner, m, width, blocks, *, ADDS):
    """x (outer, n, inner) += source (outer, m, inner) at index (m) along n, or without ADDS, = source.

    Each task has one of `blocks` runs of `width` columns.
    """
    for task in parallel_range(outer * blocks):
        row = int64(task) // blocks
        first = (int64(task) % blocks) * width
        last = min(first + width, inner)
        for k in range(m):
            target = (row * n + index[uintp(k)]) * inner
            base = (row * m + k) * inner
            for j in range(first, last):
                if ADDS:
                    x[uintp(target + j)] += source[uintp(base + j)]
                else:
                    x[uintp(target + j)] = source[uintp(base + j)]


def scatter_add_kernel(x, index, source, outer, n, inner, m, width, blocks, *, ADDS):
    """x (outer, n, inner) += source (outer, m, inner) at index (outer, m, inner) along n, or without ADDS, = source.

    Each task has one of `blocks` runs of `width` columns.
    """
    for task in parallel_range(outer * blocks):
        row = int64(task) // blocks
        first = (int64(task) % blocks) * width
        last = min(first + width, inner)
        for k in range(m):
            base = (row * m + k) * inner
            for j in range(base + first, base + last):
                if ADDS:
                    x[uintp((row * n + index[uintp(j)]) * inner + j - base)] += source[uintp(j)]
                else:
                    x[uintp((row * n + index[uintp(j)]) * inner + j - base)] = source[uintp(j)]


# How a GPU thread writes an element of source: by an atomic addition, or by three launches with an array `last` of the
# size of x. It holds the index of the last element that is put (clear_last, find_last, put_last), or a sum of short
# integers (load_wide, add_wide, store_narrow).
def add_value(x, source, last, target, element):
    cuda.atomic.add(x, target, source[uintp(element)])


def clear_last(x, source, last, target, element):
    last[target] = -1


def find_last(x, source, last, target, element):
    cuda.atomic.max(last, target, element)


def put_last(x, source, last, target, element):
    if last[target] == element:
        x[target] = source[uintp(element)]


def load_wide(x, source, last, target, element):
    last[target] = int32(x[target])


def add_wide(x, source, last, target, element):
    cuda.atomic.add(last, target, int32(source[uintp(element)]))


def store_narrow(x, source, last, target, element):
    x[target] = last[target]


def same_element(element):
    return element


def element_of_pair(element):
    return element >> 1


def index_add_elements(x, index, source, last, outer, n, inner, m, *, write):
    """`index_add_kernel` for a GPU, with one thread per element of source. `last` may be left out."""
    for task in parallel_range(outer * m * inner):
        element = int64(task)
        row = quotient(element, inner)
        slab = quotient(row, m)
        target = uintp((slab * n + index[uintp(row - slab * m)]) * inner + element - row * inner)
        write(x, source, last, target, element)


def scatter_add_elements(x, index, source, last, outer, n, inner, m, *, write, entry):
    """`scatter_add_kernel` for a GPU, with one thread per element of source. `last` may be left out.

    `entry` is the position of an element's index: complex numbers are written as pairs of real ones with one index.
    """
    for task in parallel_range(outer * m * inner):
        element = int64(task)
        row = quotient(element, inner)
        target = uintp((quotient(row, m) * n + index[uintp(entry(element))]) * inner + element - row * inner)
        write(x, source, last, target, element)


def bag_kernel(x, index, bounds, weights, out, bags, inner, mean, *, SHARES):
    """out (bags, inner) = for each bag the sum of x[index[k]] * weights[k] for bounds[bag] <= k < bounds[bag + 1], or
    the mean. x is (n, inner). Without SHARES there are no weights.
    """
    for task in parallel_range(bags):
        bag = int64(task)
        for j in range(inner):
            out[uintp(bag * inner + j)] = 0
        first, last = bounds[uintp(bag)], bounds[uintp(bag + 1)]
        for k in range(first, last):
            source = index[uintp(k)] * inner
            for j in range(inner):
                if SHARES:
                    out[uintp(bag * inner + j)] += x[uintp(source + j)] * weights[uintp(k)]
                else:
                    out[uintp(bag * inner + j)] += x[uintp(source + j)]
        if mean != 0 and last > first:
            for j in range(inner):
                out[uintp(bag * inner + j)] /= last - first


def bag_bounds_kernel(offsets, out, count, total, length):
    """out (total) = offsets (count), then length. Offsets that decrease, or do not start at 0, become -1."""
    for task in parallel_range(total):
        bag = int64(task)
        offset = offsets[uintp(bag)] if bag < count else length
        previous = offsets[uintp(bag - 1)] if bag > 0 else int64(0)
        out[uintp(bag)] = -1 if (offset < previous) | ((bag == 0) & (offset != 0)) else offset


def nonzero_kernel(mask, before, out, n):
    """out[before[i] - 1] = i for each i where mask is true; before = the inclusive running count of true elements."""
    for task in parallel_range(n):
        i = int64(task)
        if mask[uintp(i)] != 0:
            out[uintp(before[uintp(i)] - 1)] = i


def nonzero_run_kernel(mask, out, total, n):
    """`nonzero_kernel` with one thread, which needs only the `total` number of true elements.

    No branch depends on the mask: entries written for false elements are overwritten. If the mask has fewer true
    elements, because another thread wrote to it, the rest of out is 0.
    """
    count, i = int64(0), int64(0)
    while count < total and i < n:
        out[uintp(count)] = i
        count += int64(mask[uintp(i)] != 0)
        i += 1
    for k in range(count, total):
        out[uintp(k)] = 0


def bounded_kernel(index, report, out, total, low, size, ignored, slot):
    """out = index (total), with negative indices counted from the end.

    An index outside [low, size) that is not `ignored` becomes 0 and is written to report[slot].
    """
    for task in parallel_range(total):
        element = int64(task)
        k = index[uintp(element)]
        outside = ((k < low) | (k >= size)) & (k != ignored)
        if outside:
            report[uintp(slot)] = k
            cuda.threadfence_system()  # the host may read at any time
            report[0] = slot
        out[uintp(element)] = 0 if outside else k + size if (k < 0) & (k != ignored) else k
