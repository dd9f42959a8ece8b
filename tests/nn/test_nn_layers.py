"""Linear, Flatten, Dropout, activations and losses as modules: signature, repr, and that they call the function they
are named for.
"""

import numpy as np
import pytest

import numod
import numod.nn.functional as F
from numod import nn

pytestmark = pytest.mark.on_cuda(simulator=False)


def test_linear():
    layer = nn.Linear(3, 2, dtype=numod.float64)
    x = numod.ones(4, 3, dtype=numod.float64)
    expected = x.numpy() @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
    np.testing.assert_allclose(layer(x).detach().numpy(), expected)
    assert layer.weight.shape == (2, 3) and layer.bias.shape == (2,) and layer.weight.dtype == numod.float64
    assert repr(nn.Linear(3, 2, bias=False)) == "Linear(in_features=3, out_features=2, bias=False)"
    assert nn.Linear(3, 2, bias=False).bias is None


def test_identity_flatten_unflatten():
    x = numod.ones(2, 3, 4)
    assert nn.Identity(1, a=2)(x) is x
    assert nn.Flatten()(x).shape == (2, 12) and nn.Flatten(0, 1)(x).shape == (6, 4)
    assert nn.Unflatten(1, (3, -1))(numod.ones(2, 12)).shape == (2, 3, 4)
    assert repr(nn.Flatten()) == "Flatten(start_dim=1, end_dim=-1)"
    assert repr(nn.Unflatten(1, (2, 3))) == "Unflatten(dim=1, unflattened_size=(2, 3))"
    with pytest.raises(TypeError, match="unflattened_size must be a tuple of ints, but found type int"):
        nn.Unflatten(1, 3)
    with pytest.raises(TypeError, match="found element of type str at pos 1"):
        nn.Unflatten(1, (3, "a"))


def test_dropout():
    numod.manual_seed(0)
    layer, x = nn.Dropout(0.25), numod.ones(10_000)
    values = layer(x).numpy()
    assert set(np.round(np.unique(values), 4)) == {0, np.float32(1.3333)} and 0.2 < (values == 0).mean() < 0.3
    assert layer.eval()(x).tolist() == x.tolist() and repr(layer) == "Dropout(p=0.25, inplace=False)"
    for p in (-0.1, 1.1):
        with pytest.raises(ValueError, match=f"dropout probability has to be between 0 and 1, but got {p}"):
            nn.Dropout(p)


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("module", "text", "function"),
    [
        (nn.ReLU(), "ReLU()", F.relu),
        (nn.ReLU(inplace=True), "ReLU(inplace=True)", F.relu),
        (nn.ReLU6(), "ReLU6()", "relu6"),
        (nn.Sigmoid(), "Sigmoid()", lambda x: x.sigmoid()),
        (nn.Tanh(), "Tanh()", lambda x: x.tanh()),
        (nn.GELU(), "GELU(approximate='none')", F.gelu),
        (
            nn.LeakyReLU(0.2, inplace=True),
            "LeakyReLU(negative_slope=0.2, inplace=True)",
            lambda x: F.leaky_relu(x, 0.2),
        ),
        (nn.ELU(2.0), "ELU(alpha=2.0)", lambda x: F.elu(x, 2.0)),
        (nn.CELU(), "CELU(alpha=1.0)", "celu"),
        (nn.SELU(), "SELU()", "selu"),
        (nn.SiLU(), "SiLU()", F.silu),
        (nn.Mish(), "Mish()", "mish"),
        (nn.Hardtanh(-2, 2), "Hardtanh(min_val=-2, max_val=2)", lambda x: x.clamp(-2, 2)),
        (nn.Hardsigmoid(inplace=True), "Hardsigmoid()", "hardsigmoid"),
        (nn.Hardswish(), "Hardswish()", "hardswish"),
        (nn.Hardshrink(), "Hardshrink(0.5)", "hardshrink"),
        (nn.Softshrink(0.3), "Softshrink(0.3)", lambda x: F.softshrink(x, 0.3)),
        (nn.Softplus(), "Softplus(beta=1.0, threshold=20.0)", F.softplus),
        (nn.Softsign(), "Softsign()", "softsign"),
        (nn.Tanhshrink(), "Tanhshrink()", "tanhshrink"),
        (nn.LogSigmoid(), "LogSigmoid()", "logsigmoid"),
        (nn.Threshold(0.1, 20), "Threshold(threshold=0.1, value=20)", lambda x: F.threshold(x, 0.1, 20)),
        (nn.PReLU(), "PReLU(num_parameters=1)", lambda x: F.leaky_relu(x, 0.25)),
        (nn.RReLU().eval(), "RReLU(lower=0.125, upper=0.3333333333333333)", lambda x: F.leaky_relu(x, 11 / 48)),
        (nn.Softmax(1), "Softmax(dim=1)", lambda x: F.softmax(x, 1)),
        (nn.LogSoftmax(dim=0), "LogSoftmax(dim=0)", lambda x: F.log_softmax(x, 0)),
        (nn.Softmin(0), "Softmin(dim=0)", lambda x: F.softmax(-x, 0)),
        (nn.GLU(), "GLU(dim=-1)", "glu"),
    ],
)
def test_activation(module, text, function):
    assert repr(module) == text
    x = numod.tensor([[-2.5, -0.4, 0.2, 3.0], [1.0, -1.0, 0.0, 0.6]])
    if isinstance(function, str) and not hasattr(F, function):
        pytest.skip(f"functional.{function} does not exist yet")
    expected = (getattr(F, function) if isinstance(function, str) else function)(x.clone())
    np.testing.assert_allclose(module(x.clone()).detach().numpy(), expected.detach().numpy(), rtol=1e-6, atol=1e-7)


