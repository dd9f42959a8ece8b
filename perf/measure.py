"""How things are timed: contenders take turns in one process, round after round. Not what is timed, which is in `rows`."""

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


@dataclass
class Result:
    """Seconds per call of every contender, one number a round."""

    rounds: dict[str, list[float]] = field(default_factory=dict)

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
        """numod's best time over that of `peer`; below 1, numod is the faster."""
        return self.best("numod") / self.best(peer)


def take_turns(contenders: dict[str, Callable[[], float]], rounds: int) -> Result:
    """Let each contender measure itself `rounds` times. Who begins changes from round to round, so that no one always follows the same other."""
    result = Result({name: [] for name in contenders})
    names = list(contenders)
    gc.collect()
    gc.freeze()  # a program with one library has fewer objects to look through than this process, whose collections would cost all contenders more
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            result.rounds[name].append(contenders[name]())
    gc.unfreeze()
    return result


def statement_timer(statement: str, names: dict[str, object], seconds: float) -> Callable[[], float]:
    """A measurement of `statement`, seconds per run, repeated for about `seconds`. Garbage is collected as in any program, not put off."""
    timer = timeit.Timer(statement, "gc.enable()", globals={**names, "gc": gc})
    timer.timeit(3)  # compile what is compiled on first use
    count = 1
    while (taken := timer.timeit(count)) < seconds / 4:
        count *= 4
    count = max(1, round(count * seconds / taken))
    return lambda: timer.timeit(count) / count


def wait_for_line(script: str, **variables: str) -> float:
    """Seconds from the start of a fresh Python process with `script` until its first line arrives. The end of the process does not count."""
    start = timeit.default_timer()
    process = _start(script, variables)
    with process:
        line = process.stdout.readline()
        taken = timeit.default_timer() - start
        rest = process.stdout.read()
    if process.returncode or not line.strip():
        raise RuntimeError(f"perf: a fresh process failed with exit code {process.returncode}: {line}{rest}")
    return taken


def printed_seconds(script: str, **variables: str) -> float:
    """The number a fresh Python process with `script` prints."""
    process = _start(script, variables)
    text, _ = process.communicate()
    if process.returncode:
        raise RuntimeError(f"perf: a fresh process failed with exit code {process.returncode}")
    return float(text)


def _start(script: str, variables: dict[str, str]) -> subprocess.Popen:
    variables = {**os.environ, **variables}
    variables.pop("PYTHONDONTWRITEBYTECODE", None)  # where it is set, numod alone would be compiled from its text in every process
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env=variables)


class KernelFolders:
    """Folders for compiled kernels: an empty one for each cold start, and the last of these, now filled, for the warm ones."""

    def __init__(self, base: str) -> None:
        self.base, self.last = base, None

    def empty(self) -> str:
        """A new, empty folder."""
        if self.last:
            shutil.rmtree(self.last, ignore_errors=True)
        self.last = tempfile.mkdtemp(dir=self.base)
        return self.last

    def filled(self, script: str) -> str:
        """A folder in which `script` finds its kernels; it is run once to fill one where none is there yet."""
        if self.last is None:
            wait_for_line(script, NUMOD_CACHE_DIR=self.empty())
        return self.last


@contextmanager
def kernel_folders() -> Iterator[KernelFolders]:
    """Temporary folders for compiled kernels, removed at the end."""
    with tempfile.TemporaryDirectory() as base:
        yield KernelFolders(base)


def set_library_threads(threads: int) -> None:
    """Tell NumPy's BLAS, OpenMP and numod how many threads to use. Works only before they are loaded: else this process is started anew."""
    wanted = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMOD_NUM_THREADS")}
    if all(os.environ.get(name) == value for name, value in wanted.items()):
        return
    os.environ.update(wanted)
    if "numpy" in sys.modules:
        os.execv(sys.executable, [sys.executable, "-m", "perf", *sys.argv[1:]])


def processor() -> str:
    """The processor's name, as the system tells it."""
    try:
        with open("/proc/cpuinfo") as file:
            found = re.search(r"model name\s*:\s*(.+)", file.read())
    except OSError:
        found = None
    return found[1] if found else "unknown processor"
