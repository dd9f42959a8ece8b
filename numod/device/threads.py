"""The gate of parallel launches. It decides, for each launch, whether a kernel uses one thread or all.

GNU OpenMP kills a forked child that enters a parallel region, and Numba's workqueue aborts the process when two threads
enter at once. So one launch at a time runs in parallel; a launch that finds the gate taken (another thread, or a nested
call) or is in a forked child runs serially.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from .. import config
from . import chunks, room

THRESHOLD = 1 << 17  # elements of simple work below which starting threads costs more than it saves
_gate = threading.Lock()
_forked = False
_threads = config.num_threads()


def get_num_threads() -> int:
    """Threads a parallel kernel uses."""
    return _threads


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels, at most as many as NUMBA_NUM_THREADS allowed at start. 1 makes every
    kernel serial.
    """
    global _threads
    if not isinstance(count, int) or count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    _threads = count


class Gated:
    """Launches a divided kernel (whose last argument is the number of threads) with all threads if the gate is free,
    else with one.

    While `set_num_threads(1)` holds it launches the serial kernel, which small arrays use too, so that only one of the
    two is compiled. Both arguments build one.
    """

    def __init__(self, make_divided: Callable[[], Callable], make_serial: Callable[[], Callable]) -> None:
        self.make_divided, self.make_serial = make_divided, make_serial
        _ = self.serial if _threads == 1 else self.divided  # built now, as other kernels are

    def __getattr__(self, name: str) -> Callable:
        """`serial` and `divided`, built when they are first used.

        `cached_property` holds a lock in Python 3.11, for which a child forked meanwhile would wait for ever.
        """
        if name not in ("serial", "divided"):
            raise AttributeError(name)
        kernel = vars(self)[name] = vars(self)[f"make_{name}"]()
        return kernel

    def __call__(self, *arguments: object) -> None:
        if _threads == 1:
            self.serial(*arguments)
            return
        divided = self.divided
        if _forked or _gate.locked():
            divided(*arguments, 1)
            return
        # an `acquire` that does not wait could be followed by Ctrl-C before its `try`, and the gate be closed for ever
        with _gate:
            count = _crew.size(most())
            divided(*arguments, count)
            if count > 1:
                _crew.note(count, chunks.late())


class Crew:
    """How many threads launches use where other programs hold the cores: a launch waits for its last thread, which may
    wait for a core for milliseconds.

    A launch that waited halves the number for the next ones, for `PATIENCE` times as long as it waited. Then the number
    doubles with each launch that does not wait. So waiting takes a twentieth of the time at most.
    """

    LATE = 400_000  # nanoseconds: a thread that sleeps wakes up within a tenth of it
    PATIENCE = 20

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock, self.limit, self.until, self.launches, self.waited = clock, 0, 0, 0, 0

    def size(self, most: int) -> int:
        """Threads for a launch that may use `most`."""
        if not self.limit:
            return most
        if self.clock() >= self.until:
            self.limit *= 2
            if self.limit >= most:
                self.limit = 0
        return min(self.limit, most) or most

    def note(self, count: int, waited: int) -> None:
        """A launch with `count` threads waited so many nanoseconds for them."""
        if waited > self.LATE:
            self.limit, self.until = max(count // 2, 1), self.clock() + self.PATIENCE * waited
            self.launches += 1
            self.waited += waited


_crew = Crew()


def alone(launch: Callable) -> Callable:
    """Launches a divided kernel with one thread."""
    return lambda *arguments: launch(*arguments, 1)


class _Team(threading.local):
    size = 1  # threads of the largest parallel launch by this thread


_team = _Team()


def most() -> int:
    """Threads a launch may use: no more than Numba's threading layer started.

    OpenMP starts some for every thread that launches, and more for a larger launch: where the address space is limited,
    it is tried first whether they can start.
    """
    import numba

    count = min(_threads, numba.config.NUMBA_NUM_THREADS)
    if count > _team.size and room.address_limit() is not None:
        count = room.startable(count)
    _team.size = max(_team.size, count)
    return count


def _enter_child() -> None:
    global _forked, _gate
    _forked, _gate = True, threading.Lock()  # the parent's lock may have been held at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
