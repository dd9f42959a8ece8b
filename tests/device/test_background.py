"""LLVM in background threads: same results as in the calling thread; errors reach the caller, locks are released."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest

from numod.device import background, code_library, cpu
from numod.kernel import build

TEXT = """
@shared_function
def doubled(x):
    return x * 2

def kernel(x, out):
    for i in range(out.size):
        out[i] = doubled(x[i]) + {more}
"""


def built(more: int, shared: str = "doubled") -> build.Kernel:
    return build.build(cpu, "of_threads", TEXT.replace("doubled", shared).format(more=more), "float64[], float64[]")


def test_tasks_are_done_by_other_threads_while_the_caller_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "code_generator", lambda: "generator")
    queue, begun, release, by, taken = background.Queue(), threading.Event(), threading.Event(), [], []
    queue.most = 1

    def task(generator: object) -> object:
        begun.set()
        assert release.wait(60) and generator == "generator"
        by.append(threading.current_thread())
        return lambda: taken.append(threading.current_thread())

    queue.put(task)
    assert queue.threads == []
    queue.put(task)
    assert begun.wait(60) and by == []
    (worker,) = queue.threads
    for _ in range(2):
        queue.put(task)
    assert queue.threads == [worker]
    release.set()
    queue.finish()
    assert len(by) == 4 and worker in by and not worker.is_alive() and taken == [threading.current_thread()] * 4


@pytest.fixture
def nothing_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if no kernel were compiled ahead, with a generator that is not LLVM's."""
    monkeypatch.setattr(background, "code_generator", lambda: None)
    monkeypatch.setattr(background, "_ahead", tuple([deque() for _ in background._ahead]))
    monkeypatch.setattr(background, "_ahead_threads", [])


def queue_of(tasks: list[Callable]) -> background.Queue:
    """A queue of a kernel that is compiled ahead, whose threads start when it is waited for."""
    queue = background.Queue(ahead=True)
    queue.most, queue.has_room = 0, True
    for task in tasks:
        queue.put(task)
    return queue


def test_tasks_that_are_waited_for_come_first_and_those_of_gradients_last(nothing_waits: None) -> None:
    order: list[int] = []

    def task(number: int) -> Callable:
        return lambda generator: order.append(number) or (lambda: None)

    with background.later():
        last = queue_of([task(3)])
    queues = [queue_of([task(number)]) for number in range(3)]
    for queue in (queues[2], queues[0], queues[1], last):
        queue.finish()
    assert order == [2, 0, 1, 3]


def test_a_task_is_waited_for_alone(nothing_waits: None) -> None:
    may_end, taken = threading.Event(), []

    def long_task(generator: object) -> Callable:
        assert may_end.wait(60)
        return lambda: taken.append("long")

    def short_task(generator: object) -> Callable:
        return lambda: taken.append("short")

    queue = queue_of([long_task, short_task])
    queue.finish(short_task)
    assert taken == ["short"] and queue.pending == [long_task]
    may_end.set()
    queue.finish()
    assert taken == ["short", "long"] and queue.pending == []


def test_the_main_thread_s_wait_starts_a_thread_for_the_tasks_of_other_kernels(nothing_waits: None) -> None:
    met = threading.Barrier(2, timeout=60)

    def task(generator: object) -> Callable:
        met.wait()  # a thread alone would not get here twice
        return lambda: None

    first, other = queue_of([task]), queue_of([task])
    first.most = 1
    first._start(1)
    first.finish()
    other.finish()
    assert not met.broken


