"""The gate of parallel launches. It decides, for each launch, how many threads a kernel uses.

The worker threads (`workers`) do one launch at a time, and a forked child has none. So a launch that finds the gate
taken (another thread, or a nested call) or is in a forked child uses one thread.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from .. import config
from . import workers

THRESHOLD = 1 << 17  # elements of simple work below which starting threads costs more than it saves
_gate = threading.Lock()
_forked = False
_threads = config.num_threads()


def get_num_threads() -> int:
    """Threads a parallel kernel uses."""
    return _threads


def set_num_threads(count: int) -> None:
    """Use `count` threads in parallel kernels, or as many as the system allows. 1 makes every kernel serial."""
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
                _crew.note(count, _lost())


class Sharing(NamedTuple):
    """What sharing the cores with other programs did to parallel launches."""

    launches: int  # with more than one thread
    slower: int  # of these, in which threads waited so long that one thread had taken less time
    lost: int  # nanoseconds that those took longer
    fewer: int  # launches that got fewer threads therefore
    threads: int  # of the next launch
    most: int  # threads that it may use

    def since(self, before: Sharing) -> Sharing:
        """What happened after `before`."""
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
    """How many threads launches use where other programs hold the cores: threads that wait for cores can make a launch
    slower than one thread alone.

    When launches have lost `LATE` so, the number is halved for the next ones, for `PATIENCE` times as long as was lost.
    Then it doubles with each launch that loses nothing. So a twentieth of the time is lost at most.
    """

    # nanoseconds: to wake the threads takes a tenth of it or more, which pays if the next launches find them awake
    LATE = 50_000
    PATIENCE = 20

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns) -> None:
        self.clock, self.limit, self.until, self.debt = clock, 0, 0, 0
        self.launches, self.slower, self.lost, self.fewer = 0, 0, 0, 0

    def size(self, most: int) -> int:
        """Threads for a launch that may use `most`."""
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
        """A launch with `count` threads took so many nanoseconds longer than with one thread (below 0: less)."""
        self.launches += 1
        if lost > 0:
            self.slower += 1
            self.lost += lost
        self.debt = max(self.debt + lost, 0)
        if self.debt > self.LATE:
            self.limit, self.until, self.debt = max(count // 2, 1), self.clock() + self.PATIENCE * self.debt, 0

    def report(self, most: int) -> Sharing:
        """What launches lost so far, and how many threads of `most` the next one gets."""
        return Sharing(self.launches, self.slower, self.lost, self.fewer, min(self.limit, most) or most, most)


_crew = Crew()


def sharing() -> Sharing:
    """How this process shares the cores with others."""
    return _crew.report(_threads)


def alone(launch: Callable) -> Callable:
    """Launches a divided kernel with one thread."""
    return lambda *arguments: launch(*arguments, 1)


def most() -> int:
    """Threads a launch may use."""
    team = workers.team()
    return _threads if _threads <= team.size else team.grow(_threads)


def _lost() -> int:
    """Nanoseconds that the last launch took beyond the processor time of its shares."""
    lost = workers.team().lost
    found, lost.value = lost.value, 0
    return found


def _enter_child() -> None:
    global _forked, _gate
    _forked, _gate = True, threading.Lock()  # the parent's lock may have been held at the fork


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
