"""Schedules: which steps are recorded."""

from __future__ import annotations

import pytest
from profiled import ancestors, find

import numod
from numod.profiler import ProfilerAction, ProfilerActivity, profile, schedule


def test_a_schedule_is_pytorchs() -> None:
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    N, W, R, S = ProfilerAction.NONE, ProfilerAction.WARMUP, ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE
    assert [plan(step) for step in range(7)] == [N, N, W, R, S, N, N]
    assert [schedule(wait=2, warmup=1, active=1, skip_first_wait=1)(step) for step in range(6)] == [W, S, N, N, W, S]
    with pytest.raises(AssertionError, match="Invalid profiler schedule"):
        schedule(wait=0, warmup=1, active=0)
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_steps_are_recorded_as_scheduled() -> None:
    ready = []

    def trace_ready(prof: profile) -> None:
        ready.append(
            (
                prof.step_num,
                sorted({event.name for event in prof.events() if event.category == "step"}),
                len(find(prof, "numod::exp")),
            )
        )

    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2),
        on_trace_ready=trace_ready,
    ) as prof:
        for _ in range(9):
            numod.ones(2).exp()
            prof.step()
    assert ready == [(4, ["ProfilerStep#2", "ProfilerStep#3"], 2), (8, ["ProfilerStep#6", "ProfilerStep#7"], 2)]


def test_steps_without_a_schedule() -> None:
    with profile() as prof:
        for _ in range(3):
            numod.ones(2).exp()
            prof.step()
    assert [event.name for event in prof.events() if event.category == "step"][:3] == [
        "ProfilerStep#0",
        "ProfilerStep#1",
        "ProfilerStep#2",
    ]
    assert all(ancestors(event)[1].startswith("ProfilerStep#") for event in find(prof, "numod::exp"))
