"""Deferring signals, such as Ctrl-C, while exceptions from their handlers would do damage."""

from __future__ import annotations

import _signal  # what `signal` wraps: it makes no enumeration members of the numbers, which takes 15 us for each kernel
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# signals whose handlers are likely to raise; SIGINT last, so that it is restored last
_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGALRM", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")
    if hasattr(signal, name)
]


@contextmanager
def waiting() -> Iterator[None]:
    """Context that defers signals while a kernel is built.

    An exception from a handler would leave Numba partly imported for good, be lost in LLVM's callbacks, or leave a
    module that is freed twice, which crashes the process.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread runs handlers
        yield
        return
    handlers = [(signal, handler) for signal in _SIGNALS if callable(handler := _signal.getsignal(signal))]
    came: list[int] = []
    for signal_number, _ in handlers:
        _signal.signal(signal_number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for signal_number, handler in handlers:
            _signal.signal(signal_number, handler)
        for pending in came:
            signal.raise_signal(pending)
