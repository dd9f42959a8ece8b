"""Settings of layers: sizes as one number or one per dimension, and how settings are shown in the repr."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import plain
from .module import Module

Size = int | Sequence[int]


def per_dimension(value: float | Sequence[float], ndim: int) -> tuple:
    """A number repeated for every dimension, or the entries of a sequence."""
    value = plain(value)
    return (value,) * ndim if isinstance(value, (int, float)) else tuple(value)


class Described(Module):
    """A module whose repr shows the settings named in `_shown`."""

    _shown: tuple[str, ...] = ()

    def extra_repr(self) -> str:
        settings = [(name, getattr(self, name)) for name in self._shown]
        return ", ".join(
            f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}" for name, value in settings
        )


def unusual(module: Module, **usual: Any) -> str:
    """The text ", name=value" for each setting of the module that differs from its usual value."""
    return "".join(
        f", {name}={getattr(module, name)}" for name, value in usual.items() if getattr(module, name, value) != value
    )
