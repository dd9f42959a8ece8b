"""`numod.backends.mkl`: Intel's MKL is not used."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
