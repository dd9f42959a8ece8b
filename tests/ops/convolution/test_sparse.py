"""Convolutions of one tap by weights without their zeros, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.graph.passes import sparsity
from numod.ops.convolution import sparse
from numod.ops.matmul.sparse import capacity_of, pack_sparse

ATTRIBUTES = (1, 1), (0, 0), (1, 1), 1, None


def example(images, inner, rows, size, zeros=0.8):
    random = np.random.default_rng(0)
    weight = random.standard_normal((rows, inner, 1, 1)).astype("float32")
    weight[random.random(weight.shape) < zeros] = 0
    return random.standard_normal((images, inner, *size)).astype("float32"), weight


def run(x, weight, capacity=None):
    capacity = capacity_of(weight.reshape(len(weight), -1)) if capacity is None else capacity
    tensors = tuple(map(numod.from_numpy, (x, weight)))
    packed = apply(pack_sparse, tensors[1:], (capacity,))
    return apply(sparse.sparse_convolution, (*tensors, packed), ATTRIBUTES).numpy()


@pytest.mark.parametrize(
    "shape",
    [(1, 3, 5, (2, 3)), (2, 20, 37, (9, 9)), (1, 40, 64, (8, 16)), (3, 7, 16, (8, 8)), (1, 33, 48, (7, 11)), (2, 1, 1, (1, 1))],
)  # fmt: skip
@pytest.mark.parametrize("capacity", [None, 0], ids=["packed", "without room"])
def test_against_numpy(shape, capacity):
    x, weight = example(*shape)
    expected = np.einsum("oc,nchw->nohw", weight[:, :, 0, 0].astype("float64"), x)
    np.testing.assert_allclose(run(x, weight, capacity), expected, rtol=1e-4, atol=1e-5)


def test_empty_images():
    x, weight = example(2, 4, 3, (5, 5))
    assert run(x[:0], weight).shape == (0, 3, 5, 5)


def test_which_convolutions_it_takes():
    x, weight = (numod.from_numpy(part)._layout for part in example(1, 4, 3, (5, 5)))
    assert sparse.fits(x, weight, ATTRIBUTES)
    for number, other in ((0, (2, 1)), (1, (1, 0)), (3, 2), (4, (1, 3, 5, 5))):
        assert not sparse.fits(x, weight, tuple([other if k == number else part for k, part in enumerate(ATTRIBUTES)]))
    assert not sparse.fits(x, numod.zeros(3, 4, 3, 3)._layout, ATTRIBUTES)


def test_compiled_networks_use_it(monkeypatch):
    monkeypatch.setattr(sparsity, "is_faster", lambda *_: True)
    monkeypatch.setattr(sparsity, "_measured", {})
    model = numod.nn.Sequential(numod.nn.Conv2d(8, 40, 1), numod.nn.BatchNorm2d(40), numod.nn.ReLU()).eval()
    model.requires_grad_(False)
    model[0].weight.mul_(numod.rand(40, 8, 1, 1) > 0.9)
    function, x = numod.compile(model, options={"freezing": True, "sparsity": True}), numod.randn(2, 8, 6, 7)
    for _ in range(2):
        numod.testing.assert_close(function(x), model(x))
    assert len(sparsity._measured) == 1
    model[0].weight.normal_()  # more elements than there is room for
    numod.testing.assert_close(function(x), model(x))
