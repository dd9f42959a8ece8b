"""The interfaces of `torch.cuda.nvtx` and `torch.profiler.itt`, whose ranges become slices of numod's profiler.

They are not sent to NVIDIA's or Intel's tools.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .profile import record_function

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


class _Open(threading.local):
    """The open ranges of a thread, outermost first."""

    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_open = _Open()


def is_available() -> bool:
    """False: ranges are not sent to external tools."""
    return False


def range_push(msg: str) -> int:
    """Open a range inside the open ones. Returns the number of open ranges before."""
    _open.ranges.append(record_function(msg).__enter__())
    return len(_open.ranges) - 1


def range_pop() -> int:
    """Close the innermost range; returns the number still open. Raises RuntimeError if none is open."""
    if not _open.ranges:
        raise RuntimeError("range_pop: no range is open on this thread; begin one with range_push")
    _open.ranges.pop().__exit__()
    return len(_open.ranges)


def mark(msg: str) -> None:
    """Mark an instant."""
    with record_function(msg):
        pass


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A context or decorator that makes the block or function a range. `msg` is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
