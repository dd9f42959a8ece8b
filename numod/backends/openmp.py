"""`numod.backends.openmp`: parallel kernels use worker threads of numod's own, not OpenMP."""

from __future__ import annotations


def is_available() -> bool:
    """False: numod uses no OpenMP."""
    return False
