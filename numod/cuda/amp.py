"""`numod.cuda.amp`: the older names of `numod.amp`, for CUDA."""

from __future__ import annotations

import functools

from .. import amp
from ..dtypes import dtype as DType
from ..dtypes import float16

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`numod.amp.autocast("cuda", ...)`."""

    def __init__(self, enabled: bool = True, dtype: DType = float16, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`numod.amp.GradScaler("cuda", ...)`."""

    def __init__(
        self, init_scale: float = 65536.0, growth_factor: float = 2.0, backoff_factor: float = 0.5, growth_interval: int = 2000, enabled: bool = True
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


custom_fwd, custom_bwd = functools.partial(amp.custom_fwd, device_type="cuda"), functools.partial(amp.custom_bwd, device_type="cuda")
