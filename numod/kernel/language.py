"""What kernels may call, besides `math` and the functions of `kernel.scalar`: for tools, for readers, and as values of compile-time parameters.

A kernel's source names these; the back end provides what they compile to. The bodies here say what they do, in plain Python, so that a kernel can be stepped
through in a debugger.
"""

from __future__ import annotations

import numpy as np

EMITTED: set[object] = set()  # functions whose name is written into a kernel's source where they are the value of a parameter


def emitted(function):
    """Make a function one that kernels call by its name: the back end has instructions for it."""
    EMITTED.add(function)
    return function


def greater(a, b):
    """a > b"""
    return a > b


def greater_or_equal(a, b):
    """a >= b"""
    return a >= b


def less(a, b):
    """a < b"""
    return a < b


def less_or_equal(a, b):
    """a <= b"""
    return a <= b


@emitted
def greatest_in_row(x, first, n):
    """The place, counted from `first`, of the first greatest of n elements of x; of the first NaN where there is one."""
    return _first(x, first, n, greater)


@emitted
def least_in_row(x, first, n):
    """The place, counted from `first`, of the first least of n elements of x; of the first NaN where there is one."""
    return _first(x, first, n, less)


@emitted
def greatest_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the first greatest value of each column, and its line, by n lines of x, `step` apart, the first of which is number `line`."""
    _update(x, first, step, n, line, values, values_at, where, where_at, columns, greater)


@emitted
def least_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the first least value of each column, and its line, by n lines of x, `step` apart, the first of which is number `line`."""
    _update(x, first, step, n, line, values, values_at, where, where_at, columns, less)


def _first(x, first, n, beats):
    best = 0
    for k in range(1, n):
        if _better(x[first + k], x[first + best], beats):
            best = k
    return best


def _update(x, first, step, n, line, values, values_at, where, where_at, columns, beats):
    for k in range(n):
        for c in range(columns):
            if _better(x[first + k * step + c], values[values_at + c], beats):
                values[values_at + c], where[where_at + c] = x[first + k * step + c], line + k


def _better(value, best, beats):
    return beats(value, best) or (value != value and best == best)


# Loops, types and memory: what convolutions and pooling need (`kernel.primitives` has their vector instructions)


def parallel_range(n):
    """range(n) with independent iterations: threads divide them among each other, on a GPU by grid strides."""
    return range(n)


def uintp(index):
    """The number as an unsigned integer of a pointer's width. Indices are cast to it, so that no code for negative ones is made."""
    return int(index)


def int64(value):
    """The number as a signed 64-bit integer."""
    return int(value)


def int32(value):
    """The number as a signed 32-bit integer."""
    return int(value)


def uint32(value):
    """The number as an unsigned 32-bit integer."""
    return int(value) & 0xFFFFFFFF


def uint64(value):
    """The number as an unsigned 64-bit integer."""
    return int(value) & 0xFFFFFFFFFFFFFFFF


def float64(value):
    """The number in double precision."""
    return float(value)


def real(value):
    """The number in the type that the kernel computes in (`bind.launcher`); here that is float64."""
    return float(value)


def local_array(n, dtype):
    """n elements in the registers of one GPU thread. Their values are undefined until they are written."""
    return np.empty(n, dtype)


def address_of(array):
    """The address of an array's first element."""
    return array.ctypes.data


def FINISH(batch, row, line, low, high):
    """Where the pointwise work that follows a kernel is inserted (`ops.finish`): elements `low` to `high` of a row, which begins at out[line], are complete."""
