"""How many collectives each rank of this machine has begun, in shared memory.

A rank whose collective times out reads which ranks did not arrive. It costs one store per collective.
"""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING

import numpy as np

from .engine import MpiCommunicator, load

if TYPE_CHECKING:
    from .group import ProcessGroup

SLOTS = 63  # groups beyond this number share a counter


class Board:
    """A row per rank: its process, then the number of collectives that it began in each group."""

    def __init__(self, communicator: object) -> None:
        self.rows = {0: np.zeros(SLOTS + 1, np.int64)}
        self.rank, self.sharing = 0, 1  # the number of ranks of this machine that use this one's cores
        if isinstance(communicator, MpiCommunicator):
            self._share(communicator.mpi)
        self.counts = memoryview(self.rows[self.rank])  # its elements are read and written faster than an array's
        self.counts[0] = os.getpid()
        if len(self.rows) > 1:
            atexit.register(self._leave)  # before MPI's own, which waits for the other ranks

    def _share(self, communicator: object) -> None:
        """Make the rows in memory that the ranks of this machine share."""
        MPI, self.rank = load(), communicator.rank
        machine = communicator.Split_type(MPI.COMM_TYPE_SHARED)
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        ranks, cores_of_ranks = zip(*machine.allgather((communicator.rank, cores)))
        self.sharing = cores_of_ranks.count(cores)
        self.window = MPI.Win.Allocate_shared(8 * (SLOTS + 1), 8, comm=machine)
        self.rows = {
            rank: np.frombuffer(self.window.Shared_query(number)[0], np.int64) for number, rank in enumerate(ranks)
        }
        self.rows[self.rank][...] = 0
        machine.Barrier()

    def _leave(self) -> None:
        """This process ends: it begins no collective any more."""
        self.counts[0] = -os.getpid()

    def ended(self, group: ProcessGroup, awaited: int | None = None) -> bool:
        """Whether a rank of the group, or the awaited one, has ended and has begun fewer collectives than this one."""
        slot = group.slot
        rows = [self.rows[rank] for rank in group.ranks if rank in self.rows and awaited in (None, rank)]
        return any(row[slot] < self.counts[slot] and _state(int(row[0])) != "running" for row in rows)

    def missing(self, group: ProcessGroup) -> str:
        """Which ranks of the group have begun fewer collectives than this one, and whether their processes live."""
        slot, late, unknown = group.slot, [], []
        for rank in group.ranks:
            row = self.rows.get(rank)
            if row is None:
                unknown.append(rank)
            elif row[slot] < self.counts[slot]:
                late.append(
                    f"rank {rank} (process {abs(row[0])}, {_state(int(row[0]))}) has begun {row[slot]} collectives of "
                    f"the {self.counts[slot]} that this rank has"
                )
        late += [f"ranks {unknown} run on other machines"] if unknown else []
        return "; ".join(late) or "all ranks have begun it, so it is slow or its arguments differ"


def _state(process: int) -> str:
    """What a process does, by its number, which is negative after it has left."""
    if process < 0:
        return "ended"
    return "running" if _lives(process) else "dead"


def _lives(process: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        with open(f"/proc/{process}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
