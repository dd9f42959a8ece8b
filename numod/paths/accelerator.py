"""`numod.accelerator`: the device beside the CPU, under the names that do not say which it is. It is CUDA's, or there is none."""

from __future__ import annotations

from .. import cuda
from ..device.device import Device

__all__ = ["current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available", "memory_allocated", "set_device_index", "synchronize"]

device_count, is_available = cuda.device_count, cuda.is_available
current_device_index = current_device_idx = cuda.current_device
set_device_index = set_device_idx = cuda.set_device
empty_cache, memory_allocated, synchronize = cuda.empty_cache, cuda.memory_allocated, cuda.synchronize


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device `cuda`, or None where no GPU can be used."""
    return Device("cuda") if is_available() else None
