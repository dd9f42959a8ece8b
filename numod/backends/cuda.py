"""`numod.backends.cuda`: whether CUDA can be used at all, and switches for scripts that set them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from . import switches


def is_built() -> bool:
    """Whether what compiles CUDA kernels is installed (the extra `cuda`).

    Whether there is a GPU, `numod.cuda.is_available()` knows.
    """
    return importlib.util.find_spec("numba_cuda") is not None


class _MatrixProducts:
    """Switches of float32 products."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 may round their factors to tf32: the precision asked for is less than
        "highest".
        """
        return switches.get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        switches.set_float32_matmul_precision("high" if value else "highest")


matmul = _MatrixProducts()

# numod has one kernel of attention; the switches are remembered
_attention = dict.fromkeys(("flash", "mem_efficient", "math", "cudnn"), True)


def _switch(kind: str) -> tuple[Callable[[bool], None], Callable[[], bool]]:
    """The functions that set and tell whether PyTorch's kernel of this kind may be used."""
    return lambda enabled: _attention.update({kind: bool(enabled)}), lambda: _attention[kind]


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")


@contextmanager
def sdp_kernel(
    enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True, enable_cudnn: bool = True
) -> Iterator[None]:
    """Context that sets the four switches. The older form of `nn.attention.sdpa_kernel`."""
    before = dict(_attention)
    _attention.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield
    finally:
        _attention.update(before)


def _library(**libraries: tuple[str, ...]) -> Callable[[str | None], str]:
    """The function that sets, and tells, which library computes something. numod has its own kernels; the choice is
    remembered.
    """
    ((kind, names),) = libraries.items()

    def preferred(backend: str | None = None) -> str:
        if backend is not None and backend not in names:
            raise RuntimeError(f"Unknown input value type. Choose from: {', '.join(names)}; got {backend!r}")
        _libraries[kind] = backend or _libraries[kind]
        return _libraries[kind]

    return preferred


_libraries = {"linalg": "default", "blas": "default"}
preferred_linalg_library = _library(linalg=("default", "cusolver", "magma"))
preferred_blas_library = _library(blas=("default", "cublas", "cublaslt", "hipblaslt"))
