"""The one gate of parallel launches. It decides, for each launch, between a kernel's serial and its parallel variant.

GNU OpenMP kills a forked child that enters a parallel region and Numba's workqueue aborts the process when two threads enter at once.
So one thread at a time goes parallel; whoever finds the gate taken (another thread, or a nested call), and every forked child, runs serial.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from .. import config

THRESHOLD = 1 << 17  # elements of simple work below which the start of the threads costs more than it saves
_gate = threading.Lock()
_forked = False
_threads = config.num_threads()


def get_num_threads() -> int:
    """Threads a parallel kernel uses."""
    return _threads


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels, at most as many as NUMBA_NUM_THREADS allowed at start. 1 makes every kernel serial."""
    global _threads
    if not isinstance(count, int) or count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    _threads = count


def choose(make: Callable[[bool], Callable], work: int) -> Callable:
    """The launcher for `work` elements of a kernel that `make(parallel)` builds."""
    serial = make(False)
    return serial if work < THRESHOLD else _Gated(serial, make)


class _Gated:
    """A kernel that goes parallel when the gate is free. The parallel variant is built on its first use."""

    __slots__ = ("serial", "build", "parallel")

    def __init__(self, serial: Callable, build: Callable[[bool], Callable]) -> None:
        self.serial, self.build, self.parallel = serial, build, None

    def __call__(self, *arguments: object) -> None:
        if _threads == 1 or _forked or not _gate.acquire(blocking=False):
            self.serial(*arguments)
            return
        try:
            if self.parallel is None:
                self.parallel = self.build(True)
            _mask_threads()
            self.parallel(*arguments)
        finally:
            _gate.release()


def _mask_threads() -> None:
    import numba

    wanted = min(_threads, numba.config.NUMBA_NUM_THREADS)
    if numba.get_num_threads() != wanted:
        numba.set_num_threads(wanted)


def _enter_child() -> None:
    global _forked, _gate
    _forked, _gate = True, threading.Lock()  # the parent's lock may have been held at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
