"""The native recorder: notes in order, with correct references, and the stack id of a call."""

from __future__ import annotations

import sys
import threading
import time

from numod.profiler.recorder import recorder


def test_notes_are_kept_in_order_and_given_once() -> None:
    clock, note, take, _ = recorder()
    take()
    begin, thing = clock(), object()
    references = sys.getrefcount(thing)
    for k in range(10_000):  # more than the first piece of memory holds
        note(k, "op", thing, None, k + 1)
    note(begin, "user", "mine", 7)
    assert sys.getrefcount(thing) == references + 10_000
    notes = take()
    assert notes[:12] == [
        0,
        1,
        threading.get_ident(),
        "op",
        thing,
        None,
        1,
        2,
        threading.get_ident(),
        "op",
        thing,
        None,
    ]
    assert (
        len(notes) == 6 * 10_001
        and notes[-6] == begin <= notes[-5] <= time.perf_counter_ns()
        and notes[-4:] == [threading.get_ident(), "user", "mine", 7]
    )
    del notes
    assert sys.getrefcount(thing) == references and take() == []


def test_a_stack_id_identifies_a_stack_of_calls() -> None:
    *_, stack_id = recorder()

    def here() -> int:
        return stack_id()

    def there() -> int:
        return here()

    results = [(here(), there(), stack_id()) for _ in range(3)]
    assert len({stack for row in results for stack in row}) == 3
    assert len({there() for _ in range(3)} | {there()}) == 2  # another line
