"""The pool of worker threads: every share of a loop runs once, no launch waits for a worker without a core, and waiting
time is counted.
"""

from __future__ import annotations

import ctypes
import threading

import pytest

from numod.device import workers

LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
PATIENCE = 60  # seconds, after which a thread hangs


@pytest.fixture
def team() -> workers.Team:
    """A team of its own, whose workers stay for ever: they sleep."""
    return workers.create()


def divide(team: workers.Team, loop: object, shares: int, threads: int) -> None:
    ctypes.CFUNCTYPE(None, LOOP, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)(team.divide)(
        LOOP(loop), None, shares, threads
    )


def test_every_share_is_done_once(team: workers.Team) -> None:
    assert team.grow(4) == 4
    for shares in (*range(1, 20), 500):
        for threads in (2, 3, 4):
            results = []
            divide(team, lambda data, share, recorded=results: recorded.append(share), shares, threads)
            assert sorted(results) == list(range(shares))


def test_a_launch_does_not_wait_for_workers_that_do_not_come(team: workers.Team) -> None:
    results = []
    divide(team, lambda data, share: results.append((share, threading.get_ident())), 6, 4)
    assert results == [(share, threading.get_ident()) for share in range(6)]


def test_a_launch_waits_for_a_share_that_was_begun_and_counts_the_loss(team: workers.Team) -> None:
    here, begun, leave, done = threading.get_ident(), threading.Event(), threading.Event(), []

    def loop(data: object, share: int) -> None:
        if threading.get_ident() == here:
            assert begun.wait(PATIENCE)
            threading.Timer(0.01, leave.set).start()
        else:
            begun.set()
            assert leave.wait(PATIENCE)  # as a worker without a core
        done.append(share)

    team.grow(2)
    divide(team, loop, 2, 2)
    assert sorted(done) == [0, 1]
    assert team.lost.value > 0


def test_no_more_workers_help_than_the_launch_asks_for(team: workers.Team) -> None:
    team.grow(4)
    seen = set()
    for _ in range(50):
        divide(team, lambda data, share: seen.add(threading.get_ident()), 8, 2)
    assert len(seen) <= 2


def test_threads_that_the_system_refuses(team: workers.Team, monkeypatch: pytest.MonkeyPatch) -> None:
    assert team.grow(2) == 2
    monkeypatch.setattr(workers, "_start", lambda work, worker: -1)
    assert team.grow(4) == 2 and team.refused
    monkeypatch.undo()
    assert team.grow(4) == 2, "the system is not asked again at every launch"
