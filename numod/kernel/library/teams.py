"""Functions of kernels in which a block of GPU threads shares a row: neighbouring threads read neighbouring elements,
and what they found is joined in shared memory.

In such a kernel's text TEAM is the number of threads, a power of two. Few threads for short rows: with one warp a
barrier costs next to nothing, and many blocks on a multiprocessor keep as many loads in flight as large blocks would.
Joined in a fixed order: every run gives the same bits.
"""

from __future__ import annotations

from math import exp, sqrt

from ..language import cuda, float64, load_four, real, store_four, uintp
from ..scalar import scalar
from .arithmetic import larger


@scalar
def joining(threads):
    """How many threads of a block join what the others found, before each joins what these have: two rounds, where
    halving would take as many as bits.
    """
    return 2 if threads <= 4 else 8 if threads <= 128 else 16 if threads <= 512 else 32


@scalar
def team_sum(value, shared, thread, threads):
    """The sum of the threads' values, told to all. shared (threads) is free before and behind."""
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
    """The sum of the values of the threads before this one: each is joined with that 1, 2, 4 ... before it. shared (2 *
    threads) is free before, and behind the next barrier.
    """
    half, own = 0, value
    shared[uintp(thread)] = own
    cuda.syncthreads()
    width = 1
    while width < threads:
        own = own + shared[uintp(half + thread - width)] if thread >= width else own
        half = threads - half
        shared[uintp(half + thread)] = own
        cuda.syncthreads()
        width = width * 2
    return own - value


@scalar
def team_moments(x, base, n, eps, shared, thread, threads, centred):
    """The mean of n elements from `base` on, and 1 / sqrt(their variance + eps), to all threads.

    If not `centred`, 0 stands for the mean.
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
    """The greatest of the threads' values, likewise; NaN where one is."""
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
def hold_1(held, at, x, k):
    """held[at] = x[k]"""
    held[at] = x[k]


@scalar
def hold_4(held, at, x, k):
    """held[at : at + 4] = x[k : k + 4]"""
    held[at], held[at + 1], held[at + 2], held[at + 3] = load_four(x, k)


@scalar
def give_1(out, k, held, at):
    """out[k] = held[at]"""
    out[k] = held[at]


@scalar
def give_4(out, k, held, at):
    """out[k : k + 4] = held[at : at + 4]"""
    store_four(out, k, held[at], held[at + 1], held[at + 2], held[at + 3])


@scalar
def team_high(x, base, n, shared, thread, threads):
    """The greatest of x[base : base + n], to all threads; NaN where one is."""
    high = x[uintp(base + min(thread, n - 1))]
    for k in range(thread + threads, n, threads):
        high = larger(high, x[uintp(base + k)])
    return team_greatest(high, shared, thread, threads)


@scalar
def team_sum_of_exp(x, base, n, high, shared, thread, threads):
    """exp(x - high), summed, to all threads."""
    total = real(0.0)
    for k in range(thread, n, threads):
        total += exp(x[uintp(base + k)] - high)
    return team_sum(total, shared, thread, threads)
