"""Schedules: the profiler's action at each step of a program."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from ..errors import warn_caller


class ProfilerAction(Enum):
    """The profiler's action at a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A function from the step's number to an action.

    After `skip_first` steps come cycles of `wait` steps off, `warmup` steps whose results are discarded, and `active`
    recorded steps. There are `repeat` cycles, or no end with 0. With `skip_first_wait` the first cycle does not wait.
    """
    if wait < 0 or warmup < 0 or active <= 0 or repeat < 0 or skip_first < 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), "
            f"repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn_caller("Profiler won't be using warmup, this can skew profiler results")
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        position = step - skip_first + (wait if skip_first_wait else 0)
        if step < skip_first or (repeat and position / cycle >= repeat) or position % cycle < wait:
            return ProfilerAction.NONE
        if position % cycle < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if position % cycle < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action
