"""Linear algebra under PyTorch's names, with `out`.

Implemented in `core.linalg.linear_algebra`, `core.linalg.decompositions` and `core.math.norms`.
"""

from __future__ import annotations

from .core.linalg import (
    contractions as _contractions,
    decompositions as _decompositions,
    linear_algebra as _linear_algebra,
)
from .core import methods as _methods
from .core.math import norms as _norms
from .core.linalg import products as _products
from .errors import LinAlgError  # noqa: F401

_HOMES = {
    _linear_algebra: "cross det diagonal inv inv_ex lstsq lu_solve matrix_exp matrix_power multi_dot "
    "pinv slogdet solve solve_ex solve_triangular tensorinv tensorsolve vander vecdot",
    _decompositions: """cholesky cholesky_ex eig eigh eigvals eigvalsh householder_product ldl_factor
        ldl_factor_ex ldl_solve lu lu_factor lu_factor_ex qr svd svdvals""",
    _norms: "cond matrix_norm matrix_rank norm vector_norm",
    _contractions: "tensordot",
    _products: "matmul",
}
globals().update(
    {
        name: _methods.with_out(_methods.checked(name, getattr(home, name)))
        for home, names in _HOMES.items()
        for name in names.split()
    }
)
