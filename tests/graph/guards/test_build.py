"""Numbers, containers and settings that a compiled function reaches: never frozen, followed or refused."""

from __future__ import annotations

import enum
import functools
import os
import random
from collections.abc import Callable

import numpy as np
import pytest
from pairs import X, Pair, Settings, compile, equal

import numod
from numod import nn
from numod.graph import compile as compiled_natively
from numod.nn import functional as F


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.count, self.seen = 0, []

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.count += 1
        return x * len(range(self.count))


class Appending(Counting):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.seen.append(1)
        return x * len(self.seen)


class Replacing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", numod.zeros(3))

    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.total = self.total + x
        return self.total * 2


class Updating(Replacing):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        self.total.mul_(0.5).add_(x)
        return self.total * 2


@pytest.mark.parametrize("kind", [Counting, Appending])
def test_state_kept_in_python_is_refused_never_frozen(kind: type) -> None:
    module, eager = compile(kind()), kind()
    with pytest.raises(RuntimeError, match="whenever (it|the function) runs"):
        for k in range(4):
            assert equal(module(numod.ones(3) * k), eager(numod.ones(3) * k))


def test_a_list_that_a_function_appends_to_is_refused() -> None:
    seen = []

    def function(x: numod.Tensor) -> numod.Tensor:
        seen.append(1)
        return x + 1

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="seen"):
        for _ in range(3):
            compiled(X)


@pytest.mark.parametrize("kind", [Updating, Replacing])
def test_buffers_are_updated_in_place_or_replaced(kind: type) -> None:
    module, eager = compile(kind()), kind()
    for k in range(4):
        x = numod.ones(3) * k
        assert equal(module(x), eager(x)) and equal(module.total, eager.total)


def test_batch_norm_statistics() -> None:
    pair = Pair(nn.BatchNorm1d(3))
    pair.run(1, 2, 3, 4)
    pair.both(lambda model, _: model.eval())
    pair.run(5, 6)
    pair.both(lambda model, _: model.train())
    pair.run(7)
    assert int(pair.models[1][2].num_batches_tracked) == 5


def test_numbers_in_closures_globals_and_arguments() -> None:
    scale = 2.0

    def function(x: numod.Tensor, power: int = 2) -> numod.Tensor:
        return x**power * scale + GLOBAL["shift"]

    compiled = compile(function)
    for number in (2.0, 3.0, 3.0, -1.0):
        scale = number
        for power in (1, 2):
            GLOBAL["shift"] += 1
            assert equal(compiled(X, power), function(X, power)) and equal(
                compiled(X, power=power), function(X, power=power)
            )
            if compiled.recorded > 6:
                compiled = compile(function)


GLOBAL = {"shift": 0}


class Slots:
    """The same without a dictionary."""

    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0


def helper(x: numod.Tensor) -> numod.Tensor:
    """A function that another one calls."""
    return x * GLOBAL["scale"]


CHANGES = {
    "attribute": (lambda s, x: x * s.gain, lambda s: setattr(s, "gain", 5.0)),
    "slot": (lambda s, x: x * s.gain, lambda s: setattr(s, "gain", 5.0)),
    "attribute in a method": (lambda s, x: s.scaled(x), lambda s: setattr(s, "gain", 5.0)),
    "class": (lambda s, x: x * s.shared, lambda s: setattr(type(s), "shared", type(s).shared + 1)),
    "nested": (lambda s, x: x * s.nested["a"][0], lambda s: s.nested["a"].__setitem__(0, 5.0)),
    "array": (lambda s, x: x * float(s.array[0]), lambda s: s.array.fill(5.0)),
    "global of a helper": (lambda s, x: helper(x), lambda s: GLOBAL.update(scale=5.0)),
    "a key that goes": (lambda s, x: x * s.nested.get("a", [7.0])[0], lambda s: s.nested.clear()),
    "an attribute that goes": (
        lambda s, x: x * getattr(s, "gain", 7.0) + (s.gain if hasattr(s, "gain") else 0),
        lambda s: delattr(s, "gain"),
    ),
}


@pytest.mark.parametrize("linked", [False, None])
@pytest.mark.parametrize("name", CHANGES)
def test_numbers_wherever_they_stand(name: str, linked: bool | None) -> None:
    function, change = CHANGES[name]
    settings = Slots() if name == "slot" else Settings()
    GLOBAL["scale"] = 1.0
    compiled = compiled_natively(lambda x: function(settings, x), options={"linked": linked})
    for _ in range(3):
        assert equal(compiled(X), function(settings, X))
    change(settings)
    for _ in range(2):
        assert equal(compiled(X), function(settings, X))


def test_numbers_that_are_another_at_every_use_are_refused() -> None:

    numbers, source = iter([1.0, 2.0, 3.0]), random.Random(0)
    for function in (
        lambda x: x * next(numbers),
        lambda x: x * source.random(),
        lambda x: x * random.random(),
        lambda x: x * float(np.random.rand()),
    ):
        with pytest.raises(RuntimeError, match="a new value at every use"):
            compile(function)(X)


def test_generators_draw_anew() -> None:
    source, twin = numod.Generator(), numod.Generator()
    function = lambda x, g: x + numod.rand(3, generator=g)  # noqa: E731
    compiled = compile(lambda x: function(x, source))
    for _ in range(4):
        assert equal(compiled(X), function(X, twin))


