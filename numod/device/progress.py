"""What the user notices while kernels are compiled: a line on a terminal, and that Ctrl-C ends it.

The compiler calls `checkpoint` every few milliseconds, where an exception does no harm. The line is shown by the main
thread only, on the standard error if that is a terminal, once half a second has passed. It begins where the cursor is,
after a prompt or a bar of the program, and takes at most half of the columns. The cursor stays before it, so that other
threads write over it. It is erased before the program goes on, or a signal's handler. Kernels that follow each other
within a second count as one wait.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .. import config
from . import signals

SILENT_SECONDS = 0.5  # of compilation before the line appears
_PAUSE_SECONDS = 1.0  # without compilation, after which the count begins again
_COLUMNS = 80  # where the terminal does not say how many it has
_LEAST_COLUMNS = 20  # of the line, in terminals that have them
_FEWEST_COLUMNS = len("compiling")  # a terminal that has no more shows nothing


class _Wait:
    """Consecutive kernels: number begun, number expected (0: unknown), seconds spent, end of the last one."""

    begun = expected = 0
    spent = ended = started = 0.0
    name, shown, active = "", "", False


_wait = _Wait()


@contextmanager
def compiling(name: str, again: bool = False) -> Iterator[None]:
    """Context in which the kernel `name` is compiled; `again`: LLVM's part of one that has been counted."""
    if threading.current_thread() is not threading.main_thread() or _wait.active or not _is_terminal():
        yield
        return
    now = time.perf_counter()
    if not _wait.expected and now - _wait.ended > _PAUSE_SECONDS:
        _wait.begun, _wait.spent = 0, 0.0
    _wait.begun += not again
    _wait.started, _wait.name, _wait.active = now, name, True
    try:
        checkpoint()
        yield
    finally:
        _wait.ended, _wait.active = time.perf_counter(), False
        _wait.spent += _wait.ended - now
        _erase()


@contextmanager
def expecting(count: int) -> Iterator[None]:
    """Context in which up to `count` kernels are compiled or loaded."""
    if threading.current_thread() is not threading.main_thread() or _wait.expected:
        yield
        return
    _wait.begun, _wait.spent, _wait.expected = 0, 0.0, count
    try:
        yield
    finally:
        _wait.expected = 0


def loaded() -> None:
    """Count a kernel that needs no compilation, as one of those expected."""
    if _wait.expected and not _wait.active and threading.current_thread() is threading.main_thread():
        _wait.begun += 1


def checkpoint() -> None:
    """Call the handlers of signals that came, and show the line if it is time."""
    if signals.came():
        _erase()  # handlers may write
    signals.deliver()
    is_time = _wait.active and _wait.spent + time.perf_counter() - _wait.started > SILENT_SECONDS
    if is_time and not _wait.shown and threading.current_thread() is threading.main_thread():
        total = f"/{max(_wait.expected, _wait.begun)}" if _wait.expected else ""
        _show(f"compiling kernels {_wait.begun}{total} {_ellipsis()} {_wait.name}"[: _width()])


def _is_terminal() -> bool:
    try:
        return not config.quiet() and sys.stderr is not None and sys.stderr.isatty()
    except (AttributeError, ValueError):  # closed, or another object
        return False


def _is_dumb() -> bool:
    """Whether the terminal knows no control sequences."""
    return os.environ.get("TERM") == "dumb"


def _show(line: str) -> None:
    """Show a line at the cursor and go back, by saving the cursor: a line is cut at the margin, not continued."""
    if len(line) < _FEWEST_COLUMNS:
        return
    _wait.shown = line
    _write(line + "\b" * len(line) if _is_dumb() else f"\x1b7\x1b[?7l{line}\x1b[?7h\x1b8")


def _erase() -> None:
    count, _wait.shown = len(_wait.shown), ""
    if count:
        _write(" " * count + "\b" * count if _is_dumb() else "\x1b[K")


def _width() -> int:
    """The most columns of the line."""
    columns = 0
    with suppress(OSError, ValueError, AttributeError):  # no file, or closed
        columns = os.get_terminal_size(sys.stderr.fileno()).columns
    columns = columns or _COLUMNS
    return max(columns // 2, min(columns - 1, _LEAST_COLUMNS))


def _ellipsis() -> str:
    encoding = getattr(sys.stderr, "encoding", None) or "ascii"
    return "\N{HORIZONTAL ELLIPSIS}" if encoding.lower().startswith("utf") else "..."


def _write(text: str) -> None:
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
