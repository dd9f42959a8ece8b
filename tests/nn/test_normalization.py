"""Normalisation against NumPy, and its gradients to second order."""

from __future__ import annotations

import numpy as np
import pytest
from selection import second_orders

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck
from numod.nn import functional as F

pytestmark = pytest.mark.on_cuda(simulator=False)


def test_layer_norm_of_long_rows_is_accurate() -> None:
    x = (np.random.default_rng(0).standard_normal((4, 3000)) + 100).astype(np.float32)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(1, keepdims=True)) / np.sqrt(wide.var(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(F.layer_norm(numod.tensor(x), (3000,)).numpy(), expected, atol=2e-5)


def test_batch_norm_moves_the_running_statistics() -> None:
    x = np.random.default_rng(0).standard_normal((4, 3, 5))
    mean, var = numod.zeros(3, dtype=numod.float64), numod.ones(3, dtype=numod.float64)
    F.batch_norm(numod.tensor(x), mean, var, training=True, momentum=0.25)
    np.testing.assert_allclose(mean.numpy(), 0.25 * x.mean((0, 2)))
    np.testing.assert_allclose(var.numpy(), 0.75 + 0.25 * x.var((0, 2), ddof=1))


@pytest.mark.parametrize("function, shapes, twice", second_orders(2, [
    (lambda x, w, b: F.layer_norm(x, (4,), w, b), ((3, 4), (4,), (4,))), (lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((3, 2, 3), (2,), (2,))),
    (lambda x, w, b: F.group_norm(x, 2, w, b), ((2, 4, 3), (4,), (4,))), (lambda x: F.instance_norm(x), ((2, 2, 4),)), (lambda x, w: F.rms_norm(x, (4,), w), ((3, 4), (4,))),
    (lambda x: F.layer_norm(x, (4,)), ((3, 4),)), (lambda x: F.local_response_norm(x, 3), ((2, 4, 3),)),
], others=pytest.mark.fuzz))  # fmt: skip
def test_gradients(function, shapes, twice) -> None:
    numod.manual_seed(0)
    inputs = tuple(numod.randn(shape, dtype=numod.float64, requires_grad=True) for shape in shapes)
    assert gradcheck(function, inputs)
    assert not twice or gradgradcheck(function, inputs)


def test_sixteen_bit_floats_with_parameters_of_either_kind() -> None:
    x = numod.randn(3, 8)
    assert numod.allclose(F.layer_norm(x.half(), (8,)).float(), F.layer_norm(x, (8,)), atol=2e-3)
    wide, narrow = numod.rand(8), numod.rand(8).bfloat16()
    for norm in (F.layer_norm, F.rms_norm):
        for weight in (wide, narrow):
            assert norm(x.bfloat16(), (8,), weight).dtype is numod.bfloat16
    for training in (True, False):
        result = F.batch_norm(x.half(), numod.zeros(8), numod.ones(8), wide, wide, training)
        assert result.dtype is numod.float16 and numod.allclose(
            result.float(), F.batch_norm(x, numod.zeros(8), numod.ones(8), wide, wide, training), atol=1e-2
        )
    for call in (
        lambda: F.layer_norm(x, (8,), wide.double()),
        lambda: F.group_norm(x, 2, narrow),
        lambda: F.batch_norm(x, numod.zeros(8).half(), numod.ones(8).half()),
    ):
        with pytest.raises(RuntimeError, match="mixed dtype"):
            call()


def test_empty_inputs() -> None:
    weight, bias = numod.ones(4, requires_grad=True), numod.ones(4, requires_grad=True)
    mean, var = numod.zeros(4), numod.ones(4)
    for result in (
        F.layer_norm(numod.zeros(0, 4), (4,), weight, bias),
        F.batch_norm(numod.zeros(0, 4, 3), mean, var, weight, bias, True),
        F.group_norm(numod.zeros(0, 4, 3), 2, weight, bias),
        F.instance_norm(numod.zeros(2, 4, 0), mean, var, weight, bias),
        F.rms_norm(numod.zeros(0, 4), (4,), weight),
    ):
        weight.grad = bias.grad = None
        result.sum().backward()
        assert (
            result.numel() == 0
            and weight.grad.tolist() == [0.0] * 4
            and (bias.grad is None or bias.grad.tolist() == [0.0] * 4)
        )
    assert mean.tolist() == [0.0] * 4 and var.tolist() == [1.0] * 4  # an empty batch moves nothing


def test_batch_norm_learns_and_then_uses_its_statistics() -> None:
    x = np.random.default_rng(1).standard_normal((6, 3, 4))
    layer = nn.BatchNorm1d(3, momentum=None).double()
    for part in (x[:3], x[3:]):
        layer(numod.tensor(part))
    assert layer.num_batches_tracked.item() == 2
    np.testing.assert_allclose(layer.running_mean.numpy(), x.mean((0, 2)))  # momentum None: the average of both batches
    var = (x[:3].var((0, 2), ddof=1) + x[3:].var((0, 2), ddof=1)) / 2
    np.testing.assert_allclose(
        layer.eval()(numod.tensor(x)).detach().numpy(), (x - x.mean((0, 2))[:, None]) / np.sqrt(var + 1e-5)[:, None]
    )
    assert list(nn.BatchNorm1d(3, track_running_stats=False, affine=False).state_dict()) == []
    assert list(nn.BatchNorm1d(3).state_dict()) == [
        "weight",
        "bias",
        "running_mean",
        "running_var",
        "num_batches_tracked",
    ]


def test_old_checkpoints_have_no_count_of_batches() -> None:
    state = {name: value for name, value in nn.BatchNorm2d(3).state_dict().items() if name != "num_batches_tracked"}
    nn.BatchNorm2d(3).load_state_dict(dict(state))
    layer = nn.BatchNorm2d(3, track_running_stats=False)
    assert (
        layer.running_mean is None
        and layer.load_state_dict({name: state[name] for name in ("weight", "bias")}).missing_keys == []
    )


def test_instance_norm_of_other_channels() -> None:
    with pytest.warns(UserWarning, match="does not match num_features"):
        nn.InstanceNorm1d(3)(numod.randn(2, 4, 5))
    with pytest.raises(ValueError, match="to match num_features"):
        nn.InstanceNorm1d(3, affine=True)(numod.randn(2, 4, 5))


def test_the_gradient_of_a_weight_by_running_statistics_keeps_its_digits_where_the_mean_is_large() -> None:
    numod.manual_seed(0)
    noise = numod.randn(8, 3, 16, 16)
    g = numod.randn(8, 3, 16, 16)
    weight = numod.ones(3, requires_grad=True)
    mean = numod.full((3,), 1e4)
    x = noise + 1e4
    F.batch_norm(x, mean, numod.ones(3), weight, None, eps=0.0).backward(g)
    expected = ((x.double() - 1e4) * g.double()).sum((0, 2, 3))
    assert numod.allclose(weight.grad.double(), expected, atol=1e-3)


def test_synchronised_batch_norm_is_batch_norm_in_one_process() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
    converted = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    assert type(converted[1]) is nn.SyncBatchNorm and converted[1].weight is model[1].weight
    x = numod.randn(5, 3)
    assert numod.allclose(converted(x), nn.Sequential(model[0], nn.BatchNorm1d(4), nn.ReLU())(x))
