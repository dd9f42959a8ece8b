"""Schedules: what a profiler does at each step of a program. Not how it does it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from enum import Enum


class ProfilerAction(Enum):
    """What a profiler does at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """What to do at each step: after `skip_first` steps, cycles of `wait` steps off, `warmup` steps on but forgotten,
    `active` steps recorded.

    `repeat` cycles, 0 for no end; with `skip_first_wait` the first cycle does not wait.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), "
            f"repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        place = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and place / cycle >= repeat) or place % cycle < wait:
            return ProfilerAction.NONE
        if place % cycle < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place % cycle < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action
