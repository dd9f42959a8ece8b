"""Gradients that accumulate, are dropped, and cross the border of a compiled function."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable

import pytest
from pairs import Pair, batch, compile, equal, forward_pair, gradients_of, net, step_of
from selection import pairwise

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


def test_gradients_accumulate_outside_and_inside() -> None:
    eager, compiled = forward_pair()
    for seed in range(4):
        for function in (eager, compiled):
            x, y = batch(seed)
            F.cross_entropy(function(x), y).backward()
        assert equal(gradients_of(eager), gradients_of(compiled))

    def accumulate(model: nn.Module, optimizer: object) -> object:
        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            return loss

        return step

    pair = Pair(make=accumulate)
    for turn in range(3):
        pair.run(2 * turn, 2 * turn + 1)
        pair.both(lambda model, optimizer: (optimizer.step(), optimizer.zero_grad(set_to_none=False)))
        pair.check()


def test_gradients_dropped_by_the_user_or_the_step() -> None:
    pair = Pair(make=lambda model, optimizer: step_of(model, optimizer))
    pair.run(1, 2, 3)
    pair.both(lambda model, _: model.zero_grad())
    pair.run(4, 5)

    def after(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
        def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    pair = Pair(make=after)
    pair.run(1, 2, 3)
    pair.both(
        lambda model, _: [setattr(parameter, "grad", numod.ones_like(parameter)) for parameter in model.parameters()]
    )
    pair.run(4, 5)


def test_gradients_of_frozen_and_unused_parameters_are_dropped() -> None:
    pair, unused = Pair(make=lambda model, optimizer: step_of(model[:3], optimizer)), nn.Linear(1, 1)
    pair.both(
        lambda model, optimizer: optimizer.add_param_group(
            {"params": model.append(copy.deepcopy(unused))[3].parameters()}
        )
    )
    for k in range(8):
        pair.run(k)
        pair.both(lambda model, _, k=k: model[0].requires_grad_(k % 3 == 0))
        if k in (3, 5):
            pair.both(lambda model, _: model[3](numod.ones(1)).sum().backward())


def test_zeroed_gradients() -> None:
    pair = Pair(set_to_none=False)
    pair.run(1, 2, 3, 4)
    pair.both(lambda model, _: model.zero_grad())
    pair.run(5, 6)


def test_two_forwards_before_one_backward() -> None:
    eager, compiled = forward_pair()
    for _ in range(3):
        for function in (eager, compiled):
            function.zero_grad()
            (function(batch(1)[0]).sum() * 2 + function(batch(2)[0]).square().sum()).backward()
        assert equal(gradients_of(eager), gradients_of(compiled))


def test_retain_graph_and_a_graph_used_up() -> None:
    _, compiled = forward_pair()
    for _ in range(3):
        loss = compiled(batch(1)[0]).sum()
        loss.backward(retain_graph=True)
        once = [parameter.grad.clone() for parameter in compiled.parameters()]
        loss.backward()
        assert all(equal(parameter.grad, 2 * g) for parameter, g in zip(compiled.parameters(), once))
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()
        compiled.zero_grad()


def test_weights_changed_between_forward_and_backward_are_noticed() -> None:
    _, compiled = forward_pair()
    compiled(batch(1)[0])
    loss = compiled(batch(1)[0]).sum()
    with numod.no_grad():
        compiled[2].weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def in_mode(is_inference: bool, function: object) -> object:
    with numod.inference_mode(is_inference):
        return function()


def test_modes_and_requires_grad() -> None:
    eager, compiled = forward_pair()
    x = batch(1)[0]
    for _ in range(2):
        with numod.no_grad():
            assert not compiled(x).requires_grad
        with numod.inference_mode():
            assert compiled(x).is_inference()
        assert compiled(x).requires_grad and not compiled(x).is_leaf
        assert compiled(x.clone().requires_grad_()).requires_grad
    for mode, is_inside in itertools.product((numod.no_grad, numod.inference_mode), (True, False)):
        compiled_view = compile(lambda x, mode=is_inside: in_mode(mode, lambda: (x * 2, x.view(-1))))
        with mode():
            ones = numod.ones(2)
        for _ in range(3):
            with numod.inference_mode(not is_inside):
                results = compiled_view(ones)
            assert [y.is_inference() for y in results] == [is_inside, ones.is_inference()]
    with numod.inference_mode():
        made_inside = x.clone()
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        compiled(made_inside)
    compiled[0].weight.requires_grad_(False)
    eager[0].weight.requires_grad_(False)
    for function in (eager, compiled):
        function(x).sum().backward()
    assert equal(gradients_of(eager), gradients_of(compiled)) and compiled[0].weight.grad is None
    compiled[0].weight.requires_grad_(True)
    compiled(x).sum().backward()
    assert compiled[0].weight.grad is not None


def test_a_view_whose_base_joined_the_tape() -> None:
    weight = numod.ones(3, requires_grad=True)
    compiled = compile(lambda x: x * 2)
    base = numod.zeros(3)
    view = base[:2]
    assert not compiled(view).requires_grad and not compiled(view).requires_grad
    base.copy_(weight * 3)
    compiled(view).sum().backward()
    assert weight.grad.tolist() == [6.0, 6.0, 0.0]


@pytest.mark.parametrize("where", ["flag", "first", "outside"])
def test_accumulation_over_several_calls_is_recorded_a_few_times(where: str) -> None:
    def run(wrap: object) -> tuple[list, object]:
        model = net()
        optimizer = numod.optim.Adam(model.parameters(), lr=0.1)

        def step(x: numod.Tensor, y: numod.Tensor, first: bool, last: bool) -> numod.Tensor:
            if first and where == "first":
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y) / 3
            loss.backward()
            if last and where != "outside":
                optimizer.step()
                if where == "flag":
                    optimizer.zero_grad()
            return loss.detach()

        step, results = wrap(step), []
        for k in range(18):
            results.append(step(*batch(k), where == "first" and k % 3 == 0, where != "outside" and k % 3 == 2))
            if where == "outside" and k % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
            results += [parameter.detach().clone() for parameter in model.parameters()] + [
                parameter.grad if parameter.grad is None else parameter.grad.clone() for parameter in model.parameters()
            ]
        return results, step

    compiled = run(compile)
    assert equal(run(lambda step: step)[0], compiled[0]) and compiled[1].recorded <= 8 and not compiled[1].has_warned


def test_gradients_are_the_leafs_where_an_alias_was_used_first() -> None:
    results = []
    for wrap in (lambda function: function, compile):
        weight = numod.tensor([0.5, 0.3]).requires_grad_()
        optimizer = numod.optim.SGD([weight], lr=0.1, momentum=0.9)

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()  # noqa: B023  called in this turn
            (weight.detach().exp() * x * weight.nansum(-1).tanh()).sum().backward()  # noqa: B023
            optimizer.step()  # noqa: B023

        compiled = wrap(step)
        results.append([])
        for k in range(4):
            compiled(numod.ones(2) * k)
            results[-1] += [weight.grad.clone(), weight.detach().clone()]
    assert equal(*results)


@pytest.mark.parametrize("case", ["hook", "history", "hook of what was computed"])
def test_backward_inside_is_refused_where_it_calls_hooks_of_an_argument_or_goes_beyond_it(case: str) -> None:
    weight = numod.ones(3, requires_grad=True)

    def backward(x: numod.Tensor) -> numod.Tensor:
        (x * weight).pow(2).sum().backward()
        return x

    def gradient(x: numod.Tensor) -> numod.Tensor:
        return numod.autograd.grad((x * weight).pow(2).sum(), x)[0]

    def argument() -> numod.Tensor:
        x = numod.ones(3, requires_grad=True)
        x = x if case == "hook" else x * 2
        if "hook" in case:
            x.register_hook(lambda g: g * 7)
        return x

    function = gradient if "computed" in case else backward
    for first in (True, False):  # recorded with it, or given it later
        compiled, weight.grad = compile(function), None
        plain = numod.ones(3, requires_grad=True)
        for _ in range(0 if first else 3):
            weight.grad = plain.grad = None
            compiled(plain)
        weight.grad = None
        with pytest.raises(RuntimeError, match="hooks of argument 0|the history of argument 0"):
            compiled(argument())
    weight.grad = None
    assert equal(compile(gradient)(numod.ones(3, requires_grad=True) * 2), numod.full((3,), 4.0))


def test_gradients_that_the_function_assigns() -> None:
    def assign(weight: numod.Tensor, x: numod.Tensor) -> numod.Tensor:
        weight.grad = x * 2
        return x + 1

    def add(weight: numod.Tensor, x: numod.Tensor) -> numod.Tensor:
        weight.grad = x if weight.grad is None else weight.grad + x
        return x * 2

    def clip(weight: numod.Tensor, x: numod.Tensor) -> numod.Tensor:
        weight.grad = numod.autograd.grad((weight * x).sum(), weight)[0].clamp(-1, 1)
        return x

    def run(function: Callable, resets: tuple[int, ...], wrap: Callable) -> list:
        weight, results = numod.ones(3, requires_grad=True), []
        step = wrap(lambda x: function(weight, x))
        for k in range(6):
            weight.grad = None if k in resets else weight.grad
            step(numod.ones(3) * k)
            results.append(weight.grad.clone())
        return results

    for function in (assign, add, clip):
        for resets in ((), (1, 4), range(6)):
            assert equal(run(function, resets, lambda step: step), run(function, resets, compile))


def test_gradients_that_the_function_takes_from_other_leaves() -> None:
    def run(wrap: Callable) -> list:
        mine, theirs, result = *([numod.ones(3, requires_grad=True) for _ in range(2)] for _ in range(2)), []

        @wrap
        def send(x: numod.Tensor) -> None:
            for a, b in zip(mine, theirs):
                b.grad = a.grad * x
            theirs[0].grad = mine[0].grad

        for k in range(5):
            for a, b in zip(mine, theirs):
                a.grad, b.grad = numod.ones(3) * k, None
            send(numod.ones(3) * 2)
            result += [tensor.grad.clone() for tensor in theirs]
        return result

    assert equal(run(lambda function: function), run(compile))


def test_a_gradient_with_a_history_is_refused() -> None:
    weight = numod.ones(3, requires_grad=True)

    def step() -> None:
        weight.grad = weight * 2

    with pytest.raises(RuntimeError, match=r"a gradient with a history in \.grad"):
        compile(step)()


def test_gradients_assigned_to_tensors_that_need_none() -> None:
    frozen = numod.ones(3)
    compiled = compile(lambda x: setattr(frozen, "grad", x * 3))
    for k in range(4):
        compiled(numod.ones(3) * k)
        assert equal(frozen.grad, numod.ones(3) * 3 * k)


def test_gradients_that_are_only_returned() -> None:
    def run(wrap: Callable) -> list:
        leaf, results = numod.ones(3, requires_grad=True), []
        function = wrap(lambda x: (x * 2, leaf.grad))
        for k in range(6):
            leaf.grad = None if k == 3 else numod.full((3,), float(k))
            results.append(function(numod.ones(3))[1])
        return results

    assert equal(run(lambda function: function), run(compile))


def test_gradients_that_are_taken_before_they_are_dropped() -> None:
    def run(wrap: Callable) -> list:
        leaf, results = numod.ones(3, requires_grad=True), []
        optimizer = numod.optim.SGD([leaf], 0.1)

        def step(x: numod.Tensor) -> numod.Tensor | None:
            former = leaf.grad
            optimizer.zero_grad()
            (leaf * leaf * x).sum().backward()
            optimizer.step()
            return former

        function = wrap(step)
        for k in range(5):
            results += [function(numod.ones(3) * k), leaf.detach().clone()]
        return results

    assert equal(run(lambda function: function), run(compile))


def _step_and_drop(optimizer: object, weight: nn.Parameter) -> Callable:
    return lambda: (optimizer.step(), optimizer.zero_grad())


def _step_and_zero(optimizer: object, weight: nn.Parameter) -> Callable:
    return lambda: (optimizer.step(), optimizer.zero_grad(set_to_none=False))


def _drop_by_module(optimizer: object, weight: nn.Parameter) -> Callable:
    module = nn.Module()
    module.weight = weight
    return lambda: (optimizer.step(), module.zero_grad())


def _clip(optimizer: object, weight: nn.Parameter) -> Callable:
    return lambda: (nn.utils.clip_grad_norm_([weight], 100.0), optimizer.step(), optimizer.zero_grad())


def _clip_values(optimizer: object, weight: nn.Parameter) -> Callable:
    return lambda: (nn.utils.clip_grad_value_([weight], 0.5), optimizer.step(), optimizer.zero_grad())


def _backward_too(optimizer: object, weight: nn.Parameter) -> Callable:
    return lambda: ((weight * 2).sum().backward(), optimizer.step(), optimizer.zero_grad())


STEPS = [
    _step_and_drop, _step_and_zero, _drop_by_module, _clip, _clip_values, _backward_too, lambda optimizer,
    weight: optimizer.step,
    lambda optimizer, weight: optimizer.zero_grad,
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize(
    "pattern, number, kind",
    pairwise(
        ["0111", "11101", "00011", "10101", "0101"],
        range(len(STEPS)),
        [numod.optim.SGD, numod.optim.Adam, numod.optim.LBFGS],
        others=pytest.mark.fuzz,
    ),
)
def test_steps_over_gradients_that_were_made_outside(pattern: str, number: int, kind: type) -> None:
    if kind is numod.optim.LBFGS and STEPS[number] not in (_step_and_drop, _clip):
        return

    def run(wrap: Callable) -> list:
        weight = nn.Parameter(numod.ones(2))
        optimizer, seen = kind([weight], lr=0.1), []
        step = STEPS[number](optimizer, weight)
        if kind is numod.optim.LBFGS:
            step = lambda: optimizer.step(lambda: (weight * weight).sum())  # noqa: E731
        step = wrap(step)
        for k, made in enumerate(pattern, 1):
            if made == "1":
                (weight * k).sum().backward()
            step()
            seen.append((weight.tolist(), None if weight.grad is None else weight.grad.tolist()))
        return seen

    assert equal(
        run(lambda function: compiled_natively(function, options={"linked": False})), run(lambda function: function)
    )


@pytest.mark.parametrize("needs", [False, True])
def test_whether_there_is_a_gradient_is_noticed(needs: bool) -> None:
    weight = numod.ones(2, requires_grad=needs)
    ask = lambda: 2.0 if weight.grad is None else 3.0  # noqa: E731
    compiled = compile(lambda x: x * ask())
    for gradient in (None, numod.ones(2), numod.ones(2), None):
        weight.grad = gradient
        assert [compiled(numod.ones(2)).tolist() for _ in range(2)] == [[ask()] * 2] * 2