def test_a_default_dtype_that_changes() -> None:
    function = lambda x: numod.zeros(3) + x  # noqa: E731
    compiled = compile(function)
    assert compiled(numod.arange(3)).dtype is numod.float32
    numod.set_default_dtype(numod.float64)
    try:
        assert compiled(numod.arange(3)).dtype is numod.float64
    finally:
        numod.set_default_dtype(numod.float32)
    assert compiled(numod.arange(3)).dtype is numod.float32


def test_the_random_stream_may_not_be_begun_anew_inside() -> None:
    def function(x: numod.Tensor) -> numod.Tensor:
        numod.manual_seed(0)
        return F.dropout(x)

    compiled = compile(function)
    with pytest.raises(RuntimeError, match="random stream"):
        for _ in range(3):
            compiled(X)


def test_functions_put_in_the_place_of_a_classes_own() -> None:
    class Scaled(nn.Module):
        @staticmethod
        def scale(x: numod.Tensor) -> numod.Tensor:
            return x * 2

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.scale(x)

    model = compile(Scaled())
    step = compile(lambda x: Scaled.scale(x) + model(x))
    for _ in range(2):
        assert equal(model(X), X * 2) and equal(step(X), X * 4)
    Scaled.scale = staticmethod(lambda x: x * 3)
    assert equal(model(X), X * 3) and equal(step(X), X * 6)
    assert model.compiled.recorded == step.recorded == 2


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile(lambda x: x * float(os.environ.get("NUMOD_TEST_SCALE", "1")))
    for value in ("1", "2", "2", "3"):
        monkeypatch.setenv("NUMOD_TEST_SCALE", value)
        assert equal(compiled(X), X * float(value))
    assert compiled.recorded == 3


class Calling:
    def __init__(self, factor: float = 1.0) -> None:
        self.factor = factor

    def __call__(self, x: numod.Tensor) -> numod.Tensor:
        return x * self.factor


def _scaled(factors: list, x: numod.Tensor, more: float = 0.0) -> numod.Tensor:
    return x * factors[0] + more


def test_partials_and_callable_objects_are_looked_into() -> None:
    factors, factor = [2.0], Calling()
    partly = functools.partial(_scaled, factors)
    inside = functools.partial(_scaled, [1.0], more=1.0)
    functions = [compile(partly), compile(factor), compile(lambda x: inside(x))]
    for k in range(4):
        factors[0], factor.factor, inside.keywords["more"] = k, k + 1.0, k + 2.0
        assert [function(X).sum().item() for function in functions] == [15.0 * k, 15.0 * (k + 1), 15.0 + 6 * (k + 2)]


def test_a_loss_scale_is_followed() -> None:
    scaler = numod.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(X)
    compiled = compile(lambda x: scaler.scale(x.sum()))
    for scale in (4.0, 4.0, 8.0, 2.0):
        scaler.update(scale)
        assert compiled(X).item() == 15 * scale


_zipped = zip


def test_a_class_of_iterators_under_another_name_is_no_iterator() -> None:
    compiled = compile(lambda x: sum(a * b for a, b in _zipped((1, 2), (x, x + 1))))
    for k in range(3):
        assert equal(compiled(X + k), (X + k) + 2 * (X + k + 1))
    assert compiled.recorded == 1


SCALES = [1.0]


class Scaled:
    def __init__(self, x: numod.Tensor | float) -> None:
        self.x = x * SCALES[0]

    def __getitem__(self, k: int) -> float:
        return SCALES[0] * k

    def __enter__(self) -> float:
        return SCALES[0]

    def __exit__(self, *_: object) -> None:
        pass


SCALED = Scaled(1.0)


def in_a_context(x: numod.Tensor) -> numod.Tensor:
    with SCALED as factor:
        return x * factor


@pytest.mark.parametrize("function", [lambda x: Scaled(x).x + 1, lambda x: x * SCALED[2], in_a_context])
def test_methods_that_code_calls_without_their_names_are_looked_into(function: Callable) -> None:
    compiled = compile(function)
    for k in range(6):
        SCALES[0] = 1.0 + k // 3
        assert equal(compiled(X), function(X)) and compiled.recorded == 1 + k // 3


def test_globals_by_their_names_and_functions_of_new_code() -> None:
    compiled, double = compile(lambda x: double(x) * globals()["SCALES"][0]), lambda x: x * 2
    assert equal(compiled(X), X * 2 * SCALES[0]) and equal(compiled(X), X * 2 * SCALES[0])
    SCALES[0], double.__code__ = 7.0, (lambda x: x * 3).__code__
    assert equal(compiled(X), X * 21) and compiled.recorded == 2


def test_a_tensor_from_outside_that_is_resized() -> None:
    tensor = numod.ones(4)
    compiled = compile(lambda x: x.sum() + tensor.sum())
    for size in (4, 4, 2, 2, 3, 4):
        tensor.resize_(size)
        assert equal(compiled(X), X.sum() + tensor.sum())


def test_members_of_an_enumeration_of_integers_are_integers() -> None:
    class Scale(enum.IntEnum):
        SINGLE, DOUBLE = 1, 2

    compiled = compile(lambda x, scale: (x * scale, scale.name))
    for scale in (*Scale, *Scale):
        assert equal(compiled(X, scale), (X * scale.value, scale.name))
