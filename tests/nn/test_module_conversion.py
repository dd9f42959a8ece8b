"""Module: conversion of dtype and device, copies and pickles, lifetime."""

import copy
import gc
import pickle
import weakref

import pytest

import numod
from numod import nn
from modules import Net, names


def test_to_dtype_keeps_identity_and_integers():
    net = Net()
    net(numod.ones(1, 3)).sum().backward()
    before = {name: id(tensor) for name, tensor in [*net.named_parameters(), *net.named_buffers()]}
    weight, gradient = net.first.weight, net.first.weight.grad
    assert net.to(numod.float64) is net
    assert {name: id(tensor) for name, tensor in [*net.named_parameters(), *net.named_buffers()]} == before
    assert net.first.weight is weight and weight.grad is gradient
    assert weight.dtype == gradient.dtype == net.mean.dtype == numod.float64 and net.count.dtype == numod.int64
    assert weight.requires_grad and weight.is_leaf and isinstance(weight, nn.Parameter)
    assert net(numod.ones(1, 3, dtype=numod.float64)).dtype == numod.float64
    assert net.float().mean.dtype == numod.float32 and net.double().mean.dtype == numod.float64


def test_to_takes_every_form():
    net = Net()
    assert net.to() is net and net.to("cpu") is net and net.to(numod.device("cpu")) is net and net.to(None) is net
    assert net.to("cpu", numod.float64).mean.dtype == numod.float64
    assert net.to(numod.ones(1)).mean.dtype == numod.float32
    assert net.to(numod.float64, True).mean.dtype == numod.float64
    assert net.to(device="cpu", dtype=numod.float32, non_blocking=True).mean.dtype == numod.float32
    assert net.cpu() is net
    with pytest.raises(TypeError, match="nn.Module.to only accepts floating point"):
        net.to(numod.int64)
    with pytest.raises(TypeError, match=r"to\(\) received dict"):
        net.to({})
    with pytest.raises(TypeError, match="unexpected keyword argument 'where'"):
        net.to(where="cpu")
    with pytest.raises(TypeError, match="dtype given twice"):
        net.to(numod.float32, numod.float64)


def test_type_converts_buffers_of_every_dtype():
    net = Net().type(numod.float64)
    assert net.count.dtype == numod.float64 and net.scale.dtype == numod.float64


def test_to_empty_keeps_shapes_and_identity():
    net = Net()
    weight = net.first.weight
    net.to_empty(device="cpu")
    assert net.first.weight is weight and weight.shape == (4, 3)


def test_an_optimizer_stays_valid_after_to():
    net = nn.Linear(2, 1).to(numod.float64)
    optimizer = numod.optim.SGD(net.parameters(), lr=1.0)
    net.float()
    net(numod.ones(1, 2)).sum().backward()
    before = net.weight.tolist()
    optimizer.step()
    assert net.weight.tolist() != before


def test_an_overridden_apply_is_followed():
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.cached = numod.ones(2)

        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.cached = fn(self.cached)
            return self

    net = nn.Sequential(Holder(), nn.Linear(2, 2)).double()
    assert net[0].cached.dtype == numod.float64


def test_to_keeps_the_identity_of_buffers_and_of_shared_parameters():
    """Better than PyTorch, which replaces buffers, so that every alias of them goes stale."""
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    running = numod.zeros(2)
    net[0].register_buffer("running", running)
    net[1].register_buffer("also_running", running)
    net.to(numod.float64)
    assert net[0].weight is net[1].weight
    assert net[0].running is net[1].also_running is running and running.dtype == numod.float64


def test_a_shared_tensor_is_converted_once():
    shared = nn.Parameter(numod.ones(2))
    net = nn.ModuleList([nn.ParameterList([shared]), nn.ParameterList([shared])])
    net._apply(lambda tensor: tensor * 2)
    assert shared.tolist() == [2, 2]


def test_a_buffer_with_a_history_keeps_it_through_to():
    x = numod.ones(2, requires_grad=True)
    module = nn.Module()
    module.register_buffer("mean", x * 3)
    module.double().mean.sum().backward()
    assert x.grad.tolist() == [3, 3]


