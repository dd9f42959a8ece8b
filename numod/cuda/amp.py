"""`numod.cuda.amp`: the older names of `numod.amp`, for CUDA."""

from __future__ import annotations

from typing import Any

from .. import amp
from ..amp.deprecated import of_device, warn_of
from ..dtypes import float16

__path__: list[str] = []  # PyTorch's `cuda.amp.grad_scaler` and `cuda.amp.autocast_mode` are this module (`paths`)
__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast, GradScaler = of_device("cuda", float16)


def custom_fwd(fwd: Any = None, *, cast_inputs: Any = None) -> Any:
    """`numod.amp.custom_fwd` for CUDA."""
    warn_of("cuda", "custom_fwd", "args..., device_type='cuda'")
    return amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Any = None) -> Any:
    """`numod.amp.custom_bwd` for CUDA."""
    warn_of("cuda", "custom_bwd", "args..., device_type='cuda'")
    return amp.custom_bwd(bwd, device_type="cuda")
