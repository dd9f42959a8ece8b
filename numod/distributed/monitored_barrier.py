"""`monitored_barrier`: a barrier whose error names the ranks that did not arrive.

Rank 0 of the group receives a message from each rank, then answers all.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

import numpy as np

from ..errors import warn_caller
from ..graph.capture.recorder import line
from .arguments import member_group
from .engine import mpi_type
from .errors import DistBackendError
from .group import ProcessGroup
from .init_arguments import checked_timeout
from .work import complete

_FIRST_TAG, _TAGS = 30_000, 2_000  # MPI has tags up to 32,767 at least; each call has its own, for late messages


def monitored_barrier(
    group: ProcessGroup | None = None, timeout: timedelta | float | None = None, wait_all_ranks: bool = False
) -> None:
    """`barrier` with its own timeout. Rank 0's error names the first rank that did not arrive.

    With `wait_all_ranks` it names all of them. The errors of others say that they had arrived. Raises TypeError for a
    timeout that is no timedelta; a float is taken as seconds, with a warning.
    """
    if isinstance(timeout, float):
        warn_caller(f"monitored_barrier: give the timeout as timedelta(seconds={timeout})")
        timeout = timedelta(seconds=timeout)
    length = None if timeout is None else checked_timeout(timeout).total_seconds()
    if (group := member_group(group, "monitored_barrier")) is None or group.single:
        return
    seconds = group.timeout if length is None else length
    tag = _FIRST_TAG + group.monitored % _TAGS
    group.monitored += 1
    group.counts[group.slot] += 1
    if group.group_rank == 0:
        _collect(group, tag, seconds, wait_all_ranks)
    else:
        _report(group, tag, seconds)


def _message() -> list:
    return [np.zeros(1, np.uint8), mpi_type("uint8", False)]


def _collect(group: ProcessGroup, tag: int, seconds: float, wait_all_ranks: bool) -> None:
    """Rank 0: wait for the ranks in their order, then answer them."""
    deadline, others = time.monotonic() + seconds, range(1, group.size())
    requests = {rank: group.communicator.Irecv(_message(), rank, tag) for rank in others}
    late: list[int] = []
    for rank, request in requests.items():
        left = deadline - time.monotonic()
        if left <= 0 and not wait_all_ranks:
            _give_up(requests)
            raise DistBackendError(f"Rank {group.ranks[0]} timed out in monitoredBarrier after {seconds * 1e3:.0f} ms")
        if not _arrives(request, group, group.ranks[rank], max(left, 0.0)):
            late.append(group.ranks[rank])
            if not wait_all_ranks:
                break
    if late:
        _give_up(requests)
        names = f"Rank{'s' if wait_all_ranks else ''} {', '.join(map(str, late))}"
        raise DistBackendError(
            f"{names} failed to pass monitoredBarrier in {seconds * 1e3:.0f} ms at {line()}: "
            f"{group.board.missing(group)}"
        )
    for rank in others:
        complete(group.communicator.Isend(_message(), rank, tag), group, "monitored_barrier")


def _arrives(request: Any, group: ProcessGroup, rank: int, seconds: float) -> bool:
    """Whether a rank's message arrives in time."""
    try:
        complete(request, group, "monitored_barrier", timeout=seconds, awaited=rank)
    except DistBackendError:
        return False
    return True


def _give_up(requests: dict) -> None:
    """Receive no more of the messages that have not arrived."""
    for request in requests.values():
        if not request.Test():
            request.Cancel()
            request.Free()


def _report(group: ProcessGroup, tag: int, seconds: float) -> None:
    """Other ranks: send a message to rank 0, and wait for its answer."""
    answer = group.communicator.Irecv(_message(), 0, tag)
    try:
        complete(group.communicator.Isend(_message(), 0, tag), group, "monitored_barrier", timeout=seconds)
        complete(answer, group, "monitored_barrier", timeout=seconds)
    except DistBackendError as error:
        _give_up({0: answer})
        raise DistBackendError(
            f"Rank {group.ranks[group.group_rank]} successfully reached monitoredBarrier, but received errors while "
            f"waiting for send/recv from rank {group.ranks[0]}. Please check rank {group.ranks[0]} logs for faulty "
            f"rank. {error}"
        ) from None
