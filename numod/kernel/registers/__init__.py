"""Functions of kernels whose instructions numod writes itself, in a processor's vector registers.

`vectors` describes the registers and appends instructions, the other modules define the functions by subject, and
`primitives` has the same functions in plain Python, for kernels to import.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

from . import (
    argminmax,
    butterflies,
    byte_tiles,
    byte_winograd,
    depthwise_bytes,
    depthwise_fma,
    dots,
    limb_dots,
    pool_rows,
    sparse_rows,
    sparse_windows,
    tiles,
    vectors,
    winograd,
)

_MODULES = (
    vectors, tiles, butterflies, byte_tiles, byte_winograd, dots, limb_dots, argminmax, pool_rows, sparse_rows,
    sparse_windows, depthwise_bytes, depthwise_fma, winograd,
)  # fmt: skip


@functools.cache
def functions() -> dict[str, Callable]:
    """All functions, by the name that kernels call them by."""
    return {name: function for module in _MODULES for name, function in module.functions().items()}
