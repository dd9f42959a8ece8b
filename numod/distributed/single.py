"""The communicator of a single process: mpi4py's methods for a group of one rank, as copies.

It needs no MPI, so a script that calls `init_process_group` also runs alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Done:
    """A request that has completed."""

    @staticmethod
    def Test() -> bool:
        """True."""
        return True


def _copy(self: object, send: object, receive: object, *others: object, **kwargs: object) -> type[Done]:
    """A collective of one rank: `send` is copied to `receive`, unless they are one buffer."""
    source, target = (_array(buffer) for buffer in (send, receive))
    if source is not None and target is not None:
        np.copyto(target[: source.size], source)
    return Done


def _nothing(self: object, *arguments: object, **kwargs: object) -> type[Done]:
    """A broadcast or barrier of one rank."""
    return Done


def _array(buffer: object) -> np.ndarray | None:
    """The array of an MPI buffer specification; None for "in place"."""
    if buffer is None:
        return None
    array, counts = buffer[0], buffer[1] if len(buffer) > 2 else None
    if isinstance(counts, tuple):  # of a vector collective: (counts, offsets)
        counts = counts[0][0]
    return array[:counts] if isinstance(counts, int) else array


class SingleCommunicator:
    """A communicator of one rank, with the non-blocking methods that `collectives` calls."""

    rank, size = 0, 1
    Iallreduce = Ireduce = Ireduce_scatter_block = Iallgather = Iallgatherv = Igather = Igatherv = _copy
    Ialltoall = Ialltoallv = Iscatter = Iscatterv = _copy
    Ibcast = Ibarrier = _nothing

    def split(self, ranks: list[int]) -> SingleCommunicator:
        """A further communicator of this rank."""
        return SingleCommunicator()

    def largest(self, number: int) -> int:
        """The number."""
        return number

    def Free(self) -> None:
        """There is nothing to free."""

    def Isend(self, *arguments: object, **kwargs: object) -> type[Done]:
        """Raises RuntimeError: there is no other rank."""
        raise RuntimeError("send: the process group has one rank, which cannot send to itself")

    Irecv: Callable = Isend
