"""Gradients through vmap of gradients, of ops whose backward reads their own result."""

from __future__ import annotations

import numod
from numod import func


def test_gradients_of_gradients_for_each_example() -> None:
    x = numod.tensor([0.3, 0.5], dtype=numod.float64, requires_grad=True)
    for function in (
        numod.exp,
        numod.tanh,
        numod.sigmoid,
        numod.sqrt,
        lambda x: x.softmax(0) if x.ndim else x.reciprocal(),
    ):
        slopes = func.vmap(func.grad(function))(x)
        (actual,) = numod.autograd.grad(slopes.sum(), x)
        (first,) = numod.autograd.grad(sum(function(point) for point in x), x, create_graph=True)
        (expected,) = numod.autograd.grad(first.sum(), x)
        numod.testing.assert_close(actual, expected)


def test_a_function_may_return_and_save_none() -> None:
    class Twice(numod.autograd.Function):
        @staticmethod
        def forward(ctx, x, bias=None):
            ctx.save_for_backward(x, bias)
            return x * 2, None

        @staticmethod
        def backward(ctx, g, _):
            assert ctx.saved_tensors[1] is None
            return g * 2, None

    x = numod.ones(3, requires_grad=True)
    Twice.apply(x)[0].sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]
