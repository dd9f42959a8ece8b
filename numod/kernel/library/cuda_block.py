"""Device functions of kernels in which a block of GPU threads shares a row.

Threads read adjacent elements, and their results are reduced in shared memory in a fixed order, so results are
reproducible. THREADS is the number of threads, a power of two. Short rows use few threads: barriers within one warp are
nearly free, and many small blocks keep as many loads in flight as large ones.
"""

from __future__ import annotations

from math import exp, sqrt

from ..language import cuda, float64, load_four, real, store_four, uintp
from ..scalar import scalar
from .arithmetic import larger


@scalar
def joining_threads(threads):
    """The number of threads that combine all values in the first of two rounds of a reduction."""
    return 2 if threads <= 4 else 8 if threads <= 128 else 16 if threads <= 512 else 32


@scalar
def block_sum(value, shared, thread, threads):
    """The sum of the threads' values, returned to all. shared (threads) is scratch, free before and after."""
    count = joining_threads(threads)
    shared[uintp(thread)] = value
    cuda.syncthreads()
    if thread < count:
        for k in range(1, threads // count):
            value += shared[uintp(thread + k * count)]
        shared[uintp(thread)] = value
    cuda.syncthreads()
    total = shared[0]
    for k in range(1, count):
        total += shared[uintp(k)]
    cuda.syncthreads()
    return total


@scalar
def block_exclusive_sum(value, shared, thread, threads):
    """The sum of the values of the preceding threads, by doubling.

    shared (2 * threads) is scratch, free before the call and after the next barrier.
    """
    half, inclusive = 0, value
    shared[uintp(thread)] = inclusive
    cuda.syncthreads()
    width = 1
    while width < threads:
        inclusive = inclusive + shared[uintp(half + thread - width)] if thread >= width else inclusive
        half = threads - half
        shared[uintp(half + thread)] = inclusive
        cuda.syncthreads()
        width = width * 2
    return inclusive - value


@scalar
def row_moments(x, base, n, eps, shared, thread, threads, centred):
    """The mean of n elements from `base` on, and 1 / sqrt(variance + eps), returned to all threads.

    If not `centred`, the mean is taken as 0.
    """
    mean, total = x.dtype.type(0), float64(0)
    if centred != 0:
        for k in range(thread, n, threads):
            total += float64(x[uintp(base + k)])
        mean = real(block_sum(total, shared, thread, threads) / float64(n))
    total = float64(0)
    for k in range(thread, n, threads):
        part = x[uintp(base + k)] - mean
        total += float64(part * part)
    return mean, real(1.0 / sqrt(block_sum(total, shared, thread, threads) / float64(n) + eps))


@scalar
def block_max(value, shared, thread, threads):
    """The maximum of the threads' values, returned to all; NaN if one is NaN. shared (threads) is scratch."""
    count = joining_threads(threads)
    shared[uintp(thread)] = value
    cuda.syncthreads()
    if thread < count:
        for k in range(1, threads // count):
            value = larger(value, shared[uintp(thread + k * count)])
        shared[uintp(thread)] = value
    cuda.syncthreads()
    high = shared[0]
    for k in range(1, count):
        high = larger(high, shared[uintp(k)])
    cuda.syncthreads()
    return high


@scalar
def load_1(values, at, x, k):
    """values[at] = x[k]"""
    values[at] = x[k]


@scalar
def load_4(values, at, x, k):
    """values[at : at + 4] = x[k : k + 4]"""
    values[at], values[at + 1], values[at + 2], values[at + 3] = load_four(x, k)


@scalar
def store_1(out, k, values, at):
    """out[k] = values[at]"""
    out[k] = values[at]


@scalar
def store_4(out, k, values, at):
    """out[k : k + 4] = values[at : at + 4]"""
    store_four(out, k, values[at], values[at + 1], values[at + 2], values[at + 3])


@scalar
def row_max(x, base, n, shared, thread, threads):
    """The maximum of x[base : base + n], returned to all threads; NaN if one is NaN."""
    high = x[uintp(base + min(thread, n - 1))]
    for k in range(thread + threads, n, threads):
        high = larger(high, x[uintp(base + k)])
    return block_max(high, shared, thread, threads)


@scalar
def row_sum_of_exp(x, base, n, high, shared, thread, threads):
    """The sum of exp(x - high), returned to all threads."""
    total = real(0.0)
    for k in range(thread, n, threads):
        total += exp(x[uintp(base + k)] - high)
    return block_sum(total, shared, thread, threads)
