"""Aliasing in compiled functions: arguments that share memory, in-place writes, views, results of earlier calls."""

from __future__ import annotations

import numpy as np
import pytest
from pairs import X, Pair, batch, compile, equal, same

import numod
from numod import nn


def test_arguments_that_share_memory() -> None:
    def function(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        x.add_(1)
        y.mul_(2)
        return x + y

    compiled = compile(function)
    for _ in range(2):
        for pick in (
            lambda t: (t, t),
            lambda t: (t[:3], t[1:]),
            lambda t: (t[1:], t[:3]),
            lambda t: (t, t.clone()),
            lambda t: (t, t.view(4)),
            lambda t: (t[:3], t[:3]),
        ):
            mine, theirs = numod.arange(4.0), numod.arange(4.0)
            assert equal(compiled(*pick(mine)), function(*pick(theirs))) and equal(mine, theirs)


def test_one_tensor_twice_and_its_alias_have_their_own_gradients() -> None:
    function = compile(lambda x, y: (x * x * y).sum())
    for _ in range(2):
        x = numod.ones(3, requires_grad=True)
        function(x, x).backward()
        assert x.grad.tolist() == [3.0] * 3
        x, y = numod.ones(3, requires_grad=True), numod.ones(3, requires_grad=True)
        function(x, y).backward()
        assert x.grad.tolist() == [2.0] * 3 and y.grad.tolist() == [1.0] * 3
        x = numod.ones(3, requires_grad=True)
        y = x.detach().requires_grad_()
        function(x, y).backward()
        assert x.grad.tolist() == [2.0] * 3 and y.grad.tolist() == [1.0] * 3


def test_writes_to_inputs_and_views_that_leave() -> None:
    parameter = nn.Parameter(numod.ones(3))

    def function(x: numod.Tensor) -> tuple:
        x.mul_(2)
        return x, x[0], x.t(), parameter, parameter.detach()[1:], x.sum()

    compiled = compile(function)
    for _ in range(3):
        mine, theirs = X.clone(), X.clone()
        with numod.no_grad():
            actual, expected = compiled(mine), function(theirs)
        assert equal(actual, expected) and equal(mine, theirs) and actual[0] is mine and actual[3] is parameter
        actual[1].fill_(7)
        assert mine[0].tolist() == [7.0] * 3 and mine._version == theirs._version + 1


def test_an_argument_that_becomes_part_of_the_tape_is_refused() -> None:
    weight = numod.ones(3, requires_grad=True)

    def function(x: numod.Tensor) -> None:
        x.mul_(weight)

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="in place where gradients are recorded"):
        for _ in range(3):
            compiled(numod.ones(3))


def test_a_parameter_as_an_argument() -> None:
    model = nn.Linear(3, 3)
    function = lambda x, w: (model(x) * w).sum()  # noqa: E731
    compiled = compile(function)
    for _ in range(3):
        for w in (model.weight, numod.ones(3, 3)):
            model.zero_grad()
            a = function(numod.eye(3), w)
            a.backward()
            expected = model.weight.grad
            model.zero_grad()
            b = compiled(numod.eye(3), w)
            b.backward()
            assert equal(a, b) and equal(expected, model.weight.grad)


def test_results_and_gradients_of_earlier_calls_stay() -> None:
    pair = Pair()
    pair.run(1, 2, 3)
    x, y = batch(4)
    first = pair.compiled(x, y)
    gradients = [parameter.grad for parameter in pair.models[1].parameters()]
    before = [tensor.clone() for tensor in (first, *gradients)]
    pair.compiled(*batch(5))
    assert equal([first, *gradients], before)


@pytest.mark.parametrize(
    "make",
    [
        lambda x: numod.tensor([1.0, 2.0, 3.0]).add_(x.sum()),
        lambda x: numod.empty(3).copy_(x[0]),
        lambda x: numod.empty(3, dtype=numod.bool).fill_(True),
        lambda x: x.new_empty(2, 3).copy_(x),
        lambda x: numod.zeros(3).add_(x[1]),
        lambda x: numod.tensor(2.0) * x,
        lambda x: x.new_tensor([1, 2, 3]) + x,
    ],
)
def test_tensors_made_inside_are_new_at_every_call(make: object) -> None:
    compiled = compile(make)
    pairs = []
    for k in range(4):
        pairs.append((compiled(X + k), make(X + k)))
    assert all(equal(a, b) for a, b in pairs) and len({pair[0].data_ptr() for pair in pairs}) == 4


@pytest.mark.parametrize(
    "make",
    [
        lambda x: numod.from_numpy(np.ones(3, np.float32)) + x,
        lambda x: numod.tensor(np.ones(3)) + x,
        lambda x: x + numod.as_tensor(np.ones(3)),
    ],
)
def test_arrays_that_become_tensors_inside_are_refused(make: object) -> None:
    with pytest.raises(RuntimeError, match=r"test_alias_analysis.py:\d+ creates a tensor from a NumPy array"):
        compile(make)(X)


def test_shapes_changed_in_place_are_right_or_refused() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        y = x * 2
        y.t_()
        return y + 1

    same(function, (X,), (X + 1,))

    def outside(x: numod.Tensor) -> numod.Tensor:
        x.t_()
        return x + 1

    with pytest.raises(RuntimeError, match="changed"):
        compile(outside)(X.clone())
