"""Triangular systems against NumPy's general solver: one and many right-hand sides, unit diagonals, the triangle that is
not read, gradients to second order; LU by panels.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck

pytestmark = pytest.mark.on_cuda(simulator=False)


@pytest.mark.parametrize("n", [5, 12])
@pytest.mark.parametrize("columns", [1, 3, 130])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_values(upper: bool, unit: bool, columns: int, n: int) -> None:
    rng, part = np.random.default_rng(columns), np.triu if upper else np.tril
    a, b = rng.standard_normal((2, n, n)) + n * np.eye(n), rng.standard_normal((2, n, columns))
    read = part(a, (1 if upper else -1) if unit else 0)
    unread = np.where(part(np.ones((n, n)), (1 if upper else -1) if unit else 0) == 1, a, np.nan)
    solution = numod.linalg.solve_triangular(numod.tensor(unread), numod.tensor(b), upper=upper, unitriangular=unit)
    np.testing.assert_allclose(solution.numpy(), np.linalg.solve(read + unit * np.eye(n), b), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize("dtype", [numod.float64, numod.complex128])
def test_zeros_on_the_diagonal(dtype: numod.dtype, columns: int) -> None:
    a, b = numod.tensor([[1, 1], [0, 0]], dtype=dtype), numod.ones(2, columns, dtype=dtype)
    assert not numod.linalg.solve_triangular(a, b, upper=True).isfinite().any()
    np.testing.assert_allclose(numod.linalg.lstsq(a, b).solution.numpy(), np.full((2, columns), 0.5), rtol=1e-12)


@pytest.mark.parametrize("columns", [1, 2])
def test_gradients(columns: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (
        numod.tensor(array, requires_grad=True)
        for array in (rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3, columns)))
    )
    for check in (gradcheck, gradgradcheck):
        assert check(lambda a, b: numod.linalg.solve_triangular(a, b, upper=True), (a, b)) and check(
            lambda a, b: numod.linalg.solve_triangular(a, b, upper=False, unitriangular=True), (a, b)
        )


@pytest.mark.parametrize("shape", [(70, 70), (2, 40, 75), (75, 40), (3, 1, 1)])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_elimination_by_panels(shape: tuple, dtype: type) -> None:
    a = np.random.default_rng(1).standard_normal((2, *shape)).astype(dtype)
    a = a[0] + 1j * a[1] if dtype is np.complex128 else a[0]
    p, low, up = numod.linalg.lu(numod.tensor(a))
    np.testing.assert_allclose((p.to(low.dtype) @ low @ up).numpy(), a, atol=1e-12)
    # a pivot has the largest |real| + |imag|
    assert abs(low.numpy()).max() <= 2**0.5 + 1e-12 and (np.diagonal(low.numpy(), 0, -2, -1) == 1).all()
