"""Tensors and everything that runs on them: dispatch (`apply`), creation, functions, methods, indexing, printing.

Gradients are not here: see `autograd`.

`tensor` is the class, `apply` the one way to an op. Functions lie in folders by subject; `functions` gathers them for
the top namespace and `methods` for Tensor. A new function is written in its file and named there in `BOTH`, `FUNCTIONS`
or `METHODS`.

- `create`: new tensors (constants, ranges, values, random numbers, windows). `convert`: NumPy, DLPack, devices,
  storages.
- `shape`: views, reshaping, arrangement, triangles. `index`: `x[...]`, selection, scattering.
- `math`: elementwise functions, reductions, statistics, norms, complex numbers.
- `linalg`, `search` (sorting, histograms, distinct elements), `signal` (Fourier transforms).
- Methods: `methods` is the table, `forms` has the wrappers that it uses, `operators` has Python's operators.
- Behind them: `resolve` (arguments, resolved once per layout), `arguments` (which argument was wrong), `signatures`,
  `overrides` (`__torch_function__`), `return_types`, `printing`, and `changes`, which tells recorded programs that
  something they rely on has changed.
"""

from __future__ import annotations

from . import methods, operators  # noqa: F401  they add the methods
from .create.creation import empty, empty_like, eye, full, full_like, ones, ones_like, scalar_tensor, zeros, zeros_like
from .convert.exchange import from_dlpack, to_dlpack
from .create.memory import asarray, empty_permuted, empty_strided, from_file, frombuffer
from .shape.joining import cat, stack
from .index.indexing import getitem  # noqa: F401  adds indexing
from .create.legacy_constructors import (
    BFloat16Tensor,
    BoolTensor,
    ByteTensor,
    CharTensor,
    DoubleTensor,
    FloatTensor,
    HalfTensor,
    IntTensor,
    LongTensor,
    ShortTensor,
)
from .create.generator import Generator, manual_seed
from .create.ranges import arange, linspace, logspace, range
from .tensor import Tensor
from .create.values import as_tensor, from_numpy, tensor

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "Generator",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "Tensor", "arange", "as_tensor", "asarray", "cat", "empty",
    "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack", "to_dlpack", "from_numpy", "from_file",
    "frombuffer", "full", "full_like", "linspace", "logspace", "manual_seed", "ones", "ones_like", "range",
    "scalar_tensor", "stack", "tensor", "zeros", "zeros_like",
]  # fmt: skip
