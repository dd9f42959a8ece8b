"""Rows that blocks of GPU threads hold in registers: the forms of team kernels for rows of up to SLOTS elements a
thread.

A row is read once, with all its loads in flight at once, where the general form reads it three times in fours (twice of
them from the cache) and waits in between: bandwidth is loads in flight divided by their latency. `held` is an array of
registers: every loop over it has constant bounds and is unrolled. A thread takes WIDTH neighbours at once, four where n
is a multiple.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, log, sqrt

from ...kernel.language import cuda, float64, int64, real, SHARED, shared_array, uintp
from ...kernel.library.arithmetic import larger
from ...kernel.library.teams import give_1, give_4, hold_1, hold_4, team_greatest, team_sum
from ...kernel.specialize import template

_MOST = 16  # registers a thread holds


def softmax_held(x, out, outer, n, inner, *, SLOTS, TEAM):
    """`softmax.softmax_team`; each exponential is computed once."""
    shared, held = shared_array(TEAM, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        hold_row(held, x, row * n, n, thread, -1e400)
        high, total = team_greatest(greatest_held(held), shared, thread, TEAM), real(0.0)
        for slot in range(SLOTS):
            held[slot] = exp(held[slot] - high)
            total += held[slot]
        scale = real(1.0) / team_sum(total, shared, thread, TEAM)
        for slot in range(SLOTS):
            held[slot] *= scale
        give_row(out, row * n, n, thread, held)


def log_softmax_held(x, out, outer, n, inner, *, SLOTS, TEAM):
    """`softmax.log_softmax_team`."""
    shared, held = shared_array(TEAM, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        hold_row(held, x, row * n, n, thread, -1e400)
        high, total = team_greatest(greatest_held(held), shared, thread, TEAM), real(0.0)
        for slot in range(SLOTS):
            total += exp(held[slot] - high)
        rest = log(float64(team_sum(total, shared, thread, TEAM)))
        for slot in range(SLOTS):
            held[slot] = real(float64(held[slot] - high) - rest)
        give_row(out, row * n, n, thread, held)


def row_norm_held(
    x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps, *, SLOTS, TEAM, WIDTH, give, hold
):
    """`normalization.row_norm_team`.

    Neighbours are summed as they are and their sums in float64: conversions take as long as four sums.
    """
    shared, held, factor = (
        shared_array(TEAM, float64, SHARED),
        cuda.local.array(SLOTS, real),
        cuda.local.array(WIDTH, real),
    )
    thread, share = int64(cuda.threadIdx.x), float64(1) / float64(n)
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        base, total = row * n, float64(0)
        hold_row(held, x, base, n, thread, 0.0)
        middle = real(0.0)
        if centred != 0:
            for part in range(SLOTS // WIDTH):
                near = real(0.0)
                for j in range(WIDTH):
                    near += held[WIDTH * part + j]
                total += float64(near)
            middle, total = real(team_sum(total, shared, thread, TEAM) * share), float64(0)
        for part in range(SLOTS // WIDTH):
            near = real(0.0)
            for j in range(WIDTH):
                held[WIDTH * part + j] -= middle
                near += held[WIDTH * part + j] * held[WIDTH * part + j]
            total += float64(near) if WIDTH * (part * TEAM + thread) < n else float64(0)
        scale = real(1.0) / sqrt(real(team_sum(total, shared, thread, TEAM) * share + eps))
        if thread == 0:
            mean[uintp(row)], rstd[uintp(row)] = middle, scale
        for part in range(SLOTS // WIDTH):
            k = WIDTH * (part * TEAM + thread)
            if k < n:
                for j in range(WIDTH):
                    held[WIDTH * part + j] *= scale
                if scaled != 0:
                    hold(factor, 0, weight, uintp(k))
                    for j in range(WIDTH):
                        held[WIDTH * part + j] *= factor[j]
                if shifted != 0:
                    hold(factor, 0, bias, uintp(k))
                    for j in range(WIDTH):
                        held[WIDTH * part + j] += factor[j]
                give(out, uintp(base + k), held, WIDTH * part)


@template
def hold_row(held, x, base, n, thread, rest, *, SLOTS, TEAM, WIDTH, hold):
    """held = this thread's elements of x[base : base + n], and `rest` where there are none."""
    for part in range(SLOTS // WIDTH):
        k = WIDTH * (part * TEAM + thread)
        if k < n:
            hold(held, WIDTH * part, x, uintp(base + k))
        else:
            for j in range(WIDTH):
                held[WIDTH * part + j] = rest


@template
def give_row(out, base, n, thread, held, *, SLOTS, TEAM, WIDTH, give):
    """This thread's elements of out[base : base + n] = held."""
    for part in range(SLOTS // WIDTH):
        k = WIDTH * (part * TEAM + thread)
        if k < n:
            give(out, uintp(base + k), held, WIDTH * part)


@template
def greatest_held(held, *, SLOTS):
    """The greatest element that this thread holds; NaN where one is."""
    high = held[0]
    for slot in range(1, SLOTS):
        high = larger(high, held[slot])
    return high


_HELD = {"softmax_team": softmax_held, "log_softmax_team": log_softmax_held, "row_norm_team": row_norm_held}


def form(kernel: Callable, n: int, threads: int) -> Callable:
    """The team kernel for rows of n elements: the variant that keeps the row in registers, if the kernel has one and
    the row fits, else the kernel itself.
    """
    slots = 1 << (-(-n // threads) - 1).bit_length()
    if kernel.__name__ not in _HELD or slots > _MOST:
        return kernel
    width = 1 if n % 4 or slots < 4 else 4
    held, (hold, give) = _HELD[kernel.__name__], (hold_1, give_1) if width == 1 else (hold_4, give_4)
    return partial(held, SLOTS=slots, WIDTH=width, hold=hold, give=give)
