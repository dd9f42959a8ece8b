"""Signatures of kernels as text, `float32[], int64`, and as Numba's types."""

from __future__ import annotations


def numba_types(text: str) -> tuple:
    """Numba's types for a signature; `name[]` is a flat, contiguous array."""
    from numba import types

    def parse(item: str) -> object:
        return types.Array(getattr(types, item[:-2]), 1, "C") if item.endswith("[]") else getattr(types, item)

    return tuple(parse(item) for item in text.split(", ") if item)
