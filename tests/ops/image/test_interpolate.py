"""Resampling against a product with the weight matrix: dimensions, numbers of taps, gradients to second order, values
that are not finite.
"""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F
from numod.ops.image.interpolate import resample

pytestmark = pytest.mark.on_cuda(simulator=False)


def drawn(n: int, m: int, taps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices and weights (m, taps), and the matrix (m, n) they stand for."""
    rng = np.random.default_rng(n + m + taps)
    index, weight, matrix = rng.integers(0, n, (m, taps)), rng.standard_normal((m, taps)), np.zeros((m, n))
    np.add.at(matrix, (np.arange(m)[:, None], index), weight)
    return index, weight, matrix


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-5), ("float64", 1e-12)])
@pytest.mark.parametrize("taps", [1, 2, 3, 4])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_values_and_gradients(dim: int, taps: int, dtype: str, tolerance: float) -> None:
    shape = (5, 4, 33)
    index, weight, matrix = drawn(shape[dim], 9, taps)
    x, g = (
        np.random.default_rng(0).standard_normal((*shape[:dim], size, *shape[dim + 1 :])) for size in (shape[dim], 9)
    )
    tensor = numod.tensor(x.astype(dtype), requires_grad=True)
    out = resample.apply((tensor, numod.tensor(index), numod.tensor(weight.astype(dtype))), (dim, 9, False))
    out.backward(numod.tensor(g.astype(dtype)))
    for actual, source, by in ((out.detach(), x, matrix), (tensor.grad, g, matrix.T)):
        np.testing.assert_allclose(
            actual.numpy(), np.moveaxis(np.tensordot(by, source, (1, dim)), 0, dim), rtol=tolerance, atol=10 * tolerance
        )


@pytest.mark.parametrize(
    "options",
    [
        {"mode": "bilinear"},
        {"mode": "bicubic"},
        {"mode": "bilinear", "align_corners": True},
        {"mode": "bilinear", "antialias": True},
    ],
)
def test_differences_of_interpolation(options: dict) -> None:
    x = numod.tensor(np.random.default_rng(0).standard_normal((1, 2, 4, 5)), requires_grad=True)
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: F.interpolate(x, size=(7, 3), **options) ** 2, (x,)) and check(
            lambda x: F.interpolate(x, size=(2, 9), **options) ** 2, (x,)
        )


def test_a_nan_stays_where_it_is_seen() -> None:
    x = np.ones((1, 1, 6, 6), "float32")
    x[0, 0, 2, 3] = np.nan
    assert np.isnan(F.interpolate(numod.tensor(x), scale_factor=2, mode="bilinear").numpy()).sum() == 16


def test_nothing_is_resampled() -> None:
    assert F.interpolate(numod.zeros(0, 2, 3, 3), size=(4, 4), mode="bilinear").shape == (0, 2, 4, 4)
