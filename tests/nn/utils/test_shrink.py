"""`prune.shrink`: smaller networks with the same outputs, and what stays as it is."""

from __future__ import annotations

import dataclasses

import pytest

import numod as torch
from numod import nn
from numod.nn import functional as F
from numod.nn.utils import prune


def pruned(model, names, amount=0.5):
    for name in names:
        prune.ln_structured(model.get_submodule(name), "weight", amount=amount, n=2, dim=0)
    return model.eval()


def same(model, example, **sizes):
    small = prune.shrink(model, example)
    for name, shape in sizes.items():
        assert tuple(small.get_submodule(name.replace("_", ".").lstrip(".")).weight.shape) == shape
    inputs = example if isinstance(example, tuple) else (example,)
    torch.testing.assert_close(small(*inputs), model(*inputs), rtol=1e-4, atol=1e-5)
    assert not prune.is_pruned(small)
    return small


def statistics(model):
    for module in model.modules():
        if hasattr(module, "running_mean"):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight), nn.init.normal_(module.bias)
    return model


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("act", [nn.ReLU, nn.Sigmoid, nn.Identity])
def test_linear_layers(bias, act):
    torch.manual_seed(0)
    model = pruned(nn.Sequential(nn.Linear(6, 10, bias=bias), act(), nn.Linear(10, 3, bias=bias)), ["0"])
    small = same(model, torch.randn(4, 6), _0=(5, 6), _2=(3, 5))
    assert (small[0].out_features, small[2].in_features) == (5, 5)
    assert small(torch.randn(2, 7, 6)).shape == (2, 7, 3)
    assert model[0].weight_mask.shape == (10, 6)  # the model itself stays


class Net(nn.Module):
    def __init__(self, padding=0):
        super().__init__()
        self.first, self.bn, self.pool = nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.MaxPool2d(2)
        self.second, self.third = nn.Conv2d(8, 6, 3, padding=padding), nn.Conv2d(6, 4, 1, bias=False)
        self.drop, self.out = nn.Dropout(0.2), nn.Linear(4 * (2 + padding * 2) ** 2, 5)

    def forward(self, x):
        x = self.pool(F.relu(self.bn(self.first(x))))
        x = torch.tanh(self.second(x))
        return self.out(self.drop(self.third(x).flatten(1)))


@pytest.mark.parametrize("remaining", [pytest.param(1, marks=pytest.mark.fuzz), 4])
def test_convolutions_with_all_between(remaining):
    torch.manual_seed(1)
    model = pruned(statistics(Net()), ["first", "second", "third"], 1 - remaining / 8)
    small = same(model, torch.randn(2, 3, 10, 10))
    assert small.first.weight.shape == (remaining, 3, 3, 3) and small.bn.running_mean.shape == (remaining,)
    assert small.second.weight.shape[1] == remaining and small.out.in_features < model.out.in_features
    assert small.third.weight.shape[1] == small.second.weight.shape[0] < 6
    compiled = torch.compile(small, options={"freezing": True})
    with torch.no_grad():
        x = torch.randn(2, 3, 10, 10)
        compiled(x)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


def test_a_constant_before_padding_stays_unless_it_is_zero():
    model = pruned(statistics(Net(padding=1)), ["first"])
    constants = F.relu(model.bn(torch.zeros(1, 8, 1, 1) + model.first.bias.reshape(1, 8, 1, 1))).flatten()
    removed = (model.first.weight == 0).flatten(1).all(1)
    staying = int((~removed | (constants != 0)).sum())
    small = same(model, torch.randn(2, 3, 10, 10))
    assert small.first.out_channels == staying


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)

    def forward(self, x):
        y = self.first(x)
        return {"out": self.out(self.second(y.relu()) + y)}


def test_channels_that_others_read_stay():
    model = pruned(Residual(), ["first", "second"])
    small = same(model, torch.randn(3, 6), first=(6, 6), second=(6, 6), out=(2, 6))
    assert small is not model


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.again, self.tied = nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x):
        return F.linear(self.again(self.again(self.tied(self.first(x)))), self.tied.weight)


def test_shared_layers_and_weights_stay():
    model = pruned(Twice(), ["first", "again"])
    with torch.no_grad():
        model.tied.weight[0] = 0
    same(model, torch.randn(2, 4), first=(4, 4), again=(4, 4), tied=(4, 4))


def test_results_and_changes_in_place_stay():
    class Changed(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            y = self.first(x)
            y.add_(1)
            return self.second(y)

    same(pruned(Changed(), ["first", "second"]), torch.randn(2, 4), first=(4, 4), second=(4, 4))


def test_a_layer_of_zeros_keeps_a_channel():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2)).eval()
    with torch.no_grad():
        model[0].weight.zero_()
    small = same(model, torch.randn(2, 3))
    assert small[0].out_features == 1


