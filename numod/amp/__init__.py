"""`numod.amp`: mixed precision. `autocast` chooses dtypes by function, `GradScaler` keeps float16 gradients above what rounds to zero."""

from __future__ import annotations

from . import autocast_mode
from .autocast import autocast, custom_bwd, custom_fwd, is_autocast_available
from .scaler import GradScaler

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "is_autocast_available"]