@pytest.mark.parametrize("most", [0, 1])
def test_errors_of_tasks_reach_the_caller_after_all_are_done(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(background, "code_generator", lambda: None)
    queue, done = background.Queue(), []
    queue.most = most
    queue.put(lambda generator: 1 / 0)
    queue.put(lambda generator: lambda: done.append(1))
    with pytest.raises(ZeroDivisionError):
        queue.finish()
    assert done == [1]


def test_an_error_is_that_of_the_task_that_is_waited_for(nothing_waits: None) -> None:
    """A kernel waits for a function that it shares with another, whose own task failed."""
    taken: list[str] = []

    def wrong(generator: object) -> Callable:
        raise RuntimeError("no machine code")

    def right(generator: object) -> Callable:
        return lambda: taken.append("right")

    queue = queue_of([wrong, right])
    queue.hasten(wrong)
    queue.finish(right)
    assert taken == ["right"]
    with pytest.raises(RuntimeError, match="no machine code"):
        queue.finish(wrong)
    queue.finish()  # an error is raised once


def test_a_thread_that_waits_runs_no_task_of_another_kernel(nothing_waits: None) -> None:
    """Its time would be that of two kernels, and it would wait for the longer task."""
    by: list[threading.Thread] = []

    def task(generator: object) -> Callable:
        by.append(threading.current_thread())
        return lambda: None

    other, first = queue_of([task]), queue_of([task])
    other.hasten(other.pending[0])  # a wait that a signal ended
    waiting = threading.Thread(target=first.finish)
    waiting.start()
    waiting.join()
    other.finish()
    assert len(by) == 2 and waiting not in by


@pytest.mark.parametrize("has_room", [False, True])
def test_a_wait_ends_where_the_threads_have_ended(nothing_waits: None, has_room: bool) -> None:
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    queue = queue_of([lambda generator: lambda: None])
    queue.threads.append(ended)
    queue.has_room = has_room
    queue.finish()
    assert queue.pending == []


def test_kernels_are_the_same_where_no_thread_can_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    usual, asked = built(1), []

    def refuse(self: threading.Thread) -> None:
        asked.append(self.name)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    alone, out = built(2), np.empty(3)
    for kernel, more in ((usual, 1), (alone, 2)):
        kernel.launch(np.arange(3.0), out)
        assert out.tolist() == [more, 2 + more, 4 + more]
    assert set(asked) <= {"numod compiler"}  # none on a single processor


def test_only_tasks_take_no_lock_of_llvmlite_also_when_the_kernel_that_began_them_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from llvmlite.binding import ffi

    class Counted:
        entered = 0

        def __enter__(self) -> None:
            self.entered += 1

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    emit, counts = code_library.emit, []

    def watched(library: object) -> bytes:
        lock = getattr(ffi.lib, background.UNLOCKED[1])._lock
        assert lock is not ffi.lib._lock and lock.usual is ffi.lib._lock
        counted, seen = background._LockOfOthers(Counted()), []

        def use() -> None:
            with counted:
                seen.append(counted.usual.entered)

        use()  # here, in a task
        other = threading.Thread(target=use)
        other.start()
        other.join()
        counts.append(seen)  # tasks run at the same time
        return emit(library)

    monkeypatch.setattr(code_library, "emit", watched)
    built(3)
    assert counts and all(count == [0, 1] for count in counts)
    assert all(getattr(ffi.lib, name)._lock.usual is ffi.lib._lock for name in background.UNLOCKED)


STRANGER = """
import threading
import llvmlite.binding as llvm
import numod
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
done = threading.Event()
def use():
    while not done.is_set():
        module = llvm.parse_assembly("define i32 @f(i32 %x) {" + chr(10) + "%y = add i32 %x, 1" + chr(10) + "ret i32 %y" + chr(10) + "}")
        llvm.Target.from_default_triple().create_target_machine(opt=3).emit_object(module)
other = threading.Thread(target=use)
other.start()
try:
    numod.nn.functional.conv2d(numod.ones(1, 3, 8, 8), numod.ones(4, 3, 3, 3))
finally:
    done.set()
    other.join()
"""


@pytest.mark.parametrize("context_first", [False, True])
def test_copies_of_modules_are_freed_once_in_any_order(context_first: bool) -> None:
    """As when a program that has switched garbage collection off collects the cycles of kernels."""
    copy = background.copied(llvm.parse_assembly("define i64 @f() {\n ret i64 1\n}"))
    (function,) = copy.functions
    assert function.name == "f"
    (copy._context if context_first else copy).close()
    (copy if context_first else copy._context).close()
    del function, copy
    gc.collect()


def test_other_threads_use_llvm_meanwhile() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", STRANGER], env={**os.environ, "NUMOD_CACHE_DIR": ""}, capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr


def test_an_error_of_llvm_leaves_the_compiler_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")

    def fail(library: object) -> bytes:
        raise RuntimeError("no machine code")

    with monkeypatch.context() as patch:
        patch.setattr(code_library, "emit", fail)
        with pytest.raises(RuntimeError, match="no machine code"):
            built(4, "doubled_after_all")  # a function that no other kernel has had compiled
    out = np.empty(1)
    built(4, "doubled_after_all").launch(np.ones(1), out)
    assert out.tolist() == [6.0]
