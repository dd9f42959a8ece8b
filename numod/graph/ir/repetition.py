"""Finds repetitions in a list of calls (the steps of a recurrent layer, the blocks of a network), which are compiled
once, as a loop over their arguments.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..backend.lower import Call, Integer, Loaded, Number, Span, Test

PERIOD = 64  # maximum number of calls per iteration
TURNS = 3  # minimum number of iterations
SPARED = 6  # minimum number of calls that a loop must save


class RepeatedRun(NamedTuple):
    """A repetition: the `period` calls from `first` on, `turns` times."""

    first: int
    period: int
    turns: int


def stretches(keys: Sequence[Hashable], limit: int = PERIOD) -> list[RepeatedRun]:
    """The items with these keys as loops of at most `limit` items and single items, in order.

    At each position the loop that saves most is chosen.
    """
    numbers: dict[Hashable, int] = {}
    items = [numbers.setdefault(key, len(numbers)) for key in keys]
    following, found, first = _following(items), [], 0
    while first < len(items):
        best, other = RepeatedRun(first, 1, 1), following[first]
        # a loop's first item comes again where its second iteration begins
        while other is not None and other - first <= limit:
            turns = _turns(items, first, other - first)
            if turns >= TURNS and (turns - 1) * (other - first) >= max(SPARED, (best.turns - 1) * best.period + 1):
                best = RepeatedRun(first, other - first, turns)
            other = following[other]
        found.append(best)
        first += best.period * best.turns
    return found


def _following(items: list[int]) -> list[int | None]:
    """For each position the next one with an equal item."""
    last: dict[int, int] = {}
    found: list[int | None] = [None] * len(items)
    for position in reversed(range(len(items))):
        found[position] = last.get(items[position])
        last[items[position]] = position
    return found


def _turns(items: list[int], first: int, period: int) -> int:
    turns, unit = 1, items[first : first + period]
    while items[first + turns * period : first + (turns + 1) * period] == unit:
        turns += 1
    return turns


def key_of_call(call: Call | Test) -> Hashable:
    """What two calls must have in common to be iterations of one loop: the kernel, and all arguments except integers
    and memory locations.
    """
    if isinstance(call, Test) or call.kernel is None:
        return id(call)
    kernel = call.kernel
    return kernel.source, kernel.signature, kernel.real, kernel.fastmath, *map(_kind, call.arguments)


def _kind(each: object) -> Hashable:
    if isinstance(each, Span):
        return Span, each.storage.name
    if isinstance(each, (Number, Integer)):
        return Number, each.source, each.index
    if isinstance(each, Loaded):
        return Loaded, id(each.buffer), each.span.offset
    return int if type(each) is int else (type(each), repr(each))
