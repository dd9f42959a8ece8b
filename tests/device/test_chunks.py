"""Timing of the shares of a parallel launch, which is recorded only while requested."""

from __future__ import annotations

import time

import pytest

import numod
from numod.device import chunks, threads, workers


@pytest.fixture(autouse=True)
def two_threads(monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.setattr(threads.Crew, "LATE", 1 << 62)  # whatever else runs on this machine
    monkeypatch.setattr(threads, "_crew", threads.Crew())
    before = numod.get_num_threads()
    numod.set_num_threads(2)
    yield
    chunks.watch(False)
    numod.set_num_threads(before)


def test_shares_are_timed_while_watched() -> None:
    x = numod.arange(float(1 << 18))
    expected = x + 1.25
    chunks.watch(True)
    start = time.perf_counter_ns()
    actual = x + 1.25
    end = time.perf_counter_ns()
    shares = chunks.take()
    assert chunks.take() == []
    assert numod.equal(actual, expected)
    # on a busy machine one may do all
    assert len(shares) == 2 * workers.SHARES_PER_THREAD and len({thread for _, _, thread in shares}) in (1, 2)
    assert all(start <= began <= ended <= end for began, ended, _ in shares)


def test_nothing_is_kept_while_not_watched() -> None:
    x = numod.ones(1 << 18)
    x + 1.25
    chunks.watch(False)
    x + 1.25
    assert chunks.take() == []


def test_more_shares_than_fit_are_left_out() -> None:
    x = numod.ones(1 << 18)
    x + 1.25
    chunks.watch(True)
    workers.team().count.value = workers.MAX_RECORDED_SHARES - 1
    x + 1.25
    assert len(chunks.take()) == workers.MAX_RECORDED_SHARES
