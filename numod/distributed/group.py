"""Process groups: the default one of all ranks, subgroups, and their names in PyTorch."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

from ..errors import warn_caller
from . import engine
from .board import SLOTS, Board
from .environment import limit_threads
from .errors import INSTALL
from .group_calls import GroupCalls
from .init_arguments import check_store, checked_backend, checked_timeout, requested_position
from .rendezvous import default_store
from .stores import PrefixStore, Store

NOT_INITIALIZED = "Default process group has not been initialized, please make sure to call init_process_group."
_COMMAND = "start the script by `python -m numod.distributed.run --nproc_per_node=N script.py` or `mpiexec -n N`"


class ProcessGroup(GroupCalls):
    """Some of the ranks, which call collectives together. `ranks` are their numbers among all.

    `communicator` is MPI's, `group_rank` this process's rank in the group, `timeout` in seconds, `slot` the group's
    counter on the board.
    """

    def __init__(
        self, communicator: Any, ranks: list[int], timeout: timedelta, board: Board, name: str, backend: str, slot: int
    ) -> None:
        self.communicator, self.ranks, self.board, self._name = communicator, ranks, board, name
        self.group_rank, self.timeout, self.backend = communicator.rank, timeout.total_seconds(), backend
        self.single = isinstance(communicator, engine.SingleCommunicator)
        self.in_place = engine.in_place(communicator)
        self.slot = 1 + min(slot, SLOTS - 1)
        self.counts = board.counts
        self.monitored = 0  # calls of `monitored_barrier`
        self.remembered: dict[tuple, Any] = {}  # calls that need no checks: see `collective_op.repeat`

    def rank(self) -> int:
        """This process's rank in the group."""
        return self.group_rank

    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend's name."""
        return self.backend

    @property
    def group_name(self) -> str:
        """The group's name."""
        return self._name

    @property
    def group_desc(self) -> str:
        """The description given to `new_group`, or the name."""
        return self._name

    def set_timeout(self, timeout: timedelta) -> None:
        """Set how long collectives of the group wait for the other ranks."""
        self.timeout = checked_timeout(timeout).total_seconds()

    def __reduce__(self) -> tuple:
        """A group is pickled as its ranks; where it is loaded, a group of these ranks must exist."""
        return _group_of, (tuple(self.ranks),)

    def __deepcopy__(self, memo: dict) -> ProcessGroup:
        return self


