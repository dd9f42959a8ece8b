"""`numod.distributed`: a program is one process here, and says so to who asks."""

from __future__ import annotations

__all__ = ["barrier", "get_rank", "get_world_size", "is_available", "is_initialized", "is_torchelastic_launched"]


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
    raise ValueError("Default process group has not been initialized: numod runs in one process; ask is_initialized() first")


barrier = get_rank = get_world_size = _refuse
