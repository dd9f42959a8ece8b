"""Module: walks over parameters, buffers and submodules; modes; gradients of all parameters."""

from collections import OrderedDict

import pytest

import numod
from numod import nn
from modules import NAMES, Net, names


def test_named_walks():
    net = Net()
    assert names(net.named_parameters()) == NAMES
    assert names(net.named_parameters(prefix="net", recurse=False)) == ["net.scale"]
    assert names(net.named_buffers()) == ["mean", "count"]
    assert names(net.named_modules()) == ["", "first", "act", "second"]
    assert names(net.named_modules(prefix="net")) == ["net", "net.first", "net.act", "net.second"]
    assert [type(child) for child in net.children()] == [nn.Linear, nn.ReLU, nn.Linear]
    assert [id(parameter) for parameter in net.parameters()] == [
        id(parameter) for _, parameter in net.named_parameters()
    ]
    assert len(list(net.buffers())) == 2 and len(list(net.parameters(recurse=False))) == 1


def test_shared_parts_come_once_unless_asked():
    layer = nn.Linear(2, 2)
    net = nn.Sequential(layer, nn.Sequential(layer), nn.Linear(2, 2))
    net[2].weight = layer.weight
    assert names(net.named_modules()) == ["", "0", "1", "2"]
    assert names(net.named_modules(remove_duplicate=False)) == ["", "0", "1", "1.0", "2"]
    assert len(list(net.modules(remove_duplicate=False))) == 5
    assert names(net.named_parameters()) == ["0.weight", "0.bias", "2.bias"]
    assert names(net.named_parameters(remove_duplicate=False)) == [
        "0.weight",
        "0.bias",
        "1.0.weight",
        "1.0.bias",
        "2.weight",
        "2.bias",
    ]
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.0.weight", "1.0.bias", "2.weight", "2.bias"]
    twice = nn.ModuleDict({"a": layer, "b": layer})
    assert names(twice.named_children()) == ["a"]
    buffer = numod.ones(1)
    twice.register_buffer("x", buffer)
    layer.register_buffer("y", buffer)
    assert names(twice.named_buffers()) == ["x"] and names(twice.named_buffers(remove_duplicate=False)) == [
        "x",
        "a.y",
        "b.y",
    ]


def test_named_modules_memo():
    net = Net()
    seen = {net.act}
    assert names(net.named_modules(memo=seen)) == ["", "first", "second"] and len(seen) == 4


def test_get_parts_by_path():
    net = nn.Sequential(OrderedDict(body=Net()))
    assert net.get_submodule("") is net and net.get_submodule("body.first") is net.body.first
    assert net.get_parameter("body.first.weight") is net.body.first.weight
    assert net.get_buffer("body.mean") is net.body.mean
    for method, target, message in [
        ("get_submodule", "body.third", "Net has no attribute `third`"),
        ("get_submodule", "body.forward", "`forward` is not an nn.Module"),
        ("get_parameter", "body.bias", "Net has no attribute `bias`"),
        ("get_parameter", "body.mean", "`mean` is not an nn.Parameter"),
        ("get_buffer", "body.scale", "`scale` is not a buffer"),
        ("get_buffer", "head.mean", "Sequential has no attribute `head`"),
    ]:
        with pytest.raises(AttributeError, match=message):
            getattr(net, method)(target)


def test_set_submodule():
    net = nn.Sequential(OrderedDict(body=Net()))
    net.set_submodule("body.act", nn.Tanh())
    net.set_submodule("body.last", nn.Tanh())
    assert isinstance(net.body.act, nn.Tanh) and names(net.body.named_children()) == ["first", "act", "second", "last"]
    with pytest.raises(ValueError, match="Cannot set the submodule without a target name!"):
        net.set_submodule("", nn.Tanh())
    with pytest.raises(ValueError, match="`module` is not an nn.Module"):
        net.set_submodule("body.act", 3)
    with pytest.raises(AttributeError, match="Net has no attribute `new`"):
        net.set_submodule("body.new", nn.Tanh(), strict=True)
    with pytest.raises(AttributeError, match="`forward` is not an nn.Module"):
        net.set_submodule("body.forward", nn.Tanh())
    with pytest.raises(AttributeError, match="Sequential has no attribute `head`"):
        net.set_submodule("head.act", nn.Tanh())


def test_apply_goes_children_first():
    net, order = Net(), []
    assert net.apply(lambda module: order.append(type(module).__name__)) is net
    assert order == ["Linear", "ReLU", "Linear", "Net"]


def test_train_and_eval_follow_overridden_methods():
    class Frozen(nn.Sequential):
        def train(self, mode=True):
            return super().train(False)

    net = nn.Sequential(Frozen(nn.Dropout()), nn.Dropout())
    assert net.eval() is net and not any(module.training for module in net.modules())
    assert net.train() is net and [module.training for module in net.modules()] == [True, False, False, True]
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train("yes")


def test_requires_grad_and_zero_grad():
    net = Net()
    net(numod.ones(1, 3)).sum().backward()
    gradient = net.scale.grad
    net.zero_grad(set_to_none=False)
    assert net.scale.grad is gradient and gradient.tolist() == [0, 0]
    net.zero_grad()
    assert all(parameter.grad is None for parameter in net.parameters())
    assert net.requires_grad_(False) is net and not any(parameter.requires_grad for parameter in net.parameters())
    net.requires_grad_()
    assert all(parameter.requires_grad for parameter in net.parameters())


def test_zero_grad_cuts_a_gradient_with_history():
    x = nn.Parameter(numod.ones(2))
    module = nn.ParameterList([x])
    (x**3).sum().backward(create_graph=True)
    module.zero_grad(set_to_none=False)
    assert not x.grad.requires_grad and x.grad.tolist() == [0, 0]
