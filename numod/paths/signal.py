"""`numod.signal`: window functions, in `numod.signal.windows`."""

from __future__ import annotations

from . import windows

__all__ = ["windows"]
