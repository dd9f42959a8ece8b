"""torchao's building blocks beside the formulas in NumPy, and what they refuse."""

import numpy as np
import pytest

import numod
from numod.ao.quantization.torchao import (
    MappingType,
    TorchAODType,
    choose_qparams_affine,
    choose_qparams_affine_with_min_max,
    dequantize_affine,
    quantize_affine,
)

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
BLOCKS = [(4, 6), (1, 6), (4, 1), (1, 2), (2, 3), (1, 1)]


def blocks_of(array, block):
    rows, columns = block
    return array.reshape(4 // rows, rows, 6 // columns, columns).transpose(0, 2, 1, 3).reshape(-1, rows * columns)


@pytest.mark.parametrize("block", BLOCKS)
@pytest.mark.parametrize("mapping", list(MappingType))
def test_scales_of_blocks(block, mapping):
    scale, zero_point = choose_qparams_affine(numod.tensor(X), mapping, block, numod.int8)
    low, high = np.minimum(blocks_of(X, block).min(1), 0), np.maximum(blocks_of(X, block).max(1), 0)
    expected = {
        MappingType.SYMMETRIC: np.maximum(high, -low) / 127.5,
        MappingType.SYMMETRIC_NO_CLIPPING_ERR: np.maximum(low / -128, high / 127),
        MappingType.ASYMMETRIC: (high - low) / 255,
    }[mapping]
    np.testing.assert_allclose(scale.flatten(), expected, rtol=1e-6)
    zeros = np.round(-128 - low / expected) if mapping is MappingType.ASYMMETRIC else np.zeros_like(low)
    np.testing.assert_array_equal(zero_point.flatten(), zeros)
    assert scale.dtype is numod.float32 and zero_point.dtype is numod.int32


@pytest.mark.parametrize("block", BLOCKS)
def test_values_after_rounding(block):
    x = numod.tensor(X)
    scale, zero_point = choose_qparams_affine(x, MappingType.ASYMMETRIC, block, numod.uint8)
    integers = quantize_affine(x, block, scale, zero_point, numod.uint8)
    values = dequantize_affine(integers, block, scale, zero_point, numod.uint8)
    assert integers.dtype is numod.uint8 and values.shape == x.shape
    assert (values - x).abs().max() <= scale.max() * 0.5001


def test_shapes_of_scales():
    x = numod.tensor(X)
    shapes = [choose_qparams_affine(x, MappingType.SYMMETRIC, block, numod.int8)[0].shape for block in BLOCKS]
    assert shapes == [(), (4,), (6,), (4, 3), (2, 2), (4, 6)]
    assert choose_qparams_affine(x, MappingType.SYMMETRIC, (1, 6), numod.int8, keepdim=True)[0].shape == (4, 1)


def test_integers_of_few_bits():
    x, block = numod.tensor(X), (1, 6)
    scale, zero_point = choose_qparams_affine(x, MappingType.SYMMETRIC, block, TorchAODType.INT4)
    integers = quantize_affine(x, block, scale, zero_point, TorchAODType.INT4)
    assert integers.dtype is numod.int8 and integers.min() >= -8 and integers.max() <= 7
    values = dequantize_affine(integers, block, scale, None, TorchAODType.INT4, output_dtype=numod.bfloat16)
    assert values.dtype is numod.bfloat16


@pytest.mark.parametrize("mapping", list(MappingType))
def test_zeros_and_a_range_without_negative_integers(mapping):
    zeros = numod.zeros(2, 4)
    scale, zero_point = choose_qparams_affine(zeros, mapping, (1, 4), numod.uint8, 0, 15, eps=0.5)
    assert (scale == 0.5).all()
    integers = quantize_affine(zeros, (1, 4), scale, zero_point, numod.uint8, 0, 15)
    assert (dequantize_affine(integers, (1, 4), scale, zero_point, numod.uint8) == 0).all()


def test_zeros_and_small_types():
    scale, _ = choose_qparams_affine(numod.zeros(2, 2), MappingType.SYMMETRIC, (1, 2), numod.int8)
    assert (scale > 0).all()
    low, high = numod.tensor([-1.0]).half(), numod.tensor([3.0]).half()
    scale, zero_point = choose_qparams_affine_with_min_max(low, high, MappingType.ASYMMETRIC, (1,), numod.uint8)
    assert scale.dtype is numod.float16 and zero_point.item() == 64


def test_mistakes():
    x, one, zero = numod.tensor(X), numod.ones(()), numod.zeros(())
    with pytest.raises(AssertionError, match="divisible"):
        choose_qparams_affine(x, MappingType.SYMMETRIC, (1, 4), numod.int8)
    with pytest.raises(AssertionError, match="block_size"):
        quantize_affine(x, (6,), one, zero, numod.int8)
    with pytest.raises(ValueError, match="Unsupported dtype"):
        quantize_affine(x, (4, 6), one, zero, numod.float32)
    with pytest.raises(AssertionError, match="out of bound"):
        quantize_affine(x, (4, 6), one, zero, numod.int8, quant_min=-129)
    with pytest.raises(AssertionError, match="Unsupported input dtype"):
        quantize_affine(x.double(), (4, 6), one, zero, numod.int8)
    with pytest.raises(AssertionError, match="Expected"):
        dequantize_affine(x, (4, 6), one, zero, numod.int8)
    with pytest.raises(AssertionError, match="mapping type"):
        choose_qparams_affine_with_min_max(zero, one, "SYMMETRIC", (), numod.int8)
