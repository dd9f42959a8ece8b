"""GradScaler: steps with scaled gradients, infinite gradients, and its rules."""

from __future__ import annotations

import pytest

import numod
from numod import amp


INF = float("inf")


def parts(**options):
    parameter = numod.nn.Parameter(numod.ones(2))
    return amp.GradScaler("cpu", init_scale=8.0, **options), parameter, numod.optim.SGD([parameter], 0.5)


def test_a_step_is_that_of_unscaled_gradients():
    scaler, parameter, optimizer = parts(growth_interval=2)
    for expected, scale in ((0.0, 8.0), (-1.0, 16.0)):
        optimizer.zero_grad()
        scaler.scale((parameter * 2).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (parameter.tolist(), parameter.grad.tolist(), scaler.get_scale()) == ([expected] * 2, [2.0, 2.0], scale)


def test_a_step_with_infinite_gradients_is_left_out():
    scaler, parameter, optimizer = parts()
    scaler.scale((parameter * numod.tensor([1.0, INF])).sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        scaler.unscale_(optimizer)
    assert scaler.step(optimizer) is None and parameter.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="already been called since the last update"):
        scaler.step(optimizer)
    scaler.update()
    assert scaler.state_dict() == {
        "scale": 4.0,
        "growth_factor": 2.0,
        "backoff_factor": 0.5,
        "growth_interval": 2000,
        "_growth_tracker": 0,
    }
    other = amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict()
    with pytest.raises(RuntimeError, match="source state dict is empty"):
        other.load_state_dict({})


def test_structures_are_scaled_and_order_is_checked():
    scaler, _, optimizer = parts()
    for call in (lambda: scaler.step(optimizer), scaler.update):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    scaled = scaler.scale({"a": [numod.ones(1), (numod.ones(1),)]})
    assert scaled["a"][0].item() == scaled["a"][1][0].item() == 8 and type(scaled["a"][1]) is tuple
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()


def test_not_enabled_it_only_steps():
    parameter = numod.nn.Parameter(numod.ones(1))
    optimizer, scaler = numod.optim.SGD([parameter], 1.0), amp.GradScaler(enabled=False)
    scaler.scale(parameter.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (parameter.item(), scaler.get_scale(), scaler.is_enabled(), scaler.state_dict()) == (0.0, 1.0, False, {})


@pytest.mark.filterwarnings("ignore:.numod.cuda.amp.GradScaler:FutureWarning")
@pytest.mark.skipif(numod.cuda.is_available(), reason="CUDA is there")
def test_without_cuda_it_says_so():
    for make in (amp.GradScaler, numod.cuda.amp.GradScaler):
        with pytest.warns(UserWarning, match="CUDA is not available.  Disabling."):
            assert not make().is_enabled()


def test_a_scalers_rules_are_read_and_set_by_name():
    scaler, *_ = parts(growth_interval=2)
    assert (scaler.get_growth_factor(), scaler.get_backoff_factor(), scaler.get_growth_interval()) == (2.0, 0.5, 2)
    scaler.set_growth_factor(3.0)
    scaler.set_backoff_factor(0.25)
    scaler.set_growth_interval(5)
    rules = {"growth_factor": 3.0, "backoff_factor": 0.25, "growth_interval": 5}
    assert {name: scaler.state_dict()[name] for name in rules} == rules
