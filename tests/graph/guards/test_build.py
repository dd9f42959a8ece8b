"""Numbers, containers and settings that a compiled function reaches: never frozen, followed or refused."""

from __future__ import annotations

import abc
import argparse
import array
import collections.abc
import contextvars
import ctypes
import enum
import functools
import gc
import glob
import mmap
import operator
import os
import pathlib
import random
import sys
import threading
import time
import types
import uuid
import warnings
import weakref
from collections import ChainMap, UserDict, defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from pairs import X, Pair, compile, equal

import numod
from numod import nn
from numod.distributions import Normal
from numod.graph.values import kinds
from numod.graph import compile as compiled_natively
from numod.graph.guards import guard as condition
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


class Settings:
    """Numbers a function may use."""

    shared = 1.0

    def __init__(self) -> None:
        self.own, self.nested, self.array = 1.0, {"a": [1.0]}, np.ones(1)

    def scaled(self, x: numod.Tensor) -> numod.Tensor:
        return x * self.own


class Slots:
    """The same without a dictionary."""

    __slots__ = ("own",)

    def __init__(self) -> None:
        self.own = 1.0


def helper(x: numod.Tensor) -> numod.Tensor:
    """A function that another one calls."""
    return x * GLOBAL["scale"]


CHANGES = {
    "attribute": (lambda s, x: x * s.own, lambda s: setattr(s, "own", 5.0)),
    "slot": (lambda s, x: x * s.own, lambda s: setattr(s, "own", 5.0)),
    "attribute in a method": (lambda s, x: s.scaled(x), lambda s: setattr(s, "own", 5.0)),
    "class": (lambda s, x: x * s.shared, lambda s: setattr(type(s), "shared", type(s).shared + 1)),
    "nested": (lambda s, x: x * s.nested["a"][0], lambda s: s.nested["a"].__setitem__(0, 5.0)),
    "array": (lambda s, x: x * float(s.array[0]), lambda s: s.array.fill(5.0)),
    "global of a helper": (lambda s, x: helper(x), lambda s: GLOBAL.update(scale=5.0)),
    "a key that goes": (lambda s, x: x * s.nested.get("a", [7.0])[0], lambda s: s.nested.clear()),
    "an attribute that goes": (
        lambda s, x: x * getattr(s, "own", 7.0) + (s.own if hasattr(s, "own") else 0),
        lambda s: delattr(s, "own"),
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
    import random

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


def _scaled(held: list, x: numod.Tensor, more: float = 0.0) -> numod.Tensor:
    return x * held[0] + more


def test_partials_and_callable_objects_are_looked_into() -> None:
    held, factor = [2.0], Calling()
    partly = functools.partial(_scaled, held)
    inside = functools.partial(_scaled, [1.0], more=1.0)
    functions = [compile(partly), compile(factor), compile(lambda x: inside(x))]
    for k in range(4):
        held[0], factor.factor, inside.keywords["more"] = k, k + 1.0, k + 2.0
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


class Access(dict):
    """A dictionary whose items are attributes, as many configurations are."""

    __getattr__ = dict.__getitem__


class Named(dict):
    """A dictionary with attributes of its own."""


def rate_of(held: object) -> float:
    return held.rate


def or_else(held: object) -> float:
    try:
        return held.rate
    except AttributeError:
        return 2.0


def put(held: object, value: float) -> None:
    setattr(held, "rate", value)  # noqa: B010


def with_rate(held: object) -> object:
    put(held, 1.0)
    return held


WEAKLY, OTHER, NAMES = with_rate(Settings()), False, ["rate"]
HELD: dict[str, tuple[object, Callable, Callable]] = {
    "a helper's name for it": (with_rate(types.SimpleNamespace()), rate_of, put),
    "parsed options": (argparse.Namespace(rate=1.0), lambda held: held.rate, put),
    "a name in text": (with_rate(Settings()), lambda held: getattr(held, "rate"), put),  # noqa: B009
    "a computed name": (with_rate(Settings()), lambda held: getattr(held, "".join(["ra", "te"])), put),
    "all names": (with_rate(Settings()), lambda held: sum(vars(held)[name] for name in ["rate"]), put),
    "a getter": (with_rate(Settings()), operator.attrgetter("rate"), put),
    "added": (Settings(), lambda held: getattr(held, "rate", 2.0), put),
    "asked for": (Settings(), lambda held: 1.0 + hasattr(held, "rate"), put),
    "one of two names": (with_rate(Settings()), lambda held: getattr(held, "other" if OTHER else "rate"), put),
    "a name or another": (with_rate(Settings()), lambda held: getattr(held, NAMES[0] or "other"), put),
    "a getter made inside": (with_rate(Settings()), lambda held: operator.attrgetter(NAMES[0])(held), put),
    "the method of all names": (with_rate(Settings()), lambda held: held.__getattribute__(NAMES[0]), put),
    "getattr by another name": (with_rate(Settings()), lambda held, get=getattr: get(held, NAMES[0]), put),
    "a text": (None, lambda held: eval("WEAKLY.rate"), lambda held, value: put(WEAKLY, value)),
    "caught": (Settings(), or_else, put),
    "items as attributes": (Access(rate=1.0), rate_of, lambda held, value: held.update(rate=value)),
    "attributes of a dictionary": (with_rate(Named()), rate_of, put),
    "a dictionary of the library's": (UserDict(rate=1.0), lambda held: held["rate"], lambda held,
        value: held.update(rate=value)),
        "a chain": (ChainMap({}, {"rate": 1.0}), lambda held: held["rate"], lambda held,
            value: held.maps[1].update(rate=value)),
    "a weak reference": (weakref.ref(WEAKLY), lambda held: held().rate, lambda held, value: put(WEAKLY, value)),
    "an order": ({"a": 1.0, "b": 2.0}, lambda held: next(value for value in held.values()), lambda held,
        value: held.update(a=held.pop("a"), b=value)),
        "a tuple": (with_rate(Settings()), lambda held: held.rate[0] if isinstance(held.rate, tuple) else held.rate,
            lambda held, value: put(held, (value, 2.0))),
    "members": ({1.0, 9}, lambda held: 1.0 if 3.0 in held else 2.0, lambda held, value: held.add(value)),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_attributes_however_they_are_asked_for(name: str) -> None:
    early, later_found, change = HELD[name]
    compiled = compile(lambda x: x * later_found(early))
    for value in (None, None, 3.0, 4.0, 3.0, 4.0, 5.0):
        if value is not None:
            change(early, value)
        assert equal(compiled(X), X * later_found(early))


def test_globals_by_their_names_and_functions_of_new_code() -> None:
    compiled, double = compile(lambda x: double(x) * globals()["SCALES"][0]), lambda x: x * 2
    assert equal(compiled(X), X * 2 * SCALES[0]) and equal(compiled(X), X * 2 * SCALES[0])
    SCALES[0], double.__code__ = 7.0, (lambda x: x * 3).__code__
    assert equal(compiled(X), X * 21) and compiled.recorded == 2


def test_a_tensor_from_outside_that_is_resized() -> None:
    held = numod.ones(4)
    compiled = compile(lambda x: x.sum() + held.sum())
    for size in (4, 4, 2, 2, 3, 4):
        held.resize_(size)
        assert equal(compiled(X), X.sum() + held.sum())


def test_members_of_an_enumeration_of_integers_are_integers() -> None:
    class Scale(enum.IntEnum):
        SINGLE, DOUBLE = 1, 2

    compiled = compile(lambda x, scale: (x * scale, scale.name))
    for scale in (*Scale, *Scale):
        assert equal(compiled(X, scale), (X * scale.value, scale.name))


def test_modules_that_are_imported_inside(monkeypatch: pytest.MonkeyPatch) -> None:
    options = types.ModuleType("options_of_a_test")
    options.scale = 1.0
    monkeypatch.setitem(sys.modules, options.__name__, options)

    def function(x: numod.Tensor) -> numod.Tensor:
        import options_of_a_test
        from options_of_a_test import scale

        return x * scale + options_of_a_test.scale

    compiled = compile(function)
    for scale in (1.0, 1.0, 3.0, 4.0, 5.0):
        options.scale = scale
        assert equal(compiled(X), function(X))


def test_attributes_of_tensors() -> None:
    weight = numod.ones(3)
    compiled = compile(lambda x: x * weight.rate)
    for rate in (1.0, 1.0, 3.0, 4.0, 5.0):
        weight.rate = rate
        assert equal(compiled(X), X * rate)

    def named(x: numod.Tensor) -> numod.Tensor:
        result = x * 2
        result.rate = 1.0
        return result

    with pytest.raises(RuntimeError, match="returns a tensor with an attribute, rate"):
        compile(named)(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.is_leaf,
        lambda x: x * (x.grad_fn is None),
        lambda x: x * x.storage_offset(),
        lambda x: x * x._version,
    ],
)
def test_what_nothing_compares_from_call_to_call_is_refused(function: Callable) -> None:
    with pytest.raises(RuntimeError, match="which may have another value at the next call"):
        compile(function)(X)


@pytest.mark.parametrize(
    "asks",
    [
        lambda held: hasattr(type(held), "late"),
        lambda held: hasattr(held, "late"),
        lambda held: getattr(held, "late", None) is not None,
    ],
)
def test_an_attribute_that_a_class_comes_to_have_is_noticed(asks):
    class Held:
        pass

    held = Held()
    compiled = numod.compile(lambda x: x * 2 if asks(held) else x)
    assert [compiled(numod.ones(1)).item() for _ in range(2)] == [1.0, 1.0]
    Held.late = 1
    assert compiled(numod.ones(1)).item() == 2.0


def test_an_argument_may_be_compared_with_a_tensor_of_the_closure():
    own, other = numod.ones(1), numod.ones(1)
    compiled = numod.compile(lambda x: x * 2 if x is own else x)
    assert [compiled(each).item() for each in (own, other, own, other, own)] == [2.0, 1.0, 2.0, 1.0, 2.0]


class Slotted:
    __slots__ = ("late",)


@functools.singledispatch
def dispatched(given: object, x: numod.Tensor) -> numod.Tensor:
    return x * SCALED[2]


LATE: dict[str, float] = {"factor": 2.0}
VARIABLE: contextvars.ContextVar = contextvars.ContextVar("factor", default=2.0)
TEXT = "x * LATE['factor']"


def test_functions_of_the_library_that_others_are_put_in_the_place_of(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = [lambda x: F.relu(x), lambda x: numod.nn.functional.relu(x), lambda x: x.scaled()]
    monkeypatch.setattr(numod.Tensor, "scaled", lambda x: x * 5, raising=False)
    compiled = [compile(call) for call in calls]
    for factor in (None, 2.0, 3.0):
        if factor is not None:
            monkeypatch.setattr(F, "relu", lambda x, factor=factor: x * factor)
            monkeypatch.setattr(numod.Tensor, "scaled", lambda x, factor=factor: x * factor)
        for eager, each in zip(calls, compiled):
            assert all(equal(each(X - 2), eager(X - 2)) for _ in range(2))
    monkeypatch.setattr(nn.ReLU, "forward", lambda self, x: x * LATE["factor"])
    patched = compile(RELU)
    for LATE["factor"] in (2.0, 3.0, 2.0):
        assert equal(patched(X), X * LATE["factor"])


RELU = nn.ReLU()


@pytest.mark.parametrize(
    ("function", "change"),
    [
        (lambda x: x * getattr(SLOTTED, "late", 1.0), lambda: setattr(SLOTTED, "late", 3.0)),
        (lambda x: eval(TEXT), lambda: LATE.update(factor=LATE["factor"] + 1)),
        (lambda x: x * VARIABLE.get(), lambda: VARIABLE.set(3.0)),
        (lambda x: dispatched(1, x), lambda: dispatched.register(int, lambda _, x: x * 7)),
        (lambda x: x * HIDDEN.rate, lambda: object.__setattr__(HIDDEN, "rate", HIDDEN.rate + 1)),
        (lambda x: x * HIDDEN.rate, lambda: vars(HIDDEN).update(rate=HIDDEN.rate + 1)),
    ],
    ids=["slot", "eval", "context variable", "singledispatch", "object.__setattr__", "vars"],
)
def test_changes_that_nothing_notes(function: Callable, change: Callable) -> None:
    compiled = numod.compile(function)
    for _ in range(2):
        with warnings.catch_warnings(action="ignore"):  # a text that is computed elsewhere is evaluated eagerly
            assert equal([compiled(X), compiled(X)], [function(X)] * 2)
        change()
    assert equal(compiled(X), function(X))


class Rated(nn.Module):
    rate = 1.0


SLOTTED, HIDDEN = Slotted(), Rated()
HIDDEN.rate = 1.0


def tagged(x: numod.Tensor) -> numod.Tensor:
    x.tag = 1
    return x


@pytest.mark.parametrize(
    ("function", "first", "second"),
    [
        (
            lambda x: x * 2 if isinstance(x, nn.Parameter) else x,
            lambda: numod.ones(2, requires_grad=True),
            lambda: nn.Parameter(numod.ones(2)),
        ),
        (lambda x: x * 2 if hasattr(x, "tag") else x, lambda: numod.ones(2), lambda: tagged(numod.ones(2))),
        (lambda x: x * 2 if x.requires_grad else x, lambda: numod.ones(2), lambda: numod.ones(2, requires_grad=True)),
        (
            lambda x: x * 2 if x.is_inference() else x,
            lambda: numod.ones(2),
            lambda: numod.inference_mode()(numod.ones)(2),
        ),
        (lambda x: x * 2 if id(x) in OWN else x, lambda: numod.ones(2), lambda: KEPT),
        (lambda x: x * 2 if x in OWN else x, lambda: numod.ones(2), lambda: KEPT),
        (lambda x: CACHED(x), lambda: KEPT, lambda: numod.zeros(2)),
    ],
    ids=["class", "attribute", "requires_grad", "inference", "id", "key", "cache"],
)
def test_tensors_of_which_code_asks_more_than_their_layout(
    function: Callable, first: Callable, second: Callable
) -> None:
    CACHED(KEPT)
    compiled = numod.compile(function)
    with numod.no_grad(), warnings.catch_warnings(action="ignore"):
        for make in (first, first, second, first, second):
            given = make()
            assert equal(compiled(given), function(given))


KEPT, CACHED = numod.ones(2), functools.lru_cache(lambda x: x * 2)
OWN = {KEPT: 1, id(KEPT): 1}


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
        (nn.functional, "linear", lambda *given: product(*given) - 3),
        (nn.functional, "relu", lambda x, inplace: x * 7),
        (nn.Module, "__call__", lambda self, *given: call(self, *given) + 1),
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


def test_a_module_that_is_made_one_of_another_class_is_noticed() -> None:
    layers = nn.Sequential(nn.ReLU())
    compiled = compile(lambda x: layers(x))
    for kind in (nn.ReLU, nn.Tanh, nn.ReLU):
        layers[0].__class__ = kind
        assert numod.allclose(compiled(X), layers(X))


def test_an_object_that_is_made_one_of_another_class_is_noticed() -> None:
    class Twice:
        """Scales."""

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 2

    class Thrice(Twice):
        """Scales otherwise."""

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 3

    scale = Twice()
    compiled = compile(lambda x: scale.scaled(x))
    for kind in (Twice, Thrice, Twice, Thrice):
        scale.__class__ = kind
        assert equal(compiled(X), scale.scaled(X))


def test_results_of_a_cache_that_is_cleared_are_computed_again() -> None:
    rate = [1.0]
    cached = functools.lru_cache(lambda n: n * rate[0])
    compiled = compile(lambda x: x * cached(2))
    for k in range(7):
        rate[0] = float(k)
        if k == 5:
            cached.cache_clear()
        assert equal(compiled(X), X * (0.0 if k < 5 else 10.0))


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
    named = compile(lambda x: numod.distributions.Normal(numod.zeros(3), numod.ones(3)).log_prob(x))
    loss = compile(lambda x: F.smooth_l1_loss(x, x + 1))
    for each in (density, named, loss):
        each(X)
    monkeypatch.setattr(Normal, "log_prob", lambda self, x: x * 7)
    monkeypatch.setattr(sys.modules["numod.nn.functional.loss"], "_elementwise", lambda *given, **named: X * 9)
    assert equal(density(X), X * 7) and equal(named(X), X * 7) and equal(loss(X), F.smooth_l1_loss(X, X + 1))


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
    compiled = compile(lambda **named: ({name: 2 for name in named}, X * 2))
    for names in ("ab", "ab", "ba", "ab", "ba"):
        assert list(compiled(**{name: 1.0 for name in names})[0]) == list(names)


class Given:
    def scaled(self, x: numod.Tensor) -> numod.Tensor:
        return x * 2


def test_a_class_that_comes_to_have_a_method_it_had_from_another() -> None:
    class Own(Given):
        pass

    class Rectified(nn.ReLU):
        pass

    own, layer = Own(), Rectified()
    for holder, name, compiled in (
        (Own, "scaled", compile(lambda x: own.scaled(x))),
        (Rectified, "forward", compile(lambda x: layer(x))),
    ):
        before = compiled(X)
        setattr(holder, name, lambda self, x: x * 9)
        assert equal(compiled(X), X * 9)
        delattr(holder, name)
        assert equal(compiled(X), before)


def test_what_a_method_of_the_librarys_is_bound_to() -> None:
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


def test_methods_that_super_finds_and_what_they_reach() -> None:
    class Base(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return x * LATE["factor"]

    class Derived(Base):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return super().forward(x) + 1

    compiled = compile(Derived())
    for LATE["factor"] in (2.0, 3.0):
        assert equal(compiled(X), X * LATE["factor"] + 1)
    Base.forward = lambda self, x: x - 4
    assert equal(compiled(X), X - 3)


def test_what_methods_of_containers_are_bound_to() -> None:
    held: dict[str, float] = {"factor": 2.0}
    get, count = held.get, held.__len__
    compiled = compile(lambda x: x * get("factor", 1.0) + count())
    for held["factor"] in (2.0, 5.0):
        assert equal(compiled(X), X * held["factor"] + 1)
    held.clear()
    assert equal(compiled(X), X)


def test_defaults_of_names_that_are_replaced_as_a_whole() -> None:
    def scale(x: numod.Tensor, *, by: float = 2.0) -> numod.Tensor:
        return x * by

    compiled = compile(lambda x: scale(x))
    for factor in (2.0, 3.0):
        scale.__kwdefaults__ = {"by": factor}
        assert equal(compiled(X), X * factor)


class _Plain:
    """An object whose class gives what it lacks."""

    def __getattr__(self, name: str) -> float:
        if name == "factor":
            return 2.0
        raise AttributeError(name)


class _Half:
    factor = 0.5


def test_attributes_that_come_to_hide_what_a_class_gives() -> None:
    class Base:
        @property
        def factor(self) -> float:
            return 2.0

    class Derived(Base):
        pass

    thing, derived = _Plain(), Derived()
    for each, hide in (
        (thing, lambda: setattr(thing, "factor", 7.0)),
        (derived, lambda: setattr(Derived, "factor", property(lambda self: 7.0))),
    ):
        compiled = compile(lambda x, each=each: x * each.factor)
        for factor in (2.0, 2.0, 7.0):
            if factor != 2.0:
                hide()
            assert equal(compiled(X), X * factor)


def test_bases_that_are_replaced() -> None:
    class Derived(_Half):
        pass

    thing = Derived()
    compiled = compile(lambda x: x * thing.factor)
    assert equal([compiled(X), compiled(X)], [X * 0.5, X * 0.5])
    Derived.__bases__ = (type("Other", (_Half,), {"factor": 5.0}),)
    assert equal(compiled(X), X * 5.0)


def test_calls_that_a_class_of_modules_comes_to_take() -> None:
    class Doubling(nn.Module):
        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return x * 2

    compiled = compile(nn.Sequential(Doubling()))
    assert equal([compiled(X), compiled(X)], [X * 2, X * 2])
    Doubling.__call__ = lambda self, x: x * 11
    assert equal(compiled(X), X * 11)


def test_members_of_sets_and_keys_of_dictionaries() -> None:
    held, layer = {"factor": 1.0}, nn.Dropout(0.0)
    layer.own = 1.0
    functions, weights = {lambda x: x * held["factor"]}, {layer: 2.0}

    @compile
    def scaled(x: numod.Tensor) -> numod.Tensor:
        for function in functions:
            x = function(x)
        for module, weight in weights.items():
            x = module(x) * module.own * weight
        return x

    for held["factor"] in (1.0, 1.0, 2.0):
        assert equal(scaled(X), X * held["factor"] * 2)
    layer.own = 3.0
    assert equal(scaled(X), X * 12)
    layer.eval()
    layer.p = 1.0
    assert equal(scaled(X), X * 12)
    layer.train()
    assert equal(scaled(X), X * 0)


def test_the_order_of_sets_and_of_dictionaries_with_tuples_for_keys() -> None:
    powers, members = {(1, 2): 2.0, (2, 1): 3.0}, {8, 16}

    @compile
    def mixed(x: numod.Tensor) -> numod.Tensor:
        for power in powers.values():
            x = x * power + 1
        for member in members:
            x = x / 2 + member
        return x

    for _ in range(2):
        assert equal(mixed(X), mixed.function(X))
    powers[1, 2] = powers.pop((1, 2))
    assert equal(mixed(X), mixed.function(X))
    members.clear()
    members.update((16, 8))
    assert equal(mixed(X), mixed.function(X))


def test_shapes_and_objects_of_arrays() -> None:
    sizes, parts = np.ones((2, 3)), np.array([[2.0], None], dtype=object)
    compiled = compile(lambda x: x * sizes.shape[0] * parts[0][0])
    assert equal([compiled(X), compiled(X)], [X * 4, X * 4])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        sizes.shape = (3, 2)
    assert equal(compiled(X), X * 6)
    parts[0][0] = 5.0
    assert equal(compiled(X), X * 15)


def test_what_a_dictionary_makes_of_missing_keys() -> None:
    made = defaultdict(lambda: 2.0)
    compiled = compile(lambda x: x * made["factor"])
    assert equal([compiled(X), compiled(X)], [X * 2, X * 2])
    made.clear()
    made.default_factory = lambda: 5.0
    assert equal(compiled(X), X * 5)


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
def test_what_is_read_of_the_disk_is_refused(ask: Callable) -> None:
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
        First.count, weights, found = 2, [numod.ones(3, requires_grad=True) for _ in range(2)], []
        optimizer = First(weights, 0.1)

        def step(x: numod.Tensor) -> None:
            optimizer.zero_grad()
            (weights[0] * weights[1] * x).sum().backward()
            optimizer.step()

        function = wrap(step)
        for k in range(5):
            First.count = 1 if k > 2 else 2
            function(X)
            found += [weight.detach().clone() for weight in weights]
        return found

    assert equal(run(lambda function: function), run(compile))


def test_attributes_that_are_asked_for_by_their_dictionary() -> None:
    class Plain:
        @property
        def factor(self) -> float:
            return self.__dict__.get("scale", 1.0)

    for read in (
        lambda a: a.__dict__.get("scale", 1.0),
        lambda a: vars(a)["scale"] if "scale" in vars(a) else 1.0,
        lambda a: a.factor,
    ):
        thing, other = Plain(), Plain()
        reached = compile(lambda x, read=read, thing=thing: x * read(thing))
        given = compile(lambda x, a, read=read: x * read(a))
        for value in (None, None, None, 5.0, 5.0, 7.0):
            if value is not None:
                thing.scale = other.scale = value
            assert equal(reached(X), X * (value or 1.0)) and equal(given(X, other), X * (value or 1.0))


def test_a_dictionary_that_holds_itself() -> None:
    held: dict = {"v": 2.0}
    held["self"] = held
    compiled = compile(lambda x: x * held["self"]["v"])
    for held["v"] in (2.0, 2.0, 3.0):
        assert equal(compiled(X), X * held["v"])


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


def test_views_of_dictionaries_and_of_memory_are_looked_through() -> None:
    entries, numbers = {"a": 2.0, "b": 3.0}, array.array("d", [3.0])
    values = entries.values()
    keys = entries.keys()
    items = entries.items()
    proxy = types.MappingProxyType(entries)
    memory = memoryview(numbers)
    uses = [
        lambda x: x * sum(values), lambda x: x * len(keys), lambda x: x * sum(each for _, each in items),
        lambda x: x * proxy["a"], lambda x: x * memory[0],
        lambda x: x * len(proxy),
    ]  # fmt: skip
    compiled = [compile(use) for use in uses]
    changes = [
        lambda: None,
        lambda: entries.update(a=7.0),
        lambda: entries.update(c=1.0),
        lambda: numbers.__setitem__(0, 9.0),
        lambda: entries.pop("b"),
    ]
    for change in changes:
        change()
        for _ in range(2):
            assert all(equal(one(X), other(X)) for one, other in zip(compiled, uses))


def test_a_weak_reference_that_dies_and_what_it_refers_to() -> None:
    class Kind:
        scale = 2.0

    held = Kind()
    reference = weakref.ref(held)
    use = lambda x: x * (reference().scale if reference() is not None else 9.0)  # noqa: E731
    compiled = compile(use)
    for scale in (2.0, 3.0):
        held.scale = scale
        assert equal(compiled(X), use(X)) and equal(compiled(X), use(X))
    del held
    gc.collect()
    assert reference() is None and [compiled(X).tolist() for _ in range(2)] == [(X * 9).tolist()] * 2


def test_weak_dictionaries_and_sets() -> None:
    class Kind:
        scale = 2.0

    held = Kind()
    values = weakref.WeakValueDictionary(a=held)
    keys = weakref.WeakKeyDictionary({held: 2.0})
    members = weakref.WeakSet([held])
    uses = [
        lambda x: x * (values["a"].scale if "a" in values else 5.0), lambda x: x * sum(keys.values()) * len(keys),
        lambda x: x * len(members),
    ]  # fmt: skip
    compiled = [compile(use) for use in uses]
    for scale in (2.0, 2.0, 3.0, 3.0):
        held.scale, keys[held] = scale, scale
        assert all(equal(one(X), other(X)) for one, other in zip(compiled, uses))
    del held
    gc.collect()
    for _ in range(2):
        assert not members and all(equal(one(X), other(X)) for one, other in zip(compiled, uses))


@pytest.mark.parametrize("match", [False, True])
@pytest.mark.parametrize("kind", [None, collections.abc.Sized])
def test_classes_that_are_registered_with_an_abstract_one(kind: type | None, match: bool) -> None:
    class Kind:
        """One that comes to be registered."""

    base, held = kind or abc.ABCMeta("Base", (), {}), Kind()

    def matching(x: numod.Tensor) -> numod.Tensor:
        match held:
            case base():
                return x * 2
        return x * 3

    def asking(x: numod.Tensor) -> numod.Tensor:
        return x * 2 if isinstance(held, base) else x * 3

    compiled = compile(matching if match else asking)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
    base.register(Kind)
    assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)


def test_what_a_metaclass_says_and_holds() -> None:
    class Meta(type):
        rate, known = 2.0, False

        def __instancecheck__(cls, instance: object) -> bool:
            return cls.known

    class Kind(metaclass=Meta):
        """One of its classes."""

    use = lambda x: x * Kind.rate if isinstance(x, Kind) else x * -Kind.rate  # noqa: E731
    compiled = compile(use)
    for name, value in (
        ("known", False),
        ("known", True),
        ("rate", 5.0),
        ("__instancecheck__", lambda cls, instance: False),
    ):
        setattr(Meta, name, value)
        assert equal(compiled(X), use(X)) and equal(compiled(X), use(X))


class Doubled(nn.Module):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return x * 2


class Tripled(nn.Module):
    def forward(self, x: numod.Tensor) -> numod.Tensor:
        return x * 3


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("place", ["itself", "inside", "given"])
def test_modules_that_are_given_another_class(place: str, linked: bool | None) -> None:
    module = Doubled()
    use = {"itself": module, "inside": nn.Sequential(module), "given": lambda x: module(x)}[place]
    compiled = compiled_natively(use, options={"linked": linked}, fullgraph=True)
    for kind in (Doubled, Doubled, Tripled, Tripled, Doubled):
        module.__class__ = kind
        assert equal(compiled(X), X * (2 if kind is Doubled else 3))
    object.__setattr__(module, "__class__", Tripled)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("name", ["inner", "weight", "scaled"])
def test_attributes_that_hide_what_a_module_has(name: str, linked: bool | None) -> None:
    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.weight = Doubled(), nn.Parameter(numod.ones(1))

        def scaled(self, x: numod.Tensor) -> numod.Tensor:
            return x * 1

        def forward(self, x: numod.Tensor) -> numod.Tensor:
            return self.scaled(self.inner(x) * self.weight)

    module = Outer().requires_grad_(False)
    compiled = compiled_natively(module, options={"linked": linked}, fullgraph=True)
    hiding = {"inner": Tripled(), "weight": numod.full((1,), 1.5), "scaled": lambda x: x * 1.5}[name]
    for _ in range(2):
        assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)
        module.__dict__[name] = hiding
        assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
        del module.__dict__[name]
    assert equal(compiled(X), X * 2)


def test_sets_of_numbers_that_are_equal_but_of_another_kind() -> None:
    held = {1}
    compiled = compile(lambda x: x.long() * sum(held))
    for number in (1, 1.0, 1):
        held.clear()
        held.add(number)
        assert compiled(X).dtype is (numod.float32 if number.__class__ is float else numod.int64)


def test_what_a_module_gives_for_missing_names_and_its_own_names() -> None:
    module = types.ModuleType("lazily")
    module.rate = 4.0
    module.__getattr__ = eval("lambda name: rate", vars(module))
    compiled = compile(lambda x: x * module.lazy)
    for change, expected in ((lambda: None, 4.0), (lambda: setattr(module, "lazy", 6.0), 6.0), (lambda: delattr(module, "lazy"), 4.0), (lambda: setattr(module, "rate", 5.0), 5.0),
                             (lambda: setattr(module, "__getattr__", lambda name: 7.0), 7.0)):  # fmt: skip
        change()
        assert [compiled(X).tolist() for _ in range(2)] == [(X * expected).tolist()] * 2


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


class CPair(ctypes.Structure):
    _fields_ = (("a", ctypes.c_double), ("b", ctypes.c_int))


def thread_values() -> threading.local:
    values = threading.local()
    values.a = 2.0
    return values


@pytest.mark.parametrize(
    ("make", "read", "write"),
    [
        (lambda: CPair(2.0, 3), lambda c: c.a * c.b, lambda c: setattr(c, "b", 5)),
        (lambda: ctypes.c_double(2.0), lambda c: c.value, lambda c: setattr(c, "value", 5.0)),
        (lambda: (ctypes.c_int * 2)(1, 2), lambda c: c[1], lambda c: c.__setitem__(1, 5)),
        (lambda: np.zeros(1, [("a", "f8")])[0], lambda record: record["a"], lambda record: record.__setitem__("a", 5)),
    ],
    ids="structure number array record".split(),
)
def test_values_in_memory_of_c(make: Callable, read: Callable, write: Callable) -> None:
    kept = make()
    of_closure, of_argument = compile(lambda x: x * read(kept)), compile(lambda x, values: x * read(values))
    for call in range(4):
        other = make()
        if call == 2:
            write(kept)
        if call % 2:
            write(other)
        assert equal(of_closure(X), X * read(kept)) and equal(of_argument(X, other), X * read(other))


@pytest.mark.parametrize(
    ("make", "read", "write"),
    [
        (lambda: ctypes.pointer(ctypes.c_int(2)), lambda c: c.contents.value, lambda c: c.__setitem__(0, 5)),
        (lambda: mmap.mmap(-1, 2), lambda memory: memory[0], lambda memory: memory.__setitem__(0, 5)),
        (thread_values, lambda values: values.a, lambda values: setattr(values, "a", 5.0)),
    ],
    ids="pointer file thread".split(),
)
def test_values_that_no_guard_can_compare(make: Callable, read: Callable, write: Callable) -> None:
    kept = make()
    compiled = compiled_natively(lambda x: x * read(kept))
    with pytest.warns(UserWarning, match="cannot compare them from call to call"):
        assert equal(compiled(X), X * read(kept))
    write(kept)
    assert equal(compiled(X), X * 5) and equal(compiled(X), X * 5)


def test_a_class_with_other_bases() -> None:
    class First:
        k = 2.0

    class Second:
        k = 3.0

    class Child(First):
        pass

    child = Child()
    child.factor = 1.0
    compiled = compile(lambda x: x * child.k * child.factor)
    assert equal(compiled(X), X * 2) and equal(compiled(X), X * 2)
    Child.__bases__ = (Second,)
    assert equal(compiled(X), X * 3) and equal(compiled(X), X * 3)
    child.factor = 4.0
    assert equal(compiled(X), X * 12)


def test_attributes_of_a_partial_function() -> None:
    class Partial(functools.partial):
        pass

    compiled = compile(lambda x, function: x * function.scale)
    for scale in (1.0, 1.0, 2.0, 3.0):
        function = Partial(abs)
        function.scale = scale
        assert equal(compiled(X, function), X * scale)
