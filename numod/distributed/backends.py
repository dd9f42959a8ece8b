"""What PyTorch's functions say of backends. There is one engine, MPI, for all devices."""

from __future__ import annotations

from typing import Any

from ..device import device as Device
from . import engine
from .group import ProcessGroup, current, get_backend
from .init_arguments import Backend
from .reduce_op import BITWISE, ORDERED, ReduceOp

__all__ = [
    "BackendConfig", "get_backend_config", "get_default_backend_for_device", "get_pg_count", "is_backend_available",
    "supports_complex",
]  # fmt: skip
_DEVICES = ("cpu", "cuda")


class BackendConfig:
    """The backend of each type of device, from a name such as "mpi" or "cpu:gloo,cuda:nccl".

    Raises ValueError for a device or a backend that PyTorch does not have.
    """

    def __init__(self, backend: str) -> None:
        self.device_backend_map: dict[str, Backend] = {}
        for entry in str(backend).lower().split(","):
            device, colon, name = entry.partition(":")
            name = name if colon else device
            if name not in Backend.backend_list:
                raise ValueError(f"BackendConfig: unknown backend {name!r} in {backend!r}; numod has 'mpi'")
            for kind in (device,) if colon else _DEVICES:
                self.device_backend_map[kind] = Backend(name)

    def get_device_backend_map(self) -> dict[str, Backend]:
        """The backend of each type of device."""
        return self.device_backend_map

    def __repr__(self) -> str:
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


def get_backend_config(group: ProcessGroup | None = None) -> str:
    """The backends of a group by device, as "cpu:mpi,cuda:mpi"."""
    return repr(BackendConfig(get_backend(group)))


def get_default_backend_for_device(device: str | Device) -> str:
    """ "mpi", for every device. Raises ValueError for what is no device."""
    if not isinstance(device, (str, Device)):
        raise ValueError(f"get_default_backend_for_device: expected a device, got {device!r}")
    return str(Backend("mpi"))


def is_backend_available(backend: str) -> bool:
    """Whether a backend runs here: "mpi", if mpi4py is installed."""
    return backend.lower() == "mpi" and engine.is_installed()


def get_pg_count() -> int:
    """The number of process groups that were made."""
    return current.group_count if current.world is not None else 0


def supports_complex(reduceOp: Any) -> bool:
    """Whether complex tensors can be combined by this reduction."""
    return reduceOp not in (*ORDERED, *BITWISE, ReduceOp.PREMUL_SUM)
