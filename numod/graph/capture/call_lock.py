"""The lock of a compiled function: one thread at a time records it or changes its variants.

Calls that find a recorded version do not take the lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# seconds that a thread waits for the lock before it runs the call eagerly; the recorded function itself may wait for
# this thread
TIMEOUT = 20.0
_forks = 0  # between the first process and this one


class CallLock:
    """A reentrant lock with a timeout. A forked child gets its own: a thread of the parent may hold the parent's.

    A process creates its lock at its first call. The locks are not replaced at the fork: that would need a list of all
    locks by weak references, whose callbacks run Python code when a lock is freed, and a KeyboardInterrupt there is
    lost.
    """

    def __init__(self) -> None:
        self._locks: dict[int, threading.RLock] = {}  # by the number of forks

    def acquire(self) -> threading.RLock | None:
        """Wait for the lock and return it, for `release`; None after the timeout."""
        # a child that is forked while its parent's thread holds the lock must release that lock: it is returned
        lock = self._locks.get(_forks)
        if lock is None:
            lock = self._locks.setdefault(_forks, threading.RLock())  # all threads get one lock
        return lock if lock.acquire(timeout=TIMEOUT) else None

    @contextmanager
    def locked(self) -> Iterator[bool]:
        """A context that holds the lock. It yields False after the timeout, without the lock."""
        lock = self.acquire()
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()


def is_disturbed(error: RuntimeError) -> bool:
    """Whether another thread changed a container during an iteration ("dictionary changed size during iteration")."""
    return "during iteration" in str(error)


def _enter_child() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
