"""Linear algebra under PyTorch's names. Nothing is defined here: see `core.linear_algebra`."""

from __future__ import annotations

from .core.contractions import tensordot  # noqa: F401
from .core.linear_algebra import (  # noqa: F401
    cholesky, cholesky_ex, cond, cross, det, eig, eigh, eigvals, eigvalsh, householder_product, inv, lstsq, lu, lu_factor, lu_solve, matrix_exp, matrix_norm, matrix_power,
    matrix_rank, multi_dot, norm, pinv, qr, slogdet, solve, solve_triangular, svd, svdvals, tensorinv, tensorsolve, vander, vecdot, vector_norm,
)
from .core.products import matmul  # noqa: F401
from .core.shapes import diagonal  # noqa: F401
from .errors import LinAlgError  # noqa: F401
