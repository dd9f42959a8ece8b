"""`numod.mps`, `numod.mtia` and `numod.xpu`: kinds of devices that numod has no kernels for, which scripts ask for
before they choose one.
"""

from __future__ import annotations

__all__ = ["device_count", "is_available"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0
