"""Spans of time by phase: each counts its own time, for the build that is collected."""

from __future__ import annotations

import threading

from numod.device import phases
from numod.device.phases import Span, Spent, collected


def test_a_span_does_not_count_the_spans_in_it_and_listeners_hear_of_both(monkeypatch) -> None:
    clock = iter([0, 2_000_000_000, 5_000_000_000, 9_000_000_000])
    monkeypatch.setattr(phases, "perf_counter_ns", lambda: next(clock))
    heard: list[tuple] = []
    monkeypatch.setattr(phases, "listeners", [lambda *span: heard.append(span)])
    spent = Spent()
    with collected(spent), Span("link", "outer", "f"):
        with Span("emit", "inner"):
            pass
    assert spent == Spent({"emit": 3.0, "link": 6.0})
    assert heard == [(2_000_000_000, "emit", "inner", ""), (0, "link", "outer", "f")]


def test_each_thread_has_its_own_spans() -> None:
    spent, other = Spent(), Spent()

    def work() -> None:
        assert phases.current() is phases.outside
        with collected(other, background=True), Span("emit", "work"):
            pass

    with collected(spent), Span("wait", "for a thread"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert list(spent.seconds) == ["wait"] and list(other.background) == ["emit"]
    assert not spent.background and not other.seconds
