"""Products with packed weights of 8 and 4 bits, against NumPy."""

import numpy as np
import pytest

import numod as torch
from numod.ops.matmul.weight_only import weight_only_product as product

RANDOM = np.random.default_rng(0)


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_eight_bits(rows):
    x, w = RANDOM.standard_normal((rows, 24)).astype(np.float32), RANDOM.integers(-128, 128, (5, 24)).astype(np.int8)
    scale, zero = RANDOM.random((5, 2)).astype(np.float32), RANDOM.integers(-3, 4, (5, 2)).astype(np.float32)
    out = product.apply(tuple(map(torch.from_numpy, (x, w, scale, zero))), (12,))
    expected = x @ ((w.reshape(5, 2, 12) - zero[..., None]) * scale[..., None]).reshape(5, 24).T
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-3)


def test_four_bits_lie_in_the_halves_of_a_group():
    x, values = RANDOM.standard_normal((2, 16)).astype(np.float32), RANDOM.integers(0, 16, (3, 2, 8))
    packed = (values[..., :4] | values[..., 4:] << 4).astype(np.uint8).reshape(3, 8)
    scale, zero = RANDOM.random((3, 2)).astype(np.float32), np.full((3, 2), 8, np.float32)
    out = product.apply(tuple(map(torch.from_numpy, (x, packed, scale, zero))), (8,))
    expected = x @ ((values - 8) * scale[..., None]).reshape(3, 16).T
    np.testing.assert_allclose(out.numpy(), expected, rtol=1e-4, atol=1e-4)


def reference(x, values, scale, zero):
    """In float64; values (n, groups, group)."""
    weight = (values - zero[..., None].astype("float64")) * scale[..., None]
    return x.astype("float64") @ weight.reshape(len(weight), -1).T


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("rows", [1, 3])
def test_groups_that_fill_registers_are_as_exact_as_float32(bits, rows):
    x = (RANDOM.standard_normal((rows, 512)) * np.array([[1.0], [1e-9], [3e4]])[:rows]).astype(np.float32)
    limits = (-128, 128) if bits == 8 else (0, 16)
    values = RANDOM.integers(*limits, (7, 4, 128))
    packed = values if bits == 8 else values[..., :64] | values[..., 64:] << 4
    packed = packed.astype(np.int8 if bits == 8 else np.uint8).reshape(7, -1)
    scale, zero = RANDOM.random((7, 4)).astype(np.float32), RANDOM.integers(0, 15, (7, 4)).astype(np.float32)
    out = product.apply(tuple(map(torch.from_numpy, (x, packed, scale, zero))), (128,)).numpy()
    expected = reference(x, values, scale, zero)
    size = np.abs(x).astype("float64") @ np.ones((512, 7)) * 64
    assert (np.abs(out - expected) / size).max() < 3e-7


@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 0.0, 1e-40, 3e38])
def test_numbers_beyond_the_range_are_multiplied_as_floats(bits, value):
    x = np.zeros((2, 128), np.float32)
    x[0, 5], x[1, 7] = value, 2.0
    packed = np.full((3, 128), 1, np.int8) if bits == 8 else np.full((3, 64), 0x11, np.uint8)
    ones, zeros = np.ones((3, 1), np.float32), np.zeros((3, 1), np.float32)
    out = product.apply(tuple(map(torch.from_numpy, (x, packed, ones, zeros))), (128,)).numpy()
    np.testing.assert_array_equal(out[1], 2.0)
    np.testing.assert_array_equal(out[0], np.full(3, np.float32(value)))


@pytest.mark.parametrize("bits", [8, 4])
def test_the_vector_form_is_the_plain_one(bits):
    from numod.kernel.registers import limb_dots
    from numod.kernel.registers.primitives import integers as primitives

    limbs, starts = RANDOM.integers(-128, 128, (3, 128)).astype(np.int8).ravel(), np.array([5, -7, 11], np.int32)
    weight, out = RANDOM.integers(-128, 128, 128).astype(np.int8), np.zeros(1, np.float32)
    weight = weight if bits == 8 else weight[:64].view(np.uint8)
    function = primitives.limb_dots if bits == 8 else primitives.limb_dots4
    scale, zero, totals = (np.array([number], np.float32) for number in (0.5, 3.0, 100.0))
    function(weight, 0, 128, limbs, 0, 128, starts, 0, scale, 0, zero, 0, totals, 0, out, 0, 1, 1, 128)
    values = weight.astype(int) + 128 if bits == 8 else np.concatenate([weight & 15, weight >> 4]).astype(int)
    sums = (starts if bits == 8 else 0) + limbs.reshape(limb_dots.LIMBS, 128).astype(int) @ values
    np.testing.assert_allclose(out[0], 0.5 * (sums @ [1, 256, 65536] - 300), rtol=1e-6)


def test_groups_that_do_not_fit_are_refused_in_programs():
    from numod.ops import contract

    parts = torch.zeros(2, 16), torch.zeros(3, 16, dtype=torch.int8), torch.ones(3, 2), torch.zeros(3, 2)
    with pytest.raises(ValueError, match="do not fit inputs of 16"):
        contract.check(product, [part._layout for part in parts], (4,))
    contract.check(product, [part._layout for part in parts], (8,))
