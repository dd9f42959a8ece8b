"""`numod.cpu`: functions for the device "cpu", of which there is one."""

from __future__ import annotations

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
    """Do nothing: a launch has run when its call returns."""


def empty_cache() -> None:
    """Release the memory that is cached for large tensors, as `numod.cuda.empty_cache` does for a GPU."""
    host_memory.release()
