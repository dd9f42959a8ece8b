"""Lazy modules: parameters without a shape, and the call that gives them one."""

import copy
import pickle

import pytest

import numod
from numod import nn
from numod.nn.lazy import LazyModuleMixin
from numod.nn.parameter import UninitializedBuffer, UninitializedParameter, is_lazy


def test_the_first_call_makes_a_linear():
    net = nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2, bias=False))
    optimizer = numod.optim.SGD(net.parameters(), lr=0.1)
    before = list(net.parameters())
    assert all(map(is_lazy, before)) and repr(net[0]) == "LazyLinear(in_features=0, out_features=3, bias=True)"
    net(numod.ones(5, 4)).sum().backward()
    assert before[0].abs().max().item() <= 0.5
    optimizer.step()
    assert [type(submodule) for submodule in net] == [nn.Linear, nn.ReLU, nn.Linear] and net[0].in_features == 4
    assert all(earlier is mine and type(mine) is nn.Parameter for earlier, mine in zip(before, net.parameters()))
    assert (
        [tensor.shape for tensor in before] == [(3, 4), (3,), (2, 3)]
        and not net[0]._forward_pre_hooks
        and not net[0]._load_state_dict_pre_hooks
    )


def test_moving_and_converting_need_no_shape():
    layer = nn.LazyLinear(2, dtype=numod.float32).double().to("cpu")
    assert not any(parameter.requires_grad for parameter in layer.requires_grad_(False).parameters())
    assert all(parameter.requires_grad for parameter in layer.requires_grad_(True).parameters())
    assert is_lazy(layer.weight) and layer.weight.dtype is numod.float64 and layer.weight.device.type == "cpu"
    assert layer(numod.ones(1, 3, dtype=numod.float64)).dtype is numod.float64


@pytest.mark.parametrize("copy_of", [copy.deepcopy, lambda module: pickle.loads(pickle.dumps(module))])
def test_copies_have_hooks_of_their_own(copy_of):
    layer = nn.LazyLinear(2, dtype=numod.float64)
    layer.weight.requires_grad_(False)
    twin = copy_of(layer)
    twin(numod.ones(1, 3, dtype=numod.float64))
    assert type(twin) is nn.Linear and type(layer) is nn.LazyLinear and is_lazy(layer.weight)
    assert twin.weight.dtype is numod.float64 and not twin.weight.requires_grad and twin.bias.requires_grad


def test_state_before_during_and_after():
    full, lazy = nn.Linear(4, 3), nn.LazyLinear(3)
    assert all(map(is_lazy, lazy.state_dict().values()))
    assert str(nn.LazyLinear(3).load_state_dict(lazy.state_dict())) == "<All keys matched successfully>"
    assert (
        str(lazy.load_state_dict(full.state_dict())) == "<All keys matched successfully>"
        and not lazy.has_uninitialized_params()
    )
    with pytest.raises(
        AssertionError, match="The in_features inferred from input: 5 is not equal to in_features from self.weight: 4"
    ):
        lazy(numod.ones(1, 5))
    x = numod.ones(2, 4)
    assert lazy(x).tolist() == full(x).tolist() and type(lazy) is nn.Linear and lazy.in_features == 4
    with pytest.raises(RuntimeError, match="Can't access the shape of an uninitialized parameter"):
        full.load_state_dict(nn.LazyLinear(3).state_dict())


@pytest.mark.parametrize("value", [UninitializedParameter(), UninitializedBuffer()], ids=repr)
def test_using_one_too_early_says_so(value):
    for use in (
        lambda x: x + 1,
        lambda x: x.sum(),
        lambda x: x.clone(),
        lambda x: x.tolist(),
        lambda x: numod.cat([x]),
    ):
        with pytest.raises(ValueError, match="Attempted to use an uninitialized .* Call `forward` with a dummy batch"):
            use(value)
    with pytest.raises(RuntimeError, match="Call `forward` to initialize the parameters"):
        _ = value.shape
    assert repr(value) == f"<{type(value).__name__}>" and copy.deepcopy(value) is not value


class Shift(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.register_buffer("mean", numod.zeros(size))

    def forward(self, x):
        return x - self.mean


class LazyShift(LazyModuleMixin, Shift):
    cls_to_become = Shift

    def __init__(self):
        super().__init__(0)
        self.mean = UninitializedBuffer(persistent=False)

    def initialize_parameters(self, x):
        self.mean.materialize(x.shape[1:])
        self.mean.fill_(1.0)


def test_a_lazy_layer_of_ones_own_with_a_buffer():
    module = copy.deepcopy(LazyShift())
    assert list(module.state_dict()) == [] and is_lazy(module.mean)
    assert module(numod.ones(2, 3)).tolist() == [[0.0] * 3] * 2
    assert type(module) is Shift and isinstance(module.mean, nn.Buffer) and list(module.state_dict()) == []


def test_a_lazy_layer_must_say_how():
    class Undefined(LazyModuleMixin, nn.Module):
        pass

    class Forgetful(LazyShift):
        def initialize_parameters(self, x):
            pass

    with pytest.raises(NotImplementedError, match="initialize_parameters is not implemented for Undefined"):
        Undefined()(1)
    with pytest.raises(RuntimeError, match="module Forgetful has not been fully initialized"):
        Forgetful()(numod.ones(1, 1))
