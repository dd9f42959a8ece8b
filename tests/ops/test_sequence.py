"""Layers run at once against the same layers run step by step: results, gradients, and gradients of gradients."""

from __future__ import annotations

import numpy as np
import pytest

import numod
from numod import nn
from numod.autograd import gradcheck, gradgradcheck
from numod.ops import sequence


def results(layer: nn.Module, x: numod.Tensor, states: tuple) -> list[np.ndarray]:
    """The outputs, last states and all gradients."""
    leaves = [each.clone().requires_grad_() for each in (x, *states)]
    out, last = layer(leaves[0], tuple(leaves[1:]) if len(states) == 2 else leaves[1])
    last = last if isinstance(last, tuple) else (last,)
    total = (out * out).sum() + sum((each * (k + 1)).sum() for k, each in enumerate(last))
    layer.zero_grad()
    total.backward()
    return [each.detach().numpy() for each in (out, *last, *(leaf.grad for leaf in leaves), *(each.grad for each in layer.parameters()))]


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize(("steps", "batch", "size", "bias", "both"), [(5, 3, 9, True, False), (1, 1, 4, True, True), (4, 40, 6, False, True), (3, 2, 17, False, False)])
def test_at_once_and_step_by_step_agree(kind: str, steps: int, batch: int, size: int, bias: bool, both: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    numod.manual_seed(0)
    layer = getattr(nn, kind)(7, size, num_layers=2, bias=bias, bidirectional=both, dtype=numod.float64)
    x = numod.randn(steps, batch, 7, dtype=numod.float64)
    states = tuple(numod.randn(4 if both else 2, batch, size, dtype=numod.float64) for _ in range(2 if kind == "LSTM" else 1))
    found = results(layer, x, states)
    monkeypatch.setattr(sequence, "fits", lambda *_: False)
    for a, b in zip(found, results(layer, x, states), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_to_second_order(reverse: bool) -> None:
    def made(*shape: int) -> numod.Tensor:
        return (numod.randn(*shape, dtype=numod.float64) * 0.5).requires_grad_()

    numod.manual_seed(1)
    inputs = made(6, 8), made(2, 2), made(2, 2), made(8, 2)
    function = lambda *given: sequence.lstm.apply(given, (3, reverse))[:2]  # noqa: E731
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)
    inputs = made(6, 6), made(2, 2), made(6, 2), made(6)
    function = lambda *given: sequence.gru.apply(given, (3, reverse))[0]  # noqa: E731
    assert gradcheck(function, inputs) and gradgradcheck(function, inputs)


def test_the_cells_against_their_definition() -> None:
    numod.manual_seed(2)
    layer, x = nn.LSTM(3, 5), numod.randn(4, 2, 3)
    out, (h, c) = layer(x)
    sigmoid = lambda v: 1 / (1 + np.exp(-v))  # noqa: E731
    weights = [each.detach().numpy().astype(np.float64) for each in layer.parameters()]
    state, cell = np.zeros((2, 5)), np.zeros((2, 5))
    for step in x.numpy():
        i, f, g, o = np.split(step @ weights[0].T + weights[2] + state @ weights[1].T + weights[3], 4, axis=1)
        cell = sigmoid(f) * cell + sigmoid(i) * np.tanh(g)
        state = sigmoid(o) * np.tanh(cell)
    np.testing.assert_allclose(out[-1].detach().numpy(), state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(h[0].detach().numpy(), state, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(c[0].detach().numpy(), cell, rtol=1e-5, atol=1e-6)
