"""LU and LDL factorisations with pivoting, of NumPy arrays on the CPU, since NumPy offers none.

Their ops are in `factorization`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod

import numpy as np

from ... import dtypes
from ...device import device
from ...kernel import bind
from ...kernel.language import int64, parallel_range, uintp
from ...kernel.specialize import specialized


def lu_kernel(x, pivots, info, order, matrices, m, n, pivoted):
    """Replace x (matrices, m, n) by L below the diagonal and U.

    pivots (matrices, min(m, n)) and info (matrices) count from 1; order (matrices, m) is the source of each row. Panels
    of 32 columns are eliminated one column at a time. Then the columns to the right of the panel are updated at once,
    four rows of the panel at a time, so that they are read less often.
    """
    for task in parallel_range(matrices):
        matrix, k_end = int64(task), min(m, n)
        base, zero_at = matrix * m * n, int64(0)
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
                    order[uintp(matrix * m + k)], order[uintp(matrix * m + p)] = (
                        order[uintp(matrix * m + p)],
                        order[uintp(matrix * m + k)],
                    )
                pivot = x[uintp(row + k)]
                if pivot == 0:
                    zero_at = zero_at if zero_at != 0 else int64(k) + 1
                else:
                    for i in range(k + 1, m):
                        target = base + i * n
                        factor = x[uintp(target + k)] / pivot
                        x[uintp(target + k)] = factor
                        for j in range(k + 1, end):
                            x[uintp(target + j)] -= factor * x[uintp(row + j)]
            for i in range(first + 1, m):
                target, eliminated = base + i * n, min(end, int64(i))
                unrolled_end = eliminated - (eliminated - first) % 4
                for k in range(first, unrolled_end, 4):
                    row = base + k * n
                    f0, f1, f2, f3 = (
                        x[uintp(target + k)],
                        x[uintp(target + k + 1)],
                        x[uintp(target + k + 2)],
                        x[uintp(target + k + 3)],
                    )
                    for j in range(end, n):
                        x[uintp(target + j)] -= (
                            f0 * x[uintp(row + j)]
                            + f1 * x[uintp(row + n + j)]
                            + f2 * x[uintp(row + 2 * n + j)]
                            + f3 * x[uintp(row + 3 * n + j)]
                        )
                for k in range(unrolled_end, eliminated):
                    factor = x[uintp(target + k)]
                    for j in range(end, n):
                        x[uintp(target + j)] -= factor * x[uintp(base + k * n + j)]
        info[uintp(matrix)] = zero_at


def lu(a: np.ndarray, pivoted: bool) -> tuple[np.ndarray, ...]:
    """Return (L and U in one matrix, pivots from 1, position of the first zero on U's diagonal or 0, order of rows).

    a is (..., M, N).
    """
    packed, (*batch, m, n) = np.array(a, order="C"), a.shape
    pivots = np.empty((*batch, min(m, n)), np.int32)
    info = np.empty(batch, np.int32)
    order = np.empty((*batch, m), np.int64)
    launch = _launcher(lu_kernel, packed.dtype, packed.size * min(m, n), ("int32", "int32", "int64"), 4)
    launch(*(array.reshape(-1) for array in (packed, pivots, info, order)), prod(batch), m, n, int(pivoted))
    return packed, pivots, info, order


def ldl_kernel(x, pivots, info, matrices, n, growth):
    """Replace real lower triangles x (matrices, n, n) by L below blocks of D, as LAPACK's sytf2 does.

    pivots (matrices, n): the rows exchanged, counted from 1, negative in pairs for blocks of 2; info (matrices): the
    first zero in D, or 0.

    The columns being eliminated are copied to rows above the diagonal, where inner loops read them contiguously.
    """
    for task in parallel_range(matrices):
        matrix = int64(task)
        base, zero_at, k = matrix * n * n, int64(0), int64(0)
        while k < n:
            size, p, row = int64(1), k, k
            head = abs(x[uintp(base + k * n + k)])
            greatest = head - head
            for i in range(k + 1, n):
                value = abs(x[uintp(base + i * n + k)])
                if value > greatest or value != value:
                    greatest, row = value, int64(i)
            is_zero = (head == 0 and greatest == 0) or head != head
            if not is_zero and not head >= growth * greatest:
                other = greatest
                for j in range(k, row):
                    value = abs(x[uintp(base + row * n + j)])
                    other = value if value > other else other
                for i in range(row + 1, n):
                    value = abs(x[uintp(base + i * n + row)])
                    other = value if value > other else other
                if not head >= growth * greatest * (greatest / other):
                    value = abs(x[uintp(base + row * n + row)])
                    size, p = int64(1) if value >= growth * other else int64(2), row
            last = k + size - 1
            first, second, end = base + k * n, base + last * n, k + size
            for i in range(k, end):
                pivots[uintp(matrix * n + i)] = p + 1 if size == 1 else -(p + 1)
            if is_zero:
                zero_at = zero_at if zero_at != 0 else k + 1
            else:
                if p != last:
                    for i in range(p + 1, n):
                        line = base + i * n
                        x[uintp(line + last)], x[uintp(line + p)] = x[uintp(line + p)], x[uintp(line + last)]
                    for j in range(last + 1, p):
                        x[uintp(base + j * n + last)], x[uintp(base + p * n + j)] = (
                            x[uintp(base + p * n + j)],
                            x[uintp(base + j * n + last)],
                        )
                    x[uintp(second + last)], x[uintp(base + p * n + p)] = (
                        x[uintp(base + p * n + p)],
                        x[uintp(second + last)],
                    )
                    for j in range(k, last):
                        x[uintp(second + j)], x[uintp(base + p * n + j)] = (
                            x[uintp(base + p * n + j)],
                            x[uintp(second + j)],
                        )
                for i in range(end, n):
                    x[uintp(first + i)] = x[uintp(base + i * n + k)]
                    x[uintp(second + i)] = x[uintp(base + i * n + last)]
                a, c = x[uintp(first + k)], x[uintp(second + last)]
                if size == 1:
                    for i in range(end, n):
                        line = base + i * n
                        factor = x[uintp(line + k)] / a
                        for j in range(end, i + 1):
                            x[uintp(line + j)] -= factor * x[uintp(first + j)]
                        x[uintp(line + k)] = factor
                else:
                    b = x[uintp(second + k)]
                    top, bottom = c / b, a / b
                    divisor = top * a - b
                    for i in range(end, n):
                        line = base + i * n
                        u, v = x[uintp(line + k)], x[uintp(line + last)]
                        f, g = (top * u - v) / divisor, (bottom * v - u) / divisor
                        for j in range(end, i + 1):
                            x[uintp(line + j)] -= f * x[uintp(first + j)] + g * x[uintp(second + j)]
                        x[uintp(line + k)], x[uintp(line + last)] = f, g
                for i in range(end, n):
                    x[uintp(first + i)] = 0
                    x[uintp(second + i)] = 0
            k = end
        info[uintp(matrix)] = zero_at


GROWTH = (1 + 17**0.5) / 8  # bounds element growth; Bunch and Kaufman, 1977


def ldl(a: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return (L below blocks of D, pivots, position of the first zero in D or 0) of lower triangles a (..., N, N)."""
    packed, (*batch, n) = np.tril(a), a.shape[:-1]
    pivots, info = np.zeros((*batch, n), np.int32), np.zeros(batch, np.int32)
    launch = _launcher(ldl_kernel, packed.dtype, packed.size * n, ("int32", "int32"), 2, ("float64",))
    launch(*(array.reshape(-1) for array in (packed, pivots, info)), prod(batch), n, GROWTH)
    return packed, pivots, info


@lru_cache(256)
def _launcher(
    kernel: Callable, dtype: np.dtype, work: int, results: tuple[str, ...], numbers: int, others: tuple[str, ...] = ()
) -> Callable:
    name = kernel.__name__.removesuffix("_kernel")
    signature = bind.signature(dtype, *results, numbers=numbers, others=others)
    # fused multiply-adds would leave residues where D must become zero
    exact = {"fastmath": frozenset()} if kernel is ldl_kernel else {}
    return bind.launcher(device("cpu"), name, specialized(kernel), signature, dtypes.from_numpy(dtype), work, **exact)
