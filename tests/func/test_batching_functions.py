"""autograd Functions that say themselves how they compute all examples of `func.vmap`."""

from __future__ import annotations

import pytest

import numod
from numod.autograd import Function
from numod.func import grad, vmap


class Scaled(Function):
    """x times a number; where `vmap` computes all examples, a hundred times that, which shows by whom it was computed."""

    seen: list = []

    @staticmethod
    def forward(x: numod.Tensor, k: float) -> numod.Tensor:
        return x * k

    @staticmethod
    def setup_context(ctx: object, inputs: tuple, output: numod.Tensor) -> None:
        ctx.k = inputs[1]

    @staticmethod
    def backward(ctx: object, gradient: numod.Tensor) -> tuple:
        return gradient * ctx.k, None

    @staticmethod
    def vmap(info: object, in_dims: tuple, x: numod.Tensor, k: float) -> tuple:
        Scaled.seen.append((info.batch_size, info.randomness, in_dims, tuple(x.shape)))
        return Scaled.apply(x, k) * 100, in_dims[0]


class Last(Scaled):
    """Has the examples in its last dimension."""

    @staticmethod
    def vmap(info: object, in_dims: tuple, x: numod.Tensor, k: float) -> tuple:
        return (Scaled.apply(x, k) * 10).movedim(0, -1), -1


X = numod.arange(6.0).reshape(2, 3)


def test_vmap_staticmethod_computes_all_examples() -> None:
    Scaled.seen.clear()
    assert vmap(lambda x: Scaled.apply(x, 3.0))(X).equal(X * 300)
    assert vmap(lambda x: Scaled.apply(x, 3.0), 1, randomness="same")(X).equal(X.T * 300)
    assert Scaled.seen == [(2, "error", (0, None), (2, 3)), (3, "same", (0, None), (3, 2))]
    assert vmap(lambda x: Last.apply(x, 3.0))(X).equal(X * 30)
    assert vmap(vmap(lambda x: Scaled.apply(x, 3.0)))(X).equal(X * 30000)


def test_gradients_outside_and_of_each_example() -> None:
    assert grad(lambda x: vmap(lambda x: Scaled.apply(x, 3.0))(x).sum())(X).equal(numod.full((2, 3), 300.0))
    leaf = X.clone().requires_grad_()
    vmap(lambda x: Scaled.apply(x, 3.0) * x)(leaf).sum().backward()
    assert leaf.grad.equal(X * 600)
    assert vmap(grad(lambda x: (Scaled.apply(x, 3.0) * x).sum()))(X).equal(X * 303)  # the derivative is `backward`'s


def test_use_of_a_vmap_staticmethod() -> None:
    class Both(Scaled):
        generate_vmap_rule = True

    with pytest.raises(RuntimeError, match="generate_vmap_rule"):
        vmap(lambda x: Both.apply(x, 3.0))(X)
    with pytest.raises(NotImplementedError, match="vmap function"):
        Function.vmap(None, ())
