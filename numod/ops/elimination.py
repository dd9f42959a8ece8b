"""LU factors by Gaussian elimination with row exchanges, of NumPy arrays on the CPU; NumPy's LAPACK offers none. `factorization` makes an op of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod

import numpy as np

from .. import dtypes
from ..device import device
from ..kernel import bind


def lu_kernel(x, pivots, info, order, matrices, m, n, pivoted):
    """x (matrices, m, n) becomes L below the diagonal and U. pivots (matrices, min(m, n)) and info (matrices) count from 1; order (matrices, m): which rows
    came where.

    Panels of 32 columns are eliminated one column at a time. The columns to the right of a panel follow at once, four of its rows at a time, which reads them
    less often.
    """
    for task in parallel_range(matrices):
        matrix, k_end = int64(task), min(m, n)
        base, zero = matrix * m * n, int64(0)
        for i in range(m):
            order[uintp(matrix * m + i)] = i
        for first in range(0, k_end, 32):
            end = min(first + 32, k_end)
            for k in range(first, end):
                row, p = base + k * n, int64(k)
                if pivoted != 0:
                    largest = abs(x[uintp(row + k)].real) + abs(x[uintp(row + k)].imag)
                    for i in range(k + 1, m):
                        value = abs(x[uintp(base + i * n + k)].real) + abs(x[uintp(base + i * n + k)].imag)
                        if value > largest:
                            largest, p = value, int64(i)
                pivots[uintp(matrix * k_end + k)] = p + 1
                if p != k:
                    other = base + p * n
                    for j in range(n):
                        x[uintp(row + j)], x[uintp(other + j)] = x[uintp(other + j)], x[uintp(row + j)]
                    order[uintp(matrix * m + k)], order[uintp(matrix * m + p)] = order[uintp(matrix * m + p)], order[uintp(matrix * m + k)]
                pivot = x[uintp(row + k)]
                if pivot == 0:
                    zero = zero if zero != 0 else int64(k) + 1
                else:
                    for i in range(k + 1, m):
                        target = base + i * n
                        factor = x[uintp(target + k)] / pivot
                        x[uintp(target + k)] = factor
                        for j in range(k + 1, end):
                            x[uintp(target + j)] -= factor * x[uintp(row + j)]
            for i in range(first + 1, m):
                target, known = base + i * n, min(end, int64(i))
                whole = known - (known - first) % 4
                for k in range(first, whole, 4):
                    row = base + k * n
                    f0, f1, f2, f3 = x[uintp(target + k)], x[uintp(target + k + 1)], x[uintp(target + k + 2)], x[uintp(target + k + 3)]
                    for j in range(end, n):
                        x[uintp(target + j)] -= (
                            f0 * x[uintp(row + j)] + f1 * x[uintp(row + n + j)] + f2 * x[uintp(row + 2 * n + j)] + f3 * x[uintp(row + 3 * n + j)]
                        )
                for k in range(whole, known):
                    factor = x[uintp(target + k)]
                    for j in range(end, n):
                        x[uintp(target + j)] -= factor * x[uintp(base + k * n + j)]
        info[uintp(matrix)] = zero


def lu(a: np.ndarray, pivoted: bool) -> tuple[np.ndarray, ...]:
    """(L and U in one matrix, pivots counted from 1, position of the first zero on U's diagonal or 0, order of rows) of a (..., M, N)."""
    packed, (*batch, m, n) = np.array(a, order="C"), a.shape
    pivots, info, order = np.empty((*batch, min(m, n)), np.int32), np.empty(batch, np.int32), np.empty((*batch, m), np.int64)
    _launcher(packed.dtype, packed.size * min(m, n))(*(each.reshape(-1) for each in (packed, pivots, info, order)), prod(batch), m, n, int(pivoted))
    return packed, pivots, info, order


@lru_cache(256)
def _launcher(dtype: np.dtype, work: int) -> Callable:
    signature = bind.signature(dtype, "int32", "int32", "int64", numbers=4)
    return bind.launcher(device("cpu"), "lu", bind.source_of(lu_kernel), signature, dtypes.from_numpy(dtype), work)
