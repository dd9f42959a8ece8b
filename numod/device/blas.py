"""NumPy's BLAS: the address of its product, which kernels call, and how many threads it uses. Which products go there is `ops.matmul`'s.

Its own choice wakes threads for products of some microseconds, which on a busy machine wait for each other far longer than the product takes.
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
from collections.abc import Callable

import numpy as np

from . import threads

_LARGE = 1 << 22  # multiply-adds from which a product is shared between threads
_current: int | None = None
last = 0  # multiply-adds of the last product prepared: the graph compiler looks here for what a launch needs


def prepare(multiply_adds: int) -> None:
    """Set the threads for the next product of this size."""
    global _current, last
    last = multiply_adds
    wanted = threads.get_num_threads() if multiply_adds >= _LARGE else 1
    if wanted != _current:
        _current = wanted
        _setter()(wanted)


class Address(int):
    """A number of this process: never part of a kernel's text."""


@functools.cache
def gemm_address(storage: np.dtype) -> Address:
    """The address of `cblas_sgemm` or `cblas_dgemm` with 64-bit sizes; 0 where NumPy came with another BLAS."""
    name = {"float32": "scipy_cblas_sgemm64_", "float64": "scipy_cblas_dgemm64_"}.get(storage.name)
    function = getattr(_library(), name, None) if name else None
    return Address(ctypes.cast(function, ctypes.c_void_p).value if function else 0)


@functools.cache
def _setter() -> Callable[[int], object]:
    """The function that sets OpenBLAS's threads; where there is another BLAS, one that leaves it alone."""
    return getattr(_library(), "scipy_openblas_set_num_threads64_", None) or (lambda count: None)


@functools.cache
def _library() -> object:
    """The OpenBLAS in NumPy's wheels, or None."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for path in glob.glob(os.path.join(folder, "*openblas*")):
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    return None
