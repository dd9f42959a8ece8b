"""Inputs that people rarely think of and functions must: bytes, no dimensions, no elements."""

import numpy as np
import pytest

import numod as torch
import numod.nn.functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes_are_resized_in_floats_and_rounded(mode):
    image = torch.tensor(np.random.default_rng(0).integers(0, 256, (1, 3, 6, 7)), dtype=torch.uint8)
    small = F.interpolate(image, (3, 4), mode=mode)
    # as PyTorch and Pillow do: a dimension at a time
    rows = (F.interpolate(image.float(), (6, 4), mode=mode) + 0.5).floor().clamp(0, 255)
    assert (
        small.dtype is torch.uint8
        and (small.float() - F.interpolate(rows, (3, 4), mode=mode).clamp(0, 255)).abs().max().item() <= 0.5
    )
    with pytest.raises(NotImplementedError, match="'Long'; convert first"):
        F.interpolate(image.long(), (3, 4), mode=mode)


def test_images_of_16_bit_floats_are_rounded_once():
    image = torch.tensor(np.random.default_rng(0).standard_normal((1, 2, 5, 6))).bfloat16().requires_grad_()
    wide = image.detach().float().requires_grad_()
    for tensor in (image, wide):
        F.interpolate(tensor, scale_factor=2, mode="bilinear").float().sum().backward()
    assert F.interpolate(image, scale_factor=2, mode="bilinear").equal(
        F.interpolate(wide, scale_factor=2, mode="bilinear").bfloat16()
    )
    assert image.grad.equal(wide.grad.bfloat16())


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_an_image_without_columns_is_not_resized(mode):
    assert F.interpolate(torch.zeros(0, 3, 4, 5), size=2, mode=mode).shape == (0, 3, 2, 2)
    with pytest.raises(RuntimeError, match="sizes should be greater than 0"):
        F.interpolate(torch.zeros(2, 3, 4, 0), size=2, mode=mode)


def test_margin_losses_of_one_number():
    assert F.multi_margin_loss(torch.tensor(0.3), torch.tensor(0)).item() == 0
    for target in (torch.tensor(0), torch.tensor([0])):
        for x in (torch.tensor(0.3), torch.tensor([0.3])):
            assert F.multilabel_margin_loss(x, target).item() == 0


@pytest.mark.parametrize("name, shape, result", [
    ("adaptive_avg_pool1d", (0, 9), (0, 2)), ("adaptive_max_pool1d", (0, 9), (0, 2)), ("adaptive_avg_pool1d", (2, 0, 9), (2, 0, 2)),
    ("adaptive_avg_pool2d", (0, 9, 9), (0, 2, 2)), ("adaptive_max_pool2d", (0, 9, 9), (0, 2, 2)), ("adaptive_avg_pool2d", (2, 0, 9, 9), (2, 0, 2, 2)),
    ("adaptive_avg_pool3d", (0, 4, 4, 4), (0, 2, 2, 2)), ("adaptive_max_pool3d", (0, 4, 4, 4), (0, 2, 2, 2)),
])  # fmt: skip
def test_adaptive_pools_without_channels(name, shape, result):
    assert getattr(F, name)(torch.ones(shape), 2).shape == result


def test_gradient_of_a_transposed_convolution_whose_output_padding_is_more_than_a_stride():
    x = torch.randn(1, 2, 4, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(2, 1, 2, 3, dtype=torch.float64, requires_grad=True)

    def function(x, weight):
        return F.conv_transpose2d(x, weight, stride=(3, 2), padding=(1, 2), output_padding=(2, 3), dilation=(4, 4))

    assert torch.autograd.gradcheck(function, (x, weight))


@pytest.mark.cpu_only
def test_sizes_and_factors_of_interpolate_may_be_numbers_of_numpy_or_tensors() -> None:
    x = torch.arange(16.0).view(1, 1, 4, 4)
    for arguments, plain in (
        ({"size": np.int64(5)}, {"size": 5}),
        ({"size": torch.tensor(5)}, {"size": 5}),
        ({"scale_factor": np.float32(1.5)}, {"scale_factor": 1.5}),
    ):
        assert torch.equal(F.interpolate(x, **arguments), F.interpolate(x, **plain))


def test_adaptive_windows_of_no_channels():
    for pool in (torch.nn.AdaptiveAvgPool1d(2), torch.nn.AdaptiveMaxPool1d(2)):
        assert pool(torch.zeros(0, 5)).shape == (0, 2)
