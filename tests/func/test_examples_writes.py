"""Writes under vmap: to arguments, to new tensors, and to what examples share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import numod
from numod.func import vmap

from batches import SIZE, floats


def test_writes_to_arguments_reach_them() -> None:
    x = numod.zeros(SIZE, 2, 2)
    vmap(lambda x: x.add_(1))(x)
    vmap(lambda x: x[0].mul_(3), 1)(x)
    expected = numod.ones(SIZE, 2, 2)
    expected[0] = 3
    assert numod.equal(x, expected)
    other = numod.zeros(2, SIZE)
    vmap(lambda x: x.add_(1), 1)(other)
    assert numod.equal(other, numod.ones(2, SIZE))


def test_a_call_that_is_given_up_leaves_nothing_behind() -> None:
    x, count, weight = numod.zeros(SIZE, 2), numod.zeros(()), numod.zeros(2, requires_grad=True)
    scaled = weight * 1

    def step(x: numod.Tensor, number: numod.Tensor) -> numod.Tensor:
        x.add_(1)
        if number == 0:  # which differs: calls for each begin here
            return x
        count.add_(1)
        scaled.mul_(2)
        return -x

    def write(x: numod.Tensor, number: numod.Tensor) -> numod.Tensor:
        count.add_(1)
        scaled.mul_(2)
        return x if number > 1 else -x

    with pytest.raises(RuntimeError, match="called for each"):
        vmap(write)(x, numod.arange(SIZE))
    assert count == 0
    with pytest.raises(RuntimeError, match="called for each"):
        vmap(step)(x, numod.arange(SIZE))
    assert count == 0 and numod.equal(x, numod.tensor([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]]))
    scaled.sum().backward()
    assert weight.grad.tolist() == [1.0, 1.0]


def test_backward_inside_adds_numbers_to_leaves() -> None:
    weight, x = numod.zeros(2, requires_grad=True), floats(SIZE, 2, dtype=numod.float32)
    scaled = weight * 2
    scaled.retain_grad()
    vmap(lambda x: ((scaled * x).sum().backward(), x)[1])(x)
    numod.testing.assert_close(weight.grad, 2 * x.sum(0))
    numod.testing.assert_close(scaled.grad, x.sum(0))
    x.requires_grad_()
    vmap(lambda x: ((3 * x).sum().backward(), x)[1])(x)
    numod.testing.assert_close(x.grad, 3 * numod.ones_like(x))
    x.grad = None
    vmap(lambda x: (tripled := x * 1, tripled.register_hook(lambda g: g * 3))[0])(x).sum().backward()
    numod.testing.assert_close(x.grad, 3 * numod.ones_like(x))
    vmap(lambda x: (doubled := x * 1, doubled.grad_fn.register_prehook(lambda g: (g[0] * 2,)))[0])(x).sum().backward()
    numod.testing.assert_close(x.grad, 5 * numod.ones_like(x))
    x = x.detach()
    gradients = vmap(lambda x: ((leaf := x.detach().requires_grad_()).square().sum().backward(), leaf.grad)[1])(x)
    numod.testing.assert_close(gradients, 2 * x)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, y: x.add_(y), lambda x, y: x.copy_(y), lambda x, y: x[0].copy_(y[0]), lambda x, y: numod.add(y, y, out=x), lambda x, y: x.t().mul_(y),
        lambda x, y: vmap(lambda z: x.add_(z))(y.expand(2, 2)),
    ],
)  # fmt: skip
def test_batched_writes_into_unbatched_tensors_are_refused(write: Callable) -> None:
    x, y = numod.ones(2), numod.arange(6.0).view(3, 2)
    for function, values in ((lambda y: write(x, y), (y,)), (write, (x, y))):
        with pytest.raises(RuntimeError, match="values that differ between examples cannot be written"):
            vmap(function, (None, 0)[-len(values) :])(*values)
    assert numod.equal(x, numod.ones(2)) and numod.equal(x.add_(1), numod.full((2,), 2.0))


def test_batched_writes_into_new_tensors() -> None:
    y = numod.arange(6.0).view(3, 2)
    assert numod.equal(vmap(lambda y: numod.ones(2).add_(y))(y), y + 1)


@pytest.mark.parametrize("size, chunk", [(1, None), (3, None), (4, 1)])
@pytest.mark.parametrize("reads", [False, True])
def test_writing_what_differs_to_what_all_share_is_refused_whatever_the_size(size, chunk, reads):
    # a batch of one was called without a batch, and functions that read a value for each example: both wrote in turn,
    # as PyTorch does not
    shared, batch = numod.zeros(3), numod.ones(size, 3)

    def write(x, y):
        if reads:
            y.sum().item()
        return x.add_(y)

    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(lambda y: write(shared, y), chunk_size=chunk)(batch)
    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(write, (None, 0), chunk_size=chunk)(shared, batch)
    assert shared.tolist() == [0, 0, 0]


@pytest.mark.parametrize("size", [1, 2])
def test_a_function_called_for_each_example_writes_to_its_own_and_to_what_it_makes(size):
    points = numod.arange(3.0 * size).reshape(size, 3)
    expected = (points * 2 + 1).sum(1)

    def write(y):
        made, empty, passed = numod.zeros(3), numod.empty(3), numod.tensor([1.0, 1.0, 1.0])
        y.numpy()
        made.add_(y)
        empty.copy_(y).view(3).mul_(0)
        y.add_(1)
        return (made + empty + passed.mul_(y)).sum()

    assert numod.equal(numod.vmap(write)(points), expected) and points[0].tolist() == [1, 2, 3]


def test_backward_for_each_example_adds_to_a_gradient_that_was_there():
    weight = numod.ones(3, requires_grad=True)
    weight.grad = numod.ones(3)

    def step(y):
        (weight * y).sum().backward()
        return y.detach()

    numod.vmap(step)(numod.ones(2, 3))
    assert weight.grad.tolist() == [3, 3, 3]
