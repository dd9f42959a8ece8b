"""Hooks that run after a gradient was added to a leaf."""

from __future__ import annotations

import pytest

import numod as torch


def test_a_hook_after_the_gradient_was_added() -> None:
    w = torch.ones(2, requires_grad=True)
    seen = []
    handle = w.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.tolist()))
    (2 * w).sum().backward()
    (2 * w).sum().backward()
    handle.remove()
    (2 * w).sum().backward()
    assert seen == [[2, 2], [4, 4]]
    for tensor in (torch.ones(1), 2 * w):
        with pytest.raises(RuntimeError):
            tensor.register_post_accumulate_grad_hook(print)


def test_an_optimizer_that_steps_in_backward() -> None:
    layer = torch.nn.Linear(3, 1)
    expected = {name: parameter.detach().clone() for name, parameter in layer.named_parameters()}
    for parameter in layer.parameters():
        sgd = torch.optim.SGD([parameter], lr=0.1)
        parameter.register_post_accumulate_grad_hook(lambda leaf, sgd=sgd: sgd.step() or sgd.zero_grad())
    layer(torch.ones(2, 3)).sum().backward()
    torch.testing.assert_close(layer.weight.detach(), expected["weight"] - 0.2)
    assert layer.weight.grad is None
