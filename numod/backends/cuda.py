"""`numod.backends.cuda`: whether CUDA can be used at all, and switches for scripts that set them."""

from __future__ import annotations

import importlib.util

from . import switches


def is_built() -> bool:
    """Whether what compiles CUDA kernels is installed (the extra `cuda`). Whether there is a GPU, `numod.cuda.is_available()` knows."""
    return importlib.util.find_spec("numba_cuda") is not None


class _MatrixProducts:
    """Switches of float32 products."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may round their factors to tf32: the precision asked for is less than "highest"."""
        return switches.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        switches.set_float32_matmul_precision("high" if value else "highest")


matmul = _MatrixProducts()
