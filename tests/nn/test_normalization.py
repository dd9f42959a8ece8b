"""Normalisation against NumPy, and its gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F


def test_layer_norm_of_long_rows_is_accurate() -> None:
    x = (np.random.default_rng(0).standard_normal((4, 3000)) + 100).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(numod.tensor(x), (3000,)).numpy(), expected, atol=2e-5)


def test_batch_norm_moves_the_running_statistics() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    mean, var = numod.zeros(3, dtype=numod.float64), numod.ones(3, dtype=numod.float64)
    F.batch_norm(numod.tensor(x), mean, var, training=True, momentum=0.25)
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * x.var((0, 2), ddof=1))


@pytest.mark.parametrize("function, shapes", [
    (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))), (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((3, 2, 3), (2,), (2,))),
    (lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))), (lambda x: F.instance_norm(x), ((2, 2, 4),)), (lambda x, w: F.rms_norm(x, (4,), w), ((3, 4), (4,))),
    (lambda x: F.layer_norm(x, (4,)), ((3, 4),)), (lambda x: F.local_response_norm(x, 3), ((2, 4, 3),)),
])  # fmt: skip
def test_gradients(function, shapes) -> None:
    numod.manual_seed(0)
    inputs = tuple(numod.randn(shape, dtype=numod.float64, requires_grad=True) for shape in shapes)
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_empty_and_half() -> None:
    assert F.layer_norm(numod.zeros(0, 4), (4,)).shape == (0, 4)
    x = numod.randn(3, 8)
    assert numod.allclose(F.layer_norm(x.half(), (8,)).float(), F.layer_norm(x, (8,)), atol=2e-3)
