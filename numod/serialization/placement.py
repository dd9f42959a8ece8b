"""Tensors from a file's bytes, on the device that the caller wants: element types, byte order, `map_location`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

import numpy as np

from .. import dtypes
from ..core.tensor import Tensor, wrap
from ..device import Storage
from ..device.device import Device
from ..device.layout import layout
from .refusal import refuse

MAP_LOCATION = Callable[[Tensor, str], Tensor] | Device | str | dict[str, str] | None
# (flat CPU tensor, name of the device it was saved on) -> tensor on the wanted device
Placement = Callable[[Tensor, str], Tensor]


def flat_tensor(raw: np.ndarray, kind: dtypes.dtype, byte_order: str = "little") -> Tensor:
    """A one-dimensional CPU tensor over exactly these bytes."""
    data = raw.view(kind.storage)
    if not data.flags.aligned:
        data = data.copy()
    if byte_order != sys.byteorder:
        data.byteswap(inplace=True)
    if kind is dtypes.bool_:
        np.minimum(data, 1, out=data)  # any nonzero byte is True: bools must be stored as 0 or 1
    return wrap(Storage(data), layout((len(data),), kind, Device("cpu")), 0)


def placement(map_location: object, path: object) -> Placement:
    """The placement function for PyTorch's `map_location`.

    `map_location` is None (the saved device), a device, a dict from saved to other devices, or a function. The function
    receives the values as a flat tensor and the name of the saved device; it returns a tensor, or None for that device.
    """
    if map_location is None:
        return lambda flat, location: _restored(flat, location, path)
    if isinstance(map_location, Mapping):
        renamed = {str(saved): str(wanted) for saved, wanted in map_location.items()}
        return lambda flat, location: _restored(flat, renamed.get(location, location), path)
    if callable(map_location) and not isinstance(map_location, Device):  # devices are callable too (as decorators)
        return lambda flat, location: _chosen(map_location(flat, location), flat, location, path)
    device = Device(map_location)
    return lambda flat, _: flat.to(device)


def default_restore_location(storage: Tensor, location: str) -> Tensor:
    """What `load` passes to a function given as map_location, on the named device.

    Raises CheckpointError if there is no such device.
    """
    return _restored(storage, location, "the file")


def _chosen(result: object, flat: Tensor, location: str, path: object) -> Tensor:
    if result is None:
        return _restored(flat, location, path)
    if (
        not isinstance(result, Tensor)
        or result.shape != flat.shape
        or result.dtype is not flat.dtype
        or not result.is_contiguous()
    ):
        raise TypeError(
            "load: the function given as map_location must return its first argument, on any device, or None"
        )
    return result


def _restored(flat: Tensor, location: str, path: object) -> Tensor:
    """The tensor on the named device. Raises CheckpointError if this machine has no such device."""
    if location == "cpu":
        return flat
    try:
        return flat.to(Device(location))
    except Exception as error:  # a missing GPU raises many kinds of errors
        reason = f"it was saved on the device {location!r}, which is not available; load it with map_location='cpu'"
        try:
            refuse(path, reason)
        except RuntimeError as refusal:
            raise refusal from error
