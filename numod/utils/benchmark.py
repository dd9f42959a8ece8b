"""`numod.utils.benchmark`: timing of statements.

`Timer` times a statement, `Measurement` has the times and their statistics, `Compare` prints tables, `Fuzzer` generates
inputs.
"""

from __future__ import annotations

import math
import statistics
import textwrap
import timeit
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from .. import config
from ..device.threads import get_num_threads, set_num_threads
from .fuzzer import FuzzedParameter, FuzzedTensor, Fuzzer, ParameterAlias

__all__ = [
    "Colorize", "Compare", "FuzzedParameter", "FuzzedTensor", "Fuzzer", "Language", "Measurement", "ParameterAlias",
    "TaskSpec", "Timer", "ordered_unique", "select_unit", "set_torch_threads", "timer", "trim_sigfig",
    "unit_to_english",
]  # fmt: skip

_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def _unit(seconds: float) -> tuple[float, str]:
    return next(((scale, name) for scale, name in reversed(_UNITS) if seconds >= scale), _UNITS[0])


def select_unit(t: float) -> tuple[str, float]:
    """(time unit for displaying a duration in seconds, the unit in seconds)."""
    scale, unit = _unit(t)
    return unit, scale


def unit_to_english(u: str) -> str:
    """The full name of a unit, such as "millisecond" for "ms"."""
    return {"ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second"}[u]


def trim_sigfig(x: float, n: int) -> float:
    """`x` rounded to `n` significant figures."""
    if n != int(n):
        raise AssertionError("Number of significant figures must be an integer")
    return round(x, int(n) - math.ceil(math.log10(abs(x)))) if x else x


def ordered_unique(elements: Iterable) -> list:
    """The distinct elements, in the order of first occurrence."""
    return list(dict.fromkeys(elements))


@contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """A context in which parallel kernels use `n` threads."""
    before = get_num_threads()
    set_num_threads(n)
    try:
        yield
    finally:
        set_num_threads(before)


timer = timeit.default_timer


class Language(Enum):
    """The language of a statement; only Python is supported."""

    PYTHON = 0
    CPP = 1


@dataclass(frozen=True)
class TaskSpec:
    """The description of a timed task."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the abbreviated statement."""
        first = self.label or (self.stmt if "\n" not in self.stmt else self.stmt.strip().splitlines()[0] + " ...")
        return first + (f": {self.sub_label}" if self.sub_label else "")

    @property
    def setup_str(self) -> str:
        """The setup in the form that `summarize` shows; empty if there is none."""
        if self.setup in ("", "pass"):
            return ""
        return f"setup:\n{textwrap.indent(self.setup, '  ')}" if "\n" in self.setup else f"setup: {self.setup}"

    def summarize(self) -> str:
        """Title, description and setup, one per line."""
        return "\n".join(line for line in (self.title, self.description, self.setup_str) if line)


