"""Memory reuse between calls of a compiled function: results and gradients that are still referenced never change."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from selection import diagonals

import numod
from numod import nn


def doubled() -> Callable:
    """x -> 2 x + 1, run by the fast path."""
    compiled = numod.compile(lambda x: x * 2 + 1)
    for k in range(3):
        compiled(numod.full((3,), float(k)))
    assert compiled.__call__ != compiled._call
    return compiled


HOLD = {
    "the tensor": lambda y: y, "a view": lambda y: y[1:], "its detached self": lambda y: y.detach(),
    "an array": lambda y: y.numpy(),
    "part of an array": lambda y: y.numpy()[1:], "a storage": lambda y: (y._storage, y.numpy()[:0])[0].data,
    "a buffer": lambda y: memoryview(y.numpy()),
}  # fmt: skip


@pytest.mark.parametrize("hold", HOLD)
def test_results_that_somebody_holds_stay(hold: str) -> None:
    with numod.no_grad():
        compiled = doubled()
        holders = [HOLD[hold](compiled(numod.full((3,), float(k)))) for k in range(5)]
        for k, result in enumerate(holders):
            np.testing.assert_array_equal(np.asarray(result), 2.0 * k + 1)


def test_the_last_result_stays_while_the_next_is_made() -> None:
    with numod.no_grad():
        compiled, y = doubled(), numod.zeros(3)
        for _ in range(6):
            before, y = y.clone(), compiled(y)
            assert y.tolist() == (before * 2 + 1).tolist()


def test_results_that_nobody_holds_are_memory_again() -> None:
    with numod.no_grad():
        compiled = doubled()
        places = {compiled(numod.ones(3)).data_ptr() for _ in range(20)}
    assert len(places) <= 2


def test_large_results_are_new_every_time() -> None:
    with numod.no_grad():
        compiled = numod.compile(lambda x: x * 2, options={"linked": True})
        x = numod.ones(1 << 15)
        results = [compiled(x * k) for k in range(4)]
    assert [float(result[-1]) for result in results] == [0.0, 2.0, 4.0, 6.0]


def stepping(zero: bool) -> tuple[nn.Module, Callable]:
    """A network and its compiled training step. `zero`: whether the step resets the gradients."""
    numod.manual_seed(0)
    model = nn.Linear(3, 2)

    def step(x: numod.Tensor) -> numod.Tensor:
        if zero:
            model.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    return model, numod.compile(step)


def expected(model: nn.Module, x: numod.Tensor) -> np.ndarray:
    """The gradient of the sum of squares with respect to the weight, computed by formula."""
    weight, bias = (parameter.detach().numpy() for parameter in (model.weight, model.bias))
    return 2 * (x.numpy() @ weight.T + bias).T @ x.numpy()


GRADIENT = {**HOLD, "nothing": lambda g: None, "the parameter's, moved": lambda g: g.clone()}


@pytest.mark.parametrize("hold, zero", diagonals(list(GRADIENT), [True, False], 2, others=pytest.mark.fuzz))
def test_gradients_that_somebody_holds_stay(hold: str, zero: bool) -> None:
    model, compiled = stepping(zero)
    holders, right = [], []
    for k in range(6):
        x = numod.full((4, 3), float(k + 1))
        if not zero:
            model.zero_grad()
        compiled(x)
        holders.append(GRADIENT[hold](model.weight.grad))
        right.append(expected(model, x))
        np.testing.assert_allclose(model.weight.grad.numpy(), right[-1], rtol=1e-5)
    for gradient, wanted in zip(holders, right):
        if gradient is not None:
            gradient = np.asarray(gradient)
            np.testing.assert_allclose(
                gradient.reshape(wanted.reshape(-1, 3)[-gradient.size // 3 :].shape),
                wanted.reshape(-1, 3)[-gradient.size // 3 :],
                rtol=1e-5,
            )


def test_gradients_taken_from_one_parameter_and_given_to_another() -> None:
    model, compiled = stepping(zero=True)
    for k in range(3):
        compiled(numod.full((4, 3), float(k)))
    other = nn.Parameter(numod.zeros(2, 3))
    other.grad, model.weight.grad = model.weight.grad, None
    before = other.grad.tolist()
    compiled(numod.ones(4, 3))
    assert other.grad.tolist() == before
    np.testing.assert_allclose(model.weight.grad.numpy(), expected(model, numod.ones(4, 3)), rtol=1e-5)


def test_a_check_that_fails_leaves_the_gradients_as_they_were() -> None:
    weight = nn.Parameter(numod.tensor([1.0, 2.0, 3.0]))

    def step(x: numod.Tensor, at: numod.Tensor) -> numod.Tensor:
        weight.grad = None
        loss = (x * weight)[at].sum()
        loss.backward()
        return loss

    compiled = numod.compile(step)
    x = numod.ones(3)
    for at in ([0, 1], [1, 2], [2, 2]):
        compiled(x, numod.tensor(at))
    assert weight.grad.tolist() == [0.0, 0.0, 2.0]
    former = weight.grad = numod.full((3,), 7.0)
    with pytest.raises(IndexError):
        compiled(x, numod.tensor([0, 9]))
    assert weight.grad is None or weight.grad is former  # as eager leaves it
    compiled(x, numod.tensor([0, 1]))
    assert weight.grad.tolist() == [1.0, 1.0, 0.0] and former.tolist() == [7.0] * 3


def test_threads_have_results_of_their_own() -> None:
    with numod.no_grad():
        compiled = doubled()
    wrong: list[int] = []

    def work(k: int) -> None:
        with numod.no_grad():
            x = numod.full((3,), float(k))
            for _ in range(300):
                if compiled(x).tolist() != [2.0 * k + 1] * 3:
                    wrong.append(k)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


def test_the_short_way_takes_structures_and_named_arguments() -> None:
    def combine(x: numod.Tensor, pair: tuple, *, gain: float, more: dict | None = None) -> numod.Tensor:
        a, (b,) = pair
        return (x + a * b) * gain + (more["c"] if more else 0)

    compiled = numod.compile(combine)
    ones = numod.ones(2)
    with numod.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error")
        for gain, more in (
            (2.0, None),
            (2.0, None),
            (2.0, {"c": ones}),
            (2.0, {"c": ones}),
            (3.0, {"c": ones}),
            (3.0, {"c": ones}),
            (3.0, {"c": ones * 2}),
        ):
            actual = compiled(ones, (ones * 2, [ones]), gain=gain, more=more)
            assert actual.tolist() == combine(ones, (ones * 2, [ones]), gain=gain, more=more).tolist()
        assert compiled.__call__ != compiled._call


def test_native_guards_compare_closures_and_code() -> None:
    factor, w = numod.tensor(2.0), numod.ones(3, requires_grad=True)

    def slope(x: numod.Tensor) -> numod.Tensor:
        return x * factor

    @numod.compile
    def step() -> numod.Tensor:
        loss = slope(w).sum()
        loss.backward()
        return loss

    def run() -> tuple:
        w.grad = None
        return step().item(), w.grad.tolist()

    assert [run() for _ in range(3)] == [(6.0, [2.0] * 3)] * 3
    assert "cell_contents" not in step.__call__.text and "__code__" not in step.__call__.text
    factor = numod.tensor(5.0)
    assert [run() for _ in range(3)] == [(15.0, [5.0] * 3)] * 3
    slope.__code__ = (lambda x: x * factor * factor).__code__
    assert [run() for _ in range(3)] == [(75.0, [25.0] * 3)] * 3
