"""Variants of block kernels that hold a row in the registers of a GPU block, up to SLOTS elements per thread.

A row is read once, with all loads in flight at the same time; the general kernels read it three times (twice from the
cache) and wait in between. `values` is an array in registers: every loop over it has constant bounds and is unrolled. A
thread takes WIDTH neighbours at once, four if n is a multiple.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import exp, log, sqrt

from ...kernel.language import cuda, float64, int64, real, SHARED, shared_array, uintp
from ...kernel.library.arithmetic import larger
from ...kernel.library.cuda_block import store_1, store_4, load_1, load_4, block_max, block_sum
from ...kernel.specialize import template

_MAX_PER_THREAD = 16  # elements per thread at most


def softmax_in_registers(x, out, outer, n, inner, *, SLOTS, THREADS):
    """`softmax_kernels.softmax_block`, with each exponential computed once."""
    shared, values = shared_array(THREADS, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        load_row(values, x, row * n, n, thread, -1e400)
        high, total = block_max(greatest_of_values(values), shared, thread, THREADS), real(0.0)
        for slot in range(SLOTS):
            values[slot] = exp(values[slot] - high)
            total += values[slot]
        scale = real(1.0) / block_sum(total, shared, thread, THREADS)
        for slot in range(SLOTS):
            values[slot] *= scale
        store_row(out, row * n, n, thread, values)


def log_softmax_in_registers(x, out, outer, n, inner, *, SLOTS, THREADS):
    """`softmax_kernels.log_softmax_block`."""
    shared, values = shared_array(THREADS, real, SHARED), cuda.local.array(SLOTS, real)
    thread = int64(cuda.threadIdx.x)
    for row in range(int64(cuda.blockIdx.x), outer, int64(cuda.gridDim.x)):
        load_row(values, x, row * n, n, thread, -1e400)
        high, total = block_max(greatest_of_values(values), shared, thread, THREADS), real(0.0)
        for slot in range(SLOTS):
            total += exp(values[slot] - high)
        rest = log(float64(block_sum(total, shared, thread, THREADS)))
        for slot in range(SLOTS):
            values[slot] = real(float64(values[slot] - high) - rest)
        store_row(out, row * n, n, thread, values)


def row_norm_in_registers(
    x, weight, bias, out, mean, rstd, rows, n, centred, scaled, shifted, eps, *, SLOTS, THREADS, WIDTH, store, load
):
    """`normalization_kernels.row_norm_block`.

    WIDTH neighbours are summed in their own dtype, these sums in float64: a conversion takes as long as four sums.
    """
    shared, values, factor = (
        shared_array(THREADS, float64, SHARED),
        cuda.local.array(SLOTS, real),
        cuda.local.array(WIDTH, real),
    )
    thread, share = int64(cuda.threadIdx.x), float64(1) / float64(n)
    for row in range(int64(cuda.blockIdx.x), rows, int64(cuda.gridDim.x)):
        base, total = row * n, float64(0)
        load_row(values, x, base, n, thread, 0.0)
        row_mean = real(0.0)
        if centred != 0:
            for part in range(SLOTS // WIDTH):
                partial_sum = real(0.0)
                for j in range(WIDTH):
                    partial_sum += values[WIDTH * part + j]
                total += float64(partial_sum)
            row_mean, total = real(block_sum(total, shared, thread, THREADS) * share), float64(0)
        for part in range(SLOTS // WIDTH):
            partial_sum = real(0.0)
            for j in range(WIDTH):
                values[WIDTH * part + j] -= row_mean
                partial_sum += values[WIDTH * part + j] * values[WIDTH * part + j]
            total += float64(partial_sum) if WIDTH * (part * THREADS + thread) < n else float64(0)
        scale = real(1.0) / sqrt(real(block_sum(total, shared, thread, THREADS) * share + eps))
        if thread == 0:
            mean[uintp(row)], rstd[uintp(row)] = row_mean, scale
        for part in range(SLOTS // WIDTH):
            k = WIDTH * (part * THREADS + thread)
            if k < n:
                for j in range(WIDTH):
                    values[WIDTH * part + j] *= scale
                if scaled != 0:
                    load(factor, 0, weight, uintp(k))
                    for j in range(WIDTH):
                        values[WIDTH * part + j] *= factor[j]
                if shifted != 0:
                    load(factor, 0, bias, uintp(k))
                    for j in range(WIDTH):
                        values[WIDTH * part + j] += factor[j]
                store(out, uintp(base + k), values, WIDTH * part)


@template
def load_row(values, x, base, n, thread, fill, *, SLOTS, THREADS, WIDTH, load):
    """values = this thread's elements of x[base : base + n]; `fill` beyond the end."""
    for part in range(SLOTS // WIDTH):
        k = WIDTH * (part * THREADS + thread)
        if k < n:
            load(values, WIDTH * part, x, uintp(base + k))
        else:
            for j in range(WIDTH):
                values[WIDTH * part + j] = fill


@template
def store_row(out, base, n, thread, values, *, SLOTS, THREADS, WIDTH, store):
    """This thread's elements of out[base : base + n] = values."""
    for part in range(SLOTS // WIDTH):
        k = WIDTH * (part * THREADS + thread)
        if k < n:
            store(out, uintp(base + k), values, WIDTH * part)


@template
def greatest_of_values(values, *, SLOTS):
    """The greatest of this thread's elements; NaN if one is NaN."""
    maximum = values[0]
    for slot in range(1, SLOTS):
        maximum = larger(maximum, values[slot])
    return maximum


_IN_REGISTERS = {
    "softmax_block": softmax_in_registers,
    "log_softmax_block": log_softmax_in_registers,
    "row_norm_block": row_norm_in_registers,
}


def register_variant(kernel: Callable, n: int, threads: int) -> Callable:
    """The variant of a block kernel that keeps rows of n elements in registers.

    Returns the kernel itself if it has no such variant or the row is too long.
    """
    slots = 1 << (-(-n // threads) - 1).bit_length()
    if kernel.__name__ not in _IN_REGISTERS or slots > _MAX_PER_THREAD:
        return kernel
    width = 1 if n % 4 or slots < 4 else 4
    variant, (load, store) = _IN_REGISTERS[kernel.__name__], (load_1, store_1) if width == 1 else (load_4, store_4)
    return partial(variant, SLOTS=slots, WIDTH=width, load=load, store=store)
