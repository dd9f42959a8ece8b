"""`numod.backends`: for scripts that ask which libraries are there, and set switches of theirs. numod has none of them: its kernels are its own.

Switches can be set and read back; they change nothing. Top-level functions of the same kind (`set_float32_matmul_precision`,
`use_deterministic_algorithms`) are in `switches`.
"""

from __future__ import annotations

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
