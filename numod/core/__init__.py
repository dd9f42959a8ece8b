"""Tensors and everything that runs on them: the waist `apply`, creation, functions, methods, indexing, printing. Not gradients: see `autograd`."""

from __future__ import annotations

from . import methods  # noqa: F401  adds the methods
from .creation import (
    arange, as_tensor, asarray, empty, empty_like, eye, from_dlpack, from_numpy, full, full_like, linspace, ones, ones_like, scalar_tensor, tensor, zeros, zeros_like,
)
from .shapes import cat, stack
from .indexing import getitem  # noqa: F401  adds indexing
from .random import Generator, manual_seed
from .tensor import Tensor

__all__ = [
    "Generator", "Tensor", "arange", "as_tensor", "asarray", "cat", "empty", "empty_like", "eye", "from_dlpack", "from_numpy", "full", "full_like", "linspace",
    "manual_seed", "ones", "ones_like", "scalar_tensor", "stack", "tensor", "zeros", "zeros_like",
]