def test_hardtanh_arguments():
    with pytest.raises(AssertionError, match=r"max_val \(0\) must be greater than min_val \(1\)"):
        nn.Hardtanh(1, 0)
    with pytest.warns(FutureWarning, match="`min_value` is deprecated and renamed to `min_val`"):
        assert nn.Hardtanh(min_value=-3).min_val == -3
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):  # -1 was 255: zeros became ones
        F.hardtanh(numod.zeros(3, dtype=numod.uint8))
    assert F.hardtanh(numod.tensor([0, 3], dtype=numod.uint8), 0, 1).tolist() == [0, 1]


def test_softmax2d():
    assert nn.Softmax2d()(numod.ones(1, 4, 2, 2)).numpy().max() == 0.25
    with pytest.raises(ValueError, match="expected input to be 3D or 4D, got 2D instead"):
        nn.Softmax2d()(numod.ones(2, 2))


x, y = numod.tensor([[0.2, 0.7], [0.9, 0.4]]), numod.tensor([[0.0, 1.0], [1.0, 0.0]])
classes, weight = numod.tensor([1, 0]), numod.tensor([0.3, 0.7])


@pytest.mark.parametrize(
    ("loss", "target", "expected"),
    [
        (nn.L1Loss(), y, lambda: F.l1_loss(x, y)),
        (nn.MSELoss(reduction="sum"), y, lambda: F.mse_loss(x, y, reduction="sum")),
        (nn.SmoothL1Loss(beta=0.5), y, lambda: F.smooth_l1_loss(x, y, beta=0.5)),
        (nn.HuberLoss(delta=0.5), y, lambda: F.huber_loss(x, y, delta=0.5)),
        (nn.KLDivLoss(reduction="batchmean"), y, lambda: F.kl_div(x, y, reduction="batchmean")),
        (nn.NLLLoss(weight, ignore_index=0), classes, lambda: F.nll_loss(x, classes, weight=weight, ignore_index=0)),
        (nn.CrossEntropyLoss(), classes, lambda: F.cross_entropy(x, classes)),
        (
            nn.CrossEntropyLoss(weight, label_smoothing=0.1),
            classes,
            lambda: F.cross_entropy(x, classes, weight, label_smoothing=0.1),
        ),
        (nn.BCELoss(weight), y, lambda: F.binary_cross_entropy(x, y, weight)),
        (
            nn.BCEWithLogitsLoss(pos_weight=weight),
            y,
            lambda: F.binary_cross_entropy_with_logits(x, y, pos_weight=weight),
        ),
    ],
)
def test_loss(loss, target, expected):
    assert repr(loss) == f"{type(loss).__name__}()"
    assert abs(loss(x, target).item() - expected().item()) < 1e-6
    assert [name for name, _ in loss.named_parameters()] == []


def test_loss_settings():
    assert list(nn.CrossEntropyLoss(weight).state_dict()) == ["weight"] and nn.CrossEntropyLoss().weight is None
    with pytest.warns(UserWarning, match="please use reduction='sum' instead"):
        assert nn.MSELoss(size_average=False).reduction == "sum"
    with pytest.warns(UserWarning, match="please use reduction='none' instead"):
        assert nn.MSELoss(reduce=False).reduction == "none"
    with pytest.raises(TypeError, match="delta must be a float or int"):
        nn.HuberLoss(delta="a")


def test_a_transformer_gives_numbers_where_all_keys_are_padding():
    layer, x = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True), numod.randn(2, 3, 4)
    padding = numod.tensor([[True, True, True], [False, False, True]])
    y = layer(x, src_key_padding_mask=padding)
    y.sum().backward()
    assert numod.isfinite(y).all() and all(numod.isfinite(parameter.grad).all() for parameter in layer.parameters())
    numod.testing.assert_close(y[1, :2], layer(x[1:, :2])[0])


def test_padding_by_nothing_is_a_copy():
    x = numod.ones(1, 1, 2, 2)
    for mode in ("constant", "reflect", "replicate", "circular"):
        nn.functional.pad(x, (0, 0, 0, 0), mode=mode).fill_(4)
    assert x.max().item() == 1


def test_convolutions_are_overridden_by_pytorchs_names():
    class Halved(nn.Conv2d):
        def _conv_forward(self, input, weight, bias):
            return super()._conv_forward(input, weight / 2, None)

    layer, x = Halved(2, 3, 3, padding=1, padding_mode="circular"), numod.randn(1, 2, 4, 4)
    expected = F.conv2d(F.pad(x, layer._reversed_padding_repeated_twice, "circular"), layer.weight) / 2
    numod.testing.assert_close(layer(x), expected)
    assert layer._reversed_padding_repeated_twice == [1, 1, 1, 1] and not layer.transposed


def test_padding_that_only_crops_copies():
    for mode in ("constant", "reflect", "replicate", "circular"):
        x = numod.ones(1, 2, 4, 4)
        numod.nn.functional.pad(x, (0, 0, -1, -1), mode=mode).fill_(4)
        assert x.eq(1).all(), mode
