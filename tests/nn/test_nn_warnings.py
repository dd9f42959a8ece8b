"""What is done, but with a warning, and CrossMapLRN2d."""

import pytest

import numod as torch
import numod.nn.functional as F
from numod import nn


def test_places_whose_corners_are_left_open():
    with pytest.warns(UserWarning, match="Please specify align_corners=True if the old behavior is desired"):
        grid = F.affine_grid(torch.eye(2, 3)[None], (1, 1, 2, 2))
    with pytest.warns(UserWarning, match="behavior has changed to align_corners=False since 1.3.0"):
        F.grid_sample(torch.ones(1, 1, 2, 2), grid)


def test_grids_of_size_one_with_aligned_corners():
    with pytest.warns(UserWarning, match="affine_grid behavior has changed for unit-size grids"):
        F.affine_grid(torch.ones(1, 2, 3), (1, 1, 1, 4), align_corners=True)


def test_gradients_that_hold_their_graph():
    x = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="will create a reference cycle between the parameter and its gradient"):
        (x * x).sum().backward(create_graph=True)
    x.grad = None


@pytest.mark.parametrize("size", [3, 4])
def test_cross_map_normalisation(size):
    x = torch.randn(2, 5, 2, 3, dtype=torch.float64)
    layer, reach = nn.CrossMapLRN2d(size, alpha=0.5, beta=0.6, k=2), (size - 1) // 2
    sums = torch.stack([(x[:, max(0, c - reach) : c + reach + 1] ** 2).sum(1) for c in range(5)], 1)
    torch.testing.assert_close(layer(x), x / (2 + 0.5 / size * sums) ** 0.6)
    assert repr(layer) == f"CrossMapLRN2d({size}, alpha=0.5, beta=0.6, k=2)"
    with pytest.raises(ValueError, match="CrossMapLRN2d: Expected input to be 4D, got 3D instead."):
        layer(x[0])


def test_masks_of_two_dtypes_in_attention():
    layer, x = nn.MultiheadAttention(4, 1), torch.ones(2, 1, 4)
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask is deprecated"):
        layer(x, x, x, key_padding_mask=torch.zeros(1, 2, dtype=torch.bool), attn_mask=torch.zeros(2, 2))
