"""Datasets that travel inside the package.

Nothing here downloads anything: see `ATTRIBUTION.md` for where each comes from.
"""

from __future__ import annotations

from .digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]