def test_grouped_convolutions_and_sequences_stay():
    model = nn.Sequential(nn.Conv1d(4, 4, 1), nn.Conv1d(4, 4, 3, groups=2), nn.Conv1d(4, 2, 1)).eval()
    same(pruned(model, ["0", "1"]), torch.randn(2, 4, 8), _0=(4, 4, 1), _1=(4, 2, 3))


def biased(*layers, channels=(1, 3)):
    """A network whose first layer has constant channels that are not zero."""
    model = nn.Sequential(*layers).eval()
    with torch.no_grad():
        model[0].weight[list(channels)] = 0
        model[0].bias[list(channels)] = 0.5
    return model


def test_an_image_without_a_batch_stays():
    """Its first dimension has the channels, and Flatten joins the others."""
    model = biased(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 4))
    same(model, torch.randn(3, 6, 6), _0=(8, 3, 3, 3), _3=(4, 16))


@pytest.mark.filterwarnings("ignore:`nn.utils.weight_norm`")
def test_a_computed_weight_stays():
    model = biased(nn.Linear(5, 8), nn.ReLU(), nn.utils.weight_norm(nn.Linear(8, 3)))
    same(model, torch.randn(2, 5), _0=(8, 5), _2=(3, 8))


def test_a_model_that_reads_numbers():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.second(self.first(x)) * x.mean().item()

    same(pruned(Scaled(), ["first"]), torch.randn(2, 4), first=(4, 4), second=(3, 4))


def test_bfloat16():
    model = biased(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)).to(torch.bfloat16)
    example = torch.randn(4, 5).bfloat16()
    small = prune.shrink(model, example)
    assert small[0].out_features == 6
    torch.testing.assert_close(small(example), model(example), rtol=0.05, atol=0.05)


@dataclasses.dataclass
class Result:
    hidden: torch.Tensor
    y: torch.Tensor


class Plain:
    pass


@pytest.mark.parametrize("kind", [Result, lambda *tensors: Plain()])
def test_results_in_objects(kind):
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(4, 8), nn.Linear(8, 3)

        def forward(self, x):
            hidden = self.first(x)
            return kind(hidden, self.second(hidden))

    model = pruned(Layers(), ["first"])
    if kind is Result:  # the model returns the channels, so they stay
        assert prune.shrink(model, torch.randn(2, 4))(torch.randn(2, 4)).hidden.shape == (2, 8)
    else:
        with pytest.raises(TypeError, match="the model returns a Plain; expected tensors"):
            prune.shrink(model, torch.randn(2, 4))


def test_errors():
    with pytest.raises(TypeError, match="expected a Module and an input of it, got function"):
        prune.shrink(lambda x: x, torch.ones(1))
    with pytest.raises(RuntimeError, match="call model.eval"):
        prune.shrink(nn.Linear(2, 2), torch.ones(1, 2))

    class Random(nn.Module):
        def forward(self, x):
            return torch.rand_like(x)

    with pytest.raises(RuntimeError, match="computes other outputs"):
        prune.shrink(Random().eval(), torch.ones(3, 2))


class SharedActivation(nn.Module):
    """As the blocks of ResNets: one ReLU, called at several places."""

    def __init__(self):
        super().__init__()
        self.stem, self.conv1 = nn.Conv2d(3, 6, 3), nn.Conv2d(6, 8, 3, padding=1, bias=False)
        self.bn, self.conv2, self.relu = nn.BatchNorm2d(8), nn.Conv2d(8, 6, 3), nn.ReLU(inplace=True)
        self.out = nn.Conv2d(6, 2, 1)

    def forward(self, x):
        x = self.relu(self.stem(x))
        return self.out(self.relu(self.conv2(self.relu(self.bn(self.conv1(x)))) + x[..., 1:-1, 1:-1]))


def test_a_shared_activation_does_not_hold_channels():
    torch.manual_seed(0)
    model = pruned(statistics(SharedActivation()), ["conv1"])
    same(model, torch.randn(2, 3, 9, 9), conv1=(4, 6, 3, 3), conv2=(6, 4, 3, 3), out=(2, 6, 1, 1))


@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("activation", [lambda: nn.PReLU(8), nn.PReLU, nn.ReLU6])
def test_channels_of_a_depthwise_convolution_are_cut_with_those_before_it(activation, padding):
    torch.manual_seed(0)
    parts = nn.Conv2d(3, 8, 1), nn.BatchNorm2d(8), activation(), nn.Conv2d(8, 8, 3, padding=padding, groups=8)
    model = statistics(nn.Sequential(*parts, nn.BatchNorm2d(8), nn.ReLU6(), nn.Conv2d(8, 4, 1)))
    with torch.no_grad():
        model[1].running_mean.fill_(0), model[1].bias.fill_(0), model[0].bias.fill_(0)
    small = same(pruned(model, ["0"]), torch.randn(2, 3, 6, 6))
    shapes = [tuple(small[k].weight.shape) for k in (0, 3, 6)]
    assert shapes == [(4, 3, 1, 1), (4, 1, 3, 3), (4, 4, 1, 1)] and small[3].groups == small[1].num_features == 4
    small.train()(torch.randn(3, 3, 6, 6)).square().mean().backward()
    assert getattr(small[2], "num_parameters", 1) in (1, 4) and "groups=4" in repr(small)


