"""`numod.functional`: the functions and classes of `numod`, which editors import from here, and `F`."""

from __future__ import annotations

from typing import Any

import numod

from ..nn import functional as _functional

F = _functional


def __getattr__(name: str) -> Any:
    """The attribute of `numod`."""
    return getattr(numod, name)
