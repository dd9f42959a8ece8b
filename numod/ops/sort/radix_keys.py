"""Sort keys: elements mapped to unsigned integers in the same order, and helpers for kernels that sort by them.

-0 equals 0, NaN comes last. Kernels have compile-time parameters `key_of(x)` and, for keys of up to 32 bits,
`value_of(key)`: the functions of a dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from ...device import Layout
from ...dtypes import dtype as DType
from ...kernel import bind
from ...kernel.language import bits32, bits64, float32, float64, float_of_bits32, int64, uint32, uint64
from ...kernel.scalar import functions as scalar_functions, scalar
from ...kernel.specialize import has, specialized

TASKS = 16  # number of tasks that rows are divided among, each with its own counts
DIGIT11_LENGTH = 1 << 12  # row length from which 11-bit digits are faster than 8 bits


@scalar
def key_of_float32(x):
    """The unsigned key of a float32: -0 equals 0, NaN is largest."""
    bits = bits32(float32(x) + float32(0))
    bits = uint32(0x7FC00000) if x != x else bits
    return uint64(bits ^ (uint32(0xFFFFFFFF) if bits >> uint32(31) != 0 else uint32(0x80000000)))


@scalar
def key_of_float64(x):
    """The unsigned key of a float64."""
    bits = bits64(float64(x) + float64(0))
    bits = uint64(0x7FF8000000000000) if x != x else bits
    return bits ^ (uint64(0xFFFFFFFFFFFFFFFF) if bits >> uint64(63) != 0 else uint64(0x8000000000000000))


@scalar
def key_of_int32(x):
    """The unsigned key of an integer of up to 32 bits."""
    return uint64(int64(x) + int64(0x80000000))


@scalar
def value_of_float32(key):
    """The float32 with this key; -0 and the payloads of NaN are lost."""
    bits = uint32(key)
    return float_of_bits32(uint32(bits ^ (uint32(0x80000000) if bits >> uint32(31) != 0 else uint32(0xFFFFFFFF))))


@scalar
def value_of_int32(key):
    """The integer with this key."""
    return int64(key) - int64(0x80000000)


@scalar
def key_of_int64(x):
    """The unsigned key of an int64."""
    return uint64(int64(x)) ^ uint64(0x8000000000000000)


@scalar
def key_of_uint32(x):
    """The key of a uint32: itself."""
    return uint64(x)


@scalar
def value_of_uint32(key):
    """The uint32 with this key."""
    return int64(key)


@scalar
def key_of_uint64(x):
    """The key of a uint64: itself."""
    return uint64(x)


def keyed(x: Layout, kernel: Callable) -> Callable:
    """A kernel with the key functions of x's dtype."""
    functions = {
        name: scalar_functions[f"{name}_{_name_of_key(x.dtype)}"]
        for name in ("key_of", "value_of")
        if has(kernel, name)
    }
    return partial(kernel, **functions)


def keyed_launcher(x: Layout, name: str, kernel: Callable, arrays: str, numbers: int, work: int) -> Callable:
    """The launcher of a kernel of `arrays` (a signature) and int64 numbers, with the key functions of x's dtype."""
    return bind.launcher(x.device, name, specialized(keyed(x, kernel)), arrays + ", int64" * numbers, x.dtype, work)


def _name_of_key(dtype: DType) -> str:
    """The name of the key function of a dtype."""
    has_key = dtype.is_floating_point or (dtype.kind == "w" and dtype.itemsize > 2)
    return dtype.name if has_key else f"int{8 * max(dtype.itemsize, 4)}"


def key_storage(dtype: DType) -> np.dtype:
    """The storage type of a dtype's keys."""
    return np.dtype(np.uint64 if dtype.itemsize == 8 else np.uint32)


def digits(dtype: DType, n: int) -> tuple[int, int]:
    """(bits per digit, digits per key)."""
    digit = 11 if n >= DIGIT11_LENGTH else 8
    return digit, -(-8 * max(dtype.itemsize, 4) // digit)


def scatter_back(grads: tuple, indices: object, layout: Layout) -> object:
    """The gradient of permuted rows: scattered back to the original positions."""
    return grads[0].new_zeros(layout.shape).scatter_(-1, indices, grads[0])
