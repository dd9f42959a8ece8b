"""Random numbers under vmap: for each example or for all, dropout, and generators of the caller."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import numod
import numod.nn.functional as F
from numod.autograd import Function
from numod.func import grad_and_value, vjp, vmap

from batches import SIZE, floats


def test_random_numbers_for_each_example_or_all(once: list) -> None:
    x = numod.ones(SIZE, 64)
    for draw in (
        lambda x: numod.rand(64) + 0 * x,
        lambda x: F.dropout(x),
        lambda x: numod.bernoulli(x / 2),
        lambda x: numod.poisson(x),
        lambda x: x.clone().normal_(),
    ):
        numod.manual_seed(0)
        same = vmap(draw, randomness="same")(x)
        different = vmap(draw, randomness="different")(x)
        assert numod.equal(same[0], same[1]) and not numod.equal(different[0], different[1])
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
    numod.manual_seed(0)
    once.clear()
    first, second = vmap(lambda x: (F.dropout(x), F.dropout(x)), randomness="different")(x)
    assert len(once) == 1 and not numod.equal(first[1], second[0])


def test_random_draws_into_tensors_of_the_caller() -> None:
    x, query = numod.ones(64), floats(8, 16)
    drawn = (
        lambda y: numod.normal(x, 1.0),
        lambda y: numod.normal(x + 0 * y, x),
        lambda y: F.scaled_dot_product_attention(query, query, query, query @ query.T > 0, 0.5),
    )
    for draw in drawn:
        same = vmap(draw, randomness="same")(floats(SIZE, 64))
        different = vmap(draw, randomness="different")(floats(SIZE, 64))
        assert same[0].equal(same[1]) and not different[0].equal(different[1])


@pytest.mark.parametrize("randomness", ["same", "different"])
def test_gradients_of_dropout_take_the_numbers_of_the_result(randomness: str) -> None:
    def slope_and_value(x: numod.Tensor, y: numod.Tensor) -> tuple:
        return grad_and_value(lambda x: (F.dropout(x) * y).sum())(x)

    for x, y, in_dims in (
        (numod.ones(64), floats(SIZE, 64).float(), (None, 0)),
        (numod.ones(SIZE, 64), numod.ones(64), (0, None)),
    ):
        slopes, values = vmap(slope_and_value, in_dims, randomness=randomness)(x, y)
        numod.testing.assert_close(slopes.sum(1), values)
        assert (slopes[0] != 0).equal(slopes[1] != 0) == (randomness == "same")


class Doubled(Function):
    @staticmethod
    def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
        return 2.0 * x

    @staticmethod
    def backward(ctx: object, gradient: numod.Tensor) -> numod.Tensor:
        return numod.ones(64)


def _hooked(x: numod.Tensor) -> numod.Tensor:
    x.register_hook(lambda gradient: numod.ones(64))
    return x * 2.0


@pytest.mark.parametrize("after", [numod.Tensor.clone, Doubled.apply, _hooked], ids=["seed", "function", "hook"])
def test_gradients_of_dropout_of_what_is_the_same_for_all_take_the_numbers_of_the_result(after: Callable) -> None:
    def value_and_slope(x: numod.Tensor) -> tuple:
        _, pull_back, dropped = vjp(
            lambda x: (lambda dropped: (after(dropped), dropped))(F.dropout(x)), x, has_aux=True
        )
        return dropped, pull_back(numod.ones(64))[0]

    values, slopes = vmap(value_and_slope, randomness="different")(numod.ones(SIZE, 64))
    numod.testing.assert_close(slopes, values)
    assert not values[0].equal(values[1])


def test_a_generator_of_the_caller() -> None:
    x, generator = numod.ones(SIZE, 64), numod.Generator().manual_seed(0)
    for draw in (lambda x: numod.rand(64, generator=generator) + x, lambda x: x.clone().normal_(generator=generator)):
        before = generator.get_state()
        with pytest.raises(RuntimeError, match="randomness"):
            vmap(draw)(x)
        assert generator.get_state().equal(before)
        same, different = vmap(draw, randomness="same", chunk_size=2)(x), vmap(draw, randomness="different")(x)
        assert same[0].equal(same[1]) and same[0].equal(same[2]) and not different[0].equal(different[1])


@pytest.mark.parametrize("size", [1, 2])
def test_a_shared_tensor_is_not_made_random_for_each_example(size):
    shared, batch = numod.zeros(3), numod.zeros(size, 3)
    draw = lambda x, y: x.normal_() + y  # noqa: E731
    with pytest.raises(RuntimeError, match="in-place"):
        numod.vmap(draw, (None, 0), randomness="different")(shared, batch)
    with pytest.raises(RuntimeError, match="random"):
        numod.vmap(draw, (None, 0))(shared, batch)
    assert shared.tolist() == [0, 0, 0]
    result = numod.vmap(draw, (None, 0), randomness="same")(shared, batch)
    assert all(numod.equal(draw_, shared) for draw_ in result) and shared.abs().sum() > 0
