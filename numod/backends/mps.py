"""`numod.backends.mps`: Apple's GPUs are not supported."""

from __future__ import annotations


def is_available() -> bool:
    """False: tensors are on the CPU or on CUDA devices."""
    return False


def is_built() -> bool:
    """False."""
    return False
