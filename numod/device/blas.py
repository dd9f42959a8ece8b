"""How many threads NumPy's BLAS uses for our products. Not the products: `ops.matmul` calls NumPy.

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


def prepare(multiply_adds: int) -> None:
    """Set the threads for the next product of this size."""
    global _current
    wanted = threads.get_num_threads() if multiply_adds >= _LARGE else 1
    if wanted != _current:
        _current = wanted
        _setter()(wanted)


@functools.cache
def _setter() -> Callable[[int], object]:
    """The function of the OpenBLAS in NumPy's wheels; where there is another BLAS, one that leaves it alone."""
    folder = os.path.join(os.path.dirname(os.path.dirname(np.__file__)), "numpy.libs")
    for path in glob.glob(os.path.join(folder, "*openblas*")):
        try:
            return ctypes.CDLL(path).scipy_openblas_set_num_threads64_
        except (OSError, AttributeError):
            continue
    return lambda count: None
