"""`numod.cpu`: questions about the device "cpu", of which there is one."""

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
    """Its name."""
    return "cpu"


def synchronize(device: object = None) -> None:
    """Returns at once: a call has ended when it returns."""


def empty_cache() -> None:
    """Give the memory that is kept for later large tensors back to the system, as `numod.cuda.empty_cache` does for a
    GPU's.
    """
    host_memory.release()
