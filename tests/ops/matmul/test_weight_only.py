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


def test_groups_that_do_not_fit_are_refused_in_programs():
    from numod.ops import contract

    parts = torch.zeros(2, 16), torch.zeros(3, 16, dtype=torch.int8), torch.ones(3, 2), torch.zeros(3, 2)
    with pytest.raises(ValueError, match="do not fit inputs of 16"):
        contract.check(product, [part._layout for part in parts], (4,))
    contract.check(product, [part._layout for part in parts], (8,))
