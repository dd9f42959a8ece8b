"""Chunks: when each thread of a parallel launch started and finished a share of it, recorded while `watch` is on."""

from __future__ import annotations

from . import workers


def watch(on: bool) -> None:
    """Start or stop recording chunks."""
    if workers.team.cache_info().currsize or on:
        team = workers.team()
        team.count.value, team.on.value = 0, int(on)


def take() -> list[tuple[int, int, int]]:
    """(start, end, thread) of each share that ran since; times in ns."""
    team = workers.team()
    count, team.count.value = min(team.count.value, workers.MAX_RECORDED_SHARES), 0
    records = team.recorded[: 3 * count]
    return list(zip(records[::3], records[1::3], records[2::3]))
