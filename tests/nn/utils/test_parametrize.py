"""Parametrization: what is kept where, what assignment and removal do, and where numod is kinder than PyTorch."""

import copy
import pickle

import pytest

import numod
from numod import nn
from numod.nn.utils import parametrize
from numod.nn.utils.parametrize import is_parametrized, register_parametrization, remove_parametrizations


class Symmetric(nn.Module):
    def forward(self, x):
        return (x + x.T) / 2


class Times(nn.Module):
    def __init__(self, factor=2.0):
        super().__init__()
        self.factor, self.calls = factor, 0

    def forward(self, x):
        self.calls += 1
        return x * self.factor

    def right_inverse(self, x):
        return x / self.factor


class Outer(nn.Module):
    def forward(self, x, y):
        return x.unsqueeze(1) * y

    def right_inverse(self, z):
        return z[:, 0].clone(), z[0] / z[0, 0]


def layer():
    linear = nn.Linear(2, 2)
    linear.weight.data = numod.tensor([[1.0, 2.0], [3.0, 4.0]])
    return linear


def test_the_original_is_the_parameter_there_was():
    linear = layer()
    weight = linear.weight
    assert register_parametrization(linear, "weight", Times(4.0)) is linear
    assert linear.parametrizations.weight.original is weight and weight.tolist() == [[0.25, 0.5], [0.75, 1.0]]
    assert linear.weight.tolist() == [[1.0, 2.0], [3.0, 4.0]] and not isinstance(linear.weight, nn.Parameter)
    assert [name for name, _ in linear.named_parameters()] == ["bias", "parametrizations.weight.original"]
    assert type(linear).__name__ == "ParametrizedLinear" and isinstance(linear, nn.Linear)
    assert repr(linear).startswith(
        "ParametrizedLinear(\n  in_features=2, out_features=2, bias=True\n  (parametrizations): ModuleDict("
    )


def test_several_originals_and_a_chain():
    linear = layer()
    register_parametrization(linear, "weight", Outer())
    register_parametrization(linear, "weight", Times(2.0))
    assert list(linear.state_dict()) == [
        "bias",
        "parametrizations.weight.original0",
        "parametrizations.weight.original1",
    ]
    assert linear.weight.tolist() == [[2.0, 4.0], [6.0, 12.0]]
    linear.weight = numod.tensor([[2.0, 6.0], [4.0, 12.0]])
    assert linear.weight.tolist() == [[2.0, 6.0], [4.0, 12.0]]
    linear.weight.sum().backward()
    assert linear.parametrizations.weight.original0.grad.tolist() == [8.0, 8.0]
    remove_parametrizations(linear, "weight")
    assert (
        type(linear) is nn.Linear
        and isinstance(linear.weight, nn.Parameter)
        and not hasattr(linear, "parametrizations")
    )


@pytest.mark.parametrize("leave, expected", [(True, [[2.0, 2.5], [2.5, 8.0]]), (False, [[1.0, 2.0], [3.0, 4.0]])])
def test_removal_leaves_the_value_or_the_original(leave, expected):
    linear = layer()
    weight = linear.weight
    with numod.no_grad():
        weight.copy_(numod.tensor([[1.0, 2.0], [3.0, 4.0]]))
    register_parametrization(linear, "weight", Symmetric())
    if leave:
        with numod.no_grad():
            weight.copy_(numod.tensor([[2.0, 1.0], [4.0, 8.0]]))
    remove_parametrizations(linear, "weight", leave_parametrized=leave)
    assert linear.weight is weight and weight.tolist() == expected and weight.requires_grad


def test_a_copy_may_lose_a_parametrization_that_the_original_keeps():
    """PyTorch's copies share one class with its properties, and removal from one breaks the other."""
    linear = layer()
    for name in ("weight", "bias"):
        register_parametrization(linear, name, Times())
    twin = copy.deepcopy(linear)
    remove_parametrizations(twin, "weight")
    assert is_parametrized(twin, "bias") and not is_parametrized(twin, "weight")
    assert linear.weight.tolist() == twin.weight.tolist()
    remove_parametrizations(twin, "bias")
    assert type(twin) is nn.Linear and is_parametrized(linear, "bias") and linear(numod.ones(1, 2)).shape == (1, 2)


def test_a_copy_keeps_what_was_computed_and_slots():
    class Slotted(nn.Linear):
        __slots__ = ("note",)

    linear = Slotted(2, 2)
    linear.note, linear.doubled = ["a"], linear.weight * 2
    register_parametrization(linear, "weight", Times())
    twin = copy.deepcopy(linear)
    assert twin.note == ["a"] and twin.note is not linear.note and twin.doubled.tolist() == linear.doubled.tolist()


def test_cached_computes_each_once_and_again_after_an_assignment():
    linear, times = layer(), Times()
    register_parametrization(linear, "weight", times, unsafe=True)
    with parametrize.cached():
        first = linear.weight
        assert linear.weight is first and times.calls == 1
        linear.weight = numod.zeros(2, 2)
        assert linear.weight.tolist() == [[0.0, 0.0], [0.0, 0.0]] and times.calls == 2
    assert linear.weight is not linear.weight and times.calls == 4


def test_the_cache_ends_with_an_error():
    linear = layer()
    register_parametrization(linear, "weight", Times())
    with pytest.raises(KeyError), parametrize.cached():
        first = linear.weight
        raise KeyError
    assert linear.weight is not first


def test_an_optimizer_made_before_goes_on():
    linear = layer()
    optimizer = numod.optim.SGD(linear.parameters(), lr=0.5)
    register_parametrization(linear, "weight", Times(2.0))
    linear.weight.sum().backward()
    optimizer.step()
    assert linear.weight.tolist() == [[-1.0, 0.0], [1.0, 2.0]]


def test_buffers_conversion_and_pickling():
    module = nn.Module()
    module.register_buffer("mean", numod.ones(2))
    register_parametrization(module, "mean", Times())
    assert [name for name, _ in module.named_buffers()] == [
        "parametrizations.mean.original"
    ] and module.double().mean.dtype is numod.float64
    with pytest.raises(RuntimeError, match="only supported through state_dict"):
        pickle.dumps(module)
    remove_parametrizations(module, "mean")
    assert list(module._buffers) == ["mean"] and pickle.loads(pickle.dumps(module)).mean.tolist() == [1.0, 1.0]


def test_invalid_parametrizations_are_refused():
    class Bad(nn.Module):
        def forward(self, x):
            return x[0]

    with pytest.raises(ValueError, match="may not change the shape of the tensor, unless `unsafe` flag"):
        register_parametrization(layer(), "weight", Bad())
    linear = layer()
    register_parametrization(linear, "weight", Bad(), unsafe=True)
    assert linear.weight.tolist() == [1.0, 2.0]
    with pytest.raises(
        ValueError, match="does not have a parameter, a buffer, or a parametrized element with name 'x'"
    ):
        register_parametrization(linear, "x", Times())
    with pytest.raises(ValueError, match="does not have a parametrization on x"):
        remove_parametrizations(linear, "x")
    with pytest.raises(RuntimeError, match="parametrization Bad does not implement right_inverse"):
        linear.weight = numod.ones(2, 2)


def test_transfer_shares_the_originals():
    source, target = layer(), nn.Linear(2, 2)
    register_parametrization(source, "weight", Outer())
    assert parametrize.transfer_parametrizations_and_params(source, target) is target
    assert target.parametrizations.weight.original1 is source.parametrizations.weight.original1
    assert target.weight.tolist() == source.weight.tolist()
    assert parametrize.type_before_parametrizations(target) is nn.Linear
