"""Rows that blocks of GPU threads hold in registers: the forms of team kernels for rows of up to SLOTS elements a thread.

A row is read once, with all its loads in flight at once, where the general form reads it three times in fours (twice of them from the cache) and waits
in between: bandwidth is loads in flight divided by their latency. `held` is an array of registers: every loop over it has constant bounds and is unrolled.
"""

from __future__ import annotations

from collections.abc import Callable

from ..kernel import bind

_MOST = 16  # registers a thread holds


def softmax_held(x, out, outer, n, inner):
    """`softmax.softmax_team`; each exponential is computed once."""
    shared, held = shared_array(TEAM, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        base, high = row * n + thread, x[uintp(row * n)]
        for slot in range(SLOTS):
            held[slot] = x[uintp(base + slot * TEAM)] if thread + slot * TEAM < n else high  # which changes no maximum
        for slot in range(SLOTS):
            high = larger(high, held[slot])
        high, total = team_greatest(high, shared, thread, TEAM), real(0.0)
        for slot in range(SLOTS):
            held[slot] = exp(held[slot] - high) if thread + slot * TEAM < n else real(0.0)
            total += held[slot]
        scale = real(1.0) / team_sum(total, shared, thread, TEAM)
        for slot in range(SLOTS):
            if thread + slot * TEAM < n:
                out[uintp(base + slot * TEAM)] = held[slot] * scale


def log_softmax_held(x, out, outer, n, inner):
    """`softmax.log_softmax_team`."""
    shared, held = shared_array(TEAM, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        base, high = row * n + thread, x[uintp(row * n)]
        for slot in range(SLOTS):
            held[slot] = x[uintp(base + slot * TEAM)] if thread + slot * TEAM < n else high
        for slot in range(SLOTS):
            high = larger(high, held[slot])
        high, total = team_greatest(high, shared, thread, TEAM), real(0.0)
        for slot in range(SLOTS):
            total += exp(held[slot] - high) if thread + slot * TEAM < n else real(0.0)
        rest = log(float64(team_sum(total, shared, thread, TEAM)))
        for slot in range(SLOTS):
            if thread + slot * TEAM < n:
                out[uintp(base + slot * TEAM)] = real(float64(held[slot] - high) - rest)


def row_norm_held(x, weight, bias, out, mean, rstd, rows, n, scaled, shifted, eps):
    """`normalization.row_norm_team`."""
    shared, held = shared_array(TEAM, float64, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        base, total = row * n + thread, float64(0)
        for slot in range(SLOTS):
            held[slot] = x[uintp(base + slot * TEAM)] if thread + slot * TEAM < n else real(0.0)
        for slot in range(SLOTS):
            total += float64(held[slot])
        middle, total = real(team_sum(total, shared, thread, TEAM) / float64(n)), float64(0)
        for slot in range(SLOTS):
            held[slot] = held[slot] - middle if thread + slot * TEAM < n else real(0.0)
            total += float64(held[slot] * held[slot])
        scale = real(1.0 / sqrt(team_sum(total, shared, thread, TEAM) / float64(n) + eps))
        if thread == 0:
            mean[uintp(row)], rstd[uintp(row)] = middle, scale
        for slot in range(SLOTS):
            if thread + slot * TEAM < n:
                value = held[slot] * scale
                value = value * weight[uintp(thread + slot * TEAM)] if scaled != 0 else value
                out[uintp(base + slot * TEAM)] = value + bias[uintp(thread + slot * TEAM)] if shifted != 0 else value


_HELD = {"softmax_team": softmax_held, "log_softmax_team": log_softmax_held, "row_norm_team": row_norm_held}


def form(kernel: Callable, n: int, threads: int) -> Callable | str:
    """A team kernel for rows of n elements: its form that holds them, if it has one and they are few enough."""
    slots = 1 << (-(-n // threads) - 1).bit_length()
    if kernel.__name__ not in _HELD or slots > _MOST:
        return kernel
    return bind.source_of(_HELD[kernel.__name__]).replace("SLOTS", str(slots))
