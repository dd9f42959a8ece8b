"""Finds repetitions in a list of calls, which are compiled once, as a loop over their arguments.

Examples are the steps of a recurrent layer and the blocks of a network.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import NamedTuple

from ..backend.lower import Call, CheckCall, Integer, Loaded, Number, Span

MAX_PERIOD = 64  # maximum number of calls per iteration
MIN_TRIP_COUNT = 3  # minimum number of iterations
MIN_SAVED_CALLS = 6  # minimum number of calls that a loop must save


class RepeatedRun(NamedTuple):
    """A repetition: the `period` calls from `first` on, `trip_count` times."""

    first: int
    period: int
    trip_count: int


def repeated_runs(keys: Sequence[Hashable], limit: int = MAX_PERIOD) -> list[RepeatedRun]:
    """The items with these keys as loops (period at most `limit`) and single items, in order.

    At each position, the loop that saves most items is chosen.
    """
    numbers: dict[Hashable, int] = {}
    items = [numbers.setdefault(key, len(numbers)) for key in keys]
    next_equal, runs, first = _next_equal_positions(items), [], 0
    while first < len(items):
        best, candidate = RepeatedRun(first, 1, 1), next_equal[first]
        # the second iteration starts with an item equal to the first
        while candidate is not None and candidate - first <= limit:
            trip_count = _trip_count(items, first, candidate - first)
            if trip_count >= MIN_TRIP_COUNT and (trip_count - 1) * (candidate - first) >= max(
                MIN_SAVED_CALLS, (best.trip_count - 1) * best.period + 1
            ):
                best = RepeatedRun(first, candidate - first, trip_count)
            candidate = next_equal[candidate]
        runs.append(best)
        first += best.period * best.trip_count
    return runs


def _next_equal_positions(items: list[int]) -> list[int | None]:
    """For each position the next one with an equal item."""
    last: dict[int, int] = {}
    next_equal: list[int | None] = [None] * len(items)
    for position in reversed(range(len(items))):
        next_equal[position] = last.get(items[position])
        last[items[position]] = position
    return next_equal


def _trip_count(items: list[int], first: int, period: int) -> int:
    trip_count, unit = 1, items[first : first + period]
    while items[first + trip_count * period : first + (trip_count + 1) * period] == unit:
        trip_count += 1
    return trip_count


def key_of_call(call: Call | CheckCall) -> Hashable:
    """A key that is equal for calls that a loop can merge: the kernel, and arguments without integers and memory."""
    if isinstance(call, CheckCall) or call.kernel is None:
        return id(call)
    kernel = call.kernel
    return kernel.source, kernel.signature, kernel.real, kernel.fastmath, *map(_argument_key, call.arguments)


def _argument_key(argument: object) -> Hashable:
    if isinstance(argument, Span):
        return Span, argument.storage
    if isinstance(argument, (Number, Integer)):
        return Number, argument.source, argument.index
    if isinstance(argument, Loaded):
        return Loaded, id(argument.buffer), argument.span.offset
    return int if type(argument) is int else (type(argument), repr(argument))
