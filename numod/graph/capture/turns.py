"""Turns: one thread at a time records a function or changes its variants. Calls that find a version take no turn."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

# Seconds that a thread waits for its turn before it runs the call eagerly. The recorded function itself may wait for
# this thread.
PATIENCE = 20.0
_turns: WeakSet[Turn] = WeakSet()


class Turn:
    """The lock of a compiled function. A thread that has it may take it again."""

    def __init__(self) -> None:
        self.renew()
        _turns.add(self)

    def renew(self) -> None:
        """Replace the lock: in a forked child, a thread of the parent may still hold it."""
        self._lock = threading.RLock()

    def take(self) -> threading.RLock | None:
        """Wait for a turn. It lasts until the returned lock is released. None if the wait takes too long."""
        lock = self._lock  # a child that is forked during a turn must release its parent's lock
        return lock if lock.acquire(timeout=PATIENCE) else None

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """A context that takes a turn. It yields False if the wait takes too long."""
        lock = self.take()
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()


def is_disturbed(error: RuntimeError) -> bool:
    """Whether another thread changed a container during an iteration ("dictionary changed size during iteration")."""
    return "during iteration" in str(error)


def _enter_child() -> None:
    for turn in list(_turns):
        turn.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
