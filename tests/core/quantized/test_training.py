"""Rounding in training against NumPy: dtypes, float zero points, the fused observer, and learned scales."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod.ao.quantization import MovingAverageMinMaxObserver, MovingAveragePerChannelMinMaxObserver
from numod.ao.quantization._learnable_fake_quantize import _LearnableFakeQuantize


@pytest.mark.parametrize("dtype", [numod.float16, numod.bfloat16, numod.float32, numod.float64])
def test_results_have_the_dtype_of_the_input(dtype):
    x = numod.randn(3, 2).to(dtype)
    scales, zeros = numod.tensor([0.1, 0.2]), numod.tensor([3, 4], dtype=numod.int32)
    assert numod.fake_quantize_per_tensor_affine(x, 0.1, 3, 0, 255).dtype is dtype
    assert numod.fake_quantize_per_channel_affine(x, scales, zeros, 1, 0, 255).dtype is dtype
    assert numod.fake_quantize_per_channel_affine(x, scales, zeros.float(), 1, 0, 255).dtype is dtype


def test_float_zero_points_are_added_before_rounding():
    x, scale, zero = numod.tensor([[0.26, 3.0, -1.0]]), numod.tensor([0.5]), numod.tensor([1.4])
    result = numod.fake_quantize_per_channel_affine(x, scale, zero, 0, 0, 7)
    expected = (np.clip(np.rint(x.numpy() / 0.5 + 1.4), 0, 7) - 1.4) * 0.5
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-5)
    with pytest.raises(RuntimeError, match="must be between `quant_min`"):
        numod.fake_quantize_per_channel_affine(x, scale, numod.tensor([9], dtype=numod.int32), 0, 0, 7)


@pytest.mark.parametrize("rows", [False, True])
def test_the_fused_observer(rows):
    on, off = numod.tensor([1]), numod.tensor([0])
    low, high = (numod.tensor([]), numod.tensor([])) if rows else (numod.tensor(np.inf), numod.tensor(-np.inf))
    scale, zero = numod.tensor([1.0]), numod.tensor([0], dtype=numod.int32)
    batches, averages = [numod.randn(4, 6) for _ in range(3)], None
    for x in batches:
        result = numod.fused_moving_avg_obs_fake_quant(
            x, on, on, low, high, scale, zero, 0.1, 0, 255, 0, rows
        )  # fmt: skip
        ends = np.stack([x.numpy().min(1), x.numpy().max(1)]) if rows else np.array([x.min(), x.max()])
        averages = ends if averages is None else averages + 0.1 * (ends - averages)
    np.testing.assert_allclose(np.stack([low.numpy(), high.numpy()]), averages, rtol=1e-5)
    step = scale.reshape(-1, 1) if rows else scale
    inside = (result - batches[-1]).abs() <= step / 2 + 1e-6
    assert scale.shape == (4 if rows else 1,) and inside.float().mean() > 0.7
    before = scale.clone()
    assert numod.fused_moving_avg_obs_fake_quant(
        x, off, off, low, high, scale, zero, 0.1, 0, 255, 0, rows
    ) is x and (scale == before).all()  # fmt: skip


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("low, high, scale", [(-0.5, 2.05, 0.01), (np.inf, -np.inf, 0.1)])
def test_scales_follow_the_range_where_the_fused_observer_is_off(rows, low, high, scale):
    """A range without numbers, as before the first observation, has PyTorch's scale of 0.1."""
    on, off, count = numod.tensor([1]), numod.tensor([0]), 2 if rows else 1
    ends = [numod.full((count,) if rows else (), end) for end in (low, high)]
    step, zero = numod.full((count,), 0.7), numod.zeros(count, dtype=numod.int32)
    x = numod.randn(2, 3)
    result = numod.fused_moving_avg_obs_fake_quant(x, off, on, *ends, step, zero, 0.1, 0, 255, 0, rows)
    np.testing.assert_allclose(step.numpy(), scale, rtol=1e-5)
    assert zero.tolist() == [50 if low < 0 else 0] * count and result.shape == x.shape


@pytest.mark.parametrize("channels", [-1, 3])
def test_learned_scales(channels):
    kind = MovingAverageMinMaxObserver if channels == -1 else MovingAveragePerChannelMinMaxObserver
    module = _LearnableFakeQuantize(
        observer=kind, quant_min=0, quant_max=255, dtype=numod.quint8, channel_len=channels, use_grad_scaling=True
    )
    x = numod.randn(3, 5)
    first = module(x)
    assert (first - x).abs().max() < 0.05 and module.scale.grad is None
    module.enable_param_learning()
    module(x).square().sum().backward()
    assert module.scale.grad.shape == module.scale.shape and module.scale.grad.abs().sum() > 0
    module.enable_static_observation()
    assert module(x) is x
    scale, zero_point = module.calculate_qparams()
    assert zero_point.dtype is numod.int64 and (scale > 0).all()
    with pytest.raises(AssertionError, match="strictly less"):
        _LearnableFakeQuantize(observer=kind, quant_min=3, quant_max=3)


def test_nan_counts_as_the_lowest_value_for_a_learned_scale():
    x = numod.tensor([0.2, float("nan")])
    scale, zero = numod.tensor([0.1], requires_grad=True), numod.tensor([3.0], requires_grad=True)
    numod._fake_quantize_learnable_per_tensor_affine(x, scale, zero, 0, 15, 1.0).sum().backward()
    assert scale.grad.item() == pytest.approx(-3.0) and zero.grad.item() == pytest.approx(-0.1)
