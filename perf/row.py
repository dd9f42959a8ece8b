"""What a row of the table is: a name, its contenders and the bar it is to reach.

Which rows there are stands in `operations`, `steps` and `starts`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from .limit import least_seconds
from .measure import Folders, Result, busy, kept_threads, statement_timer, take_turns


@dataclass(frozen=True)
class Bar:
    """What numod is to reach: a ratio to `peer` (the best one where none is named), or a number of seconds; either will
    do.
    """

    ratio: float | None = None
    seconds: float | None = None
    peer: str | None = None

    def __str__(self) -> str:
        parts = (
            [f"{self.seconds:g} s" if self.seconds >= 0.01 else f"{1e6 * self.seconds:g} µs"] if self.seconds else []
        )
        parts += [f"{self.ratio:g} × {self.peer or 'best'}"] if self.ratio else []
        return "≤ " + " or ".join(parts)

    def met(self, result: Result) -> bool | None:
        """Whether `result` meets the bar. None where the peer to compare with is missing."""
        if self.seconds is not None and result.best("numod") <= self.seconds:
            return True
        if self.ratio is None:
            return False
        peer = self.peer or result.best_peer()
        return result.ratio(peer) <= self.ratio if peer in result.rounds else None


@dataclass(frozen=True)
class Timed:
    """A statement ready to be timed, in the names it uses.

    `values()` runs it once for what it computes, as NumPy arrays, where that can be compared.
    """

    statement: str
    names: dict[str, object]
    values: Callable[[], list] | None = None
    counted: Callable[[], object] | None = None  # the same work op by op in numod, whose operations and bytes are known


@dataclass(frozen=True)
class Row:
    """The same work by each contender: `contenders[name]()` prepares it."""

    name: str
    contenders: Mapping[str, Callable[[], Timed]]
    bar: Bar | None = None

    def prepare(self, peers: Collection[str]) -> dict[str, Timed]:
        """The work of numod, in each of its ways, and of those peers that can do it."""
        return {name: make() for name, make in self.contenders.items() if name.startswith("numod") or name in peers}

    def measure(self, peers: Collection[str], pace: Pace, folders: Folders) -> Result:
        """Time the statements in turns."""
        ready = self.prepare(peers)
        contenders = {
            name: statement_timer(statement.statement, statement.names, pace.seconds)
            for name, statement in ready.items()
        }
        result = take_turns(contenders, pace.rounds, pace.budget * len(contenders))
        result.limit = least_seconds(ready["numod"].counted) if ready["numod"].counted else None
        return result


@dataclass(frozen=True)
class SharedRow(Row):
    """Two threads of numod's beside one thread of numod's, while `busy` other processes hold cores.

    Compared by the middle rounds.
    """

    busy: int = 0

    def prepare(self, peers: Collection[str]) -> dict[str, Timed]:
        """The work with each number of threads; the peers take no part."""
        return {name: make() for name, make in self.contenders.items()}

    def measure(self, peers: Collection[str], pace: Pace, folders: Folders) -> Result:
        """Time the statements in turns, in rounds that are long beside the system's time slices."""
        with kept_threads(), busy(self.busy):
            result = super().measure(peers, replace(pace, seconds=0.1, budget=5 * pace.budget), folders)
        result.by_median = True
        return result


@dataclass(frozen=True)
class FreshRow:
    """Something that happens once per process. `contenders[name](folders)` starts one and gives its seconds."""

    name: str
    contenders: Mapping[str, Callable[[Folders], float]]
    bar: Bar | None = None
    share: float = 1.0  # of the processes the pace asks for; slow ones are started less often

    def measure(self, peers: Collection[str], pace: Pace, folders: Folders) -> Result:
        """Start processes in turns."""
        contenders = {
            name: (lambda run=run: run(folders))
            for name, run in self.contenders.items()
            if name == "numod" or name in peers
        }
        return take_turns(contenders, max(1, round(self.share * pace.processes)))


@dataclass(frozen=True)
class Pace:
    """How long to measure: short rounds, some of which nothing disturbs, of so many seconds for each contender, within
    a budget of seconds; fresh processes.
    """

    seconds: float = 0.004
    rounds: int = 200
    processes: int = 5
    budget: float = 2.0


QUICK = Pace(0.004, 25, 3, 0.5)
