"""`numod.cpu.amp`: the older names of `numod.amp`, for the CPU."""

from __future__ import annotations

from .. import amp
from ..dtypes import bfloat16
from ..dtypes import dtype as DType

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):
    """`numod.amp.autocast("cpu", ...)`."""

    def __init__(self, enabled: bool = True, dtype: DType = bfloat16, cache_enabled: bool = True) -> None:
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`numod.amp.GradScaler("cpu", ...)`."""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True
    ) -> None:
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
