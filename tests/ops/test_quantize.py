"""Rows of `ops.quantize` against formulas in NumPy."""

import numpy as np
import pytest

import numod as torch
from numod.ops.pointwise import rows

X = np.random.default_rng(0).standard_normal(1000).astype(np.float32) * 9
# "quantize_int8", "quantize_uint8", "quantize_int32", "requantize_int8", "requantize_uint8", "fake_quantize"
# "range_scale", "range_zero", "dequantize_product"
LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(2**31), 2**31 - 128)}


@pytest.mark.parametrize("name", LIMITS)
def test_quantize(name):
    out = rows[f"quantize_{name}"](torch.from_numpy(X), 0.0371, 11, *LIMITS[name])
    expected = np.clip(np.round(X / np.float64(np.float32(0.0371)) + 11), *LIMITS[name])
    assert out.dtype is getattr(torch, name) and np.abs(out.numpy() - expected).max() <= 1
    assert (out.numpy() == expected).mean() > 0.99


@pytest.mark.parametrize("name", ["int8", "uint8"])
def test_requantize(name):
    totals = np.arange(-5000, 5000, 7, dtype=np.int32)
    row = rows[f"requantize_{name}"]
    out = row(torch.from_numpy(totals), torch.tensor([100], dtype=torch.int32), torch.tensor([0.013]), 5, *LIMITS[name])
    expected = np.clip(np.round((totals + 100) * 0.013) + 5, *LIMITS[name])
    assert out.dtype is getattr(torch, name) and np.abs(out.numpy() - expected).max() <= 1


def test_fake_quantize():
    out = rows["fake_quantize"](torch.from_numpy(X), 0.0371, 11, 0, 127)
    expected = (np.clip(np.round(X / np.float32(0.0371)) + 11, 0, 127) - 11) * np.float32(0.0371)
    assert np.abs(out.numpy() - expected).max() <= 0.0372 and np.mean(out.numpy() == expected) > 0.9


def test_the_parameters_of_a_range():
    low, high = torch.tensor([-1.5, 0.5, 0.0, -3.0]), torch.tensor([0.5, 2.0, 0.0, -1.0])
    scale = rows["range_scale"](low, high, 255)
    assert scale.tolist() == pytest.approx([2 / 255, 2 / 255, 0.1, 3 / 255])
    assert rows["range_zero"](low, scale, 255).tolist() == [191, 0, 0, 255]


def test_products_become_floats():
    total, sums = torch.tensor([[10, 20]], dtype=torch.int32), torch.tensor([1, 2], dtype=torch.int32)
    out = rows["dequantize_product"](total, sums, 3.0, 0.5, torch.tensor([0.5, 0.25]), torch.tensor([1.0, -1.0]))
    assert out.tolist() == [[(10 - 3) * 0.25 + 1, (20 - 6) * 0.125 - 1]]
