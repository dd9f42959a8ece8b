"""`numod.fx`: what model files say to PyTorch's symbolic tracer. numod records calls, so it has no need of it."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["wrap"]


def wrap(fn_or_name: str | Callable) -> str | Callable:
    """The same."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    return fn_or_name
