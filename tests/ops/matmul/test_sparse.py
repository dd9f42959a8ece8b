"""Linear layers without the zeros of their weight, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.kernel.registers import sparse_rows
from numod.kernel.registers.primitives import sparse as primitives
from numod.kernel.registers.vectors import host
from numod.ops.matmul import sparse


def example(batch, rows, inner, zeros=0.8, seed=0):
    random = np.random.default_rng(seed)
    weight = random.standard_normal((rows, inner)) * (random.random((rows, inner)) > zeros)
    return [part.astype("float32") for part in (random.standard_normal((batch, inner)), weight, random.random(rows))]


def run(x, weight, bias, capacity=None):
    packed = apply(sparse.pack_sparse, (numod.tensor(weight),), (capacity or sparse.capacity_of(weight),))
    inputs = numod.tensor(x), numod.tensor(weight), None if bias is None else numod.tensor(bias), packed
    return apply(sparse.sparse_linear, inputs, ()).numpy()


@pytest.mark.parametrize("batch", [1, 2, 32, 70])
@pytest.mark.parametrize(("rows", "inner"), [(1, 1), (16, 40), (37, 130), (100, 9)])
@pytest.mark.parametrize("has_bias", [False, True])
def test_products_are_those_of_the_dense_weight(batch, rows, inner, has_bias):
    x, weight, bias = example(batch, rows, inner)
    expected = x.astype("float64") @ weight.T + (bias if has_bias else 0)
    np.testing.assert_allclose(run(x, weight, bias if has_bias else None), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch", [1, 40])
def test_a_weight_of_zeros_gives_the_bias(batch):
    x, weight, bias = example(batch, 20, 30, zeros=1.0)
    np.testing.assert_array_equal(run(x, weight, bias, capacity=1), np.tile(bias, (batch, 1)))


@pytest.mark.parametrize("batch", [1, 40])
def test_a_weight_without_room_is_multiplied_dense(batch):
    x, weight, bias = example(batch, 20, 30)
    expected = x.astype("float64") @ weight.T + bias
    np.testing.assert_allclose(run(x, weight, bias, capacity=2), expected, rtol=1e-4, atol=1e-5)


def test_the_vector_forms_are_the_plain_ones():
    lanes, random = host().lanes(4), np.random.default_rng(1)
    values, columns = random.standard_normal(3 * lanes).astype("float32"), random.integers(0, 5, 3 * lanes)
    width = sparse_rows.VECTORS * lanes
    x, out = random.standard_normal((5, width)).astype("float32"), np.zeros((sparse_rows.ROWS, width))
    bits = values.view("int32")
    order = np.arange(sparse_rows.ROWS)[::-1]
    primitives.sparse_batch(
        bits, 0, columns, 0, 3, x.ravel(), 0, x.shape[1], order, 0, flat := out.ravel(), 0, out.shape[1]
    )
    expected = (values.reshape(3, lanes, 1) * x[columns.reshape(3, lanes)]).sum(0)
    np.testing.assert_allclose(flat.reshape(-1, width)[order], expected[: sparse_rows.ROWS], rtol=1e-5)
    line, dots = x[:, 0].copy(), np.zeros(lanes)
    primitives.sparse_dots(bits, 0, columns, 0, 3, line, 0, dots, 0, 3)
    np.testing.assert_allclose(dots[:3], expected[:3, 0], rtol=1e-5)
    assert not dots[3:].any()
