"""The MPI function of each collective, a row each: (group, sends, receives, dtype's name, details) -> request.

Sends and receives are MPI's descriptions of flat memory.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any

from .collective_op import Collective
from .engine import mpi_operation
from .group import ProcessGroup
from .reduce_op import ReduceOp


def _all_reduce(group: ProcessGroup, sends: list, receives: list, dtype: str, op: ReduceOp) -> Any:
    operation = mpi_operation(op, dtype, group.single)
    return group.communicator.Iallreduce(group.in_place, receives[0], operation)


def _reduce(group: ProcessGroup, sends: list, receives: list, dtype: str, op: ReduceOp, root: int) -> Any:
    operation = mpi_operation(op, dtype, group.single)
    send, receive = (group.in_place, receives[0]) if group.group_rank == root else (receives[0], None)
    return group.communicator.Ireduce(send, receive, operation, root)


def _broadcast(group: ProcessGroup, sends: list, receives: list, dtype: str, root: int) -> Any:
    return group.communicator.Ibcast(receives[0], root)


def _all_gather(group: ProcessGroup, sends: list, receives: list, dtype: str) -> Any:
    return group.communicator.Iallgather(sends[0], receives[0])


def _reduce_scatter(group: ProcessGroup, sends: list, receives: list, dtype: str, op: ReduceOp) -> Any:
    operation = mpi_operation(op, dtype, group.single)
    return group.communicator.Ireduce_scatter_block(sends[0], receives[0], operation)


def _gather(group: ProcessGroup, sends: list, receives: list, dtype: str, root: int) -> Any:
    return group.communicator.Igather((sends or receives)[0], receives[0] if group.group_rank == root else None, root)


def _scatter(group: ProcessGroup, sends: list, receives: list, dtype: str, root: int) -> Any:
    return group.communicator.Iscatter(sends[0] if group.group_rank == root else None, receives[0], root)


def _all_to_all(group: ProcessGroup, sends: list, receives: list, dtype: str, sent: tuple, received: tuple) -> Any:
    (source, kind), (target, _) = sends[0], receives[0]
    send = [source, (sent, _offsets(sent)), kind]
    return group.communicator.Ialltoallv(send, [target, (received, _offsets(received)), kind])


def _offsets(counts: tuple[int, ...]) -> tuple[int, ...]:
    """Where each of the parts begins."""
    return tuple(accumulate(counts, initial=0))[:-1]


def _barrier(group: ProcessGroup, sends: list, receives: list, dtype: str) -> Any:
    return group.communicator.Ibarrier()


ALL_REDUCE = Collective("all_reduce", _all_reduce)
REDUCE = Collective("reduce", _reduce)
BROADCAST = Collective("broadcast", _broadcast)
ALL_GATHER = Collective("all_gather", _all_gather)
REDUCE_SCATTER = Collective("reduce_scatter", _reduce_scatter)
GATHER = Collective("gather", _gather)
SCATTER = Collective("scatter", _scatter)
ALL_TO_ALL = Collective("all_to_all", _all_to_all)
BARRIER = Collective("barrier", _barrier)