def test_a_depthwise_convolution_with_several_filters_for_a_channel_stays():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 8, 3, groups=4), nn.Conv2d(8, 2, 1))
    same(pruned(model, ["0"]), torch.randn(1, 3, 6, 6), _0=(4, 3, 1, 1), _1=(8, 1, 3, 3))


class Between(nn.Module):
    """Two layers with a function between them."""

    def __init__(self, first, function, second):
        super().__init__()
        self.first, self.function, self.second = first, function, second

    def forward(self, x):
        return self.second(self.function(F.relu(self.first(x))))


@pytest.mark.parametrize(
    ("function", "second"),
    [
        (lambda x: F.max_pool2d(x, 2), nn.Conv2d(8, 3, 2)),
        (lambda x: F.max_pool2d(x, 3, 2, 1), nn.Conv2d(8, 3, 2)),
        (lambda x: F.avg_pool2d(x, 2), nn.Conv2d(8, 3, 2)),
        (lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1), nn.Linear(8, 3)),
        (lambda x: F.adaptive_avg_pool2d(x, 4).flatten(1), nn.Linear(128, 3)),
        (lambda x: F.adaptive_max_pool2d(x, 1)[..., 0, 0], None),
        (lambda x: F.avg_pool2d(x, 3, 1, 1), None),  # zeros of the padding
        (lambda x: x.mean((2, 3)), nn.Linear(8, 3)),
        (lambda x: x.mean((2, 3), keepdim=True).squeeze((0, 2)).squeeze(-1), nn.Linear(8, 3)),
        (lambda x: x.amax(-1).mean(-1), nn.Linear(8, 3)),
        (lambda x: x.mean(1), None),
        (lambda x: x.mean((2, 3), dtype=torch.float64).float(), None),
        (lambda x: x.flatten(2).unsqueeze(0).squeeze(0), nn.Conv1d(8, 3, 1)),
        (lambda x: x.permute(0, 2, 3, 1), nn.Linear(8, 3)),
        (lambda x: x.permute(0, 2, 3, 1).reshape(-1, x.shape[1]), nn.Linear(8, 3)),
        (lambda x: x.permute(0, 2, 3, 1).flatten(1), None),
        (lambda x: x.permute(1, 0, 2, 3), None),
        (lambda x: x.reshape(4, 2, 2, -1), None),
    ],
)
def test_functions_between_two_layers(function, second):
    torch.manual_seed(0)
    first, x = nn.Conv2d(3, 8, 3), torch.randn(2, 3, 8, 8)
    last = nn.Identity() if second is None else second
    model = pruned(Between(first, function, last), ["first"])
    small = prune.shrink(model, x)
    torch.testing.assert_close(small(x), model(x), rtol=1e-4, atol=1e-5)
    assert small.first.out_channels == (8 if second is None else 4)


def test_sequences_between_linear_layers():
    torch.manual_seed(0)
    for function in (lambda x: x.mean(1), lambda x: x.flatten(0, 1), lambda x: x.transpose(0, 1)):
        model = pruned(Between(nn.Linear(4, 8), function, nn.Linear(8, 3)), ["first"])
        same(model, torch.randn(2, 5, 4), first=(4, 4), second=(3, 4))
        assert prune.shrink(model, torch.randn(2, 5, 4)).first.out_features == 4


def test_sizes_written_as_numbers_keep_the_channels_before_them():
    torch.manual_seed(0)

    class LeNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 4, 3), nn.Conv2d(4, 6, 3)
            self.fc, self.out = nn.Linear(6 * 4, 8), nn.Linear(8, 3)

        def forward(self, x):
            x = F.max_pool2d(F.relu(self.conv1(x)), 2)
            x = F.max_pool2d(F.relu(self.conv2(x)), 2).view(-1, 6 * 4)
            return self.out(F.relu(self.fc(x)))

    model = pruned(LeNet(), ["conv1", "conv2", "fc"])
    same(model, torch.randn(2, 1, 14, 14), conv1=(2, 1, 3, 3), conv2=(6, 2, 3, 3), fc=(4, 24), out=(3, 4))


def test_layers_called_by_name():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.relu, self.second = nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)

        def forward(self, x):
            return self.second(input=self.relu(input=self.first(input=x)))

    same(pruned(Net(), ["first"]), torch.randn(2, 4), first=(4, 4), second=(3, 4))


def test_a_layer_that_shares_the_weight_before_pruning():
    torch.manual_seed(0)
    model = pruned(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), ["0"])
    model[2].weight = model[0].weight_orig
    small = same(model, torch.randn(2, 8), _0=(4, 8), _2=(8, 4))
    assert model[0].weight_orig.count_nonzero() == 64 and small[0].weight.requires_grad
