"""`numod.backends.cpu`: what the processor can do."""

from __future__ import annotations

from ..device import target


def get_cpu_capability() -> str:
    """ "AVX512", "AVX2" or "DEFAULT": the widest vectors that kernels are compiled for."""
    features = target.features().split(",")
    return "AVX512" if "+avx512f" in features else "AVX2" if "+avx2" in features else "DEFAULT"
