"""Triangular systems against NumPy's general solver: one and many right-hand sides, ones on the diagonal, a triangle that is not read, gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck


@pytest.mark.parametrize("columns", [1, 3, 130])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
def test_values(upper: bool, unit: bool, columns: int) -> None:
    rng, part = np.random.default_rng(columns), np.triu if upper else np.tril
    a, b = rng.standard_normal((2, 5, 5)) + 3 * np.eye(5), rng.standard_normal((2, 5, columns))
    read = part(a, (1 if upper else -1) if unit else 0)
    unread = np.where(part(np.ones((5, 5)), (1 if upper else -1) if unit else 0) == 1, a, np.nan)
    found = numod.linalg.solve_triangular(numod.tensor(unread), numod.tensor(b), upper=upper, unitriangular=unit)
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(read + unit * np.eye(5), b), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("columns", [1, 2])
def test_gradients(columns: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (numod.tensor(each, requires_grad=True) for each in (rng.standard_normal((2, 3, 3)) + 3 * np.eye(3), rng.standard_normal((2, 3, columns))))
    for check in (gradcheck, gradgradcheck):
        assert check(lambda a, b: numod.linalg.solve_triangular(a, b, upper=True), (a, b)) and check(lambda a, b: numod.linalg.solve_triangular(a, b, upper=False, unitriangular=True), (a, b))
