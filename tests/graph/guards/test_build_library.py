"""Functions and methods of the library, and builtins, that users replace: compiled functions notice it."""

from __future__ import annotations

import glob
import os
import pathlib
import random
import sys
import threading
import time
import uuid
import warnings
from collections.abc import Callable

import numpy as np
import pytest
from pairs import X, compile, equal

import numod
from numod import nn
from numod.distributions import Normal
from numod.graph.values import kinds
from numod.graph import compile as compiled_natively
from numod.graph.guards import guard as condition
from numod.nn import functional as F


LATE: dict[str, float] = {"factor": 2.0}
RELU = nn.ReLU()


def test_functions_of_the_library_that_others_are_put_in_the_place_of(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [lambda x: F.relu(x), lambda x: numod.nn.functional.relu(x), lambda x: x.scaled()]
    monkeypatch.setattr(numod.Tensor, "scaled", lambda x: x * 5, raising=False)
    compiled = [compile(call) for call in calls]
    for factor in (None, 2.0, 3.0):
        if factor is not None:
            monkeypatch.setattr(F, "relu", lambda x, factor=factor: x * factor)
            monkeypatch.setattr(numod.Tensor, "scaled", lambda x, factor=factor: x * factor)
        for eager, function in zip(calls, compiled):
            assert all(equal(function(X - 2), eager(X - 2)) for _ in range(2))
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x * LATE["factor"])
    patched = compile(RELU)
    for LATE["factor"] in (2.0, 3.0, 2.0):
        assert equal(patched(X), X * LATE["factor"])


