"""`numod.amp.autocast_mode`: PyTorch's path to what is in `autocast`."""

from __future__ import annotations

from .autocast import autocast, custom_bwd, custom_fwd, is_autocast_available

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]
