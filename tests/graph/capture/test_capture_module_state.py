"""Tensors that modules keep as attributes from call to call: compiled as eager, between calls and in whoever else reads
them.
"""

from __future__ import annotations

import copy

import pytest

import numod
from numod import nn
from numod.graph import compile

X = numod.tensor([[1.0, -2.0, 3.0]])


class Keeping(nn.Module):
    """Keeps its last activation, and what it saw, in a plain attribute or a buffer."""

    def __init__(self, buffer: bool = False) -> None:
        super().__init__()
        self.layer, self.hidden = nn.Linear(3, 3), None
        if buffer:
            self.register_buffer("seen", numod.zeros(1, 3))
        else:
            self.seen = numod.zeros(1, 3)

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.hidden = self.layer(x).tanh()
        self.seen = (self.seen * 0.5 + self.hidden).detach()
        return self.hidden * self.seen


def pair(buffer: bool = False) -> tuple[Keeping, Keeping]:
    numod.manual_seed(0)
    first = Keeping(buffer)
    return first, copy.deepcopy(first)


@pytest.mark.parametrize("buffer", [False, True])
@pytest.mark.parametrize("linked", [False, None])
def test_attributes_go_on(buffer: bool, linked: bool | None) -> None:
    eager, other = pair(buffer)
    compiled = compile(other, options={"linked": linked})
    for k in range(6):
        for model in (eager, compiled):
            model.zero_grad()
        a, b = eager(X + k), compiled(X + k)
        (a.sum() + eager.hidden.square().sum()).backward()
        (b.sum() + compiled.hidden.square().sum()).backward()
        for one, two in (
            (a, b),
            (eager.seen, compiled.seen),
            (eager.hidden, compiled.hidden),
            (eager.layer.weight.grad, compiled.layer.weight.grad),
        ):
            assert numod.allclose(one, two, rtol=1e-5, atol=1e-6)
    assert compiled.compiled.recorded == 1 and not compiled.seen.requires_grad
    assert numod.allclose(dict(eager.named_buffers()).get("seen", X), dict(compiled.named_buffers()).get("seen", X))


def test_reads_and_writes_outside_are_noticed() -> None:
    eager, other = pair()
    compiled = compile(lambda x: other(x), options={"linked": False})
    reader = compile(lambda x: other.seen + x, options={"linked": False})
    with numod.no_grad():
        for k in range(8):
            if k == 5:
                eager.seen, other.seen = X * 2, X * 2
            assert numod.allclose(eager(X), compiled(X), rtol=1e-5, atol=1e-6)
            assert numod.allclose(eager.seen + X, reader(X) if k % 3 == 2 else other.seen + X)


def test_values_of_earlier_calls_stay() -> None:
    eager, other = pair()
    compiled, earlier_results = compile(other, options={"linked": False}), []
    with numod.no_grad():
        for k in range(5):
            compiled(X + k), eager(X + k)
            earlier_results.append((compiled.hidden, eager.hidden))
    assert all(numod.allclose(a, b) for a, b in earlier_results)


def test_state_through_which_gradients_flow_inside_a_step() -> None:
    eager, other = pair()

    def step_of(model: Keeping) -> object:
        optimizer = numod.optim.SGD(model.parameters(), lr=0.1)

        def step(x: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            loss = sum(model(part).square().sum() for part in (x, x * 2)) + model.hidden.sum()
            loss.backward()
            optimizer.step()
            model.hidden = None
            return loss.detach()

        return step

    first, second = step_of(eager), compile(step_of(other), options={"linked": False})
    for k in range(5):
        assert numod.allclose(first(X + k), second(X + k), rtol=1e-4, atol=1e-5)
    assert numod.allclose(eager.layer.weight, other.layer.weight, rtol=1e-4, atol=1e-5)


def test_a_tensor_made_once_is_no_state() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask = None

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            if self.mask is None:
                self.mask = numod.ones(3, 3).tril()[1]
            return x * self.mask

    model = Masked()
    compiled = compile(model, options={"linked": False})
    for _ in range(3):
        assert numod.equal(compiled(X), X * numod.ones(3, 3).tril()[1])
    assert compiled.compiled.variants[-1].state is None and compiled.compiled.recorded == 1
