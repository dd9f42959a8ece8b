"""Device functions of kernels in which a block of GPU threads shares a row.

Threads read adjacent elements, and their results are reduced in shared memory in a fixed order, so that every run gives
the same bits. TEAM is the number of threads, a power of two. Short rows use few threads: in one warp barriers are
nearly free, and many small blocks keep as many loads in flight as large ones.
"""

from __future__ import annotations

from math import exp, sqrt

from ..language import cuda, float64, load_four, real, store_four, uintp
from ..scalar import scalar
from .arithmetic import larger


@scalar
def joining(threads):
    """The number of threads that combine the values of all in the first of two rounds of a reduction."""
    return 2 if threads <= 4 else 8 if threads <= 128 else 16 if threads <= 512 else 32


@scalar
def team_sum(value, shared, thread, threads):
    """The sum of the threads' values, returned to all. shared (threads) is scratch, free before and after."""
    count = joining(threads)
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
def team_sum_before(value, shared, thread, threads):
    """The sum of the values of the threads before this one, by doubling. shared (2 * threads) is scratch, free before,
    and after the next barrier.
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
def team_moments(x, base, n, eps, shared, thread, threads, centred):
    """The mean of n elements from `base` on, and 1 / sqrt(variance + eps), returned to all threads.

    If not `centred`, the mean is taken as 0.
    """
    mean, total = x.dtype.type(0), float64(0)
    if centred != 0:
        for k in range(thread, n, threads):
            total += float64(x[uintp(base + k)])
        mean = real(team_sum(total, shared, thread, threads) / float64(n))
    total = float64(0)
    for k in range(thread, n, threads):
        part = x[uintp(base + k)] - mean
        total += float64(part * part)
    return mean, real(1.0 / sqrt(team_sum(total, shared, thread, threads) / float64(n) + eps))


@scalar
def team_greatest(value, shared, thread, threads):
    """The maximum of the threads' values, returned to all; NaN if one is NaN. shared (threads) is scratch."""
    count = joining(threads)
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
def team_high(x, base, n, shared, thread, threads):
    """The maximum of x[base : base + n], returned to all threads; NaN if one is NaN."""
    high = x[uintp(base + min(thread, n - 1))]
    for k in range(thread + threads, n, threads):
        high = larger(high, x[uintp(base + k)])
    return team_greatest(high, shared, thread, threads)


@scalar
def team_sum_of_exp(x, base, n, high, shared, thread, threads):
    """The sum of exp(x - high), returned to all threads."""
    total = real(0.0)
    for k in range(thread, n, threads):
        total += exp(x[uintp(base + k)] - high)
    return team_sum(total, shared, thread, threads)
