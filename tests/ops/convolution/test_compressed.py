"""Compressed weights of convolutions: products against the dense weight, and indices from files."""

import numpy as np
import pytest
from selection import pairwise

import numod
from numod.core.apply import apply
from numod.device import target
from numod.ops.convolution.compressed import (
    CompressedByteConvolution,
    compressed_byte_convolution,
    compressed_convolution,
)
from numod.ops.convolution.int8 import byte_convolution
from numod.nn import functional as F
from numod.ops import contract


def weight_of(*shape, zeros=0.8):
    numod.manual_seed(0)
    return numod.randn(*shape) * (numod.rand(*shape) > zeros)


def parts_of(weight):
    """Values, columns and starts of the rows, also where the weight itself takes fewer bytes."""
    rows = weight.numpy().reshape(len(weight), -1)
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(rows, 1))]).astype("int32")
    return [numod.from_numpy(part) for part in (rows[rows != 0], np.nonzero(rows)[1].astype("uint8"), starts)]


@pytest.mark.parametrize("kernel, settings, groups", pairwise(
    [(1,), (3,), (1, 1), (3, 2), (5, 3), (2, 1, 3)], [(1, 0, 1), (2, 1, 1), (3, 4, 2), (1, 3, 1)], [1, 2, 6],
    others=pytest.mark.fuzz,
))  # fmt: skip
def test_results_are_those_of_the_dense_weight(kernel, settings, groups):
    stride, padding, dilation = settings
    weight, rank = weight_of(12, 6 // groups, *kernel, zeros=0.9), len(kernel)
    x = numod.randn(2, 6, *(9, 10, 11)[:rank])
    result = apply(
        compressed_convolution,
        (x, *parts_of(weight)),
        (kernel, *[(n,) * rank for n in (stride, padding, dilation)], groups),
    )
    expected = getattr(F, f"conv{rank}d")(x, weight, None, stride, padding, dilation, groups)
    numod.testing.assert_close(result, expected, rtol=1e-4, atol=1e-5)


def test_indices_from_files_stay_within_the_image():
    values, columns = numod.ones(4), numod.from_numpy(np.array([255, 17, 0, 200], dtype="uint8"))
    attributes = (3, 3), (1, 1), (1, 1), (1, 1), 1
    for starts in ([-5, 2, 99], [4, 0, 4], [0, 4, 4]):
        inputs = numod.ones(1, 2, 4, 4), values, columns, numod.tensor(starts, dtype=numod.int32)
        assert apply(compressed_convolution, inputs, attributes).isfinite().all()


@pytest.mark.parametrize("kernel, groups", [((9, 9), 1), ((3,), 1), ((3, 3), 4)])
def test_sizes_that_do_not_fit_are_refused(kernel, groups):
    weight = weight_of(4, 3, 3, 3)
    inputs, attributes = (numod.ones(1, 3, 4, 4), *parts_of(weight)), (kernel, (1, 1), (0, 0), (1, 1), groups)
    with pytest.raises(ValueError, match="compressed_convolution"):
        contract.check(compressed_convolution, [tensor._layout for tensor in inputs], attributes)


def byte_inputs(groups, x_dtype, shape=(2, 7, 9, 6), taps=(3, 2)):
    """(images, filters of which most elements are zero, offsets, multipliers)."""
    random, limits = np.random.default_rng(groups), np.iinfo(x_dtype)
    x = random.integers(limits.min, limits.max, shape, x_dtype, endpoint=True)
    weight = random.integers(-128, 127, (12, *taps, 6 // groups), "int8", endpoint=True)
    weight *= random.random(weight.shape) > 0.8
    others = random.integers(-1000, 1000, 12, "int32"), (random.random(12) / 100).astype("float32")
    return [*map(numod.from_numpy, (x, weight, *others))]


@pytest.mark.parametrize("able", [True, False])
@pytest.mark.parametrize("groups, dtype", [(1, "uint8"), (2, "int8"), (6, "uint8")])
@pytest.mark.parametrize("stride, padding, dilation", [((1, 1), (0, 0), (1, 1)), ((2, 3), (4, 5), (2, 3))])
def test_integers_are_those_of_the_dense_filters(stride, padding, dilation, groups, dtype, able, monkeypatch):
    """Also for processors without vectors and floating point, whose numbers along a line have 32 bits."""
    x, weight, *others = byte_inputs(groups, dtype)
    attributes = stride, padding, dilation, groups, 5, 10, -100 if dtype == "int8" else 10, 120
    expected = apply(byte_convolution, (x, weight, *others), attributes)
    monkeypatch.setattr(target, "has_floats", lambda: able)
    monkeypatch.setattr(target, "has_vectors", lambda: able)
    op = CompressedByteConvolution(f"compressed_byte_convolution_{able}")
    assert apply(op, (x, *parts_of(weight), *others), ((3, 2), *attributes)).equal(expected)


def test_indices_of_filters_from_files_stay_within_the_image():
    values = numod.full((4,), 9, dtype=numod.int8)
    columns = numod.from_numpy(np.array([255, 17, 0, 200], dtype="uint8"))
    attributes = (3, 3), (1, 1), (1, 1), (1, 1), 1, 0, 0, 0, 255
    x, others = numod.ones(1, 4, 4, 2, dtype=numod.uint8), (numod.zeros(2, dtype=numod.int32), numod.ones(2))
    for starts in ([-5, 2, 99], [4, 0, 4], [0, 4, 4]):
        inputs = x, values, columns, numod.tensor(starts, dtype=numod.int32), *others
        assert apply(compressed_byte_convolution, inputs, attributes).shape == (1, 4, 4, 2)


@pytest.mark.parametrize("kernel, groups", [((9, 9), 1), ((3,), 1), ((3, 2), 4)])
def test_filters_that_do_not_fit_are_refused(kernel, groups):
    x, weight, *others = byte_inputs(1, "uint8")
    inputs = x, *parts_of(weight), *others
    attributes = kernel, (1, 1), (0, 0), (1, 1), groups, 0, 0, 0, 255
    with pytest.raises((ValueError, RuntimeError), match="convolution"):
        contract.check(compressed_byte_convolution, [tensor._layout for tensor in inputs], attributes)
        apply(compressed_byte_convolution, inputs, attributes)
