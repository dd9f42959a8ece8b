"""`numod.distributed`: several processes that train together, by PyTorch's names, on MPI (the extra `mpi`).

Start a script by `python -m numod.distributed.run --nproc_per_node=2 script.py`. The guide is `guide/distributed.md`.
Without a launcher a group has one rank and needs no MPI.
"""

from __future__ import annotations

from ..errors import name_only
from .backends import (
    BackendConfig, get_backend_config, get_default_backend_for_device, get_pg_count, is_backend_available,
    supports_complex,
)  # fmt: skip
from .coalesced import all_gather_coalesced, all_reduce_coalesced
from .collectives import (
    all_gather, all_gather_into_tensor, all_gather_single, all_reduce,
    all_to_all, all_to_all_single, barrier, broadcast, gather, reduce, reduce_scatter,
    reduce_scatter_single, reduce_scatter_tensor, scatter,
)  # fmt: skip
from .comm_hooks import BuiltinCommHookType, GradBucket
from .device_mesh import DeviceMesh, init_device_mesh
from .engine import launched_size
from .environment import set_variables
from .errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from .fingerprint import DebugLevel, get_debug_level, set_debug_level, set_debug_level_from_env
from .group import (
    GroupMember, ProcessGroup, destroy_process_group, get_backend, get_global_rank,
    get_group_rank, get_node_local_rank, get_process_group_ranks, get_rank, get_world_size, group, init_process_group,
    is_available, is_gloo_available, is_initialized, is_mpi_available, is_nccl_available, is_torchelastic_launched,
    is_ucc_available, is_xccl_available, new_group,
)  # fmt: skip
from .group import _get_default_group as _get_default_group
from .group import _get_default_store as _get_default_store
from .group import _get_process_group_name as _get_process_group_name
from .group import _rank_not_in_group as _rank_not_in_group
from .group_calls import (
    AllgatherOptions, AllreduceCoalescedOptions, AllreduceOptions, AllToAllOptions, BarrierOptions, BroadcastOptions,
    GatherOptions, ReduceOptions, ReduceScatterOptions, ScatterOptions,
)  # fmt: skip
from .init_arguments import Backend, default_pg_timeout
from .monitored_barrier import monitored_barrier
from .objects import (
    all_gather_object, broadcast_object_list, gather_object, recv_object_list, scatter_object_list, send_object_list,
)  # fmt: skip
from .point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from .reduce_op import ReduceOp
from .rendezvous import rendezvous
from .stores import FileStore, HashStore, PrefixStore, Store
from .subgroups import breakpoint, new_subgroups, new_subgroups_by_enumeration, split_group
from .tcp_store import TCPStore
from .work import Work

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "Backend",
    "BackendConfig", "BarrierOptions", "BroadcastOptions", "BuiltinCommHookType", "DebugLevel", "DeviceMesh",
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "GatherOptions", "GradBucket",
    "GroupMember", "HashStore", "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "ReduceOp",
    "ReduceOptions", "ReduceScatterOptions", "ScatterOptions", "Store", "TCPStore", "Work", "all_gather",
    "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "breakpoint",
    "broadcast", "broadcast_object_list", "default_pg_timeout", "destroy_process_group", "gather", "gather_object",
    "get_backend", "get_backend_config", "get_debug_level", "get_default_backend_for_device", "get_global_rank",
    "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank", "get_world_size",
    "group", "init_device_mesh", "init_process_group", "irecv", "is_available", "is_backend_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group", "new_subgroups",
    "new_subgroups_by_enumeration", "recv", "recv_object_list", "reduce", "reduce_op", "reduce_scatter",
    "reduce_scatter_single", "reduce_scatter_tensor", "rendezvous", "scatter", "scatter_object_list", "send",
    "send_object_list", "set_debug_level", "set_debug_level_from_env", "shrink_group", "split_group",
    "supports_complex",
]  # fmt: skip
reduce_op = ReduceOp  # PyTorch's older name
_all_gather_base, _reduce_scatter_base = all_gather_into_tensor, reduce_scatter_tensor  # PyTorch's older names
ProcessGroupGloo = name_only("distributed.ProcessGroupGloo", "the engine is MPI")
shrink_group = name_only("distributed.shrink_group", "make groups by numod.distributed.new_group")
if launched_size() > 1:
    set_variables()  # scripts for torchrun read them, also where mpiexec or srun started them


def __getattr__(name: str) -> object:
    """Modules of PyTorch's paths, such as `optim`, are imported on first use."""
    from importlib import import_module

    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'") from None
