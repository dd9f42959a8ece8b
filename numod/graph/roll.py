"""Finds repetitions in a list of calls (the steps of a recurrent layer, the blocks of a network), which are compiled once, as a loop over their arguments."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from .lower import Call, Integer, Number, Span, Test

PERIOD = 64  # maximum number of calls per iteration
TURNS = 3  # minimum number of iterations
SPARED = 6  # minimum number of calls that a loop must save


class Stretch(NamedTuple):
    """A repetition: the `period` calls from `first` on, `turns` times."""

    first: int
    period: int
    turns: int


def stretches(calls: Sequence[Call | Test]) -> list[Stretch]:
    """The calls as loops and single calls, in order. At each position the loop that saves most is chosen."""
    numbers: dict[Hashable, int] = {}
    keys = [numbers.setdefault(_key(each), len(numbers)) for each in calls]
    found, first = [], 0
    while first < len(keys):
        best = max((Stretch(first, period, _turns(keys, first, period)) for period in range(1, PERIOD + 1)), key=lambda each: (each.turns - 1) * each.period)
        if best.turns < TURNS or (best.turns - 1) * best.period < SPARED:
            best = Stretch(first, 1, 1)
        found.append(best)
        first += best.period * best.turns
    return found


def _turns(keys: list[int], first: int, period: int) -> int:
    turns, unit = 1, keys[first : first + period]
    while keys[first + turns * period : first + (turns + 1) * period] == unit:
        turns += 1
    return turns


def _key(call: Call | Test) -> Hashable:
    """What two calls must have in common to be iterations of one loop: the kernel, and all arguments except integers and memory locations."""
    if isinstance(call, Test) or call.kernel is None:
        return id(call)
    kernel = call.kernel
    return kernel.source, kernel.signature, kernel.real, kernel.fastmath, *map(_kind, call.arguments)


def _kind(each: object) -> Hashable:
    if isinstance(each, Span):
        return Span, each.buffer.storage.name
    if isinstance(each, (Number, Integer)):
        return Number, each.source, each.index
    return int if type(each) is int else (type(each), repr(each))
