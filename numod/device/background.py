"""LLVM's part of a compilation, in threads of its own: it takes as long as Numba's, in Python, which meanwhile goes on
with the next function. Not what is compiled, which is `compiler`'s.

A task has a copy of the module in an LLVM context that no other thread knows, and its own code generator. So the two
calls that take long need no lock of llvmlite's, which lets one thread at a time use LLVM (`UNLOCKED`). Others still
take it: their modules share one context.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from . import room
from .target import code_generator

UNLOCKED = "LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"


class _Here(threading.local):
    working = False  # whether this thread does a task


_here = _Here()


class _LockOfOthers:
    """llvmlite's lock, which a thread does not take while it does a task."""

    def __init__(self, usual: object) -> None:
        self.usual = usual

    def __enter__(self) -> None:
        if not _here.working:
            self.usual.__enter__()

    def __exit__(self, *error: object) -> None:
        if not _here.working:
            self.usual.__exit__(*error)


def lockless() -> tuple[tuple[object, str, object], ...]:
    """What has tasks take no lock of llvmlite's for the calls that take long: (owner, name, replacement)."""
    from llvmlite.binding import ffi

    return tuple((getattr(ffi.lib, name), "_lock", _LockOfOthers(ffi.lib._lock)) for name in UNLOCKED)


class Queue:
    """Tasks for as many threads as there are processors besides the caller's, who does what they have not begun when it
    asks for all of it (`finish`).

    A task is called with a code generator; what it returns is called by `finish`.
    """

    def __init__(self) -> None:
        self.waiting: deque[Callable[[object], Callable]] = deque()
        self.done: list[Callable] = []
        self.errors: list[Exception] = []
        self.threads: list[threading.Thread] = []
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.most = processors - 1 if room.address_limit() is None else 0  # a thread takes 70 MB of addresses

    def put(self, task: Callable[[object], Callable]) -> None:
        """Have a task done.

        The first is left to the caller: where there is no second, another thread would only take it to a colder cache.
        """
        self.waiting.append(task)
        self.threads = [thread for thread in self.threads if thread.is_alive()]
        if len(self.waiting) > 1 and len(self.threads) < self.most:
            thread = threading.Thread(target=self._work, name="numod compiler", daemon=True)
            with suppress(RuntimeError):  # no more threads, as while Python ends
                thread.start()
                self.threads.append(thread)

    def finish(self) -> None:
        """Return when all is done. Raises the first error of a task."""
        self._work()
        for thread in self.threads:
            thread.join()
        for take in self.done:
            take()
        if self.errors:
            raise self.errors[0]

    def _work(self) -> None:
        generator = None
        while True:
            try:
                task = self.waiting.popleft()
            except IndexError:
                return
            try:
                generator = generator or code_generator()
                _here.working = True
                self.done.append(task(generator))
            except Exception as error:
                self.errors.append(error)
            finally:
                _here.working = False


def copied(module: object) -> object:
    """The module in a context of its own."""
    import llvmlite.binding as llvm

    return llvm.parse_bitcode(module.as_bitcode(), llvm.create_context())
