"""skip_init, folding batch norms, and the import paths of `nn.modules`."""

import importlib
import sys

import numpy as np
import pytest

import numod
from numod import nn
from numod.nn import utils


def test_skip_init_draws_nothing():
    numod.manual_seed(3)
    expected = numod.rand(1).item()
    numod.manual_seed(3)
    layer = utils.skip_init(nn.Linear, 3, 2, dtype=numod.float64)
    assert numod.rand(1).item() == expected
    assert type(layer) is nn.Linear and layer.weight.shape == (2, 3) and layer.weight.dtype is numod.float64
    layer.reset_parameters()
    assert layer.weight.abs().max().item() <= 1 / 3**0.5


def test_skip_init_refuses():
    with pytest.raises(RuntimeError, match="Expected a Module; got"):
        utils.skip_init(int)
    with pytest.raises(RuntimeError, match="Module must support a 'device' arg to skip initialization"):
        utils.skip_init(nn.ReLU)


def norm_like(features, **parts):
    """The attributes of a batch norm."""
    bn = nn.Module().eval()
    bn.num_features, bn.eps = features, 1e-3
    values = {
        "running_mean": np.arange(features) + 0.5,
        "running_var": np.arange(features) + 1.0,
        "weight": np.arange(features) - 2.0,
        "bias": np.ones(features),
    }
    for name, value in (values | parts).items():
        bn.register_buffer(name, None if value is None else numod.tensor(np.asarray(value, dtype=np.float64)))
    return bn


def normalized(x, bn):
    """What a batch norm makes of x, features last."""
    scale = 1.0 if bn.weight is None else bn.weight.numpy()
    shift = 0.0 if bn.bias is None else bn.bias.numpy()
    return (x - bn.running_mean.numpy()) / np.sqrt(bn.running_var.numpy() + bn.eps) * scale + shift


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("parts", [{}, {"weight": None, "bias": None}])
def test_linear_and_batch_norm_in_one(bias, parts):
    linear, bn = nn.Linear(3, 4, bias=bias, dtype=numod.float64).eval(), norm_like(4, **parts)
    x = numod.tensor(np.random.default_rng(0).standard_normal((5, 3)))
    fused = utils.fuse_linear_bn_eval(linear, bn)
    np.testing.assert_allclose(fused(x).detach().numpy(), normalized(linear(x).detach().numpy(), bn), rtol=1e-9)
    assert fused is not linear and isinstance(fused.weight, nn.Parameter) and fused.weight.requires_grad


@pytest.mark.parametrize("transpose", [False, True])
def test_weights_of_a_convolution_and_batch_norm(transpose):
    bn = norm_like(4)
    weight = np.random.default_rng(0).standard_normal((3, 4, 2) if transpose else (4, 3, 2))
    statistics = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused, bias = utils.fuse_conv_bn_weights(numod.tensor(weight), None, *statistics, transpose)
    scale = bn.weight.numpy() / np.sqrt(bn.running_var.numpy() + bn.eps)
    np.testing.assert_allclose(
        fused.detach().numpy(), weight * scale.reshape((1, 4, 1) if transpose else (4, 1, 1)), rtol=1e-12
    )
    np.testing.assert_allclose(bias.detach().numpy(), normalized(np.zeros(4), bn), rtol=1e-12)


def test_folding_is_for_evaluation():
    with pytest.raises(AssertionError, match="Fusion only for eval!"):
        utils.fuse_linear_bn_eval(nn.Linear(1, 1), norm_like(1))
    with pytest.raises(AssertionError, match="To fuse, linear.out_features == bn.num_features"):
        utils.fuse_linear_bn_eval(nn.Linear(1, 3).eval(), norm_like(2))
    with pytest.raises(AssertionError, match="must not be None"):
        utils.fuse_conv_bn_eval(nn.Linear(1, 2).eval(), norm_like(2, running_mean=None))


@pytest.mark.parametrize("kind", ["Conv2d", "Linear"])
def test_a_parametrized_layer_is_fused_into_a_plain_one(kind):
    layer = (nn.Conv2d(2, 3, 1) if kind == "Conv2d" else nn.Linear(2, 3)).eval()
    bn = (nn.BatchNorm2d(3) if kind == "Conv2d" else nn.BatchNorm1d(3)).eval()
    bn.running_mean.normal_()
    utils.parametrizations.weight_norm(layer)
    x = numod.randn(4, 2, 3, 3) if kind == "Conv2d" else numod.randn(4, 2)
    fused = (utils.fuse_conv_bn_eval if kind == "Conv2d" else utils.fuse_linear_bn_eval)(layer, bn)
    numod.testing.assert_close(fused(x), bn(layer(x)))
    assert type(fused).__name__ == kind and utils.parametrize.is_parametrized(layer)


@pytest.mark.parametrize("path", ["module.Module", "linear.Linear", "flatten.Flatten", "activation.ReLU", "container.Sequential", "lazy.LazyModuleMixin",
                                  "module.register_module_forward_hook", "loss.MSELoss", "utils._pair"])  # fmt: skip
def test_paths_of_model_files(path):
    file, name = path.split(".")
    module = importlib.import_module(f"numod.nn.modules.{file}")
    result = getattr(module, name)
    assert sys.modules[f"numod.nn.modules.{file}"] is module and getattr(nn.modules, file) is module
    assert result is getattr(nn.modules, name, result) and result is getattr(nn, name, result)


def test_helpers_of_model_files():
    from numod.nn.modules.utils import (
        _ntuple,
        _pair,
        _reverse_repeat_tuple,
        _triple,
        consume_prefix_in_state_dict_if_present,
    )

    assert _pair(3) == (3, 3) and _pair([1, 2]) == (1, 2) and _triple(0) == (0, 0, 0) and _ntuple(4)("a") == ("a",)
    assert _reverse_repeat_tuple((1, 2), 2) == (2, 2, 1, 1)
    state = nn.Sequential(nn.Linear(1, 1)).state_dict(prefix="module.")
    consume_prefix_in_state_dict_if_present(state, "module.")
    assert list(state) == ["0.weight", "0.bias"] and nn.Sequential(nn.Linear(1, 1)).load_state_dict(state)


def test_the_old_name_of_clipping_warns():
    parameter = nn.Parameter(numod.ones(2))
    parameter.grad = numod.tensor([3.0, 4.0])
    with pytest.warns(FutureWarning, match="clip_grad_norm_"):
        assert utils.clip_grad_norm([parameter], 1.0).item() == 5.0
    assert parameter.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-4)


def test_paths_and_bases_of_layers() -> None:
    modules = numod.nn.modules
    assert (
        modules.conv.Conv2d is numod.nn.Conv2d
        and modules.batchnorm._BatchNorm is not None
        and modules.rnn.LSTM is numod.nn.LSTM
    )
    assert isinstance(numod.nn.Conv1d(1, 1, 1), modules.conv._ConvNd) and isinstance(
        numod.nn.Dropout(), modules.dropout._DropoutNd
    )
    assert (
        isinstance(numod.nn.BatchNorm2d(2), modules.batchnorm._NormBase)
        and repr(numod.nn.Hardswish(inplace=True)) == "Hardswish()"
    )
    with pytest.raises(TypeError):
        numod.nn.Tanh(inplace=True)


def test_sequences_without_padding_are_copies():
    padded = numod.arange(6.0).reshape(3, 2)
    first, second = nn.utils.rnn.unpad_sequence(padded, numod.tensor([3, 1]))
    first.zero_()
    assert padded[:, 0].tolist() == [0, 2, 4] and second.tolist() == [1]
