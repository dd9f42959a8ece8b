"""The lock of a compiled function: one thread at a time records it or changes its variants.

Calls that find a recorded version do not take the lock.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

# seconds that a thread waits for the lock before it runs the call eagerly; the recorded function itself may wait for
# this thread
TIMEOUT = 20.0
_locks: WeakSet[CallLock] = WeakSet()


class CallLock:
    """A reentrant lock with a timeout, which a forked child replaces."""

    def __init__(self) -> None:
        self.renew()
        _locks.add(self)

    def renew(self) -> None:
        """Replace the lock: in a forked child, a thread of the parent may still hold it."""
        self._lock = threading.RLock()

    def acquire(self) -> threading.RLock | None:
        """Wait for the lock and return it, for `release`; None after the timeout."""
        lock = self._lock  # a child that is forked while its parent's thread holds the lock must release that lock
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
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
