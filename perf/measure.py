"""How things are timed: contenders take turns in one process, round after round.

Not what is timed, which is in `rows`.
"""

from __future__ import annotations

import gc
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import timeit
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from . import instructions


@dataclass
class Result:
    """Seconds per call of every contender, one number a round, and the least seconds this machine's limits allow, where
    they are known.
    """

    rounds: dict[str, list[float]] = field(default_factory=dict)
    limit: float | None = None
    # whether ratios are of the middle rounds, as beside other programs, where the best round is one that they left
    # alone
    by_median: bool = False

    def best(self, name: str) -> float:
        """The least seconds a call of `name` took: what the machine can do when nothing disturbs it."""
        return min(self.rounds[name])

    def median(self, name: str) -> float:
        """The middle of the rounds of `name`: what to expect on this machine now."""
        return statistics.median(self.rounds[name])

    def best_peer(self) -> str | None:
        """The contender beside numod with the least time. None where numod is alone."""
        return min((name for name in self.rounds if name != "numod"), key=self.best, default=None)

    def ratio(self, peer: str) -> float:
        """numod's time over that of `peer`; below 1, numod is the faster."""
        time = self.median if self.by_median else self.best
        return time("numod") / time(peer)

    def of_limit(self) -> float | None:
        """The part of the machine's limit that numod's best round reached."""
        return self.limit and self.limit / self.best("numod")


def take_turns(
    contenders: dict[str, Callable[[], float]], rounds: int, budget: float = float("inf"), least: int = 5
) -> Result:
    """Let each contender measure itself `rounds` times, or `least` times and until `budget` seconds are spent.

    Who begins changes from round to round, so that no one always follows the same other.
    """
    result = Result({name: [] for name in contenders})
    names = list(contenders)
    gc.collect()
    # a program with one library has fewer objects to look through than this process, whose collections would cost all
    # contenders more
    gc.freeze()
    end = timeit.default_timer() + budget
    for number in range(rounds):
        if number >= least and timeit.default_timer() > end:
            break
        first = number % len(names)
        for name in names[first:] + names[:first]:
            result.rounds[name].append(contenders[name]())
    gc.unfreeze()
    return result


def statement_timer(statement: str, names: dict[str, object], seconds: float) -> Callable[[], float]:
    """A measurement of `statement`, seconds per run, repeated for about `seconds`.

    Garbage is collected as in any program, not put off.
    """
    timer = timeit.Timer(statement, "gc.enable()", globals={**names, "gc": gc})
    timer.timeit(3)  # compile what is compiled on first use
    count = 1
    while (taken := timer.timeit(count)) < seconds / 4:
        count *= 4
    count = max(1, round(count * seconds / taken))
    return lambda: timer.timeit(count) / count


def wait_for_line(script: str, **variables: str) -> float:
    """Seconds from the start of a fresh Python process with `script` until its first line arrives.

    The end of the process does not count.
    """
    start = timeit.default_timer()
    process = _start(script, variables)
    with process:
        line = process.stdout.readline()
        taken = timeit.default_timer() - start
        rest = process.stdout.read()
    if process.returncode or not line.strip():
        raise RuntimeError(f"perf: a fresh process failed with exit code {process.returncode}: {line}{rest}")
    return taken


@contextmanager
def kept_threads() -> Iterator[None]:
    """Context behind which numod uses as many threads as before."""
    import numod

    before = numod.get_num_threads()
    try:
        yield
    finally:
        numod.set_num_threads(before)


@contextmanager
def busy(processes: int) -> Iterator[None]:
    """Context in which so many other processes compute without a pause."""
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for contender in others:
            contender.kill()
            contender.wait()


def printed_seconds(script: str, **variables: str) -> float:
    """The number a fresh Python process with `script` prints."""
    process = _start(script, variables)
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"perf: a fresh process failed with exit code {process.returncode}")
    return float(text)


def _start(script: str, variables: dict[str, str]) -> subprocess.Popen:
    variables = {**os.environ, **variables}
    # where it is set, numod alone would be compiled from its text in every process
    variables.pop("PYTHONDONTWRITEBYTECODE", None)
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=variables)


class Folders:
    """Cache folders for what is compiled, by a name each: empty ones for cold starts, and filled ones for warm ones."""

    def __init__(self, base: str) -> None:
        self.base, self.folders = base, {}

    def empty(self, name: str) -> str:
        """A new, empty folder in the place of the one called `name`."""
        if name in self.folders:
            shutil.rmtree(self.folders[name], ignore_errors=True)
        self.folders[name] = tempfile.mkdtemp(dir=self.base)
        return self.folders[name]

    def filled(self, name: str, fill: Callable[[str], object]) -> str:
        """The folder called `name`, filled by `fill(folder)` where there is none yet."""
        if name not in self.folders:
            fill(self.empty(name))
        return self.folders[name]


@contextmanager
def folders() -> Iterator[Folders]:
    """Temporary cache folders, removed at the end."""
    with tempfile.TemporaryDirectory() as base:
        yield Folders(base)


def set_library_threads(threads: int) -> None:
    """Tell BLAS, OpenMP, XLA and numod how many threads to use, and let each choose its own instructions.

    oneDNN's are held to numod's where they would be AMX's (see `instructions`).

    Works only before they are loaded: else this process is started anew.
    """
    wanted = {
        name: str(threads)
        for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMOD_NUM_THREADS", "NPROC")
    }
    if threads == 1:
        wanted["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
    wanted |= instructions.limit(instructions.flags(), os.environ)
    overridden = [
        name for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "MKL_ENABLE_INSTRUCTIONS") if name in os.environ
    ]
    if not overridden and all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    for name in overridden:
        del os.environ[name]
    os.environ.update(wanted)
    if "numpy" in sys.modules:
        os.execv(sys.executable, [sys.executable, "-m", "perf", *sys.argv[1:]])


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            match = re.search(r"model name\s*:\s*(.+)", file.read())
    except OSError:
        match = None
    return match[1] if match else "unknown processor"
