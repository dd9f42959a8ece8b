"""`numod.accelerator`: device functions that do not name the device. The accelerator is CUDA, if there is one."""

from __future__ import annotations

from types import ModuleType

from .. import cuda
from ..device.device import Device
from . import cpu

__all__ = [
    "current_accelerator", "current_device_index", "device_count", "empty_cache", "is_available", "memory_allocated",
    "set_device_index", "synchronize",
]  # fmt: skip

device_count, is_available = cuda.device_count, cuda.is_available
current_device_index = current_device_idx = cuda.current_device
set_device_index = set_device_idx = cuda.set_device
empty_cache, memory_allocated, synchronize = cuda.empty_cache, cuda.memory_allocated, cuda.synchronize


def current_accelerator(check_available: bool = False) -> Device | None:
    """The device `cuda`, or None if no GPU is available."""
    return Device("cuda") if is_available() else None


def get_device_module(device: Device | str | None = None) -> ModuleType:
    """`numod.cuda` or `numod.cpu`, for the device or the available one. Raises RuntimeError for other devices.

    Example:

        >>> torch.get_device_module("cpu").__name__
        'numod.paths.cpu'
    """
    kind = Device(device if device is not None else current_accelerator() or "cpu").type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'numod.{kind}'; there are numod.cpu "
            "and numod.cuda."
        )
    return cuda if kind == "cuda" else cpu
