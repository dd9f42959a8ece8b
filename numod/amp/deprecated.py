"""The older names of `numod.amp`, which belong to one type of device: `numod.cuda.amp` and `numod.cpu.amp`."""

from __future__ import annotations

from .autocast import autocast as _Autocast
from .scaler import GradScaler as _Scaler
from ..dtypes import dtype as DType
from ..errors import warn_caller


def warn_of(device_type: str, name: str, arguments: str | None = None) -> None:
    """PyTorch's warning of a name that belongs to one device type; `arguments`: those of its successor."""
    warn_caller(
        f"`numod.{device_type}.amp.{name}(args...)` is deprecated. Please use "
        f"`numod.amp.{name}({arguments or f'{device_type!r}, args...'})` instead.",
        FutureWarning,
    )


def of_device(device_type: str, usual: DType) -> tuple[type, type]:
    """`autocast` and `GradScaler` for one device type; `usual` is autocast's default dtype."""

    class autocast(_Autocast):
        def __init__(self, enabled: bool = True, dtype: DType = usual, cache_enabled: bool = True) -> None:
            warn_of(device_type, "autocast")
            super().__init__(device_type, dtype, enabled, cache_enabled)

    class GradScaler(_Scaler):
        def __init__(
            self,
            init_scale: float = 65536.0,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None:
            warn_of(device_type, "GradScaler")
            super().__init__(device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    for class_ in (autocast, GradScaler):
        class_.__module__, class_.__qualname__ = f"numod.{device_type}.amp", class_.__name__
        class_.__doc__ = f'`numod.amp.{class_.__name__}("{device_type}", ...)`.'
    return autocast, GradScaler
