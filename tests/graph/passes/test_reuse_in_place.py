"""Loops that overwrite their inputs: less memory, equal results, and no overwritten value has a later use."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import numod
from numod import nn
from numod.graph import Executable, compile
from numod.graph.backend import memory_plan
from numod.graph import trace
from numod.graph import verify
from numod.graph.backend.lower import Buffer, Call, Lowered, Span

X = numod.arange(12.0).reshape(3, 4) / 7


def ready(function: Callable, *inputs: numod.Tensor) -> Executable:
    """The function's executable. Recorded and optimised program and executable must give the function's results."""
    with numod.no_grad():
        executable, expected = Executable(trace(function, *inputs)), function(*inputs)
        verify(executable.program)
        for run in (executable, executable.program, executable.recorded):
            for _ in range(2):
                assert numod.allclose(run(*inputs), expected, rtol=1e-6)
    return executable


def overwritten(executable: Executable) -> int:
    return sum(step.in_place for step in executable.program.steps)


def test_layers_share_one_stretch_of_memory() -> None:
    numod.manual_seed(0)
    model = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(4, 4), nn.Tanh())], nn.Linear(4, 2))
    executable = ready(model, X)
    assert overwritten(executable) == 4 and executable.arena_size == 2 * memory_plan.ALIGNMENT
    assert "<- tanh(" in executable.explain()


def test_values_used_later_are_not_overwritten() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        y = x @ x.t()
        return (y.tanh() @ y).relu() @ y

    assert overwritten(ready(function, X)) == 1


def test_values_read_in_another_order_are_not_overwritten() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        y = x @ x.t()
        return (y + y.t() * 2) @ x

    assert overwritten(ready(function, X)) == 0


def test_views_of_what_is_written_over() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        y = (x @ x.t()).tanh()
        z = y.t() * 2 + y[0]
        return z @ x

    ready(function, X)


def test_arguments_parameters_and_results_are_not_written_over() -> None:
    weight, x = numod.ones(3, 4), X.clone()
    executable = ready(lambda x: (x * weight).tanh() + (weight * 2).sum(), x)
    first, second = executable(x), executable(x * 2)
    assert numod.equal(x, X) and weight.tolist() == [[1.0] * 4] * 3 and not numod.equal(first, second)


@pytest.mark.parametrize("linked", [False, None])
def test_a_backward_pass_runs_twice(linked: bool | None) -> None:
    numod.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
    compiled = compile(model, options={"linked": linked})
    for _ in range(3):
        model.zero_grad()
        loss = compiled(X).square().sum()
        loss.backward(retain_graph=True)
        once = [parameter.grad.clone() for parameter in model.parameters()]
        loss.backward()
        for parameter, gradient in zip(model.parameters(), once):
            np.testing.assert_allclose(parameter.grad.numpy(), 2 * gradient.numpy(), rtol=1e-6)


def test_buffers_that_are_alive_together_lie_apart() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        buffers = [Buffer("local", int(n), np.dtype(np.float32), None) for n in rng.integers(1, 200, 30)]
        calls = []
        for number in range(40):
            chosen = tuple(buffers[k] for k in rng.choice(30, 2, replace=False))
            calls.append(Call(None, tuple(map(Span, chosen)), number, None, chosen[:1], chosen[1:]))
        lowered = Lowered(calls)
        places, size = memory_plan.plan(lowered)
        alive = memory_plan.lifetimes(lowered)
        live = np.zeros(41, int)
        for a in alive:
            live[alive[a][0] : alive[a][1] + 1] += -(-a.nbytes // memory_plan.ALIGNMENT) * memory_plan.ALIGNMENT
            assert places[a] % memory_plan.ALIGNMENT == 0 and places[a] + a.nbytes <= size
            for b in alive:
                together = alive[a][0] <= alive[b][1] and alive[b][0] <= alive[a][1]
                assert a is b or not together or places[a] + a.nbytes <= places[b] or places[b] + b.nbytes <= places[a]
        assert live.max() <= size <= 1.2 * live.max()
