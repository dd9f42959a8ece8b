"""Checkpointing: the gradients of the plain run, from less memory."""

from __future__ import annotations

import contextlib
import gc
import weakref

import pytest

import numod
from numod import nn
from numod.autograd import Function, grad, gradcheck, gradgradcheck
from numod.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential


def network():
    numod.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))


def inputs():
    return numod.randn(5, 4, generator=numod.Generator().manual_seed(1)).requires_grad_()


def gradients(run):
    model, x = network(), inputs()
    run(model, x).square().sum().backward()
    return [x.grad.tolist(), *[parameter.grad.tolist() for parameter in model.parameters()]]


def nested(model, x):
    return checkpoint(lambda y: model[3:](checkpoint(model[:3], y)), x, use_reentrant=False)


def in_parts(model, x):
    hidden = checkpoint(lambda y: {"pair": (model[0](y), y * 2)}, x)["pair"]
    return model[1:](hidden[0]) + hidden[1].sum()


@pytest.mark.parametrize(
    ("run", "plain"),
    [
        (lambda model, x: checkpoint(model, x, use_reentrant=False), lambda model, x: model(x)),
        (lambda model, x: checkpoint(model, input=x), lambda model, x: model(x)),
        (
            lambda model, x: checkpoint(model, x, use_reentrant=True, preserve_rng_state=False),
            lambda model, x: model(x),
        ),
        (lambda model, x: checkpoint_sequential(model, 2, x), lambda model, x: model(x)),
        (lambda model, x: checkpoint_sequential(model, 5, x, use_reentrant=False), lambda model, x: model(x)),
        (nested, lambda model, x: model(x)),
        (in_parts, lambda model, x: model(x) + (x * 2).sum()),
    ],
)
def test_gradients_equal_those_of_the_plain_run(run, plain):
    assert gradients(run) == gradients(plain)


def test_inputs_need_no_gradient():
    model = network()
    checkpoint(model, inputs().detach()).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_dropout_draws_the_same_numbers_again():
    x = numod.ones(50, requires_grad=True)
    out = checkpoint(lambda y: nn.functional.dropout(y, 0.5), x)
    after = numod.get_rng_state().tolist()
    numod.rand(3)
    state = numod.get_rng_state().tolist()
    out.sum().backward()
    assert x.grad.tolist() == out.tolist()
    assert numod.get_rng_state().tolist() == state != after


def test_graph_can_be_walked_again_only_if_retained():
    x = inputs()
    out = checkpoint(numod.exp, x).sum()
    (first,) = grad(out, x, retain_graph=True)
    (second,) = grad(out, x)
    assert first.tolist() == second.tolist()
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x, x * x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        x, _ = ctx.saved_tensors
        return 3 * x * x * g


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x.exp() * x).sin(),
        lambda x: Cube.apply(x.exp()) * x,
        lambda x: checkpoint(lambda y: y.tanh() * y.exp(), x * x).exp(),
        lambda x: x.clone().mul_(x).exp()[1:].sigmoid(),
    ],
)
def test_second_order(function):
    x = numod.tensor([0.3, -0.7, 1.1], dtype=numod.float64, requires_grad=True)
    assert gradcheck(lambda y: checkpoint(function, y), x)
    assert gradgradcheck(lambda y: checkpoint(function, y), x)


def count_alive(run):
    """How many of the activations made by `run` are alive after forward, and after backward."""
    made = []

    def layer(value):
        result = value.exp().sin()
        made.append(weakref.ref(result._storage))
        return result.cos()

    x = numod.zeros(3, requires_grad=True)
    out = run(layer, x)
    gc.disable()
    try:
        between = sum(reference() is not None for reference in made)
        out.sum().backward()
        del out
        return between, sum(reference() is not None for reference in made)
    finally:
        gc.enable()


def repeat(layer, x, times=6):
    for _ in range(times):
        x = layer(x)
    return x


def test_memory_is_freed_between_forward_and_backward():
    assert count_alive(repeat) == (6, 0)
    assert count_alive(lambda layer, x: checkpoint(repeat, layer, x)) == (0, 0)
    assert count_alive(lambda layer, x: checkpoint(lambda y: repeat(lambda z: checkpoint(layer, z), y), x)) == (0, 0)


