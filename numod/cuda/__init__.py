"""`numod.cuda`: whether CUDA devices are there, and waiting for them. Their memory and kernels are in `device.cuda`."""

from __future__ import annotations

from ..device.device import Device


def is_available() -> bool:
    """Whether a CUDA device can be used: a GPU with its driver, or Numba's simulator where that was asked for."""
    try:
        from numba import cuda

        return bool(cuda.is_available())
    except Exception:  # noqa: BLE001  a half-installed toolkit fails in many ways, and each of them means no
        return False


def device_count() -> int:
    """Number of CUDA devices that can be used."""
    if not is_available():
        return 0
    from numba import cuda

    return len(cuda.gpus)


def synchronize(device: Device | str | None = None) -> None:
    """Wait until all kernels have run."""
    Device("cuda" if device is None else device).backend.synchronize()


def get_device_name(device: Device | str | int | None = None) -> str:
    """The name of a CUDA device."""
    from numba import cuda

    index = Device("cuda" if device is None else device).index
    name = getattr(cuda.gpus[index], "name", "CUDA simulator")
    return name.decode() if isinstance(name, bytes) else name


def __getattr__(name: str) -> object:
    if name != "amp":
        raise AttributeError(f"module 'numod.cuda' has no attribute '{name}'")
    from importlib import import_module

    return import_module("numod.cuda.amp")
