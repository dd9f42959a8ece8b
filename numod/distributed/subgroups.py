"""Groups that divide the ranks among them, and a debugger on one rank."""

from __future__ import annotations

import pdb
import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from .collectives import barrier
from .group import ProcessGroup, default_group, get_process_group_ranks, get_rank, get_world_size, is_member, new_group

__all__ = ["breakpoint", "new_subgroups", "new_subgroups_by_enumeration", "split_group"]


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list[ProcessGroup | int]]:
    """Divide the ranks, in their order, into groups of `group_size`; (this rank's group, all groups).

    All ranks call it. Raises ValueError unless the number of ranks is a multiple of `group_size`.
    """
    if group_size is None:
        raise ValueError("new_subgroups: group_size is missing; give the number of ranks of each group")
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    size = get_world_size(group)
    if size < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({size})")
    if size % group_size:
        raise ValueError(f"The world size ({size}) must be divisible by '{group_size=}'")
    ranks = get_process_group_ranks(group)
    parts = [ranks[start : start + group_size] for start in range(0, size, group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup | int]]:
    """A group for each list of ranks, which have none in common; (this rank's group or None, all groups).

    All ranks call it. Raises ValueError for an empty list and for a rank in two lists.
    """
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    everyone = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    for rank in everyone:
        if everyone.count(rank) > 1:
            raise ValueError(f"new_subgroups_by_enumeration: rank {rank} is in more than one subgroup")
    groups = [
        new_group(list(ranks), timeout, backend, pg_options, group_desc=group_desc) for ranks in ranks_per_subgroup_list
    ]
    own_group = next((group for group, ranks in zip(groups, ranks_per_subgroup_list) if get_rank() in ranks), None)
    return own_group, groups


def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Divide a group by lists of its ranks, numbered within it; this rank's new group, or None.

    All ranks of the parent call it, others do not. Raises ValueError without lists, for an empty list, for repeated
    ranks and ones that do not exist, and on a rank outside the parent.
    """
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = default_group(parent_pg)
    if not is_member(parent):
        raise ValueError(f"Global rank {get_rank()} is not part of the parent group {parent}")
    everyone = [rank for ranks in split_ranks for rank in ranks]
    if not all(split_ranks):
        raise ValueError("the split group cannot be empty")
    if len(set(everyone)) != len(everyone):
        raise ValueError(f"the split group cannot have duplicate ranks: {split_ranks}")
    if not set(everyone) <= set(range(parent.size())):
        raise ValueError(f"split_group: expected ranks from 0 to {parent.size() - 1}, got {split_ranks}")
    own_group = None
    for ranks in split_ranks:
        members = [parent.ranks[rank] for rank in sorted(ranks)]
        made = new_group(members, timeout, backend, pg_options, group_desc=group_desc, sort_ranks=False)
        own_group = made if get_rank() in members else own_group
    return own_group


def breakpoint(rank: int = 0, skip: int = 0, timeout_s: float = 3600) -> None:
    """Start Python's debugger where this was called, on one rank; the others wait for `timeout_s` seconds.

    The first `skip` calls do nothing. All ranks call it. Under mpiexec only rank 0 can read the terminal.
    """
    global _skipped
    if skip > 0:
        _skipped += 1
        if _skipped <= skip:
            return
    if get_rank() == rank:
        debugger = pdb.Pdb(skip=["numod.distributed.*"])
        debugger.message(f"!!! Type 'up' to get to the frame that called dist.breakpoint(rank={rank})")
        debugger.set_trace(sys._getframe())
    work = barrier(async_op=True)
    work.wait(timedelta(seconds=timeout_s))


_skipped = 0  # calls of `breakpoint` that did nothing
