"""Hooks that change between the calls of a compiled function."""

from __future__ import annotations

import warnings

import pytest
from pairs import batch, compile, equal, forward_pair, net

import numod
from numod import nn
from numod.graph import compile as compiled_natively


def test_forward_hooks_inside_are_recorded_and_guarded() -> None:
    model, x, scale = net(), batch(1)[0], 2.0
    handle = model[0].register_forward_hook(lambda module, inputs, output: output * scale)
    model[1].register_forward_pre_hook(lambda module, inputs: (inputs[0] + 1,))
    compiled = compile(model)
    for turn in range(6):
        if turn == 2:
            scale = 3.0
        if turn == 4:
            handle.remove()
        assert equal(compiled(x), model(x))


def test_hooks() -> None:
    for layer in (0, -1):
        model = net()
        model[layer].register_full_backward_hook(lambda module, inputs, outputs: None)
        with pytest.raises(RuntimeError, match="has a hook"):
            compile(model)(batch(1)[0])
    model, calls = net(), []
    compiled = compile(model)
    compiled.register_forward_hook(lambda module, inputs, output: calls.append(1))
    for _ in range(3):
        compiled(batch(1)[0])
    assert len(calls) == 3
    model[0].register_forward_hook(lambda module, inputs, output: calls.append(1))
    compiled = compile(model.forward)
    compiled(batch(1)[0])
    with pytest.raises(RuntimeError, match=r"calls\) was"):
        compiled(batch(1)[0])


def test_hooks_of_given_tensors_are_called_once() -> None:
    eager, compiled = forward_pair()
    for _ in range(3):
        results = []
        for model in (eager, compiled):
            x = batch(1)[0].requires_grad_()
            hooked, unhooked = x * 1, x * 2
            hooked.register_hook(lambda g: g * 3)
            unhooked.retain_grad()
            (model(hooked).sum() + model(unhooked).sum()).backward()
            results.append((x.grad, unhooked.grad))
        assert equal(*results)


def test_hooks_of_leaves_are_called_by_the_backward_pass() -> None:
    eager, compiled = forward_pair()
    inputs, seen = [batch(1)[0].requires_grad_() for _ in range(2)], ([], [])
    for model, x, calls in zip((eager, compiled), inputs, seen):
        weight = next(model.parameters())
        weight.register_hook(lambda g, calls=calls: calls.append(g.clone()) or g * 2)
        weight.register_post_accumulate_grad_hook(lambda p, calls=calls: calls.append(p.grad.clone()))
        x.register_hook(lambda g: g * 3)
        for _ in range(3):
            model(x).sum().backward()
    assert equal(*seen) and len(seen[0]) == 6 and equal(inputs[0].grad, inputs[1].grad)
    assert all(equal(a.grad, b.grad) for a, b in zip(eager.parameters(), compiled.parameters()))


@pytest.mark.parametrize("name", ["register_hook", "register_post_accumulate_grad_hook"])
def test_hooks_given_to_arguments_inside_are_not_missed(name: str) -> None:
    def hooked(x: numod.Tensor) -> numod.Tensor:
        getattr(x, name)(lambda g: g * 2 if g is not x else x.grad.mul_(2))
        return x * x

    compiled, results = compiled_natively(hooked), []
    with warnings.catch_warnings(action="ignore"):
        for k in range(6):
            x = numod.arange(3.0).requires_grad_()
            (compiled if k < 3 else hooked)(x).sum().backward()
            results.append(x.grad)
    assert equal(results[:3], results[3:])


def test_a_hook_added_later_is_not_missed() -> None:
    eager, compiled = forward_pair()
    x = batch(1)[0]
    compiled(x), compiled(x)
    for row in (eager, compiled):
        row[1].register_forward_hook(lambda module, inputs, output: output * 2)
    assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    with nn.modules.module.register_module_forward_hook(lambda module, inputs, output: output + 1):
        assert equal(compiled(x), eager(x)) and equal(compiled(x), eager(x))
    assert equal(compiled(x), eager(x))


def test_hooks_of_saved_tensors_and_anomalies_begin_between_calls() -> None:
    weight, x, packed = nn.Parameter(numod.ones(2)), numod.ones(2), []
    compiled = compile(lambda x: (weight * x).exp())
    for _ in range(3):
        compiled(x)
    with numod.autograd.graph.saved_tensors_hooks(
        lambda tensor: (packed.append(tensor), tensor * 0)[1], lambda tensor: tensor
    ):
        result = compiled(x)
    result.sum().backward()
    assert packed and weight.grad.tolist() == [0.0, 0.0]
    compiled(x).sum().backward()
    assert weight.grad[0] > 2
    zero = nn.Parameter(numod.zeros(2))
    step = compile(lambda x: ((zero * x).sqrt() * 0).sum().backward())
    for _ in range(3):
        step(x)
    with (
        numod.autograd.set_detect_anomaly(True),
        pytest.raises(RuntimeError, match="SqrtBackward0"),
        pytest.warns(UserWarning, match="SqrtBackward0"),
    ):
        step(x)


CHANGES = [
    lambda hooks: hooks.clear(),
    lambda hooks: hooks.popitem(),
    lambda hooks: hooks.pop(next(iter(hooks))),
    lambda hooks: hooks.__delitem__(next(iter(hooks))),
    lambda hooks: hooks.move_to_end(next(iter(hooks))),
]


@pytest.mark.parametrize("change", CHANGES)
def test_hooks_that_are_taken_from_their_dictionary(change: object) -> None:
    layer = numod.nn.Linear(2, 2)
    layer.register_forward_hook(lambda module, inputs, result: result * 2)
    layer.register_forward_hook(lambda module, inputs, result: result + 1)
    compiled, x = compile(lambda x: layer(x)), numod.ones(1, 2)
    compiled(x)
    change(layer._forward_hooks)
    assert equal(compiled(x), layer(x))


@pytest.mark.parametrize("change", CHANGES)
def test_hooks_of_an_optimizer_that_are_taken_from_their_dictionary(change: object) -> None:
    def add_to_gradients(number: float, optimizer: numod.optim.Optimizer) -> None:
        for parameter in optimizer.param_groups[0]["params"]:
            parameter.grad.mul_(2).add_(number)

    def weight_after(compiled: bool) -> numod.Tensor:
        layer, x = numod.nn.Linear(2, 1), numod.ones(1, 2)
        with numod.no_grad():
            layer.weight.fill_(1)
        optimizer = numod.optim.SGD(layer.parameters(), lr=0.1)
        for number in (1.0, 3.0):
            optimizer.register_step_pre_hook(lambda optimizer, *_, number=number: add_to_gradients(number, optimizer))

        def step() -> None:
            optimizer.zero_grad()
            layer(x).sum().backward()
            optimizer.step()

        run = compile(step) if compiled else step
        for _ in range(2):
            run()
        change(optimizer._optimizer_step_pre_hooks)
        for _ in range(2):
            run()
        return layer.weight.detach()

    assert weight_after(True).allclose(weight_after(False))
