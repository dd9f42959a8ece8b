"""`numod.backends`: for scripts that query PyTorch's libraries and set their switches. numod uses none of them.

Switches can be set and read back; they change nothing, but for `cuda.matmul.allow_tf32`. Top-level functions of the
same kind (`set_float32_matmul_precision`, `use_deterministic_algorithms`) are in `switches`.
"""

from __future__ import annotations

from . import cpu, cuda, cudnn, mkl, mkldnn, mps, openmp, quantized

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp", "quantized"]
