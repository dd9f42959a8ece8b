"""LLVM's part of a compilation, in background threads.

It takes as long as Numba's part in Python, which meanwhile continues with the next function.

A task has a copy of the module in a separate LLVM context and its own code generator. So the two slow calls need no
lock of llvmlite, which lets one thread at a time use LLVM (`UNLOCKED`). Other calls take the lock, since their modules
share one context.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from . import phases, progress, room
from .target import code_generator

_POLL = 0.05  # seconds
UNLOCKED = "LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"


class _ThreadState(threading.local):
    working = False  # whether this thread runs a task


_thread_state = _ThreadState()


class _LockOfOthers:
    """llvmlite's lock, except that threads do not take it while they run a task."""

    def __init__(self, usual: object) -> None:
        self.usual = usual

    def __enter__(self) -> None:
        if not _thread_state.working:
            self.usual.__enter__()

    def __exit__(self, *error: object) -> None:
        if not _thread_state.working:
            self.usual.__exit__(*error)


def lockless() -> tuple[tuple[object, str, object], ...]:
    """Replacements with which tasks skip llvmlite's lock in the slow calls: (owner, name, replacement)."""
    from llvmlite.binding import ffi

    return tuple((getattr(ffi.lib, name), "_lock", _LockOfOthers(ffi.lib._lock)) for name in UNLOCKED)


class Queue:
    """Tasks for background threads, one per processor except the caller's. `finish` runs the remaining ones.

    A task is called with a code generator; `finish` calls the function that it returns.
    """

    def __init__(self) -> None:
        self.waiting: deque[Callable[[object], Callable]] = deque()
        self.done: list[Callable] = []
        self.errors: list[Exception] = []
        self.threads: list[threading.Thread] = []
        self.spent = phases.current()  # the time of the kernel that is built
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.has_room = room.address_limit() is None  # a thread takes 70 MB of addresses
        self.most = processors - 1 if self.has_room else 0

    def put(self, task: Callable[[object], Callable]) -> None:
        """Add a task.

        The first one is left until `finish`: a single task would only move to another thread's colder cache.
        """
        self.waiting.append(task)
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        if len(self.waiting) > 1 and len(self.threads) < self.most:
            self._start()

    def _start(self) -> None:
        thread = threading.Thread(target=self._work_apart, name="numod compiler", daemon=True)
        with suppress(RuntimeError):  # no more threads, as at the interpreter's exit
            thread.start()
            self.threads.append(thread)

    def abandon(self) -> None:
        """Drop the tasks that have not begun, and do not wait for the others. They use nothing of the caller's."""
        self.waiting.clear()
        self.threads = []

    def finish(self) -> None:
        """Run the remaining tasks and wait for the others. Raises the first error of a task.

        The main thread leaves its part to another thread: it could not act on a signal while LLVM works.
        """
        if self.waiting and self.has_room and threading.current_thread() is threading.main_thread():
            self._start()
        else:
            self._work()
        with phases.Span("wait", "for LLVM in background threads"):
            for thread in self.threads:
                while thread.is_alive():
                    thread.join(_POLL)
                    progress.checkpoint()
        self._work()
        for take in self.done:
            take()
        if self.errors:
            raise self.errors[0]

    def _work_apart(self) -> None:
        with phases.collected(self.spent, background=True):
            self._work()

    def _work(self) -> None:
        generator = None
        while True:
            try:
                task = self.waiting.popleft()
            except IndexError:
                return
            try:
                generator = generator or code_generator()
                _thread_state.working = True
                self.done.append(task(generator))
            except Exception as error:
                self.errors.append(error)
            finally:
                _thread_state.working = False


def copied(module: object) -> object:
    """A copy of the module in a new context."""
    import llvmlite.binding as llvm

    return llvm.parse_bitcode(module.as_bitcode(), llvm.create_context())
