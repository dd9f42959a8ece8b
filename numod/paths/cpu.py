"""`numod.cpu`: functions for the device "cpu", of which there is one."""

from __future__ import annotations

from ..core import deferred
from ..device import host_memory
from . import cpu_amp as amp

__all__ = ["amp", "current_device", "device_count", "empty_cache", "is_available", "synchronize"]


def is_available() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The device's name."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Run launches that wait until LLVM has compiled their kernels; all others have run when their call returns."""
    deferred.run_all()


def empty_cache() -> None:
    """Release the memory that is cached for large tensors, as `numod.cuda.empty_cache` does for a GPU."""
    host_memory.release()
