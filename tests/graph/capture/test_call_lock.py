"""Recording while other threads call the function: the lock, the results of the other threads, and the next call.

The functions send messages to their test through C queues, which guards do not inspect.
"""

from __future__ import annotations

import os
import _thread
import threading
import types
from collections.abc import Callable
from queue import SimpleQueue

import pytest
from pairs import equal

import numod
from numod import nn
from numod.graph.guards import snapshot as guards
from numod.graph.capture import call_lock

ONES = numod.ones(3)
# a module that is imported when it is first used; a recording would wait for that
assert not numod.compiler.is_compiling()


class Other:
    """Another thread, which does a piece of work whenever a recording asks it to:

    `ask()` returns when it is done. `found` is what came of it.
    """

    def __init__(self, work: Callable[[], object]) -> None:
        self.work, self.results, self.asked, self.done = work, [], SimpleQueue(), SimpleQueue()
        self.begin, self.wait = self.asked.put, self.done.get  # in C: guards do not look into them

    def run(self) -> None:
        while self.asked.get():
            try:
                self.results.append(self.work())
            finally:
                self.done.put(None)

    def __enter__(self) -> Other:
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.asked.put(False)
        self.thread.join()


def disturbed(function: Callable, begin: Callable, wait: Callable) -> Callable:
    """The function, while whose recording another thread works."""

    def run(x: numod.Tensor) -> object:
        if numod.compiler.is_compiling():
            begin(True)
            wait(True, 60)
        return function(x)

    return run


def recorded_with(work: Callable[[], object], function: Callable) -> tuple[object, list, numod.graph.compile.Compiled]:
    """(what `function` gives, what `work` gave on another thread while it was recorded, the compiled function).

    Warnings would be errors.
    """
    with Other(work) as other:
        compiled = numod.compile(disturbed(function, other.begin, other.wait), fullgraph=True)
        return compiled(ONES), other.results, compiled


def test_a_view_that_another_thread_takes_is_no_new_memory() -> None:
    weight = numod.full((3,), 2.0)
    result, _, compiled = recorded_with(lambda: weight.view(3, 1), lambda x: weight * x)
    assert result.tolist() == [2.0] * 3 and compiled.recorded == 1


def test_a_buffer_that_another_thread_makes_is_found_by_the_next_call() -> None:
    module = nn.Module()
    module.mask = None
    with Other(lambda: setattr(module, "mask", ONES * 3) if module.mask is None else None) as other:
        compiled = numod.compile(disturbed(lambda x: x * module.mask, other.begin, other.wait), fullgraph=True)
        assert compiled(ONES).tolist() == [3.0] * 3 and compiled.recorded == 0
        assert [compiled(ONES).tolist() for _ in range(2)] == [[3.0] * 3] * 2 and compiled.recorded == 1


def test_views_are_views_on_other_threads() -> None:
    """A program has copies in the place of some."""

    def work() -> tuple:
        numbers, rows = numod.zeros(2, dtype=numod.complex64), numod.zeros(2, 2)
        numbers.real.add_(1)
        rows[numod.tensor(1)].add_(1)
        return numbers.tolist(), rows.tolist()

    assert recorded_with(work, lambda x: x + 1)[1] == [([1, 1], [[0, 0], [1, 1]])]


def test_to_another_thread_what_stands_for_a_number_is_the_number() -> None:
    module = nn.Module()
    module.scale = 1.0

    def read() -> tuple:
        scale = module.scale
        return (
            scale * 2,
            2 / scale,
            scale > 2,
            bool(scale),
            isinstance(scale, float),
            f"{scale:.1f}",
            (ONES * scale).tolist(),
            numod.full((1,), scale).tolist(),
        )

    with Other(read) as other:
        compiled = numod.compile(disturbed(lambda x: x * module.scale, other.begin, other.wait))
        for scale in (1.0, 2.0, 4.0, 8.0):
            module.scale = scale
            assert compiled(ONES).tolist() == [scale] * 3
    assert other.results == [(s * 2, 2 / s, s > 2, True, True, f"{s:.1f}", [s] * 3, [s]) for s in (1.0, 2.0, 4.0, 8.0)]


def test_a_recording_that_meets_anothers_number_is_made_again() -> None:
    module = nn.Module()
    module.scale = 1.0
    inner = numod.compile(lambda x: x + module.scale)
    with Other(
        lambda: (type(module.scale) is float, inner.recorded if type(module.scale) is float else inner(ONES).tolist())
    ) as other:
        compiled = numod.compile(disturbed(lambda x: x * module.scale, other.begin, other.wait))
        for scale in (1.0, 2.0, 4.0, 8.0):
            module.scale = scale
            compiled(ONES)
        # it would have kept 8 for ever
        assert other.results == [(True, 0)] * 3 + [(False, [9.0] * 3)] and inner.recorded == 0
        module.scale = 16.0
        assert (
            compiled(ONES).add(1).tolist() == inner(ONES).tolist() == [17.0] * 3
            and compiled.variants[0].numbers is not None
        )


def test_a_function_may_wait_for_a_thread_that_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_lock, "TIMEOUT", 0.05)
    with Other(lambda: compiled(numod.full((3,), 2.0)).tolist()) as other:
        compiled = numod.compile(disturbed(lambda x: x + 1, other.begin, other.wait))
        assert [compiled(ONES).tolist() for _ in range(3)] == [[2.0] * 3] * 3 and compiled.recorded == 1
    assert other.results == [[3.0] * 3]


def test_threads_that_wait_for_a_recording_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_lock, "TIMEOUT", 600.0)
    calls: SimpleQueue = SimpleQueue()
    note = calls.put  # bound here: guards notice methods of queues by their names

    def function(x: numod.Tensor) -> numod.Tensor:
        note(x)
        return x * 3

    compiled = numod.compile(function)
    other = threading.Thread(target=lambda: compiled(ONES))
    with compiled.call_lock.locked():
        other.start()
        compiled(ONES)
    other.join()
    assert compiled.recorded == 1 and calls.get() is ONES and calls.empty()


def test_containers_that_change_while_they_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    look, disturbed = guards.StateVisitor, []

    def walk(*arguments: object) -> guards.StateVisitor:
        if not disturbed:
            disturbed.append(True)
            raise RuntimeError("dictionary changed size during iteration")
        return look(*arguments)

    holder = types.SimpleNamespace(table={"a": numod.full((3,), 2.0)})
    compiled = numod.compile(lambda x: x * holder.table["a"], fullgraph=True)
    monkeypatch.setattr(guards, "StateVisitor", walk)
    assert equal(compiled(ONES), ONES * 2) and compiled.recorded == 0
    assert equal(compiled(ONES), ONES * 2) and compiled.recorded == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_while_another_thread_records() -> None:
    recording, forked = _thread.allocate_lock(), _thread.allocate_lock()
    begin, wait, thread, here = recording.release, forked.acquire, _thread.get_ident, _thread.get_ident()

    def function(x: numod.Tensor) -> numod.Tensor:
        if thread() != here:
            begin()
            wait(True, 60)
        return x * 5

    compiled = numod.compile(function)
    other = threading.Thread(target=lambda: compiled(ONES))
    recording.acquire()
    forked.acquire()
    other.start()
    recording.acquire(timeout=60)
    child = os.fork()
    if child == 0:
        good = compiled(ONES).tolist() == [5.0] * 3 and compiled.recorded == 1 and not numod.core.listeners.listeners
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    forked.release()
    other.join()
    assert compiled.recorded == 1
