"""`numod.cuda.amp`: the older names of `numod.amp`, for CUDA."""

from __future__ import annotations

import functools

from .. import amp
from ..amp.deprecated import of_device
from ..dtypes import float16

__path__: list[str] = []  # PyTorch's `cuda.amp.grad_scaler` and `cuda.amp.autocast_mode` are this module (`paths`)
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = of_device("cuda", float16)
custom_fwd = functools.partial(amp.custom_fwd, device_type="cuda")
custom_bwd = functools.partial(amp.custom_bwd, device_type="cuda")