@pytest.mark.parametrize("numbered", [True, False])
def test_a_warning_at_a_line_of_the_library_is_no_change(numbered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not numbered:  # as in an interpreter that counts no changes
        monkeypatch.setattr(condition, "_NAMESPACE_VERSION", None)
    space, layer = vars(sys.modules[nn.GRU.__module__]), nn.GRU(2, 3)
    monkeypatch.delitem(space, "__warningregistry__", raising=False)  # as before the first warning
    function = compiled_natively(lambda x: layer(x)[0])
    function(X.reshape(-1, 1, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec("__import__('warnings').warn('as by NumPy')", space, {})
    function(X.reshape(-1, 1, 2))
    assert function.recorded == 1


@pytest.mark.parametrize(("linked", "numbered"), [(None, True), (False, True), (None, False)])
def test_methods_and_functions_put_in_the_place_of_the_librarys_are_noticed(
    linked: bool | None, numbered: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not numbered:  # as in an interpreter that counts no changes
        monkeypatch.setattr(condition, "_CLASS_VERSION", None)
        monkeypatch.setattr(condition, "_NAMESPACE_VERSION", None)
    layer, x = nn.Sequential(nn.Linear(2, 2), nn.ReLU()), numod.tensor([[1.0, -2.0]])
    function = compiled_natively(lambda x: layer(x), options={"linked": linked})
    total, product, call = numod.Tensor.sum, nn.functional.linear, nn.Module.__call__
    changes = [
        (nn.ReLU, "forward", lambda self, x: x * 5),
        (nn.functional, "linear", lambda *args: product(*args) - 3),
        (nn.functional, "relu", lambda x, inplace: x * 7),
        (nn.Module, "__call__", lambda self, *args: call(self, *args) + 1),
        (numod.Tensor, "sum", lambda self: total(self) * 2),
    ]
    for holder, name, other in [(nn.ReLU, "extra_repr", nn.ReLU.extra_repr), *changes]:
        monkeypatch.setattr(holder, name, other)
        with numod.no_grad():
            assert all(numod.allclose(function(x + k), layer(x + k)) for k in range(3)), name
    assert function.recorded == 6 and not function.refused


@pytest.mark.parametrize(
    "draw",
    [
        random.random,
        random.uniform,
        random.Random(0).random,
        np.random.rand,
        np.random.default_rng(0).normal,
        time.perf_counter,
        os.urandom,
        uuid.uuid4,
    ],
)
def test_functions_that_give_another_value_at_every_use_are_refused_under_any_name(draw: Callable) -> None:
    with pytest.raises(RuntimeError, match="returns a new value at every use"):
        compile(lambda x: x * (draw is not None))(X)


def test_a_global_that_comes_to_hide_a_name_of_pythons_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(x: numod.Tensor) -> numod.Tensor:
        return x * len(x.shape)

    compiled = compile(count)
    assert equal(compiled(X), X * X.ndim)
    monkeypatch.setitem(globals(), "len", lambda shape: 7)
    assert equal(compiled(X), X * 7)
    monkeypatch.delitem(globals(), "len")
    assert equal(compiled(X), X * X.ndim)


def test_methods_and_private_functions_put_in_the_place_of_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    density = compile(lambda x: Normal(numod.zeros(3), numod.ones(3)).log_prob(x))
    by_validated = compile(lambda x: numod.distributions.Normal(numod.zeros(3), numod.ones(3)).log_prob(x))
    loss = compile(lambda x: F.smooth_l1_loss(x, x + 1))
    for function in (density, by_validated, loss):
        function(X)
    monkeypatch.setattr(Normal, "log_prob", lambda self, x: x * 7)
    monkeypatch.setattr(sys.modules["numod.nn.functional.loss"], "_elementwise", lambda *args, **kwargs: X * 9)
    assert equal(density(X), X * 7) and equal(by_validated(X), X * 7) and equal(loss(X), F.smooth_l1_loss(X, X + 1))


def test_another_backward_of_a_function_with_a_gradient_of_its_own() -> None:
    class Square(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x * x

        @staticmethod
        def backward(ctx: object, g: numod.Tensor) -> numod.Tensor:
            return g * 2

    x = X.clone().requires_grad_()
    compiled = compile(lambda x: Square.apply(x).sum())
    for factor in (2, 3):
        if factor == 3:
            Square.backward = staticmethod(lambda ctx, g: g * LATE["factor"])
        for LATE["factor"] in (3.0, 4.0):
            x.grad = None
            compiled(x).backward()
            assert equal(x.grad, numod.full_like(x, LATE["factor"] if factor == 3 else 2.0))


def test_the_order_in_which_arguments_are_named() -> None:
    compiled = compile(lambda **kwargs: ({name: 2 for name in kwargs}, X * 2))
    for names in ("ab", "ab", "ba", "ab", "ba"):
        assert list(compiled(**{name: 1.0 for name in names})[0]) == list(names)


def test_bound_methods_of_library_objects() -> None:
    class Scaled(numod.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: numod.Tensor) -> numod.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: object, g: numod.Tensor) -> numod.Tensor:
            return g * 2

    x, apply, weight = X.clone().requires_grad_(), Scaled.apply, nn.Parameter(numod.ones(3))
    compiled = compile(lambda x: apply(x).sum())
    for factor in (2, 3):
        Scaled.backward = staticmethod(lambda ctx, g, factor=factor: g * factor)
        x.grad = None
        compiled(x).backward()
        assert equal(x.grad, numod.full_like(x, factor))

    layer = nn.Dropout(1.0)
    forward = layer.forward
    dropped = compile(lambda x: forward(x))
    for training in (True, False):
        layer.train(training)
        assert equal(dropped(X), layer(X))

    optimizer = numod.optim.SGD([weight], lr=1.0)
    step = optimizer.step

    def descend(x: numod.Tensor) -> None:
        weight.grad = None
        (weight * x).sum().backward()
        step()

    descended, total = compile(descend), numod.ones(3)
    for optimizer.param_groups[0]["maximize"] in (False, False, True):
        descended(X)
        total = total + (X.sum(0) if optimizer.param_groups[0]["maximize"] else -X.sum(0))
        assert equal(weight, total)


def test_flags_of_objects_of_pythons_library() -> None:
    event = threading.Event()
    compiled = compile(lambda x: x * 2 if event.is_set() else x)
    assert equal([compiled(X), compiled(X)], [X, X])
    event.set()
    assert equal(compiled(X), X * 2)


@pytest.mark.parametrize(
    "ask",
    [
        lambda x: x * float(pathlib.Path("factor").read_text()),
        lambda x: x * len(glob.glob("*")),
        lambda x: x * len(os.getcwd()),
    ],
)
def test_reading_files_is_refused(ask: Callable) -> None:
    with pytest.raises(RuntimeError, match="may have another value at the next call|a new value at every use"):
        compile(ask)(X)


def test_methods_in_the_stead_of_those_that_only_the_library_calls() -> None:
    settings = {"gain": 1.0}

    class Scaled(nn.Conv1d):
        def _conv_forward(self, *inputs: numod.Tensor) -> numod.Tensor:
            return super()._conv_forward(*inputs) * settings["gain"]

    class Strict(nn.BatchNorm1d):
        def _check_input_dim(self, input: numod.Tensor) -> None:
            if settings["gain"] > 2:
                raise ValueError("a gain of more than 2")

    class First(numod.optim.Adam):
        count = 2

        def _updates(self, parameters: list, group: dict) -> list:
            return super()._updates(parameters[: self.count], group)

    layer, norm = Scaled(3, 3, 1), Strict(3)
    compiled, checked = compile(lambda x: layer(x)), compile(lambda x: norm(x))
    x = numod.ones(2, 3, 4)
    for settings["gain"] in (1.0, 1.0, 2.0):
        assert equal(compiled(x), layer(x)) and checked(x[..., 0]).shape == (2, 3)
    settings["gain"] = 3.0
    with pytest.raises(ValueError, match="a gain"):
        checked(x[..., 0])

    def run(wrap: Callable) -> list:
        First.count, weights, results = 2, [numod.ones(3, requires_grad=True) for _ in range(2)], []
        optimizer = First(weights, 0.1)

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()
            (weights[0] * weights[1] * x).sum().backward()
            optimizer.step()

        function = wrap(step)
        for k in range(5):
            First.count = 1 if k > 2 else 2
            function(X)
            results += [weight.detach().clone() for weight in weights]
        return results

    assert equal(run(lambda function: function), run(compile))


def test_a_module_with_the_name_of_one_of_pythons(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mailcap.py").write_text("class Kept:\n    k = 1\n\ndef function(x):\n    return x * Kept.k\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mailcap", raising=False)
    import mailcap

    monkeypatch.setattr("numod.graph.values.kinds.LIBRARIES", kinds.LIBRARIES | {"mailcap"})
    monkeypatch.setattr(sys, "stdlib_module_names", sys.stdlib_module_names | {"mailcap"})
    compiled = compile(mailcap.function)
    for mailcap.Kept.k in (1, 1, 2, 2, 3):
        assert equal(compiled(X), X * mailcap.Kept.k)
    del sys.modules["mailcap"]


def test_a_method_put_past_the_class_into_a_librarys_module_is_noticed() -> None:
    layers = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    compiled = compile(lambda x: layers(x))
    for change in (
        lambda: None,
        lambda: object.__setattr__(layers[0], "forward", lambda x: x * 3),
        lambda: vars(layers[0]).pop("forward"),
    ):
        change()
        assert all(equal(compiled(X), layers(X)) for _ in range(2))
