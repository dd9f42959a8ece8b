"""LLVM's part of a compilation, in background threads.

It takes as long as Numba's part in Python, which meanwhile continues with the next function.

A task has a copy of the module in a separate LLVM context and its own code generator. So the two slow calls need no
lock of llvmlite, which lets one thread at a time use LLVM (`UNLOCKED`). Other calls take the lock, since their modules
share one context.
"""

from __future__ import annotations

import atexit
import functools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from . import phases, progress, room
from .target import code_generator

_POLL = 0.05  # seconds
_THREAD = "numod compiler"  # the name of the threads
_WAITED_FOR, _USUAL, _LATER = range(3)  # the urgency of tasks
# the tasks of kernels that are compiled ahead which have not begun, with their queues, by urgency
_ahead: tuple[deque, ...] = (deque(), deque(), deque())
_ahead_threads: list[threading.Thread] = []  # threads that work on them
UNLOCKED = "LLVMPY_RunNewModulePassManager", "LLVMPY_TargetMachineEmitToMemory"


class _ThreadState(threading.local):
    working = False  # whether this thread runs a task
    later = False  # whether it begins kernels that are needed after those that it begins otherwise


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


@functools.cache
def skip_locks() -> None:
    """Let tasks skip llvmlite's lock in the slow calls, for good: tasks go on when the compilation of a kernel ends."""
    from llvmlite.binding import ffi

    for name in UNLOCKED:
        getattr(ffi.lib, name)._lock = _LockOfOthers(ffi.lib._lock)


def helps() -> bool:
    """Whether kernels gain by being compiled ahead: there is a processor besides the caller's, and room for threads."""
    return _processors() > 1 and room.address_limit() is None


def works() -> bool:
    """Whether threads work on kernels that are compiled ahead."""
    return any(thread.is_alive() for thread in tuple(_ahead_threads))