@dataclass
class Measurement:
    """Times of several blocks of `number_per_run` runs each.

    `mean`, `median`, `iqr` and `times` are in seconds per run.
    """

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = field(default=None)

    @property
    def times(self) -> list[float]:
        """Seconds per run, for each block."""
        return [raw_time / self.number_per_run for raw_time in self.raw_times]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.times)

    @property
    def median(self) -> float:
        return statistics.median(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range."""
        if len(self.raw_times) < 2:
            return 0.0
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return high - low

    @property
    def significant_figures(self) -> int:
        """Significant figures of the median, 1 to 4.

        They follow from a 90 % confidence interval (at least 25 ns) of the mean of the middle half.
        """
        n = len(self.raw_times)
        middle = sorted(self.times)[n // 4 : -(-3 * n // 4)]
        interval = max(1.645 * statistics.pstdev(middle) / math.sqrt(len(middle)), 25e-9)
        return min(max(math.floor(math.log10(self.median / interval)), 1), 4)

    @property
    def has_warnings(self) -> bool:
        """Whether the interquartile range is more than 10 % of the median."""
        return self.iqr > 0.1 * self.median

    def meets_confidence(self, threshold: float = 0.1) -> bool:
        """Whether the interquartile range is below `threshold` times the median."""
        return len(self.raw_times) >= 4 and self.iqr <= threshold * self.median

    num_threads = property(lambda self: self.task_spec.num_threads)
    title = property(lambda self: self.task_spec.title)
    as_row_name = property(lambda self: self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]")
    description = property(lambda self: self.task_spec.description)
    label = property(lambda self: self.task_spec.label)
    env = property(lambda self: self.task_spec.env)
    stmt = property(lambda self: self.task_spec.stmt)

    @staticmethod
    def merge(measurements: Sequence[Measurement]) -> list[Measurement]:
        """Merge measurements of the same task and block size."""
        times_by_task: dict[tuple, list[float]] = {}
        for measurement in measurements:
            times_by_task.setdefault((measurement.number_per_run, measurement.task_spec), []).extend(
                measurement.raw_times
            )
        return [Measurement(number, times, task) for (number, task), times in times_by_task.items()]

    def __repr__(self) -> str:
        scale, unit = _unit(self.median)
        lines = [f"<numod.utils.benchmark.Measurement object at {id(self):#x}>", self.task_spec.summarize()]
        n, threads = len(self.raw_times), self.task_spec.num_threads
        if n == 1:
            lines.append(f"  {self.median / scale:.2f} {unit}")
        else:
            lines.append(f"  Median: {self.median / scale:.2f} {unit}")
            lines.append(
                f"  IQR:    {self.iqr / scale:.2f} {unit} ({min(self.times) / scale:.2f} to "
                f"{max(self.times) / scale:.2f})"
            )
        runs = f"{self.number_per_run} runs {'per measurement' if n > 1 else ''}"
        lines.append(f"  {n} measurement{'s' if n > 1 else ''}, {runs}, {threads} thread{'s' if threads > 1 else ''}")
        if n > 1 and self.has_warnings:
            lines.append(
                "  WARNING: Interquartile range is more than 10% of the median measurement: run it longer, or on a "
                "quieter machine."
            )
        return "\n".join(lines)


class Timer:
    """Times a statement with `num_threads` threads, after an untimed run that compiles kernels.

    `stmt`, `setup` and `globals` are those of `timeit.Timer`. label, sub_label, description and env select the table,
    row and column in `Compare`.
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timeit.default_timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: str | Language = Language.PYTHON,
    ) -> None:
        if not isinstance(stmt, str):
            raise ValueError(f"Currently only a `str` stmt is supported, got {type(stmt).__name__}")
        if language is not Language.PYTHON and str(language).lower() not in ("python", "py"):
            raise ValueError(f"Timer times Python statements, not {language!r}")
        if global_setup:
            raise ValueError(f"global_setup is only for C++, got {global_setup!r}; put it into setup")
        stmt, setup = textwrap.dedent(stmt).strip("\n").rstrip(), textwrap.dedent(setup).strip("\n").rstrip()
        self._timer = timeit.Timer(stmt, setup, timer, globals=dict(globals or {}))
        self._task_spec = TaskSpec(stmt, setup, "", label, sub_label, description, env, num_threads)

    def _timeit(self, number: int) -> float:
        with set_torch_threads(self._task_spec.num_threads):
            return max(self._timer.timeit(number), 1e-9)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time one block of `number` runs."""
        self._timeit(max(number // 100, 2))
        return Measurement(number, [self._timeit(number)], self._task_spec)

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise NotImplementedError, as in PyTorch: use `blocked_autorange`."""
        raise NotImplementedError("Timer.repeat: use blocked_autorange, whose Measurement has the times of all blocks")

    def autorange(self, callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Time one block that takes about 0.2 seconds."""
        number = 1
        while True:
            for step in (1, 2, 5):
                taken = self._timeit(number * step)
                if callback is not None:
                    callback(number * step, taken)
                if taken >= 0.2:
                    return Measurement(number * step, [taken], self._task_spec)
            number *= 10

    def blocked_autorange(
        self, callback: Callable[[int, float], Any] | None = None, min_run_time: float = 0.2
    ) -> Measurement:
        """Time blocks of runs, long enough to hide timer overhead, until `min_run_time` seconds have passed."""
        number = self._block_size(min_run_time)
        times: list[float] = []
        while not times or sum(times) < min_run_time:
            times.append(self._timeit(number))
            if callback is not None:
                callback(number, times[-1])
        return Measurement(number, times, self._task_spec)

    def adaptive_autorange(
        self,
        threshold: float = 0.1,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Callable[[int, float], Any] | None = None,
    ) -> Measurement:
        """Time blocks of runs until the interquartile range is below `threshold` times the median.

        It stops after `max_run_time` seconds.
        """
        number = self._block_size(min_run_time)
        times: list[float] = []
        while True:
            times.append(self._timeit(number))
            if callback is not None:
                callback(number, times[-1])
            measurement = Measurement(number, times, self._task_spec)
            if sum(times) >= max_run_time or (sum(times) >= min_run_time and measurement.meets_confidence(threshold)):
                return measurement

    def collect_callgrind(
        self,
        number: int = 100,
        *,
        repeats: int | None = None,
        collect_baseline: bool = True,
        retain_out_file: bool = False,
    ) -> None:
        """Raise NotImplementedError: Valgrind does not support the AVX-512 instructions of compiled kernels."""
        raise NotImplementedError(
            "Timer.collect_callgrind: instruction counts need Valgrind, which cannot run kernels compiled for this "
            "processor; use blocked_autorange, "
            "or count with Linux perf: perf stat -e instructions:u python script.py"
        )

    def _block_size(self, min_run_time: float) -> int:
        """The number of runs per block: a thousandth of the total time and a thousand times the loop's overhead."""
        overhead = statistics.median(timeit.Timer("pass").timeit(1) for _ in range(5))
        number = 1
        while True:
            taken = min(self._timeit(number) for _ in range(2))  # a single measurement may have been interrupted
            if (overhead <= 1e-4 * taken and taken >= min_run_time / 1000) or taken >= min_run_time:
                return number
            number *= 10


class Colorize(Enum):
    """The times that colours compare a time with."""

    NONE = "none"
    COLUMNWISE = "columnwise"
    ROWWISE = "rowwise"


class Compare:
    """Prints measurements as tables.

    There is one table per label, with a row per sub_label and a column per description, grouped by number of threads.
    """

    def __init__(self, results: Sequence[Measurement]) -> None:
        self._results = Measurement.merge(list(results))
        self._trim = self._warn = False
        self._colorize = Colorize.NONE

    def extend_results(self, results: Sequence[Measurement]) -> None:
        """Add measurements."""
        self._results = Measurement.merge([*self._results, *results])

    def trim_significant_figures(self) -> None:
        """Show only significant figures."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Show the fastest time of each column (or row) in green, and times twice as long in red."""
        self._colorize = Colorize.ROWWISE if rowwise else Colorize.COLUMNWISE

    def highlight_warnings(self) -> None:
        """Mark noisy measurements."""
        self._warn = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        labels = list(dict.fromkeys(result.label or "" for result in self._results))
        return "\n".join(
            self._table(label, [result for result in self._results if (result.label or "") == label])
            for label in labels
        )

    def _table(self, label: str, results: list[Measurement]) -> str:
        """A table of the medians: a row per (threads, row name), a column per description."""
        columns = list(dict.fromkeys(result.description or "" for result in results))
        scale, unit = _unit(min(result.median for result in results))
        names = {"ns": "nanoseconds (ns)", "us": "microseconds (us)", "ms": "milliseconds (ms)", "s": "seconds (s)"}
        rows = list(dict.fromkeys((result.num_threads, result.as_row_name) for result in results))
        width = max([6, *(len(name) + 6 for _, name in rows)])
        cell_width = max([10, *(len(column) for column in columns)])
        header = " " * width + "  |  " + "  |  ".join(column.center(cell_width) for column in columns)
        lines, threads = [f"[{f' {label} '.center(max(len(header) - 2, 1), '-')}]", header], None
        for count, name in rows:
            if count != threads:
                threads = count
                lines.append(f"{count} threads: ".ljust(len(header), "-"))
            by_column = {
                result.description or "": result
                for result in results
                if (result.num_threads, result.as_row_name) == (count, name)
            }
            cells = [
                self._cell(by_column.get(column), scale, self._best(results, count, name, column), cell_width)
                for column in columns
            ]
            lines.append(("      " + name).ljust(width) + "  |  " + "  |  ".join(cells))
        return "\n".join([*lines, "", f"Times are in {names[unit]}.", ""])

    def _best(self, results: list[Measurement], threads: int, row: str, column: str) -> float:
        """The smallest median in the measurement's column (or row)."""
        by_row = self._colorize is Colorize.ROWWISE
        medians = [
            result.median
            for result in results
            if result.num_threads == threads
            and (result.as_row_name == row if by_row else (result.description or "") == column)
        ]
        return min(medians, default=0.0)

    def _cell(self, measurement: Measurement | None, scale: float, best: float, width: int) -> str:
        if measurement is None:
            return " " * width
        value = measurement.median / scale
        figures = 1
        if self._trim:
            places = measurement.significant_figures - 1 - math.floor(math.log10(value))
            value, figures = round(value, places), max(places, 0)
        text = f"{value:.{figures}f}" + ("*" if self._warn and measurement.has_warnings else "")
        text = text.center(width)
        if self._colorize is Colorize.NONE or config.no_colours():
            return text
        color = "92" if measurement.median <= 1.05 * best else "91" if measurement.median >= 2 * best else ""
        return f"\033[{color}m{text}\033[0m" if color else text
