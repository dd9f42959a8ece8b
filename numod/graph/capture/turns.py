"""Threads and compiled functions: turns, in which one thread at a time records a function, or changes how it is
compiled, and what else threads can disturb. Calls that find a program take no turn.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakSet

# seconds a thread waits for its turn. The one it waits for may wait for it, in the function that is recorded; then it
# runs eagerly.
PATIENCE = 20.0
_turns: WeakSet[Turn] = WeakSet()


class Turn:
    """A lock of a function and what is compiled for it. A thread that has it may take it again."""

    def __init__(self) -> None:
        self.renew()
        _turns.add(self)

    def renew(self) -> None:
        """Replace the lock: in a forked child it may be held by a thread of the parent."""
        self._lock = threading.RLock()

    def take(self) -> threading.RLock | None:
        """Wait for a turn, which lasts until what is returned is released.

        None where the turn of another thread has not ended in time.
        """
        lock = self._lock  # which a child that is forked in a turn has of its parent, and must release as well
        return lock if lock.acquire(timeout=PATIENCE) else None

    @contextmanager
    def taken(self) -> Iterator[bool]:
        """Context of a turn. It yields False where there is none."""
        lock = self.take()
        try:
            yield lock is not None
        finally:
            if lock is not None:
                lock.release()


def is_disturbed(error: RuntimeError) -> bool:
    """Whether another thread changed a container while it was walked: "dictionary changed size during iteration"."""
    return "during iteration" in str(error)


def _enter_child() -> None:
    for each in list(_turns):
        each.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
