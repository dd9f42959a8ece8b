"""Deferring signals, such as Ctrl-C, while exceptions from their handlers would do damage."""

from __future__ import annotations

import _signal  # what `signal` wraps: it makes no enumeration members of the numbers, which takes 15 us for each kernel
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

# signals whose handlers are likely to raise; SIGINT last, so that it is deferred first and restored last
_SIGNALS = [
    getattr(signal, name)
    for name in ("SIGALRM", "SIGHUP", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGINT")
    if hasattr(signal, name)
]
_POLL = 0.05  # seconds
_deferred: list[int] = []  # signals that came while they were deferred
_replaced: dict[int, Callable] = {}  # the handlers of signals while these are deferred
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
    if _replaced or threading.current_thread() is not threading.main_thread():  # only the main thread runs handlers
        yield
        return
    stopped: BaseException | None = None
    try:
        _defer()
        yield
    except Stopped as stop:
        stopped = stop.error
    finally:
        _resume()
    if stopped is not None:
        raise stopped from stopped.__cause__  # its context would be the compiler's frames


def came() -> bool:
    """Whether signals were deferred whose handlers `deliver` would call in this thread."""
    return bool(_deferred and _replaced) and threading.current_thread() is threading.main_thread()


def deliver() -> None:
    """Call the handlers of the signals that were deferred. The compiler calls this where an exception does no harm.

    Meanwhile signals are not deferred: Ctrl-C ends a handler that takes long. Raises Stopped if a handler raises.
    """
    if not came():
        return
    try:
        with around():
            try:
                _resume()
            finally:
                _defer()
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


def _note(number: int, frame: object) -> None:
    """The handler of a signal that is deferred."""
    _deferred.append(number)


def _defer() -> None:
    for number in reversed(_SIGNALS):
        handler = _signal.getsignal(number)
        if callable(handler):
            _replaced[number] = handler
            _signal.signal(number, _note)


def _resume() -> None:
    """Restore the handlers, and call those of the signals that came, also where one raises."""
    try:
        for number, handler in reversed([*_replaced.items()]):
            if _signal.getsignal(number) is _note:
                _signal.signal(number, handler)
            _replaced.pop(number, None)
        while _deferred:
            _handle(_deferred.pop(0))
    finally:
        if _replaced or _deferred:
            _resume()


def _handle(number: int) -> None:
    """What a signal does, except that nobody is woken by `set_wakeup_fd` again."""
    handler = _signal.getsignal(number)
    if callable(handler):
        handler(number, sys._getframe())
    elif handler == _signal.SIG_DFL:  # which another handler has set
        _signal.raise_signal(number)


def _enter_child() -> None:
    """After a fork by another thread: the main thread, which does not exist in the child, may have deferred signals."""
    _deferred.clear()
    _resume()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_enter_child)
