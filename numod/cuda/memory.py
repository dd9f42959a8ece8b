"""`numod.cuda`'s view of device memory: what is in use, what is kept for later, and giving it back.

All of it is 0 where there is no device.
"""

from __future__ import annotations

from typing import Any

from ..device.device import Device
from ..errors import OutOfMemoryError

__all__ = [
    "OutOfMemoryError", "empty_cache", "max_memory_allocated", "max_memory_cached", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_stats", "memory_summary",
    "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
    "reset_peak_memory_stats", "set_per_process_memory_fraction",
]  # fmt: skip


def _pool() -> Any:
    """The device's pool; None where there is no device."""
    from . import is_available

    return Device("cuda").backend.pool() if is_available() else None


def _number(name: str) -> int:
    pool = _pool()
    return 0 if pool is None else pool.numbers[name]


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors hold."""
    return _number("allocated")


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors held at once since the last `reset_peak_memory_stats`."""
    return _number("allocated peak")


def memory_reserved(device: Any = None) -> int:
    """Bytes taken from the driver: those of tensors, and free blocks."""
    return _number("reserved")


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes taken from the driver at once."""
    return _number("reserved peak")


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def reset_peak_memory_stats(device: Any = None) -> None:
    """Let the maxima start from what is in use now."""
    pool = _pool()
    if pool is not None:
        pool.reset_peaks()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Let the counts of allocations, retries and failures start from 0."""
    pool = _pool()
    if pool is not None:
        for name in ("taken", "retries", "failures"):
            pool.numbers[name] = 0


def empty_cache() -> None:
    """Give free blocks back to the driver, for other programs."""
    pool = _pool()
    if pool is not None:
        pool.empty_cache()


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes free on the device and in all. Raises RuntimeError where there is no device."""
    return Device("cuda").backend.pool().source.information()


def set_per_process_memory_fraction(fraction: float, device: Any = None) -> None:
    """Reserve at most this part of the device's memory. Raises ValueError outside [0, 1]."""
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    pool = Device("cuda").backend.pool()
    pool.limit = None if fraction == 1 else int(fraction * pool.source.information()[1])


def memory_stats(device: Any = None) -> dict[str, int]:
    """The numbers under PyTorch's names."""
    names = {
        "allocated_bytes.all.current": "allocated", "allocated_bytes.all.peak": "allocated peak",
        "active_bytes.all.current": "allocated", "active_bytes.all.peak": "allocated peak",
        "reserved_bytes.all.current": "reserved", "reserved_bytes.all.peak": "reserved peak",
        "allocation.all.allocated": "taken", "num_alloc_retries": "retries", "num_ooms": "failures",
    }  # fmt: skip
    return {name: _number(statistic) for name, statistic in names.items()}


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """The numbers as a table to print."""
    return "\n".join(f"{name:30} {value:>20,}" for name, value in memory_stats().items())
