"""`numod.amp`: mixed precision as far as numod has it. Ops compute in the dtype of their tensors, so `autocast` changes nothing and says so."""

from __future__ import annotations

from .autocast import autocast, is_autocast_available
from .scaler import GradScaler

__all__ = ["GradScaler", "autocast", "is_autocast_available"]
