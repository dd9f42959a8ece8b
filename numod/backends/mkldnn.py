"""`numod.backends.mkldnn`: oneDNN is not used. Its switches can be set and read back, and change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

enabled, deterministic, allow_tf32, fp32_precision = True, False, True, "none"


def is_available() -> bool:
    """False."""
    return False


def set_flags(
    _enabled: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
    _fp32_precision: str = "none",
) -> tuple[bool, bool, bool, str]:
    """Set the switches that are not None; returns their values before."""
    wanted = {
        "enabled": _enabled,
        "deterministic": _deterministic,
        "allow_tf32": _allow_tf32,
        "fp32_precision": _fp32_precision,
    }
    before = enabled, deterministic, allow_tf32, fp32_precision
    globals().update({name: value for name, value in wanted.items() if value is not None})
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False, deterministic: bool = False, allow_tf32: bool = True, fp32_precision: str = "none"
) -> Iterator[None]:
    """The switches set to these values inside the context."""
    before = set_flags(enabled, deterministic, allow_tf32, fp32_precision)
    try:
        yield
    finally:
        set_flags(*before)
