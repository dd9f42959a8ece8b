"""Threads of NumPy's OpenBLAS, which runs LAPACK.

During numod's factorisations `numod.set_num_threads` limits their number; at other times the user's setting applies.

OpenBLAS's threads wait by spinning, so that on a busy machine small matrices take many times longer on two threads than
on one: they get one. Where NumPy has another BLAS, or hides the functions, nothing is changed.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache

import numpy as np

from . import threads

MIN_THREADED_SIZE = 512  # rows and columns below which a second thread gains little, if anything, on a quiet machine
# as wheels, as distributions and conda build it
_NAMES = ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}")
# what OpenBLAS says of its kind; built with OpenMP it would change the number of threads of other libraries
_PTHREADS = 1
_lock = threading.Lock()
_inside: set[int] = set()  # threads whose calls now hold the number of threads
_before = 0  # its previous value


@cache
def _controls() -> tuple[Callable, Callable] | None:
    """(read, write the number of threads) of the OpenBLAS to which NumPy's linear algebra is linked, or None."""
    try:
        from numpy.linalg import _umath_linalg

        library = ctypes.PyDLL(_umath_linalg.__file__)  # also finds symbols of its libraries
    except (ImportError, AttributeError, OSError):
        return None
    for name in _NAMES:
        kind, read, write = (
            getattr(library, name.format(part), None) for part in ("get_parallel", "get_num_threads", "set_num_threads")
        )
        if kind and read and write:
            return (read, write) if kind() == _PTHREADS else None
    return None


def limited(compute: Callable, arrays: list[np.ndarray], parameters: tuple = ()) -> object:
    """compute(*arrays, *parameters) with a limited number of threads.

    One thread if the first array's matrices (..., M, N) are small, else at most as many as our kernels use.
    """
    global _before
    controls = _controls()
    if controls is None:
        return compute(*arrays, *parameters)
    read, write = controls
    thread = threading.get_ident()
    try:
        with _lock:
            if not _inside:
                _before = read()
                _inside.add(thread)  # at once, since Ctrl-C may come at any call
                write(1 if min(arrays[0].shape[-2:]) < MIN_THREADED_SIZE else min(_before, threads.get_num_threads()))
            _inside.add(thread)
        return compute(*arrays, *parameters)
    finally:
        with _lock:
            if thread in _inside and len(_inside) == 1:
                write(_before)
            _inside.discard(thread)


def _enter_child() -> None:
    """Another thread may have been inside at the fork; it is not in the child."""
    global _lock
    _lock = threading.Lock()
    if _inside:
        _inside.clear()
        _controls()[1](_before)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
