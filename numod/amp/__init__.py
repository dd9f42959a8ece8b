"""`numod.amp`: mixed precision.

`autocast` chooses the dtype per function, `GradScaler` avoids underflow of float16 gradients.
"""

from __future__ import annotations

from . import autocast_mode, scaler as grad_scaler  # PyTorch's name of the file
from .autocast import autocast, custom_bwd, custom_fwd, is_autocast_available
from .scaler import GradScaler

__all__ = [
    "GradScaler",
    "autocast",
    "autocast_mode",
    "custom_bwd",
    "custom_fwd",
    "grad_scaler",
    "is_autocast_available",
]
