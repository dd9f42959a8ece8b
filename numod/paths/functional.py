"""`numod.functional`: the same functions and classes as in `numod`, which editors import from here, and `F`."""

from __future__ import annotations

from typing import Any

import numod

from ..nn import functional as _functional

F = _functional


def __getattr__(name: str) -> Any:
    """What `numod` has."""
    return getattr(numod, name)
