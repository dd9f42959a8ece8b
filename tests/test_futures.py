"""`numod.futures`: results that are set once, by others or when they are asked for."""

from __future__ import annotations

import pytest

import numod
from numod.futures import Future, collect_all


def test_futures() -> None:
    first, second = numod.futures.Future(), numod.Future()
    both, after = numod.futures.collect_all([first, second]), first.then(lambda future: future.wait() + 1)
    failing = first.then(lambda future: future.value() / 0)
    with pytest.raises(RuntimeError, match="once the Future has completed"):
        first.value()
    first.set_result(1)
    assert after.wait() == 2 and first.done() and not both.done()
    second.set_result(5)
    assert (
        [future.value() for future in both.wait()] == [1, 5]
        and numod.futures.wait_all([second, first]) == [5, 1]
        and numod.futures.collect_all([]).wait() == []
    )
    with pytest.raises(RuntimeError, match="completed once"):
        first.set_result(2)
    with pytest.raises(ZeroDivisionError):
        failing.wait()


def test_results_that_are_computed_when_they_are_asked_for() -> None:
    calls = []

    def lazy(value: object, ready: bool = False) -> Future:
        future = Future()

        def advance(waits: bool) -> None:
            calls.append(waits)
            if waits or ready:
                future.set_exception(value) if isinstance(value, Exception) else future.set_result(value)

        future._source = advance
        return future

    later = lazy(1)
    doubled = later.then(lambda future: 2 * future.value()).then(lambda future: future.value() + 1)
    assert not doubled.done() and calls == [False]
    assert doubled.wait() == 3 and later.value() == 1 and calls == [False, True]
    assert lazy(5, ready=True).then(lambda future: future.value()).done()
    both = collect_all([lazy(1), lazy(ValueError("second"))])
    first, second = both.wait()
    assert first.value() == 1
    with pytest.raises(ValueError, match="second"):
        second.wait()
    with pytest.raises(ValueError, match="third"):
        lazy(ValueError("third")).then(lambda future: future.value()).wait()
