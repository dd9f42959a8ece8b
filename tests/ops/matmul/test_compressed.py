"""Compressed weights: the form with the fewest bytes, products against dense ones, and indices from files."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.core.apply import apply
from numod.device import target
from numod.ops.matmul import compressed
from numod.ops.matmul.int8_linear import byte_linear

ZEROS = {"elements": (0.9, 1), "blocks": (0.8, 4), "2 of 4": (0.5, 1), "all": (1.0, 1)}


def weight_of(kind, rows, inner, dtype):
    """A weight with zeros of this kind."""
    random, (part, block) = np.random.default_rng(0), ZEROS[kind]
    weight = random.integers(1, 100, (rows, inner)).astype(dtype)
    if kind == "2 of 4":
        return weight * np.tile([1, 0, 0, 1], inner // 4).astype(dtype)
    return weight * np.repeat(random.random((rows, inner // block)) > part, block, 1).astype(dtype)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ZEROS)
@pytest.mark.parametrize(("rows", "inner", "batch"), [(5, 16, (1,)), (33, 300, (2, 3)), (7, 2048, (4,))])
def test_floats_are_those_of_the_dense_weight(kind, rows, inner, batch, bias):
    weight = weight_of(kind, rows, inner, "float32")
    block, *parts = compressed.compressed(weight)
    assert sum(part.nbytes for part in parts) < weight.nbytes
    x, shift = numod.rand(*batch, inner), numod.rand(rows) if bias else None
    inputs = x, *map(numod.from_numpy, parts), shift
    result = apply(compressed.compressed_linear, inputs, (block,))
    numod.testing.assert_close(result, numod.nn.functional.linear(x, numod.from_numpy(weight), shift))


@pytest.mark.parametrize("floats", [True, False])
@pytest.mark.parametrize("kind", ["elements", "blocks", "all"])
@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_integers_are_those_of_the_dense_weight(kind, dtype, floats, monkeypatch):
    monkeypatch.setattr(target, "has_floats", lambda: floats)
    random, weight = np.random.default_rng(1), weight_of(kind, 20, 64, "int8")
    block, *parts = compressed.compressed(weight)
    x = random.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (3, 64)).astype(dtype)
    others = random.integers(-999, 999, 20).astype("int32"), (random.random(20) / 100).astype("float32")
    x, weight, *others = map(numod.from_numpy, (x, weight, *others))
    limits = 3, 3, np.iinfo(dtype).max
    op = compressed.CompressedByteLinear(f"compressed_byte_linear_{floats}")
    result = apply(op, (x, *map(numod.from_numpy, parts), *others), (block, *limits))
    assert (result == apply(byte_linear, (x, weight, *others), limits)).all()


def test_the_block_takes_the_fewest_bytes():
    assert compressed.compressed(weight_of("blocks", 16, 64, "int8"))[0] == 4
    assert compressed.compressed(weight_of("elements", 16, 64, "int8"))[0] == 1
    assert compressed.compressed(np.ones((4, 8), "float32")) is None
    assert compressed.compressed(np.zeros((4, 0), "float32")) is None


@pytest.mark.parametrize("batch", [1, 4])
def test_indices_of_a_damaged_file_stay_within_the_data(batch):
    x, values = numod.ones(batch, 4), numod.ones(2)
    columns, starts = numod.tensor([255, 1], dtype=numod.uint8), numod.tensor([-5, 99, 7], dtype=numod.int32)
    result = apply(compressed.compressed_linear, (x, values, columns, starts, None), (1,))
    assert result.tolist() == [[2.0, 0.0]] * batch
