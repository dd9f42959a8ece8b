"""Patches as columns against slices of the padded image: strides, dilations, edges, and gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)

SETTINGS = [
    ((2, 3), (1, 1), (0, 0), (1, 1)),
    ((3, 2), (1, 2), (1, 2), (2, 1)),
    ((2, 2), (2, 1), (0, 1), (1, 3)),
    ((1, 3), (1, 1), (3, 3), (3, 2)),
]


def windows(image: np.ndarray, kernel: tuple, dilation: tuple, stride: tuple, counts: tuple) -> list[np.ndarray]:
    """Views of the places of each tap in a padded image (N, C, H, W), one after the other."""
    return [
        image[:, :, i * dilation[0] :: stride[0], j * dilation[1] :: stride[1]][:, :, : counts[0], : counts[1]]
        for i in range(kernel[0])
        for j in range(kernel[1])
    ]


@pytest.mark.parametrize("kernel, dilation, padding, stride", SETTINGS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values(kernel: tuple, dilation: tuple, padding: tuple, stride: tuple, dtype: str) -> None:
    rng, sizes = np.random.default_rng(0), (6, 7)
    counts = tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip(sizes, padding, dilation, kernel, stride)
    )
    x, edges = rng.integers(-9, 9, (2, 3, *sizes)).astype(dtype), ((0, 0), (0, 0), (padding[0],) * 2, (padding[1],) * 2)
    columns = np.stack(windows(np.pad(x, edges), kernel, dilation, stride, counts), 2).reshape(
        2, 3 * kernel[0] * kernel[1], -1
    )
    np.testing.assert_array_equal(F.unfold(numod.tensor(x), kernel, dilation, padding, stride).numpy(), columns)
    image = np.pad(np.zeros_like(x), edges)
    for k, window in enumerate(windows(image, kernel, dilation, stride, counts)):
        window += columns.reshape(2, 3, -1, *counts)[:, :, k]
    image = image[:, :, padding[0] : padding[0] + sizes[0], padding[1] : padding[1] + sizes[1]]
    np.testing.assert_array_equal(
        F.fold(numod.tensor(columns), sizes, kernel, dilation, padding, stride).numpy(), image
    )


@pytest.mark.parametrize("kernel, dilation, padding, stride", SETTINGS)
def test_gradients(kernel: tuple, dilation: tuple, padding: tuple, stride: tuple) -> None:
    x = numod.tensor(np.random.default_rng(0).standard_normal((1, 2, 4, 5)), requires_grad=True)
    columns = F.unfold(x, kernel, dilation, padding, stride).detach().requires_grad_()
    for check in (gradcheck, gradgradcheck):
        assert check(lambda x: F.unfold(x, kernel, dilation, padding, stride) ** 2, (x,))
        assert check(lambda c: F.fold(c, (4, 5), kernel, dilation, padding, stride) ** 2, (columns,))


def test_empty_and_bool_inputs() -> None:
    assert F.unfold(numod.ones(0, 2, 4, 4), 2).shape == (0, 8, 9) and F.fold(numod.ones(0, 4, 9), (4, 4), 2).shape == (
        0,
        1,
        4,
        4,
    )
    assert F.fold(numod.ones(4, 4, dtype=numod.bool), (3, 3), 2).int().max() == 1
