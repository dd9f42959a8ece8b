"""The gate of parallel launches, which decides how many threads each launch uses.

The worker threads (`workers`) run one launch at a time, and a forked child has none. A launch uses one thread if the
gate is taken (by another thread, or around a nested call), or in a forked child.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from .. import config
from . import workers

MIN_PARALLEL_WORK = 1 << 17  # elements of simple work below which starting threads costs more than it saves
_gate = threading.Lock()
_forked = False
_threads = config.num_threads()


def get_num_threads() -> int:
    """The number of threads that a parallel kernel uses.

    Example:

        >>> torch.get_num_threads() >= 1
        True
    """
    return _threads


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels, or as many as the system allows. 1 makes every kernel serial.

    Example:

        >>> torch.set_num_threads(1)
        >>> torch.get_num_threads()
        1
    """
    global _threads
    if not isinstance(count, int) or count < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, got {count!r}")
    _threads = count


class Gated:
    """Launches a divided kernel, whose last argument is the number of threads: all if the gate is free, else one.

    After `set_num_threads(1)` it launches the serial kernel, which small arrays use too, so that only one of the two is
    compiled.
    """

    def __init__(self, make_divided: Callable[[], Callable], make_serial: Callable[[], Callable]) -> None:
        self.make_divided, self.make_serial = make_divided, make_serial
        _ = self.serial if _threads == 1 else self.divided  # build it now, like other kernels

    def __getattr__(self, name: str) -> Callable:
        """`serial` and `divided`, built when they are first used.

        `cached_property` holds a lock in Python 3.11, which a child forked meanwhile would inherit.
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
        # `with` cannot leave the gate closed, unlike `acquire(blocking=False)`, if Ctrl-C arrives before its `try`
        with _gate:
            count = _crew.size(most())
            divided(*arguments, count)
            if count > 1:
                _crew.note(count, _lost())


class Sharing(NamedTuple):
    """The effect on parallel launches of sharing the cores with other programs."""

    launches: int  # launches with more than one thread
    slower: int  # launches among these that would have been faster with one thread
    lost: int  # nanoseconds lost by these
    fewer: int  # launches that got fewer threads as a result
    threads: int  # threads of the next launch
    most: int  # threads that it may use at most

    def since(self, before: Sharing) -> Sharing:
        """The difference from an earlier report."""
        return Sharing(*(now - then for now, then in zip(self[:4], before)), self.threads, self.most)

    def __str__(self) -> str:
        if self.most == 1:
            return "kernels use one thread (numod.set_num_threads)"
        if not self.slower and not self.fewer:
            return (
                f"{self.launches} parallel launches, no time lost by waiting; launches use {self.threads} of "
                f"{self.most} threads now"
            )
        return (
            f"{self.launches} parallel launches, of which {self.slower} lost {self.lost / 1e6:.1f} ms by waiting: "
            "other programs held the cores, or threads "
            f"had to be woken; {self.fewer} more launches got fewer threads therefore; launches use {self.threads} of "
            f"{self.most} threads now"
        )


class Crew:
    """Limits the threads of launches while other programs use the cores: threads that wait for a core can make a launch
    slower than a single thread.

    After launches have lost `LATE`, the number of threads is halved for `PATIENCE` times the time lost. Then it doubles
    with each launch that loses nothing. So at most a twentieth of the time is lost.
    """

    # nanoseconds; waking the threads takes a tenth of it or more, which pays off if they are still awake for the next
    # launches
    LATE = 50_000
    PATIENCE = 20

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock, self.limit, self.until, self.debt = clock, 0, 0, 0
        self.launches, self.slower, self.lost, self.fewer = 0, 0, 0, 0

    def size(self, most: int) -> int:
        """The number of threads for a launch that may use `most`."""
        if not self.limit:
            return most
        if self.clock() >= self.until:
            self.limit *= 2
            if self.limit >= most:
                self.limit = 0
                return most
        self.fewer += self.limit < most
        return min(self.limit, most)

    def note(self, count: int, lost: int) -> None:
        """Record a launch: with `count` threads it took `lost` nanoseconds longer than with one (negative if less)."""
        self.launches += 1
        if lost > 0:
            self.slower += 1
            self.lost += lost
        self.debt = max(self.debt + lost, 0)
        if self.debt > self.LATE:
            self.limit, self.until, self.debt = max(count // 2, 1), self.clock() + self.PATIENCE * self.debt, 0

    def report(self, most: int) -> Sharing:
        """The losses so far, and the number of threads of the next launch, at most `most`."""
        return Sharing(self.launches, self.slower, self.lost, self.fewer, min(self.limit, most) or most, most)


_crew = Crew()


def sharing() -> Sharing:
    """The effect of sharing the cores with other processes so far."""
    return _crew.report(_threads)


def alone(launch: Callable) -> Callable:
    """A launcher of a divided kernel with one thread."""
    return lambda *arguments: launch(*arguments, 1)


def most() -> int:
    """The number of threads that a launch may use."""
    team = workers.team()
    return _threads if _threads <= team.size else team.grow(_threads)


def _lost() -> int:
    """Return and reset the nanoseconds by which the last launch exceeded the processor time of its shares."""
    counter = workers.team().lost
    nanoseconds, counter.value = counter.value, 0
    return nanoseconds


def _enter_child() -> None:
    global _forked, _gate
    _forked, _gate = True, threading.Lock()  # the parent's lock may have been held at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
