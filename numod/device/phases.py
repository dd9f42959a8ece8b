"""Where the time goes until a kernel is ready: seconds by phase, on the thread that builds it.

A span belongs to a phase and counts its own time, without that of the spans in it. So the phases of a build and its
rest add up to the build's time. `kernel.compile_report` shows them, and the profiler listens to the spans.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter_ns

PHASES = {  # in the order in which a kernel goes through them
    "import": "importing Numba, and starting its compiler",
    "source": "writing the kernel's text, and reading it into Numba's representation",
    "typing": "Numba's type inference, where its own passes compile a function",
    "lowering": "translation to LLVM's representation, by the walk of `front_end` with the types",
    "optimise": "LLVM's optimisation",
    "emit": "LLVM's generation of machine code",
    "link": "linking the functions that a kernel calls",
    "load": "reading, writing and loading machine code",
    "wait": "waiting for other threads: those that compile, and LLVM's part in the background",
}
_PASSES = {  # the phases of Numba's passes; the others read the kernel's text
    "nopython_type_inference": "typing", "annotate_types": "typing", "strip_phis": "lowering",
    "ir_legalization": "lowering", "native_lowering": "lowering", "nopython_backend": "lowering",
    "native_parfor_lowering": "lowering", "dump_parfor_diagnostics": "lowering",
}  # fmt: skip
# called with (start in ns, phase, name, the function it is for) at the end of each span
listeners: list[Callable[[int, str, str, str], None]] = []


@dataclass
class Spent:
    """Seconds by phase, on the thread that builds a kernel, and in background threads meanwhile."""

    seconds: dict[str, float] = field(default_factory=dict)
    background: dict[str, float] = field(default_factory=dict)


outside = Spent()  # spans that belong to no build


class _Thread(threading.local):
    """The spans of a thread that have begun and not ended, innermost last, and where their time is added."""

    def __init__(self) -> None:
        self.open: list[Span] = []
        self.seconds, self.spent = outside.seconds, outside


_thread = _Thread()


class Span:
    """Context whose time is part of a phase, as the step `name` for the function `owner`."""

    __slots__ = ("inner", "name", "owner", "phase", "start")

    def __init__(self, phase: str, name: str, owner: str = "") -> None:
        self.phase, self.name, self.owner, self.inner = phase, name, owner, 0

    def __enter__(self) -> None:
        _thread.open.append(self)
        self.start = perf_counter_ns()

    def __exit__(self, *error: object) -> None:
        duration = perf_counter_ns() - self.start
        opened, seconds = _thread.open, _thread.seconds
        opened.pop()
        if opened:
            opened[-1].inner += duration
        seconds[self.phase] = seconds.get(self.phase, 0.0) + (duration - self.inner) / 1e9
        for listener in tuple(listeners):
            listener(self.start, self.phase, self.name, self.owner)


@contextmanager
def collected(spent: Spent, background: bool = False) -> Iterator[None]:
    """Context in which the spans of this thread add their time to `spent`."""
    before = _thread.seconds, _thread.spent
    _thread.seconds, _thread.spent = spent.background if background else spent.seconds, spent
    try:
        yield
    finally:
        _thread.seconds, _thread.spent = before


def current() -> Spent:
    """Where this thread's spans add their time."""
    return _thread.spent


@functools.cache
def watch_passes() -> None:
    """Make a span of each pass of Numba for numod's kernels. Called when Numba's compiler is imported."""
    from numba.core import event

    event.Listener.register(_Passes)
    event.register("numba:run_pass", _Passes())


class _Passes:
    """Receives Numba's events at the start and end of each pass (a `Listener` without importing Numba)."""

    def notify(self, event: object) -> None:
        """Numba's callback for both kinds of events."""
        if _thread.spent is outside:  # a user's own function
            return
        if event.is_start:
            name, _, function = event.data["name"].partition(" [")
            Span(_PASSES.get(name, "source"), name, function.rstrip("]")).__enter__()
        elif event.is_end:
            _thread.open[-1].__exit__()