# ---- copies


def test_deepcopy_is_independent_and_keeps_ties():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    net.note = {"list": [1, 2]}
    other = copy.deepcopy(net)
    assert other[0].weight is other[1].weight is not net[0].weight
    assert isinstance(other[0].weight, nn.Parameter) and other[0].weight.requires_grad
    assert other.note == net.note and other.note is not net.note
    with numod.no_grad():
        other[0].weight.zero_()
    assert other[1].weight.tolist() == [[0, 0], [0, 0]] != net[0].weight.tolist()
    other[0].bias = None
    assert net[0].bias is not None and other[0].bias is None


def test_deepcopy_of_a_module_that_kept_a_computed_tensor():
    """Better than PyTorch, which refuses: the copy has the values without the history."""
    net = Net()
    net.last = net(numod.ones(1, 3))
    net.history = [net.last, {"again": net.last * 2}]
    net.history.append(net.history)
    net.mean = 0.5 * net.mean + net.last[0]
    other = copy.deepcopy(net)
    assert other.last.tolist() == net.last.tolist() and other.last.grad_fn is None and other.last is not net.last
    assert (
        other.history[0] is other.last
        and other.history[1]["again"].grad_fn is None
        and other.history[2] is other.history
    )
    assert other.mean.tolist() == net.mean.tolist() and net.last.grad_fn is not None


def test_deepcopy_of_a_parameter():
    parameter = nn.Parameter(numod.ones(2), requires_grad=False)
    parameter.note = ["kept"]
    other = copy.deepcopy(parameter)
    assert (
        isinstance(other, nn.Parameter)
        and not other.requires_grad
        and other.note == ["kept"]
        and other.note is not parameter.note
    )
    first, second = copy.deepcopy([parameter, parameter])
    assert first is second


def test_shallow_copy_has_its_own_registries():
    net = Net()
    other = copy.copy(net)
    assert other.first is net.first and other.scale is net.scale
    other.scale = nn.Parameter(numod.zeros(2))
    assert net.scale.tolist() == [1, 1] and other.scale.tolist() == [0, 0]


def test_pickle_round_trip():
    net = Net().eval()
    net.first.weight.note = "kept"
    net.second.tied = net.first.weight
    other = pickle.loads(pickle.dumps(net))
    assert repr(other) == repr(net) and not other.training and other._non_persistent_buffers_set == {"count"}
    assert names(other.named_parameters()) == names(net.named_parameters())
    assert [parameter.tolist() for parameter in other.parameters()] == [
        parameter.tolist() for parameter in net.parameters()
    ]
    assert other.second.tied is other.first.weight and other.first.weight.note == "kept"
    assert other.first.weight is other.first._parameters["weight"]
    other.first.weight = None
    assert net.first.weight is not None


def test_pickle_with_the_users_own_getstate():
    other = pickle.loads(pickle.dumps(WithState()))
    assert other.secret == "new" and other.layer.weight is other.layer._parameters["weight"]
    other.layer = nn.Linear(1, 1)
    assert other.layer.in_features == 1


class WithState(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.secret = "old"

    def __getstate__(self):
        state = self.__dict__.copy()
        del state["secret"]
        return state

    def __setstate__(self, state):
        super().__setstate__(state)
        self.secret = "new"


def test_a_module_dies_with_its_last_user():
    gc.disable()
    try:
        net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
        watched = [weakref.ref(net), weakref.ref(net[0]), weakref.ref(net[0].weight)]
        del net
        assert [reference() for reference in watched] == [None] * 3
    finally:
        gc.enable()


def test_replaced_dict_of_a_replica():
    net = Net()
    replica = Net.__new__(Net)
    replica.__dict__ = net.__dict__.copy()
    replica._parameters = {}
    replica._modules = replica._modules.copy()
    assert not hasattr(replica, "scale") and net.scale is not None
    replica.first = nn.Linear(1, 1)
    assert net.first.in_features == 3 and replica.first.in_features == 1
