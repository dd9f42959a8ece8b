"""Ranges, as `torch.cuda.nvtx` and `torch.profiler.itt` name them: slices of numod's own profiler. They are not sent to NVIDIA's or Intel's tools."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .profile import record_function

__all__ = ["is_available", "mark", "range", "range_pop", "range_push"]


class _Open(threading.local):
    """The ranges of a thread that have begun, outermost first."""

    def __init__(self) -> None:
        self.ranges: list[record_function] = []


_open = _Open()


def is_available() -> bool:
    """Whether the tool of that name listens: none does."""
    return False


def range_push(msg: str) -> int:
    """Begin a range inside those that are open; how many they are."""
    _open.ranges.append(record_function(msg).__enter__())
    return len(_open.ranges) - 1


def range_pop() -> int:
    """End the innermost range; how many stay open. Raises RuntimeError where none is."""
    if not _open.ranges:
        raise RuntimeError("range_pop: no range is open on this thread; begin one with range_push")
    _open.ranges.pop().__exit__()
    return len(_open.ranges)


def mark(msg: str) -> None:
    """A moment."""
    with record_function(msg):
        pass


@contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:  # noqa: A001  PyTorch's name
    """The block, or the decorated function, is a range. `msg` is formatted with the rest."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