@contextmanager
def later() -> Iterator[None]:
    """Context in which kernels are begun that are needed after all others, such as those of gradients."""
    before, _thread_state.later = _thread_state.later, True
    try:
        yield
    finally:
        _thread_state.later = before


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Queue:
    """Tasks for background threads, one per processor except the caller's. `finish` waits for them.

    A task is called with a code generator; `finish` calls the function that it returns. Queues that are `ahead` share
    their threads, which do the tasks that are waited for first: the caller goes on with other kernels before it calls
    `finish`.
    """

    def __init__(self, ahead: bool = False) -> None:
        self.waiting = _ahead if ahead else (deque(), deque(), deque())
        self.pending: list[Callable[[object], Callable]] = []  # tasks that have not ended
        self.done: deque[Callable] = deque()
        self.errors: dict[Callable, Exception] = {}  # of tasks
        self.ended = threading.Event()  # set when a task ends
        self.threads: list[threading.Thread] = _ahead_threads if ahead else []
        self.spent = phases.current()  # the time of the kernel that is built
        self.has_room = room.address_limit() is None  # a thread takes 70 MB of addresses
        self.most = _processors() - 1 if self.has_room else 0
        self.ahead = ahead

    def put(self, task: Callable[[object], Callable]) -> None:
        """Add a task.

        The first one is left until `finish`: a single task would only move to another thread's colder cache.
        """
        skip_locks()
        self.pending.append(task)
        self.waiting[_LATER if _thread_state.later else _USUAL].append((self, task))
        self._start(self.most, 1 if self.ahead else 2)

    def _start(self, most: int, tasks: int = 1) -> None:
        """Start a thread if so many tasks wait and fewer than `most` threads work."""
        self.threads[:] = [thread for thread in self.threads if thread.is_alive()]
        if sum(map(len, self.waiting)) < tasks or len(self.threads) >= most:
            return
        thread = threading.Thread(target=_work, args=(self.waiting,), name=_THREAD, daemon=True)
        with suppress(RuntimeError):  # no more threads, as at the interpreter's exit
            thread.start()
            self.threads.append(thread)

    def abandon(self) -> None:
        """Drop the tasks that have not begun, and do not wait for the others. They use nothing of the caller's."""
        for task in self.pending:
            self._take_out(task)
        self.pending, self.threads = [], _ahead_threads if self.ahead else []

    def _take_out(self, task: Callable[[object], Callable]) -> bool:
        """Remove a task from those that wait. Returns whether it was one."""
        for line in self.waiting:
            with suppress(ValueError):
                line.remove((self, task))
                return True
        return False

    def hasten(self, task: Callable[[object], Callable]) -> None:
        """Let a task come before those that nobody waits for."""
        if self._take_out(task):
            self.waiting[_WAITED_FOR].append((self, task))

    def finish(self, task: Callable[[object], Callable] | None = None) -> None:
        """Wait for all tasks, or the given one. Raises the first error of those, once.

        Where there is room, threads run all of them. A caller that ran tasks could not act on a signal meanwhile, and
        would go on with a task of another kernel when its own has ended.
        """
        for wanted in (*self.pending,) if task is None else (task,):
            self.hasten(wanted)
        with phases.Span("wait", "for LLVM in background threads"):
            while self._is_pending(task):
                self.ended.clear()
                self._start(self.most + 1 if self.has_room else 0)
                if not self.threads:
                    _work(self.waiting, lambda: self._is_pending(task))
                if self._is_pending(task):
                    self.ended.wait(_POLL)
                progress.checkpoint()
            if not self.ahead:
                for thread in self.threads:
                    thread.join()
        while (take := _first(self.done)) is not None:
            take()
        errors = [self.errors.pop(failed) for failed in [*self.errors] if task in (None, failed)]
        if errors:
            raise errors[0]

    def _is_pending(self, task: Callable[[object], Callable] | None) -> bool:
        """Whether a task has not ended, or any."""
        return bool(self.pending) if task is None else task in self.pending

    def run(self, task: Callable[[object], Callable], generator: Callable[[], object]) -> None:
        """Run a task that waits no more."""
        pending = self.pending
        try:
            _thread_state.working = True
            self.done.append(task(generator()))
        except Exception as error:
            self.errors[task] = error
        finally:
            _thread_state.working = False
            with suppress(ValueError):  # abandoned
                pending.remove(task)
            self.ended.set()


def _work(waiting: tuple[deque, ...], goes_on: Callable[[], bool] = lambda: True) -> None:
    """Run tasks until none waits, in the order of their urgency."""
    generator = functools.cache(code_generator)
    while goes_on() and (entry := _next(waiting)) is not None:
        queue, task = entry
        with phases.collected(queue.spent, background=threading.current_thread().name == _THREAD):
            queue.run(task, generator)


def _next(waiting: tuple[deque, ...]) -> tuple[Queue, Callable[[object], Callable]] | None:
    return next((entry for line in waiting if (entry := _first(line)) is not None), None)


def _first(line: deque) -> Any:
    """Take the first of those that wait, of which another thread may take the last one; None without any."""
    try:
        return line.popleft()
    except IndexError:
        return None


def leave() -> None:
    """Drop all tasks that have not begun, and wait for the others: at the interpreter's exit LLVM must not work."""
    while (entry := _next(_ahead)) is not None:
        entry[0].abandon()
    _join_all()


def _join_all() -> None:
    """Wait for the threads. Before a fork, since the child lacks them: a handler of a signal may fork amid a kernel."""
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join()


def _enter_child() -> None:
    _ahead_threads.clear()  # a queue that is left is that of a kernel in the middle of which a handler has forked


atexit.register(leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_join_all, after_in_child=_enter_child)


def copied(module: object) -> object:
    """A copy of the module in a new context."""
    import llvmlite.binding as llvm

    copy = llvm.parse_bitcode(module.as_bitcode(), llvm.create_context())
    # freed by its context: a garbage collection finalizes the two in any order, and a context that is freed takes its
    # modules with it
    copy._owned = True
    return copy
