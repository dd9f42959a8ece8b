"""Datasets included in the package; nothing is downloaded. `ATTRIBUTION.md` lists their sources."""

from __future__ import annotations

from .digits import Digits, load_digits

__all__ = ["Digits", "load_digits"]
