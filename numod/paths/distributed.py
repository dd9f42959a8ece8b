"""`numod.distributed`: a program is one process here, and says so to who asks."""

from __future__ import annotations

from . import later
from .named import ONE_PROCESS, name_only

__all__ = ["barrier", "get_rank", "get_world_size", "is_available", "is_initialized", "is_torchelastic_launched"]
_NAMES = (
    "P2POp ProcessGroup ReduceOp Work all_gather all_gather_into_tensor all_gather_object all_reduce all_to_all "
    "all_to_all_single "
    "broadcast broadcast_object_list destroy_process_group gather gather_object init_device_mesh init_process_group "
    "irecv isend monitored_barrier new_group "
    "recv reduce reduce_scatter reduce_scatter_tensor scatter send"
)
globals().update({_name: name_only(f"distributed.{_name}", ONE_PROCESS) for _name in _NAMES.split()})
__getattr__ = later("distributed")


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


def is_torchelastic_launched() -> bool:
    """False."""
    return False


def _refuse(*arguments: object, **named: object) -> int:
    """Raises ValueError, as PyTorch where no process group was made."""
    raise ValueError(
        "Default process group has not been initialized: numod runs in one process; ask is_initialized() first"
    )


barrier = get_rank = get_world_size = _refuse
