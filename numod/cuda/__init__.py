"""`numod.cuda`: CUDA devices, their streams, and what their memory holds. Their kernels are in `device.cuda`.

One process works on one GPU, the first that CUDA shows it; CUDA_VISIBLE_DEVICES chooses which that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ..errors import name_only
from ..device.device import Device
from .memory import *
from .streams import *

if TYPE_CHECKING:
    from . import amp as amp  # loaded at its first use, by `__getattr__`


def is_available() -> bool:
    """Whether a CUDA device can be used: a GPU with its driver, or Numba's simulator where that was asked for."""
    return Device("cuda").backend.is_available()


def device_count() -> int:
    """Number of CUDA devices that can be used: one or none."""
    return int(is_available())


def is_initialized() -> bool:
    """Whether the device was used."""
    backend = Device("cuda")._backend
    return backend is not None and backend.pool.cache_info().currsize > 0


def init() -> None:
    """Make the device ready, which its first use does as well. Raises RuntimeError where there is none."""
    Device("cuda").backend.pool()


def current_device() -> int:
    """The index of the device in use: 0. Raises RuntimeError where there is none."""
    init()
    return 0


def set_device(device: Device | str | int) -> None:
    """Use this device from now on, which can only be the first. Raises RuntimeError for others."""
    _checked(device)


def _checked(device: Any) -> Device:
    cuda_device = Device("cuda" if device is None else device)
    if cuda_device.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {cuda_device}")
    cuda_device.backend  # noqa: B018  there is none of another GPU
    return cuda_device


class device:
    """Use this device in the block; None and negative numbers change nothing.

    `idx` is its index, -1 where there is none to use.
    """

    def __init__(self, device: Device | str | int | None) -> None:
        self.idx = -1 if device is None else device if isinstance(device, int) else _checked(device).index or 0

    def __enter__(self) -> None:
        if self.idx >= 0:
            _checked(self.idx)

    def __exit__(self, *error: object) -> None:
        pass


@contextmanager
def device_of(obj: Any) -> Iterator[None]:
    """Use a tensor's device in the block."""
    with device(obj.device if getattr(obj, "is_cuda", False) else None):
        yield


def synchronize(device: Device | str | int | None = None) -> None:
    """Wait until all kernels have run."""
    _checked(device).backend.synchronize()


def get_device_name(device: Device | str | int | None = None) -> str:
    """The name of a CUDA device."""
    return get_device_properties(device).name


def get_device_capability(device: Device | str | int | None = None) -> tuple[int, int]:
    """Its compute capability, such as (9, 0)."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def get_device_properties(device: Device | str | int | None = None) -> SimpleNamespace:
    """Name, `major` and `minor` of the capability, `total_memory` in bytes, `multi_processor_count`, `warp_size`, and
    on a GPU its caches and registers.
    """
    properties = _checked(device).backend.properties()
    major, minor = properties.pop("capability")
    return SimpleNamespace(**properties, major=major, minor=minor)


def get_arch_list() -> list[str]:
    """The architectures there are kernels for: the one at hand, since kernels are compiled where they run."""
    return ["sm_{}{}".format(*get_device_capability())] if is_available() else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 tensors can be used. They are computed in float32."""
    return is_available()


def _seeding(name: str) -> Callable[..., Any]:
    """A function on the random stream, which all devices share. Without a device nothing is seeded, as in PyTorch."""

    def seed_it(*arguments: Any) -> Any:
        from ..core.create import random

        return getattr(random, name)(*arguments[:1]) if is_available() else None

    seed_it.__name__ = name
    seed_it.__doc__ = f"`numod.{name}`, where there is a device: the stream of random numbers is the same on all."
    return seed_it


manual_seed, seed, initial_seed = _seeding("manual_seed"), _seeding("seed"), _seeding("initial_seed")
manual_seed_all, seed_all = manual_seed, seed


def get_rng_state(device: Device | str | int = "cuda") -> Any:
    """Where the stream of random numbers stands. Raises RuntimeError where there is no device."""
    from ..core.create import random

    _checked(device).backend.pool()
    return random.get_rng_state()


def set_rng_state(new_state: Any, device: Device | str | int = "cuda") -> None:
    """Continue where `get_rng_state` was called."""
    from ..core.create import random

    _checked(device).backend.pool()
    random.set_rng_state(new_state)


def get_rng_state_all() -> list[Any]:
    """`get_rng_state` of each device."""
    return [get_rng_state(number) for number in range(device_count())]


def set_rng_state_all(new_states: Any) -> None:
    """`set_rng_state` of each device."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def can_device_access_peer(device: Device | str | int, peer_device: Device | str | int) -> bool:
    """Whether one device reads another's memory: there is only one. Raises RuntimeError for others."""
    return _checked(device) is not _checked(peer_device)


def is_current_stream_capturing() -> bool:
    """Never: work is sent to the device at once."""
    return False


def ipc_collect() -> None:
    """Nothing: device memory is not shared between processes."""


CUDAGraph, graph = (
    name_only(f"cuda.{_name}", "numod.compile starts the kernels of a whole function as a graph")
    for _name in ("CUDAGraph", "graph")
)


def __getattr__(name: str) -> object:
    from ..core.create import legacy_constructors, random

    if name == "default_generators":
        return (random.default_generator,) * device_count()
    if name in legacy_constructors.ON_CUDA:
        return legacy_constructors.ON_CUDA[name]
    if name not in ("amp", "nvtx"):
        raise AttributeError(f"module 'numod.cuda' has no attribute '{name}'")
    from importlib import import_module

    return import_module(f"numod.cuda.{name}")