class _WorldMeta(type):
    """PyTorch's `group.WORLD` and `GroupMember.WORLD`: the default group as it is now."""

    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The default group, None without one."""
        return current.world


class group(metaclass=_WorldMeta):
    """`group.WORLD` is the default group."""


class GroupMember(metaclass=_WorldMeta):
    """`NON_GROUP_MEMBER` is what `new_group` returns to ranks outside the group."""

    NON_GROUP_MEMBER = -100


class _State:
    """The default group, and all groups of this process."""

    world: ProcessGroup | None = None
    groups: list[ProcessGroup] = []
    store: Store | None = None  # of the default group
    group_count = 0  # the number of groups that were created; less on ranks that took no part in `split_group`
    hooked = False  # whether errors end all ranks


current = _State()


def is_available() -> bool:
    """Whether mpi4py is installed. Without it, groups have one rank."""
    return engine.is_installed()


def is_mpi_available() -> bool:
    """Whether mpi4py is installed."""
    return engine.is_installed()


def is_gloo_available() -> bool:
    """False. The name is accepted, and MPI runs."""
    return False


is_nccl_available = is_ucc_available = is_xccl_available = is_gloo_available


def is_initialized() -> bool:
    """Whether there is a default group."""
    return current.world is not None


def is_torchelastic_launched() -> bool:
    """Whether `numod.distributed.run` started this process."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the default group of all ranks that the launcher started. Without a launcher, of this process alone.

    The engine is MPI. Other backends' names are accepted with one warning. `rank` and `world_size` are MPI's; if given,
    here or in the environment, they must agree with it. `timeout` is how long a collective waits for the other ranks.
    `store` is kept for `_get_default_store`; MPI does not need it.
    Raises ValueError if there is a default group, or if numbers disagree, and RuntimeError if more ranks are asked for
    than were started, or without mpi4py. A store needs `rank` and `world_size`, and no `init_method`.
    """
    if current.world is not None:
        raise ValueError("trying to initialize the default process group twice!")
    timeout = checked_timeout(timeout)
    backend = checked_backend(backend)
    if store is not None:
        check_store(store, init_method, rank, world_size)
    asked_rank, asked_size = requested_position(init_method, rank, world_size)
    started = engine.launched_size()
    if asked_size > started and started == 1:
        raise RuntimeError(
            f"init_process_group: world_size is {asked_size}, but no MPI launcher started this process; {_COMMAND}"
            + ("" if engine.is_installed() else f"; {INSTALL}")
        )
    communicator = engine.world()
    for argument, requested, actual in (
        ("world_size", asked_size, communicator.size),
        ("rank", asked_rank, communicator.rank),
    ):
        if requested not in (-1, actual):
            raise ValueError(
                f"init_process_group: {argument} is {requested}, but MPI's is {actual}; leave it out, or {_COMMAND}"
            )
    if backend != "mpi" and communicator.rank == 0:
        warn_caller(f"init_process_group: the backend is MPI, in the place of {str(backend)!r}")
    current.groups, current.group_count = [], 1
    board = Board(communicator)
    current.world = ProcessGroup(communicator, list(range(communicator.size)), timeout, board, "0", backend, 0)
    current.groups.append(current.world)
    current.store = PrefixStore("default_pg", store or default_store(communicator, len(board.rows)))
    if communicator.size > 1 and not current.hooked:
        current.hooked = True
        engine.abort_on_error()
        limit_threads(board.sharing)


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Remove a group; without one, or for the default group, all groups."""
    if current.world is None:
        raise AssertionError("Process group cannot be None")
    if group == GroupMember.NON_GROUP_MEMBER:
        return
    removed = list(current.groups) if group is None or group is current.world else [group]
    if removed[0] not in current.groups:
        raise RuntimeError("Invalid process group specified")
    for removed_group in removed:
        removed_group.communicator.Free() if removed_group.single else removed_group.communicator.mpi.Free()
        current.groups.remove(removed_group)
    if group is None or group is current.world:
        current.world = current.store = None


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup | int:
    """A group of some ranks, all by default. All ranks of the default group call it, in the same order.

    Ranks are numbered in ascending order, with `sort_ranks=False` in the order of the list. Returns
    GroupMember.NON_GROUP_MEMBER to ranks outside. Raises ValueError for repeated ranks and ones that do not exist.
    """
    world = default_group()
    timeout = timedelta(seconds=world.timeout) if timeout is None else checked_timeout(timeout)
    ranks = [int(rank) for rank in ranks] if ranks is not None else list(world.ranks)
    ranks = sorted(ranks) if sort_ranks else ranks
    if len(set(ranks)) != len(ranks) or len(ranks) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in ranks:
        if not 0 <= rank < world.size():
            raise ValueError(
                "The new group's rank should be within the world_size set by init_process_group: "
                f"Rank {rank} is out of range, valid ranks are 0 to {world.size() - 1}"
            )
    number, current.group_count = current.group_count, current.group_count + 1
    if world.group_rank not in ranks:
        return GroupMember.NON_GROUP_MEMBER
    communicator = world.communicator.split(ranks)
    number = communicator.largest(number)  # the same counter on the board for all ranks of the group
    current.group_count = number + 1
    name = group_desc or str(number)
    group = ProcessGroup(communicator, ranks, timeout, world.board, name, backend or world.backend, number)
    current.groups.append(group)
    return group


def default_group(group: ProcessGroup | int | None = None) -> ProcessGroup | int:
    """`group`, or the default group. Raises ValueError without one."""
    if group is None:
        if current.world is None:
            raise ValueError(NOT_INITIALIZED)
        return current.world
    return group


def _get_default_group() -> ProcessGroup:
    """The default group. Raises ValueError without one."""
    return default_group()


def _get_default_store() -> Store:
    """The default group's store: the one given to `init_process_group`, or one that all ranks share."""
    default_group()
    return current.store


def _rank_not_in_group(group: ProcessGroup | int | None) -> bool:
    """Whether this process is outside the group."""
    return group is not None and not is_member(group)


def _get_process_group_name(pg: ProcessGroup) -> str:
    """The group's name."""
    return pg.group_name


def _group_of(ranks: tuple[int, ...]) -> ProcessGroup:
    existing = next((group for group in current.groups if tuple(group.ranks) == ranks), None)
    if existing is None:
        raise RuntimeError(f"a process group of the ranks {list(ranks)} was pickled, and none exists here")
    return existing


def is_member(group: ProcessGroup | int | None) -> bool:
    """Whether this process is in the group."""
    return group != GroupMember.NON_GROUP_MEMBER


def get_rank(group: ProcessGroup | None = None) -> int:
    """This process's rank in the group; -1 outside it."""
    group = default_group(group)
    return group.group_rank if is_member(group) else -1


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of ranks in the group; -1 outside it."""
    group = default_group(group)
    return group.size() if is_member(group) else -1


def get_backend(group: ProcessGroup | None = None) -> str:
    """The name given to `init_process_group`."""
    group = default_group(group)
    if not is_member(group):
        raise ValueError("Invalid process group specified")
    return group.backend


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The environment's LOCAL_RANK, or `fallback_rank`. Raises RuntimeError without either."""
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    if fallback_rank is None:
        raise RuntimeError("LOCAL_RANK is not in the environment. Consider passing fallback_rank")
    return int(fallback_rank)


def get_process_group_ranks(group: ProcessGroup | None) -> list[int]:
    """The ranks of a group, as numbers among all."""
    return list(default_group(group).ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in the group of a rank among all. Raises ValueError for one outside."""
    ranks = default_group(group).ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number among all of a rank of the group. Raises ValueError for one outside."""
    ranks = default_group(group).ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]
