"""`numod.mps`, `numod.mtia` and `numod.xpu`: devices without kernels in numod, which scripts test for."""

from __future__ import annotations

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0
