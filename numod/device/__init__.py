"""Devices: memory, and compiling and launching kernels. What kernels compute is in `kernel` and `ops`.

A back end (`cpu`, `cuda`, `meta`) is a module with the interface of `backend.Backend`. `cuda` and `meta` are imported
when a device of their type is first used.
"""

from __future__ import annotations

from . import cpu
from .device import Device as device
from .layout import Layout, Size
from .storage import Storage

__all__ = ["Layout", "Size", "Storage", "cpu", "device"]
