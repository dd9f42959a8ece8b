"""Linear layers of a weight whose elements are found by permutations, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from selection import pairwise

import numod
from numod.core.apply import apply
from numod.kernel.registers import sparse_windows as registers
from numod.kernel.registers.primitives import sparse as primitives
from numod.kernel.registers.vectors import host
from numod.ops.matmul import sparse_windows

pytestmark = pytest.mark.skipif(not registers.runs(), reason="needs AVX-512")


def example(batch, rows, inner, zeros):
    random = np.random.default_rng(rows)
    weight = random.standard_normal((rows, inner)) * (random.random((rows, inner)) > zeros)
    return [part.astype("float32") for part in (random.standard_normal((batch, inner)), weight, random.random(rows))]


def run(x, weight, bias, capacity=None):
    tensor = numod.tensor(weight)
    if capacity is None:
        empty = apply(sparse_windows.pack_windows, (tensor,), (0,))
        capacity = sparse_windows.capacity_of(empty.numpy(), len(weight))
    packed = apply(sparse_windows.pack_windows, (tensor,), (capacity,))
    inputs = numod.tensor(x), tensor, None if bias is None else numod.tensor(bias), packed
    return apply(sparse_windows.window_linear, inputs, ()).numpy()


@pytest.mark.parametrize("batch, shape, zeros, has_bias", pairwise(
    [1, 3], [(1, 1), (16, 40), (37, 130), (100, 9), (33, 300)], [0.0, 0.5, 0.9, 0.99], [False, True],
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_products_are_those_of_the_dense_weight(batch, shape, zeros, has_bias):
    x, weight, bias = example(batch, *shape, zeros)
    expected = x.astype("float64") @ weight.T + (bias if has_bias else 0)
    np.testing.assert_allclose(run(x, weight, bias if has_bias else None), expected, rtol=1e-4, atol=1e-5)


def test_rows_of_one_element_far_apart():
    weight = np.zeros((20, 200), "float32")
    weight[np.arange(20), np.arange(20) * 10 + 3] = np.arange(1, 21)
    x = np.arange(200, dtype="float32")[None]
    np.testing.assert_array_equal(run(x, weight, None), x @ weight.T)


def test_a_weight_of_zeros_gives_the_bias():
    x, weight, bias = example(2, 20, 30, zeros=1.0)
    np.testing.assert_array_equal(run(x, weight, bias, capacity=1), np.tile(bias, (2, 1)))


def test_a_weight_without_room_is_multiplied_dense():
    x, weight, bias = example(1, 20, 30, 0.5)
    expected = x.astype("float64") @ weight.T + bias
    np.testing.assert_allclose(run(x, weight, bias, capacity=2), expected, rtol=1e-4, atol=1e-5)


def test_a_write_that_adds_numbers_counts():
    layer, x = numod.nn.Linear(64, 40).requires_grad_(False), numod.randn(1, 64)
    layer.weight.mul_(numod.rand(40, 64) > 0.9)
    function = numod.compile(layer, options={"freezing": True, "sparsity": True})
    function(x)
    layer.weight.fill_(0.5)
    numod.testing.assert_close(function(x), layer(x))


def test_the_vector_form_is_the_plain_one():
    lanes, random = host().lanes(4), np.random.default_rng(1)
    steps, x = 7, np.random.default_rng(2).standard_normal(80).astype("float32")
    values = random.standard_normal(steps * lanes).astype("float32")
    places, bases = random.integers(0, 2 * lanes, steps * lanes).astype("uint8"), random.integers(0, 40, steps)
    out = np.zeros(lanes)
    primitives.window_dots(values.view("int32"), 0, places.view("int32"), 0, bases, 0, steps, x, 0, out, 0, 5)
    columns = np.repeat(bases, lanes) + places
    expected = (values * x[columns]).reshape(steps, lanes).sum(0)
    np.testing.assert_allclose(out[:5], expected[:5], rtol=1e-5)
    assert not out[5:].any()
