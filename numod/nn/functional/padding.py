"""Borders around the last dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from ...core import functions as f
from ...core.tensor import Tensor

__all__ = ["pad"]


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:  # noqa: A002
    """Borders of a constant around the last dimensions: (left, right, top, bottom, ...)."""
    if mode != "constant":
        raise ValueError(f"pad: mode must be 'constant', got {mode!r}")
    return f.pad_constant(input, pad, 0.0 if value is None else value)
