"""`numod.cpu.amp`: the deprecated names of `numod.amp` for the CPU."""

from __future__ import annotations

from ..amp.deprecated import of_device
from ..dtypes import bfloat16

__all__ = ["GradScaler", "autocast"]

autocast, GradScaler = of_device("cpu", bfloat16)
