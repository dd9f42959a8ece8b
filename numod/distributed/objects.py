"""Collectives of Python objects, which are pickled: use them among processes that trust each other."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from ..core.create.creation import empty
from ..core.create.values import from_numpy
from ..core.tensor import Tensor
from ..dtypes import int64, uint8
from .arguments import member_group, other_rank, root_of
from .collectives import all_gather_into_tensor, all_to_all_single, broadcast
from .group import ProcessGroup
from .point_to_point import recv, send


def _packed(value: Any) -> Tensor:
    """An object's pickle, (n,)."""
    return from_numpy(np.frombuffer(bytearray(pickle.dumps(value)), np.uint8))


def _unpacked(part: Tensor) -> Any:
    return pickle.loads(part.numpy().tobytes())


def _lengths(length: int, group: ProcessGroup) -> list[int]:
    """Each rank's number of bytes."""
    every = empty(group.size(), dtype=int64)
    all_gather_into_tensor(every, from_numpy(np.array([length])), group)
    return every.tolist()


def all_gather_object(object_list: list, obj: Any, group: ProcessGroup | None = None) -> None:
    """Gather the ranks' objects in the list, which has an element for each rank."""
    if (group := member_group(group, "all_gather_object")) is None:
        return
    _check_length(object_list, group, "all_gather_object")
    for k, value in enumerate(_exchanged([obj] * group.size(), group)):
        object_list[k] = value


def _check_length(values: list, group: ProcessGroup, name: str) -> None:
    if not isinstance(values, list) or len(values) != group.size():
        raise ValueError(f"{name}: expected a list of {group.size()} elements, one for each rank, got {values!r}")


def _exchanged(values: list, group: ProcessGroup) -> list:
    """Send object k to rank k; returns the objects received from the ranks, None for `_NOTHING`."""
    parts = [_packed(value) if value is not _NOTHING else empty(0, dtype=uint8) for value in values]
    lengths = from_numpy(np.array([part.numel() for part in parts]))
    coming = empty(group.size(), dtype=int64)
    all_to_all_single(coming, lengths, group=group)
    counts = coming.tolist()
    whole = empty(sum(counts), dtype=uint8)
    joined = from_numpy(np.concatenate([part.numpy() for part in parts]))
    all_to_all_single(whole, joined, counts, lengths.tolist(), group)
    return [_unpacked(part) if part.numel() else None for part in whole.split(counts)]


_NOTHING = object()


def gather_object(
    obj: Any,
    object_gather_list: list | None = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    group_dst: int | None = None,
) -> None:
    """Gather the ranks' objects in the list of rank `dst`; other ranks give no list."""
    if (group := member_group(group, "gather_object")) is None:
        return
    root = root_of(group, dst, group_dst, "gather_object")
    if group.group_rank == root:
        if not object_gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        _check_length(object_gather_list, group, "gather_object")
    elif object_gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    received = _exchanged([obj if rank == root else _NOTHING for rank in range(group.size())], group)
    if group.group_rank == root:
        object_gather_list[:] = received


def scatter_object_list(
    scatter_object_output_list: list,
    scatter_object_input_list: list | None = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    group_src: int | None = None,
) -> None:
    """Give each rank one object of the list of rank `src`, as the first element of its output list."""
    if (group := member_group(group, "scatter_object_list")) is None:
        return
    if not isinstance(scatter_object_output_list, list) or len(scatter_object_output_list) < 1:
        raise ValueError("Expected argument scatter_object_output_list to be a list of size at least 1.")
    root = root_of(group, src, group_src, "scatter_object_list")
    values = [_NOTHING] * group.size()
    if group.group_rank == root:
        _check_length(scatter_object_input_list, group, "scatter_object_list")
        values = scatter_object_input_list
    scatter_object_output_list[0] = _exchanged(values, group)[root]


def broadcast_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
) -> None:
    """Replace the elements of the list by those of rank `src`. The lists have one length."""
    if not isinstance(object_list, list):
        raise TypeError(f"broadcast_object_list: expected a list, got {type(object_list).__name__}")
    if (group := member_group(group, "broadcast_object_list")) is None:
        return
    root = root_of(group, src, group_src, "broadcast_object_list")
    packed = _packed(object_list) if group.group_rank == root else empty(0, dtype=uint8)
    length = _lengths(packed.numel(), group)[root]
    packed = packed if group.group_rank == root else empty(length, dtype=uint8)
    broadcast(packed, group=group, group_src=root)
    if group.group_rank != root:
        received = _unpacked(packed)
        if len(received) != len(object_list):
            raise RuntimeError(
                f"broadcast_object_list: rank {group.ranks[root]} sends {len(received)} objects, this list has "
                f"{len(object_list)}"
            )
        object_list[:] = received


def send_object_list(
    object_list: list,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_dst: int | None = None,
    use_batch: bool = False,
) -> None:
    """Send a list of objects to rank `dst`."""
    if (group := member_group(group, "send_object_list")) is None:
        return
    other = other_rank(group, dst, group_dst, "destination")
    packed = _packed(object_list)
    send(from_numpy(np.array([packed.numel()])), group=group, group_dst=other)
    send(packed, group=group, group_dst=other)


def recv_object_list(
    object_list: list,
    src: int | None = None,
    group: ProcessGroup | None = None,
    device: Any = None,
    group_src: int | None = None,
    use_batch: bool = False,
) -> int:
    """Receive the elements of the list from rank `src`, or from any; returns the sender's rank."""
    if (group := member_group(group, "recv_object_list")) is None:
        return -1
    length = empty(1, dtype=int64)
    sender = recv(length, src, group, 0, group_src)
    packed = empty(length.item(), dtype=uint8)
    recv(packed, sender, group)
    object_list[:] = _unpacked(packed)
    return sender
