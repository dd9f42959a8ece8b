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
from collections.abc import Callable
from contextlib import suppress

from . import phases, progress, room
from .target import code_generator

_POLL = 0.05  # seconds
_THREAD = "numod compiler"  # the name of the threads
_ahead: list[Queue] = []  # queues of kernels that are compiled ahead, which have tasks left
_ahead_threads: list[threading.Thread] = []  # threads that work on them
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


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Queue:
    """Tasks for background threads, one per processor except the caller's. `finish` runs the remaining ones.

    A task is called with a code generator; `finish` calls the function that it returns. The threads of queues that are
    `ahead` work on all of these, those that are waited for first: the caller goes on with other kernels before it calls
    `finish`.
    """

    def __init__(self, ahead: bool = False) -> None:
        self.waiting: deque[Callable[[object], Callable]] = deque()
        self.done: list[Callable] = []
        self.errors: list[Exception] = []
        self.count = 0  # tasks that were put
        self.ended = threading.Event()  # set when a task ends
        self.threads: list[threading.Thread] = _ahead_threads if ahead else []
        self.spent = phases.current()  # the time of the kernel that is built
        self.has_room = room.address_limit() is None  # a thread takes 70 MB of addresses
        self.most = _processors() - 1 if self.has_room else 0
        self.ahead = ahead
        if ahead:
            _ahead.append(self)

    def put(self, task: Callable[[object], Callable]) -> None:
        """Add a task.

        The first one is left until `finish`: a single task would only move to another thread's colder cache.
        """
        skip_locks()
        self.count += 1
        self.waiting.append(task)
        self._start(self.most, 1 if self.ahead else 2)

    def _start(self, most: int, tasks: int = 1) -> None:
        """Start a thread if so many tasks wait and fewer than `most` threads work."""
        self.threads[:] = [thread for thread in self.threads if thread.is_alive()]
        if len(self.waiting) < tasks or len(self.threads) >= most:
            return
        target = _work_on_all if self.ahead else self._work_apart
        thread = threading.Thread(target=target, name=_THREAD, daemon=True)
        with suppress(RuntimeError):  # no more threads, as at the interpreter's exit
            thread.start()
            self.threads.append(thread)

    def abandon(self) -> None:
        """Drop the tasks that have not begun, and do not wait for the others. They use nothing of the caller's."""
        self.waiting.clear()
        self.count, self.threads = 0, []

    def finish(self) -> None:
        """Run the remaining tasks and wait for the others. Raises the first error of a task, once.

        The main thread leaves its part to another thread: it could not act on a signal while LLVM works.
        """
        apart = self.has_room and threading.current_thread() is threading.main_thread()
        if self in _ahead:  # its tasks come before those that nobody waits for
            _ahead[:] = [self, *[queue for queue in _ahead if queue is not self]]
        with phases.Span("wait", "for LLVM in background threads"):
            while len(self.done) + len(self.errors) < self.count:
                self.ended.clear()
                if apart:
                    self._start(self.most + 1)
                if not apart or not self.threads:
                    self._work()
                if len(self.done) + len(self.errors) < self.count:
                    self.ended.wait(_POLL)
                progress.checkpoint()
            if not self.ahead:
                for thread in self.threads:
                    thread.join()
        if self in _ahead:
            _ahead.remove(self)
        for take in self.done:
            take()
        errors, self.errors, self.count = self.errors, [], len(self.done)
        if errors:
            raise errors[0]

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
                self.ended.set()


def _work_on_all() -> None:
    """Work on the queues of kernels that are compiled ahead until no task waits."""
    while (queue := next((queue for queue in tuple(_ahead) if queue.waiting), None)) is not None:
        queue._work_apart()


def leave() -> None:
    """Drop all tasks that have not begun, and wait for the others: at the interpreter's exit LLVM must not work."""
    for queue in _ahead:
        queue.abandon()
    for thread in _ahead_threads:
        thread.join()


def _leave_parent() -> None:
    """Before a fork, wait for the threads, which the child lacks: a handler of a signal may fork amid a kernel."""
    for thread in threading.enumerate():
        if thread.name == _THREAD:
            thread.join()


def _enter_child() -> None:
    _ahead_threads.clear()  # a queue that is left is that of a kernel in the middle of which a handler has forked


atexit.register(leave)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_leave_parent, after_in_child=_enter_child)


def copied(module: object) -> object:
    """A copy of the module in a new context."""
    import llvmlite.binding as llvm

    copy = llvm.parse_bitcode(module.as_bitcode(), llvm.create_context())
    # freed by its context: a garbage collection finalizes the two in any order, and a context that is freed takes its
    # modules with it
    copy._owned = True
    return copy
