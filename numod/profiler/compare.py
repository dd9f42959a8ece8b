"""`python -m numod profile --compare A B`: what got slower between two traces, by module and by kernel."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .event import time_text

_ONCE = {"plan", "foreseen", "compile", "load", "import", "pass"}  # work of first calls
Totals = dict[str, list[float]]  # of each name, the calls and their time in microseconds


@dataclass
class Trace:
    """What a trace holds, by name. Modules have the time of the modules in them, without that of first calls."""

    forward: Totals = field(default_factory=dict)
    backward: Totals = field(default_factory=dict)
    kernels: Totals = field(default_factory=dict)


@dataclass
class _Open:
    """A slice whose end lies ahead."""

    slice: dict[str, Any]
    once: float = 0.0  # microseconds of first calls in it


def read_trace(path: str) -> Trace:
    """Sum up a trace of `export_chrome_trace` or of the command `profile`. Raises ValueError for other files."""
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        try:
            events = json.load(file)["traceEvents"]
            slices = [event for event in events if event.get("ph") == "X" and "ts" in event and "dur" in event]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path} is not a trace: expected a file NAME.trace.json of numod profile") from error
    trace = Trace()
    threads: dict[object, list[dict[str, Any]]] = {}
    for part in slices:
        threads.setdefault(part.get("tid"), []).append(part)
    for members in threads.values():
        members.sort(key=lambda part: (part["ts"], -part["dur"]))
        _add_thread(trace, members)
    return trace


def _add_thread(trace: Trace, slices: list[dict[str, Any]]) -> None:
    """Add the slices of one thread, which are in order of their start."""
    stack: list[_Open] = []
    for part in slices:
        while stack and part["ts"] >= stack[-1].slice["ts"] + stack[-1].slice["dur"]:
            _close(trace, stack)
        stack.append(_Open(part))
    while stack:
        _close(trace, stack)


def _close(trace: Trace, stack: list[_Open]) -> None:
    done = stack.pop()
    category, name, duration = done.slice.get("cat"), done.slice["name"], done.slice["dur"]
    if stack:
        stack[-1].once += duration if category in _ONCE else done.once
    module = done.slice.get("args", {}).get("Module")
    if category == "kernel" and not name.startswith("part of "):
        _add(trace.kernels, name, duration)
    elif category == "python_function":
        _add(trace.forward, module or name, duration - done.once)
    elif category == "cpu_op" and module and not any("Module" in opened.slice.get("args", {}) for opened in stack):
        _add(trace.backward, module, duration - done.once)  # a gradient: ops of the forward pass lie in their module


def _add(totals: Totals, name: str, time: float) -> None:
    total = totals.setdefault(name, [0, 0.0])
    total[0] += 1
    total[1] += time


def report(before: Trace, after: Trace, rows: int) -> Iterator[str]:
    """Tables of what changed, what got slower first. Only times of steady calls count, so caches make no difference."""
    for title, first, second in (
        ("module, forward", before.forward, after.forward),
        ("module, backward", before.backward, after.backward),
        ("kernel", before.kernels, after.kernels),
    ):
        if first or second:
            yield _table(title, first, second, rows)


def _table(title: str, first: Totals, second: Totals, rows: int) -> str:
    def gain(name: str) -> tuple[float, str]:
        return first.get(name, (0, 0.0))[1] - second.get(name, (0, 0.0))[1], name

    names = sorted({*first, *second}, key=gain)
    lines = [f"{title:<44}{'calls':>14}{'before':>12}{'after':>12}{'change':>12}"]
    for name in names[:rows]:
        (calls, time), (new_calls, new_time) = first.get(name, (0, 0.0)), second.get(name, (0, 0.0))
        count = f"{calls:.0f}" if calls == new_calls else f"{calls:.0f} -> {new_calls:.0f}"
        share = f"{100 * (new_time - time) / time:+.0f} %" if time and new_time else "new" if new_time else "gone"
        change = ("+" if new_time > time else "") + time_text(new_time - time)
        text = name if len(name) <= 43 else f"{name[:32]}...{name[-8:]}"
        lines.append(f"{text:<44}{count:>14}{time_text(time):>12}{time_text(new_time):>12}{change:>12}{share:>9}")
    return "\n".join(lines) + "\n"