def test_an_abandoned_graph_frees_its_inputs():
    x = numod.zeros(3, requires_grad=True) * 2
    alive = weakref.ref(x._storage)
    out = checkpoint(lambda y: y.exp().sin(), x)
    del x
    assert alive() is not None
    gc.disable()
    try:
        del out
        assert alive() is None
    finally:
        gc.enable()


def test_functions_that_change_are_noticed():
    for changes in ((numod.exp, lambda x: x.exp().exp()), (lambda x: x[:2].exp(), lambda x: x[:1].exp())):
        runs = iter(changes)
        out = checkpoint(lambda x, runs=runs: next(runs)(x), numod.zeros(3, requires_grad=True))
        with pytest.raises(CheckpointError, match="different"):
            out.sum().backward()


def test_contexts_and_modes():
    seen = []

    @contextlib.contextmanager
    def note(name):
        seen.append(name)
        yield

    x = numod.ones(2, requires_grad=True)
    checkpoint(numod.exp, x, context_fn=lambda: (note("first"), note("second"))).sum().backward()
    assert seen == ["first", "second"]
    with numod.no_grad():
        assert not checkpoint(numod.exp, x).requires_grad
    assert checkpoint(lambda: 3) == 3


def test_arguments_are_checked():
    with pytest.raises(ValueError, match="determinism_check"):
        checkpoint(numod.exp, numod.ones(1), determinism_check="always")
    for segments in (0, 6):
        with pytest.raises(ValueError, match="segments must be between 1 and"):
            checkpoint_sequential(network(), segments, inputs())


def test_the_second_run_casts_as_the_first():
    layer, x = numod.nn.Linear(3, 3), numod.rand(2, 3, requires_grad=True)
    with numod.autocast("cpu", dtype=numod.bfloat16):
        layer(x)  # its casts of parameters are at hand in the first run
        y = checkpoint(lambda value: layer(layer(value)), x, use_reentrant=False)
    y.sum().backward()
    assert y.dtype is numod.bfloat16 and x.grad.dtype is numod.float32 and x.grad.shape == x.shape


@pytest.mark.parametrize("run", [lambda y, x: grad(y, x), lambda y, x: y.backward(inputs=[x])])
def test_a_reentrant_checkpoint_takes_part_in_whole_backward_passes_only(run):
    x = inputs()
    with pytest.raises(RuntimeError, match="use_reentrant=True, numod.utils.checkpoint is incompatible with .grad"):
        run(checkpoint(numod.sin, x, use_reentrant=True).sum(), x)
    run(checkpoint(numod.sin, x, use_reentrant=False).sum(), x)


def test_a_reentrant_checkpoint_of_inputs_without_gradients_has_none():
    weight, x = numod.ones(3, requires_grad=True), numod.ones(3)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        assert not checkpoint(lambda x: weight * x, x, use_reentrant=True).requires_grad
    assert checkpoint(lambda x: weight * x, x, use_reentrant=False).requires_grad


@pytest.mark.parametrize("reentrant", [False, True])
def test_compiled_parts_of_what_is_checkpointed(reentrant):
    layers = [nn.Linear(3, 4), nn.Linear(4, 3)]
    compiled = numod.compile(layers[0], options={"linked": False})
    results = []
    for first in (layers[0], compiled, compiled, compiled):
        x = numod.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()
        checkpoint(lambda x, first=first: layers[1](first(x).tanh()).sin(), x, use_reentrant=reentrant).sum().backward()
        results.append([x.grad, *[parameter.grad for layer in layers for parameter in layer.parameters()]])
        for layer in layers:
            layer.zero_grad()
        compiled(x)
    for gradients in results[1:]:
        assert all(map(numod.allclose, gradients, results[0]))


def test_a_reentrant_checkpoint_takes_no_names():
    with pytest.raises(ValueError, match="Unexpected keyword arguments: k"):
        checkpoint(lambda x, k: x * k, numod.ones(3, requires_grad=True), use_reentrant=True, k=2)


@pytest.mark.parametrize("stops", [True, False])
def test_early_stop_can_be_chosen_and_changes_nothing(stops):
    from numod.utils.checkpoint import set_checkpoint_early_stop

    x = numod.ones(3, requires_grad=True)
    with set_checkpoint_early_stop(stops):
        checkpoint(lambda y: y.exp().sin(), x, use_reentrant=False).sum().backward()
    assert numod.allclose(x.grad, x.detach().exp() * x.detach().exp().cos())
