"""`numod._C._nn`: the function that reads the arguments of `Module.to`, and the functions of `nn.functional`."""

from __future__ import annotations

from typing import Any

from ..device.device import Device
from ..nn import functional
from ..nn.conversion import parse_to


def _parse_to(*args: Any, **kwargs: Any) -> tuple:
    """(device, dtype, non_blocking, memory_format) of the arguments of `Module.to`; None for missing ones."""
    arguments = parse_to(*args, **kwargs)
    device = arguments.get("device")
    return (
        None if device is None else Device(device),
        arguments.get("dtype"),
        arguments.get("non_blocking", False),
        None,
    )


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(f"module 'numod._C._nn' has no attribute '{name}'")
    return getattr(functional, name)
