"""Devices: where bytes live and kernels run. Not what they compute: that is `kernel` and `ops`.

A back end (`cpu`, `cuda`) is a module with the same functions: `empty(count, storage_dtype)` a flat buffer,
`upload(host)` and `download(buffer)` between host and device, `compile(make, signature, parallel, fastmath, cache)` the
kernel that `make` gives, callable. `cuda` is imported when a CUDA device is first asked for.
"""

from __future__ import annotations

from . import cpu
from .device import Device as device
from .layout import Layout, Size
from .storage import Storage

__all__ = ["Layout", "Size", "Storage", "cpu", "device"]
