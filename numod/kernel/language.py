"""The names that kernels may use besides `math` and the functions of `kernel.scalar`.

Kernels import these names, so that tools and readers can resolve them, and pass them as compile-time parameters. The
back end provides the compiled forms. The bodies here define them in plain Python, so that a kernel can be stepped
through in a debugger.
"""

from __future__ import annotations

import numpy as np

# functions whose name is written into a kernel's source where they are the value of a parameter
EMITTED: set[object] = set()


def emitted(function):
    """Decorator: kernels call the function by its name, and the back end has instructions for it."""
    EMITTED.add(function)
    return function


# ---- types: a call casts


def int16(value):
    """The number as a signed 16-bit integer."""
    return int(value)


@emitted
def int32(value):
    """The number as a signed 32-bit integer."""
    return int(value)


@emitted
def int64(value):
    """The number as a signed 64-bit integer."""
    return int(value)


def uint8(value):
    """The number as an unsigned 8-bit integer."""
    return int(value) & 0xFF


def uint16(value):
    """The number as an unsigned 16-bit integer."""
    return int(value) & 0xFFFF


def uint32(value):
    """The number as an unsigned 32-bit integer."""
    return int(value) & 0xFFFFFFFF


def uint64(value):
    """The number as an unsigned 64-bit integer."""
    return int(value) & 0xFFFFFFFFFFFFFFFF


def uintp(index):
    """The number as an unsigned integer of a pointer's width.

    Indices are cast to it, so that no code for negative ones is made.
    """
    return int(index)


def float32(value):
    """The number in single precision."""
    return np.float32(value)


def float64(value):
    """The number in double precision."""
    return float(value)


def real(value):
    """The number in the type that the kernel computes in (`bind.launcher`); here that is float64."""
    return float(value)


def boolean(value):
    """Whether the number is not 0."""
    return bool(value)


# ---- floats as bits


@emitted
def bits32(x):
    """The bits of a float32, as an unsigned integer."""
    return int(np.float32(x).view(np.uint32))


@emitted
def bits64(x):
    """The bits of a float64, as an unsigned integer."""
    return int(np.float64(x).view(np.uint64))


@emitted
def float_of_bits32(bits):
    """The float32 with these bits."""
    return np.uint32(bits).view(np.float32)


@emitted
def float_of_bits64(bits):
    """The float64 with these bits."""
    return np.uint64(bits).view(np.float64)


# ---- mathematics in which kernels differ from Python's `math`: floats stay floats


def floor(x):
    """The greatest integer that is at most x, as a float."""
    return np.floor(x)


def ceil(x):
    """The least integer that is at least x, as a float."""
    return np.ceil(x)


def trunc(x):
    """The integer part of x, as a float."""
    return np.trunc(x)


def rounded_product(x, y):
    """x * y, never contracted with a sum into a fused multiply-add."""
    return x * y


# ---- loops


@emitted
def parallel_range(n):
    """range(n) with independent iterations: threads divide them among each other, on a GPU by grid strides."""
    return range(n)


def written(*limits):
    """range(*limits) of constants. The loop is unrolled in the kernel's source."""
    return range(*limits)


# ---- memory


SHARED = object()  # the last argument of `shared_array`; the back end puts the array's alignment in its place


def shared_array(n, dtype, SHARED):
    """n elements that the threads of a block share. n is a constant; values are undefined until they are written."""
    return np.empty(n, _dtype(dtype))


def local_array(n, dtype):
    """n elements in the registers of one GPU thread. Their values are undefined until they are written."""
    return np.empty(n, _dtype(dtype))


def stack_words():
    """Memory on the stack for the 260 random words of a strip."""
    return np.zeros(260, np.uint32)


def load_four(x, k):
    """x[k : k + 4] as a tuple, by one vector load."""
    return x[k], x[k + 1], x[k + 2], x[k + 3]


def store_four(x, k, a, b, c, d):
    """x[k : k + 4] = a, b, c, d, by one vector store."""
    x[k], x[k + 1], x[k + 2], x[k + 3] = a, b, c, d


def address_of(array):
    """The address of an array's first element."""
    return array.ctypes.data


# ---- threads of a GPU, as in Numba's `cuda`


class _Atomic:
    """Updates that other threads cannot interrupt. Each returns the value before."""

    @staticmethod
    def add(array, index, value):
        before = array[index]
        array[index] = before + value
        return before

    @staticmethod
    def max(array, index, value):
        before = array[index]
        array[index] = max(before, value)
        return before

    @staticmethod
    def cas(array, index, expected, value):
        before = array[index]
        array[index] = value if before == expected else before
        return before


class _Local:
    """Arrays of one thread."""

    @staticmethod
    def array(n, dtype):
        return np.empty(n, _dtype(dtype))


class _Dimensions:
    def __init__(self, x):
        self.x = x


class cuda:
    """GPU thread indices, barriers and local arrays, as in Numba's `cuda`.

    In plain Python there is one block of one thread.
    """

    threadIdx, blockIdx, blockDim, gridDim = _Dimensions(0), _Dimensions(0), _Dimensions(1), _Dimensions(1)
    atomic, local = _Atomic, _Local

    @staticmethod
    def syncthreads():
        """Wait for all threads of the block."""

    @staticmethod
    def threadfence_system():
        """Make earlier writes visible to all processors before later ones."""


def _dtype(kind):
    """The NumPy type of a type of this module."""
    return np.dtype(
        "float64" if kind is real else kind.__name__ if callable(kind) and not isinstance(kind, type) else kind
    )


# ---- comparisons, for kernels with a compile-time parameter


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


# ---- the greatest and the least element


@emitted
def greatest_in_row(x, first, n):
    """The index of the greatest of n elements of x from `first` on, counted from `first`.

    The first of equal elements counts, and the first NaN is greater than all numbers.
    """
    return _first(x, first, n, greater)


@emitted
def least_in_row(x, first, n):
    """The index of the least of n elements of x from `first` on, counted from `first`.

    The first of equal elements counts, and the first NaN is less than all numbers.
    """
    return _first(x, first, n, less)


@emitted
def greatest_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the greatest value of each column, and the first line that has it, by n lines of x that are `step` apart.

    The first of these lines has the number `line`.
    """
    _update(x, first, step, n, line, values, values_at, where, where_at, columns, greater)


@emitted
def least_in_columns(x, first, step, n, line, values, values_at, where, where_at, columns):
    """Update the least value of each column, and the first line that has it, by n lines of x that are `step` apart.

    The first of these lines has the number `line`.
    """
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


# ---- fused work


def EPILOGUE(batch, row, line, low, high):
    """Replaced by pointwise work fused into a kernel (`ops.matmul.epilogue`).

    A call means that elements `low` to `high` of a row, which begins at out[line], are complete.
    """
