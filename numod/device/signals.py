"""Deferring signals, such as Ctrl-C, while exceptions from their handlers would do damage."""

from __future__ import annotations

import _signal  # what `signal` wraps: it makes no enumeration members of the numbers, which takes 15 us for each kernel
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

# signals whose handlers are likely to raise; SIGINT last, so that it is restored last
_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGALRM", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")
    if hasattr(signal, name)
]
_POLL = 0.05  # seconds
_deferred: list[tuple[int, Callable]] = []  # signals that came while they were deferred, with their handlers
around: Callable[[], AbstractContextManager] = nullcontext  # the context in which `deliver` calls handlers


class Stopped(BaseException):
    """Ends a compilation because a signal's handler raised `error`; not an Exception, which Numba would catch."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


@contextmanager
def waiting() -> Iterator[None]:
    """Context that defers signals while a kernel is built, until its end or the next `deliver`.

    An exception from a handler would leave Numba partly imported for good, be lost in LLVM's callbacks, or leave a
    module that is freed twice, which crashes the process.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread runs handlers
        yield
        return
    handlers = [(signal, handler) for signal in _SIGNALS if callable(handler := _signal.getsignal(signal))]

    def deferring(handler: Callable) -> Callable:
        if hasattr(handler, "defers"):  # that of a context around this one
            return handler

        def defer(number: int, frame: object) -> None:
            _deferred.append((number, handler))

        defer.defers = True
        return defer

    for signal_number, handler in handlers:
        _signal.signal(signal_number, deferring(handler))
    stopped: BaseException | None = None
    try:
        yield
    except Stopped as stop:
        stopped = stop if any(hasattr(handler, "defers") for _, handler in handlers) else stop.error
    finally:
        for signal_number, handler in handlers:
            _signal.signal(signal_number, handler)
        if not any(hasattr(handler, "defers") for _, handler in handlers):
            _raise_all()
    if stopped is not None:
        raise stopped from stopped.__cause__  # its context would be the compiler's frames


def deliver() -> None:
    """Call the handlers of the signals that were deferred. The compiler calls this where an exception does no harm.

    Raises Stopped if a handler raises.
    """
    if not _deferred or threading.current_thread() is not threading.main_thread():
        return
    while _deferred:  # those after a handler that raises stay for the end of the context
        number, handler = _deferred.pop(0)
        try:
            with around():
                handler(number, sys._getframe())
        except BaseException as error:
            raise Stopped(error) from None


@contextmanager
def locked(lock: threading.RLock) -> Iterator[None]:
    """Context inside of `waiting` that holds the lock. While another thread has it, handlers of signals are called."""
    while not lock.acquire(timeout=_POLL):
        deliver()
    try:
        yield
    finally:
        lock.release()


def _raise_all() -> None:
    """Raise all signals that were deferred, also where the handler of one raises."""
    try:
        while _deferred:
            _signal.raise_signal(_deferred.pop(0)[0])
    finally:
        if _deferred:
            _raise_all()
