"""`numod.futures`: Python's futures with PyTorch's methods, for libraries with asynchronous functions."""

from __future__ import annotations

import concurrent.futures as _python
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]
T = TypeVar("T")


class Future(Generic[T]):
    """A result that is set once, by any thread. `devices` is accepted without effect.

    Example:

        >>> future = torch.futures.Future()
        >>> future.set_result(3)
        >>> future.wait()
        3
    """

    def __init__(self, *, devices: Any = None) -> None:
        self._future: _python.Future = _python.Future()
        # of a result that is computed when it is asked for: called with whether to wait for it
        self._source: Callable[[bool], None] | None = None

    def done(self) -> bool:
        """Whether there is a result or an exception."""
        self._advance(False)
        return self._future.done()

    def wait(self) -> T:
        """Wait for the result and return it. Raises the exception if one was set."""
        self._advance(True)
        return self._future.result()

    def _advance(self, waits: bool) -> None:
        """Let the source of the result go on. Errors become this future's exception."""
        if self._source is not None and not self._future.done():
            self._source(waits)

    def value(self) -> T:
        """The result. Raises RuntimeError if there is none yet, and the exception if one was set."""
        if not self.done():
            raise RuntimeError("value() can only be called once the Future has completed: wait() waits for that")
        return self.wait()

    def set_result(self, result: T) -> None:
        """Set the result. Raises RuntimeError if there is one already."""
        self._set(self._future.set_result, result)

    def set_exception(self, result: BaseException) -> None:
        """Set an exception instead of a result."""
        if not isinstance(result, BaseException):
            raise TypeError(f"{result} is of type {type(result)}, not an Exception.")
        self._set(self._future.set_exception, result)

    def _set(self, put: Callable[[Any], None], value: Any) -> None:
        try:
            put(value)
        except _python.InvalidStateError:
            raise RuntimeError("Future can only be marked completed once") from None

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """Call `callback(self)` when there is a result, immediately if there is one already."""
        self._future.add_done_callback(lambda _: callback(self))

    def then(self, callback: Callable[[Future[T]], Any]) -> Future:
        """A Future of `callback(self)`, which is called when there is a result."""
        result: Future = Future()

        def complete(future: Future[T]) -> None:
            try:
                result.set_result(callback(future))
            except Exception as error:
                result.set_exception(error)

        result._source = self._advance
        self.add_done_callback(complete)
        return result


def collect_all(futures: Iterable[Future]) -> Future[list[Future]]:
    """A Future of the given Futures, complete when all of them are."""
    futures = list(futures)
    result: Future = Future()
    if not futures:
        result.set_result(futures)
    missing, lock = [len(futures)], threading.Lock()

    def count(_: Future) -> None:
        with lock:
            missing[0] -= 1
            last = missing[0] == 0
        if last:
            result.set_result(futures)

    def advance(waits: bool) -> None:
        for future in futures:
            with suppress(Exception):  # it is the future's own
                future._advance(waits)

    result._source = advance
    for future in futures:
        future.add_done_callback(count)
    return result


def wait_all(futures: Iterable[Future]) -> list:
    """The results of all. Raises the first exception among them."""
    return [future.wait() for future in collect_all(futures).wait()]
