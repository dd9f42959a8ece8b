"""Where the time of a cold start goes: each kernel that was compiled or loaded, by phase, and why it was compiled."""

from __future__ import annotations

import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..device import phases
from .build import Kernel, begun

_COLUMNS = ["total", *phases.PHASES, "behind"]
_WIDE_TERMINAL = 160  # columns of a terminal that shows a kernel in one line; where it has fewer, a kernel takes two


@dataclass(frozen=True)
class KernelTime:
    """One kernel. `seconds` is the time of its build, `phases` its parts by phase, in the thread that built it.

    `background`: seconds of LLVM in other threads meanwhile. `reason`: why it was compiled, or that it was found.
    """

    name: str
    compiled: bool
    reason: str
    seconds: float
    phases: dict[str, float]
    background: float


@dataclass(frozen=True, repr=False)
class CompileReport:
    """The result of `compile_report`. It prints as a table, also in a notebook.

    The table has lines of 80 characters where the terminal is narrow (or COLUMNS says so), else up to 160.

    `phases`: seconds by phase of all kernels, and of work for all of them: importing Numba, writing texts.
    `wall`: seconds of the whole run, where it is known.
    """

    kernels: list[KernelTime]
    phases: dict[str, float]
    seconds: float  # of all builds, of importing Numba, and of writing texts
    wall: float | None = None
    rows: int = 30  # rows of the table; all if negative
    waited: float = 0.0  # of `seconds`: threads that waited for a kernel of another thread

    @property
    def background(self) -> float:
        """Seconds of LLVM in other threads while kernels were built."""
        return sum(kernel.background for kernel in self.kernels)

    @property
    def accounted(self) -> float:
        """The fraction of `seconds` that is in a phase."""
        return min(sum(self.phases.values()) / self.seconds, 1.0) if self.seconds else 1.0

    def as_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {
            "kernels": [vars(kernel) for kernel in self.kernels], "phases": self.phases, "seconds": self.seconds,
            "background": self.background, "accounted": self.accounted, "wall": self.wall, "waited": self.waited,
        }  # fmt: skip

    def __repr__(self) -> str:
        columns = shutil.get_terminal_size((_WIDE_TERMINAL, 24)).columns
        summary = [line for text in self._summary() for line in textwrap.wrap(text, max(columns, 40))]
        return "\n".join([*self._table(_line if columns >= _WIDE_TERMINAL else _lines), "", *summary])

    def _table(self, line: Callable[[str, Sequence[str], str], str]) -> list[str]:
        lines = [line("kernel", _COLUMNS, "from")]
        shown = self.kernels[: self.rows] if self.rows >= 0 else self.kernels
        for kernel in shown:
            times = [kernel.seconds, *(kernel.phases.get(phase, 0.0) for phase in phases.PHASES), kernel.background]
            lines.append(line(kernel.name, [*map(_milliseconds, times)], kernel.reason))
        if len(self.kernels) > len(shown):
            lines.append(f"... and {len(self.kernels) - len(shown)} more")
        totals = [self.seconds, *(self.phases.get(phase, 0.0) for phase in phases.PHASES), self.background]
        return [*lines, line("all, in ms", [*map(_milliseconds, totals)], "")]

    def _summary(self) -> list[str]:
        """The lines that sum up the kernels' times, with the meaning of each phase."""
        counts = {True: 0, False: 0}
        seconds = {True: 0.0, False: 0.0}
        for kernel in self.kernels:
            counts[kernel.compiled] += 1
            seconds[kernel.compiled] += kernel.seconds
        lines = [
            f"{counts[True]} kernels compiled in {seconds[True]:.2f} s, {counts[False]} loaded in "
            f"{seconds[False]:.2f} s; Numba imported and started in {self.phases.get('import', 0.0):.2f} s; "
            f"{100 * self.accounted:.0f} % of this is in a phase"
        ]
        if self.wall is not None:
            waited = f", while other threads waited {self.waited:.2f} s for them" if self.waited > 0.005 else ""
            work = self.seconds - self.waited
            lines.append(
                f"the whole run took {self.wall:.2f} s: {work:.2f} s for kernels{waited}, "
                f"{max(self.wall - work, 0.0):.2f} s for the program itself"
            )
        return [*lines, *(f"{phase:<10}{meaning}" for phase, meaning in phases.PHASES.items()),
            f"{'behind':<10}LLVM in background threads, at the same time as the others"]  # fmt: skip


def compile_report(wall: float | None = None, rows: int = 30) -> CompileReport:
    """Where this process's time for compiling and loading kernels went, by kernel and phase, longest first.

    `wall`: seconds of the whole run, if they are to be compared. `rows`: rows of the table, -1 for all.
    """
    if not isinstance(rows, int):
        raise TypeError(f"compile_report: rows must be an integer, got {type(rows).__name__}; -1 shows all rows")
    times = [_kernel_time(kernel) for kernel in begun()]
    totals: dict[str, float] = {}
    for spent in (phases.outside.seconds, *(kernel.phases for kernel in times)):
        for phase, seconds in spent.items():
            totals[phase] = totals.get(phase, 0.0) + seconds
    seconds = sum(kernel.seconds for kernel in times) + sum(phases.outside.seconds.values())
    waited = phases.outside.seconds.get("wait", 0.0)
    return CompileReport(sorted(times, key=lambda kernel: -kernel.seconds), totals, seconds, wall, rows, waited)


def _kernel_time(kernel: Kernel) -> KernelTime:
    """The kernel's time. While its thread waits for LLVM in another one, the time is that of LLVM's phases."""
    seconds, background = dict(kernel.spent.seconds), dict(kernel.spent.background)
    in_background = sum(background.values())
    waited = min(seconds.get("wait", 0.0), in_background)
    if waited:
        seconds["wait"] -= waited
        for phase, time in background.items():
            seconds[phase] = seconds.get(phase, 0.0) + time * waited / in_background
    reason = kernel.why if kernel.finish is None else f"{kernel.why}, not used so far"
    return KernelTime(kernel.name, not kernel.cached, reason, kernel.seconds, seconds, in_background - waited)


def _line(name: str, values: Sequence[str], reason: str) -> str:
    return f"{_short(name):<41}{''.join(f'{value:>9}' for value in values)}  {reason}".rstrip()


def _lines(name: str, values: Sequence[str], reason: str) -> str:
    """Two lines, of which the second has the values."""
    row = "".join(f"{value:>{max(len(column), 5) + 1}}" for value, column in zip(values, _COLUMNS))
    return f"{f'{_short(name):<41}{reason}'.rstrip()}\n{row}"


def _short(name: str) -> str:
    return name if len(name) <= 40 else f"{name[:23]}...{name[-14:]}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.1f}" if seconds < 1 else f"{1e3 * seconds:.0f}"
