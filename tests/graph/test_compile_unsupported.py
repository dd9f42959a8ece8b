"""Unsupported behaviour in a compiled function raises at the user's line; supported side effects equal eager mode's."""

from __future__ import annotations

import copy
import pickle
import sys
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from pairs import compile, equal

import numod
from numod import nn

FILE = "test_compile_unsupported.py"


class Counting(nn.Module):
    """Multiplies by a number that it counts up."""

    calls = 0

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.calls += 1
        return x * self.calls


class Remembering(nn.Module):
    """Keeps what it computed."""

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.last = x * 2
        return self.last + 1


class Stateful(nn.Module):
    """Replaces a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", numod.zeros(3))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.state = self.state * 0.5 + x
        return self.state


@pytest.mark.parametrize("kind", [Counting, Remembering, Stateful])
def test_numbers_and_tensors_that_change_at_every_call_are_kept(kind: type) -> None:
    compiled, eager = numod.compile(kind(), options={"linked": False}), kind()
    for k in range(4):
        assert numod.equal(compiled(numod.ones(3) * k), eager(numod.ones(3) * k))
        assert all(
            numod.equal(vars(compiled)[name], var) for name, var in vars(eager).items() if isinstance(var, numod.Tensor)
        )


def test_lists_that_grow_are_refused_by_name_and_function() -> None:
    log: list[int] = []

    def growing(x: numod.Tensor) -> numod.Tensor:
        log.append(1)
        return x * 2

    compiled = numod.compile(growing, fullgraph=True)
    with pytest.raises(RuntimeError, match=rf"len\(log\) was 1, is 2 in growing, {FILE}:\d+"):
        for _ in range(3):
            compiled(numod.ones(3))


def test_an_attribute_that_is_the_same_every_time_is_none_of_the_programs_business() -> None:
    class Marking(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            self.mode = "plain"
            return x * 3

    module = Marking()
    compiled = numod.compile(module)
    for k in range(4):
        assert compiled(numod.full((2,), float(k))).tolist() == [3.0 * k] * 2
    assert module.mode == "plain"


@pytest.mark.parametrize("name", ["weight_norm", "spectral_norm"])
@pytest.mark.parametrize("where", ["utils", "parametrizations"])
def test_reparametrised_weights_train_as_eager_does(name: str, where: str) -> None:
    def train(compiled: bool) -> list[np.ndarray]:
        numod.manual_seed(3)
        layer = nn.Linear(3, 2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            layer = getattr(nn.utils if where == "utils" else nn.utils.parametrizations, name)(layer)
        optimizer = numod.optim.SGD(layer.parameters(), lr=0.1)
        x = numod.randn(4, 3)
        model = numod.compile(layer) if compiled else layer
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    np.testing.assert_allclose(train(True), train(False), rtol=1e-4)


def test_packed_sequences_come_and_go() -> None:
    layer = nn.LSTM(3, 4)
    compiled = numod.compile(layer, options={"linked": False})
    with numod.no_grad():
        for lengths in ((4, 2), (4, 2), (3, 3)):
            packed = nn.utils.rnn.pack_sequence([numod.randn(n, 3) for n in lengths])
            (actual, last), (expected, end) = compiled(packed), layer(packed)
            assert type(actual) is nn.utils.rnn.PackedSequence and numod.equal(actual.batch_sizes, expected.batch_sizes)
            assert numod.allclose(actual.data, expected.data) and all(map(numod.allclose, last, end))


def test_compiled_functions_inside_one_another_are_one_program() -> None:
    inner = numod.compile(lambda x: x * 2)
    outer = numod.compile(lambda x: inner(x) + 1)
    x = numod.ones(2)
    for _ in range(3):
        assert outer(x).tolist() == [3.0, 3.0]
        assert inner(x).tolist() == [2.0, 2.0]


def test_a_call_that_raises_half_way_leaves_what_eager_leaves() -> None:
    fail = [False]

    def make() -> tuple[nn.Parameter, Callable]:
        weight = nn.Parameter(numod.ones(3))
        optimizer = numod.optim.SGD([weight], lr=0.1, momentum=0.5)

        def step(x: numod.Tensor) -> numod.Tensor:
            optimizer.zero_grad()
            loss = (weight * x).sum()
            loss.backward()
            if fail[0]:
                raise ValueError("half-way")
            optimizer.step()
            return loss

        return weight, step

    (mine, step), (theirs, eager) = make(), make()
    compiled = numod.compile(step)
    for k, fails in enumerate([False] * 3 + [True] + [False] * 2):
        fail[0] = fails
        for function in (compiled, eager):
            try:
                function(numod.full((3,), float(k + 1)))
            except ValueError:
                assert fails
        assert mine.tolist() == theirs.tolist() and mine.grad.tolist() == theirs.grad.tolist()


def test_a_module_compiles_itself_in_place() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
    x = numod.randn(2, 3)
    before, names = model(x), list(model.state_dict())
    seen: list[int] = []
    assert model.compile() is None and isinstance(model, nn.Sequential) and type(model).__name__ == "Sequential"
    model.register_forward_hook(lambda *_: seen.append(1))
    for _ in range(3):
        np.testing.assert_allclose(model(x).detach().numpy(), before.detach().numpy(), rtol=1e-5)
    assert len(seen) == 3 and list(model.state_dict()) == names and "return" in model.explain()
    model._forward_hooks.clear()
    twin, loaded = copy.deepcopy(model), pickle.loads(pickle.dumps(model))
    with numod.no_grad():
        model[0].weight.zero_()
    for other in (twin, loaded):
        np.testing.assert_allclose(other(x).detach().numpy(), before.detach().numpy(), rtol=1e-5)
    model.train(False)
    assert not model.training and not model[1].training and sys.getrefcount(model) < 10


def test_a_compiled_module_compiled_again() -> None:
    model = nn.Linear(3, 2)
    compiled = numod.compile(numod.compile(model), dynamic=True)
    for n in (2, 3, 4):
        x = numod.randn(n, 3)
        np.testing.assert_allclose(compiled(x).detach().numpy(), model(x).detach().numpy(), rtol=1e-5)
    assert (
        "return" in compiled.explain()
        and compiled.graph is not None
        and type(copy.deepcopy(compiled)).__name__ == "Linear"
    )


def _written(y: numod.Tensor, i: numod.Tensor) -> numod.Tensor:
    y[i][:1].add_(5)
    return y * 2


def _counted(y: numod.Tensor, i: numod.Tensor) -> numod.Tensor:
    y[i] += 1
    y[i, 0] *= 3
    y[..., i - i] -= y[i, 1]
    return y + 0


def _left_behind(y: numod.Tensor, i: numod.Tensor) -> tuple:
    row, other = y[i], y[i]
    y.mul_(2)
    row.detach().add_(1)
    return row + 0, other + 1


def _of_rows(y: numod.Tensor, i: numod.Tensor) -> tuple:
    row, k = y[i], i.clone()
    part, rows = row[i - i], y[k]
    k.add_(1)
    part += 7
    y.mul_(row.sum())
    rows[0] = 4
    return row * 2, part + 0, rows + 1


def _of_parts(y: numod.Tensor, i: numod.Tensor) -> tuple:
    whole = numod.view_as_complex(y.clone())
    whole.real.mul_(3)
    numod.view_as_real(whole)[i] += 1
    pairs = y.clone()
    numod.view_as_complex(pairs)[i] *= 1j
    whole.imag[i] = -1
    return whole.abs(), pairs


def _of_dense_parts(y: numod.Tensor, i: numod.Tensor) -> tuple:
    part = numod.view_as_complex(y.clone()).real
    dense = part.contiguous()  # a copy, as the real parts have gaps between them
    dense.mul_(2)
    return part * 1, dense * (3 if part.is_contiguous() else 5)


@pytest.mark.parametrize("function", [_written, _counted, _left_behind, _of_rows, _of_parts, _of_dense_parts])
@pytest.mark.parametrize("detached", [False, True])
def test_views_that_are_copies_in_programs_follow_what_is_written(function: Callable, detached: bool) -> None:
    def run(x: numod.Tensor, i: numod.Tensor) -> tuple:
        return function(x if detached else x * 1, i), x

    def run_backward(x: numod.Tensor, i: numod.Tensor) -> tuple:
        weight = numod.ones(2, requires_grad=True)
        result = function(x * weight, i)
        sum((value * weight[0]).square().sum() for value in (result if type(result) is tuple else (result,))).backward()
        return result, weight.grad

    for runner in (run, run_backward):
        compiled = compile(runner, fullgraph=True)
        for k in (0, 2, 1, 0):
            mine, theirs = numod.arange(6.0).reshape(3, 2), numod.arange(6.0).reshape(3, 2)
            actual, expected = compiled(mine, numod.tensor(k)), runner(theirs, numod.tensor(k))
            assert equal(actual, expected) and equal(mine, theirs)
        assert compiled.recorded == 1


def test_a_row_by_a_tensor_without_dimensions_is_a_copy_where_nobody_can_tell() -> None:
    def moved(x: numod.Tensor, i: numod.Tensor) -> numod.Tensor:
        y = x.clone()
        row = y[i] + 0
        y.mul_(2)
        y[i] = row
        return y

    x, compiled = numod.arange(6.0).reshape(3, 2), numod.compile(moved)
    for k in (0, 2, 1):
        assert compiled(x, numod.tensor(k)).tolist() == moved(x, numod.tensor(k)).tolist()
