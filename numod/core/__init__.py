"""Tensors and everything that runs on them: the waist `apply`, creation, functions, methods, indexing, printing.

Not gradients: see `autograd`.

`tensor` is the class, `apply` the one way to an op. The functions lie in files by subject; `functions` gathers them for
the top namespace and `methods` for Tensor, so a new function is written in its file and named there in BOTH, FUNCTIONS
or METHODS.

- New tensors: `creation`, `memory`, `random`, `sampling`, `windows`, `legacy`; exchange with others: `transfer`,
  `exchange`, `formats`.
- Elements: `elementwise`, `arithmetic`, `special`, `polynomials`, `complexes`. Views and arrangement: `shapes`,
  `reshaping`, `arrangement`, `triangles`.
- Indices: `indexing` (`x[...]`), `selection`, `scattering`, `searching`. Order: `sorting`, `uniqueness`. Sums and the
  like: `reductions`, `cumulative`,
`statistics`.
- Matrices: `products`, `contractions`, `decompositions`, `linear_algebra`, `low_rank`, `norms`, `distances`. Signals:
  `fourier`, `spectrograms`.
- Methods: `methods` is the table, `forms` the wrappers it uses, `operators` are Python's, `in_place` and `conversions`
  those written out.
- Behind all of them: `resolve` (arguments, worked out once per layout) and `arguments` (which of them was wrong),
  `attributes`, `queries`, `foreach`, `return_types`, `printing`, and `changes`, which tells recorded programs what no
  longer holds.
"""

from __future__ import annotations

from . import methods, operators  # noqa: F401  they add the methods
from .creation import empty, empty_like, eye, full, full_like, ones, ones_like, scalar_tensor, zeros, zeros_like
from .exchange import from_dlpack, to_dlpack
from .memory import asarray, empty_permuted, empty_strided, from_file, frombuffer
from .shapes import cat, stack
from .indexing import getitem  # noqa: F401  adds indexing
from .legacy import (
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
from .random import Generator, manual_seed
from .ranges import arange, linspace, logspace, range
from .tensor import Tensor
from .values import as_tensor, from_numpy, tensor

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "Generator",
    "HalfTensor", "IntTensor", "LongTensor", "ShortTensor", "Tensor", "arange", "as_tensor", "asarray", "cat", "empty",
    "empty_like", "empty_permuted", "empty_strided", "eye", "from_dlpack", "to_dlpack", "from_numpy", "from_file",
    "frombuffer", "full", "full_like", "linspace", "logspace", "manual_seed", "ones", "ones_like", "range",
    "scalar_tensor", "stack", "tensor", "zeros", "zeros_like",
]  # fmt: skip
