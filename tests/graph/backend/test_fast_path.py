"""The fast path into programs with separate launches: it is used, and its results are those of the general path."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import pytest
from pairs import equal

import numod
from numod import nn
from numod.graph.compile import Compiled
from numod.nn import functional as F


def unlinked(function: object) -> Compiled:
    return Compiled(function, dynamic=False, options={"linked": False})


def uses_fast_path(compiled: Compiled) -> bool:
    """Whether the next call uses the fast path."""
    return "with busy" in getattr(compiled.__call__, "text", "")


def test_results_are_new_memory_and_inputs_may_begin_anywhere() -> None:
    @unlinked
    def f(x: numod.Tensor) -> tuple:
        y = (x * 2).relu()
        return y, y.sum(0)

    x = numod.randn(5, 3)
    results = [f(x[k : k + 3]) for k in (0, 1, 2)]
    assert uses_fast_path(f)
    for k, (y, total) in enumerate(results):
        assert numod.equal(y, (x[k : k + 3] * 2).relu()) and numod.equal(total, y.sum(0))


def test_training_steps_with_dropout_are_those_of_eager() -> None:
    def make() -> tuple:
        numod.manual_seed(3)
        model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 3))
        return model, numod.optim.Adam(model.parameters(), lr=0.01)

    def step(model: nn.Module, optimizer: object, x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x, y = numod.randn(4, 6), numod.tensor([0, 2, 1, 1])
    results = []
    for wrap in (lambda f: f, unlinked):
        (model, optimizer), run = make(), wrap(step)
        results.append(
            [run(model, optimizer, x, y).item() for _ in range(5)]
            + [parameter.tolist() for parameter in model.parameters()]
        )
    assert uses_fast_path(run) and results[0] == results[1]
    with pytest.raises(IndexError):  # the check of the classes fails: the long way, and eager's words
        run(model, optimizer, x, numod.tensor([0, 3, 1, 1]))
    assert {int(value["step"]) for value in optimizer.state.values()} == {5}
    assert run(model, optimizer, x, y).item() > 0


def test_threads_that_meet_take_memory_of_their_own() -> None:
    @unlinked
    def f(x: numod.Tensor) -> numod.Tensor:
        return (x @ x).softmax(1) @ x

    inputs = [numod.randn(64, 64) for _ in range(4)]
    expected, wrong = [f(x).clone() for x in inputs], []

    def work(k: int) -> None:
        with numod.no_grad():
            wrong.extend(k for _ in range(50) if not numod.equal(f(inputs[k]), expected[k]))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert not wrong


class Rows(NamedTuple):
    a: numod.Tensor

    def __getitem__(self, index: object) -> Rows:
        return Rows(self.a[index])


def test_a_named_tuple_with_items_of_its_own() -> None:
    compiled = unlinked(lambda rows: rows.a + 1)
    for k in range(3):
        assert compiled(Rows(numod.full((2,), float(k)))).tolist() == [k + 1.0] * 2


@pytest.mark.parametrize("linked", [True, False])
def test_functions_whose_results_require_gradients_take_the_short_way(linked: bool) -> None:
    weight = numod.randn(5, 3).requires_grad_()
    function = lambda places, scale: F.dropout(F.embedding(places, weight) * scale).sum()  # noqa: E731
    compiled = numod.compile(function, options={"linked": linked})
    places, scale = numod.tensor([1, 4]), numod.ones(3)
    for _ in range(3):
        compiled(places, scale)
    assert compiled.recorded == 1 and compiled.__call__ != compiled._call
    for k in range(3):
        results = []
        for variant in (function, compiled):
            numod.manual_seed(k)
            loss = variant(places + k % 2 - 1, scale * k)
            results += [loss.detach(), *numod.autograd.grad(loss, weight)]
        assert equal(results[:2], results[2:])
    state = numod.get_rng_state()
    with pytest.raises(IndexError):
        compiled(places + 1, scale)  # a check fails before anything is drawn
    assert numod.get_rng_state().equal(state)
    compiled(places, scale)
    weight.requires_grad_(False)
    assert not compiled(places, scale).requires_grad and compiled(places, scale.clone().requires_grad_()).requires_grad


@pytest.mark.parametrize("error", [AttributeError, KeyError])
def test_a_call_that_raises_runs_once(error: type) -> None:
    """This includes a call that triggers a recompilation (a longer list): random numbers are those of eager."""

    def function(x: numod.Tensor, items: list) -> numod.Tensor:
        try:
            return F.dropout(x, 0.5) * len(items)
        finally:
            if len(items) > 3:
                raise error("one")

    def run(function: Callable) -> list:
        numod.manual_seed(0)
        seen = []
        for k in range(1, 6):
            try:
                seen.append(function(numod.ones(8), [1.0] * k).tolist())
            except error as raised:
                assert raised.__context__ is None
            seen.append(int(numod.default_generator._offset))
        return seen

    assert run(unlinked(function)) == run(function)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_keyword_arguments_that_were_one_tensor_may_become_two(requires_grad: bool) -> None:
    f = numod.compile(lambda x, y, z: x + y * z)
    x, y, z = (numod.full((3,), value, requires_grad=requires_grad) for value in (1.0, 2.0, 3.0))
    for _ in range(3):
        assert f(x, y=y, z=y).tolist() == [5.0] * 3
    for _ in range(3):
        assert f(x, y=y, z=z).tolist() == [7.0] * 3
