"""`numod.backends.cpu`: what the processor can do."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """"AVX512", "AVX2" or "DEFAULT": the widest vectors that kernels are compiled for."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return "AVX512" if features.get("avx512f") else "AVX2" if features.get("avx2") else "DEFAULT"
