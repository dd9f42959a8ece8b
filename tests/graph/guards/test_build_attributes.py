"""Attributes of objects, tensors and modules that a compiled function reads: changes are noticed."""

from __future__ import annotations

import argparse
import contextvars
import functools
import operator
import sys
import types
import warnings
import weakref
from collections import ChainMap, UserDict
from collections.abc import Callable

import pytest
from pairs import X, Settings, compile, equal

import numod
from numod import nn


class Access(dict):
    """A dictionary whose items are attributes, as many configurations are."""

    __getattr__ = dict.__getitem__


class Named(dict):
    """A dictionary with attributes of its own."""


def rate_of(target: object) -> float:
    return target.rate


def or_else(target: object) -> float:
    try:
        return target.rate
    except AttributeError:
        return 2.0


def put(target: object, value: float) -> None:
    setattr(target, "rate", value)  # noqa: B010


def with_rate(target: object) -> object:
    put(target, 1.0)
    return target


WEAKLY, OTHER, NAMES = with_rate(Settings()), False, ["rate"]
HELD: dict[str, tuple[object, Callable, Callable]] = {
    "a helper's name for it": (with_rate(types.SimpleNamespace()), rate_of, put),
    "parsed options": (argparse.Namespace(rate=1.0), lambda target: target.rate, put),
    "a name in text": (with_rate(Settings()), lambda target: getattr(target, "rate"), put),  # noqa: B009
    "a computed name": (with_rate(Settings()), lambda target: getattr(target, "".join(["ra", "te"])), put),
    "all names": (with_rate(Settings()), lambda target: sum(vars(target)[name] for name in ["rate"]), put),
    "a getter": (with_rate(Settings()), operator.attrgetter("rate"), put),
    "added": (Settings(), lambda target: getattr(target, "rate", 2.0), put),
    "asked for": (Settings(), lambda target: 1.0 + hasattr(target, "rate"), put),
    "one of two names": (with_rate(Settings()), lambda target: getattr(target, "other" if OTHER else "rate"), put),
    "a name or another": (with_rate(Settings()), lambda target: getattr(target, NAMES[0] or "other"), put),
    "a getter made inside": (with_rate(Settings()), lambda target: operator.attrgetter(NAMES[0])(target), put),
    "the method of all names": (with_rate(Settings()), lambda target: target.__getattribute__(NAMES[0]), put),
    "getattr by another name": (with_rate(Settings()), lambda target, get=getattr: get(target, NAMES[0]), put),
    "a text": (None, lambda target: eval("WEAKLY.rate"), lambda target, value: put(WEAKLY, value)),
    "caught": (Settings(), or_else, put),
    "items as attributes": (Access(rate=1.0), rate_of, lambda target, value: target.update(rate=value)),
    "attributes of a dictionary": (with_rate(Named()), rate_of, put),
    "a dictionary of the library's": (UserDict(rate=1.0), lambda target: target["rate"], lambda target,
        value: target.update(rate=value)),
        "a chain": (ChainMap({}, {"rate": 1.0}), lambda target: target["rate"], lambda target,
            value: target.maps[1].update(rate=value)),
    "a weak reference": (weakref.ref(WEAKLY), lambda reference: reference().rate, lambda reference, value: put(WEAKLY, value)),
    "an order": ({"a": 1.0, "b": 2.0}, lambda target: next(value for value in target.values()), lambda target,
        value: target.update(a=target.pop("a"), b=value)),
        "a tuple": (with_rate(Settings()), lambda target: target.rate[0] if isinstance(target.rate, tuple) else target.rate,
            lambda target, value: put(target, (value, 2.0))),
    "members": ({1.0, 9}, lambda target: 1.0 if 3.0 in target else 2.0, lambda target, value: target.add(value)),
}  # fmt: skip


@pytest.mark.parametrize("name", HELD)
def test_attributes_however_they_are_asked_for(name: str) -> None:
    early, later_found, change = HELD[name]
    compiled = compile(lambda x: x * later_found(early))
    for value in (None, None, 3.0, 4.0, 3.0, 4.0, 5.0):
        if value is not None:
            change(early, value)
        assert equal(compiled(X), X * later_found(early))


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

    def counted(x: numod.Tensor) -> numod.Tensor:
        result = x * 2
        result.rate = 1.0
        return result

    with pytest.raises(RuntimeError, match="returns a tensor with an attribute, rate"):
        compile(counted)(X)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x.is_leaf,
        lambda x: x * (x.grad_fn is None),
        lambda x: x * x.storage_offset(),
        lambda x: x * x._version,
    ],
)
def test_values_without_a_guard_are_refused(function: Callable) -> None:
    with pytest.raises(RuntimeError, match="which may have another value at the next call"):
        compile(function)(X)


@pytest.mark.parametrize(
    "asks",
    [
        lambda target: hasattr(type(target), "late"),
        lambda target: hasattr(target, "late"),
        lambda target: getattr(target, "late", None) is not None,
    ],
)
def test_an_attribute_that_a_class_comes_to_have_is_noticed(asks):
    class Held:
        pass

    holder = Held()
    compiled = numod.compile(lambda x: x * 2 if asks(holder) else x)
    assert [compiled(numod.ones(1)).item() for _ in range(2)] == [1.0, 1.0]
    Held.late = 1
    assert compiled(numod.ones(1)).item() == 2.0


def test_an_argument_may_be_compared_with_a_tensor_of_the_closure():
    tensor, other = numod.ones(1), numod.ones(1)
    compiled = numod.compile(lambda x: x * 2 if x is tensor else x)
    assert [compiled(value).item() for value in (tensor, other, tensor, other, tensor)] == [2.0, 1.0, 2.0, 1.0, 2.0]


class Slotted:
    __slots__ = ("late",)


@functools.singledispatch
def dispatched(kind: object, x: numod.Tensor) -> numod.Tensor:
    return x * 2.0


LATE: dict[str, float] = {"factor": 2.0}
VARIABLE: contextvars.ContextVar = contextvars.ContextVar("factor", default=2.0)
TEXT = "x * LATE['factor']"


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
            target = make()
            assert equal(compiled(target), function(target))


KEPT, CACHED = numod.ones(2), functools.lru_cache(lambda x: x * 2)
OWN = {KEPT: 1, id(KEPT): 1}


class _Plain:
    """An object whose class gives what it lacks."""

    def __getattr__(self, name: str) -> float:
        if name == "factor":
            return 2.0
        raise AttributeError(name)


def test_attributes_that_come_to_hide_what_a_class_gives() -> None:
    class Base:
        @property
        def factor(self) -> float:
            return 2.0

    class Derived(Base):
        pass

    thing, derived = _Plain(), Derived()
    for value, hide in (
        (thing, lambda: setattr(thing, "factor", 7.0)),
        (derived, lambda: setattr(Derived, "factor", property(lambda self: 7.0))),
    ):
        compiled = compile(lambda x, value=value: x * value.factor)
        for factor in (2.0, 2.0, 7.0):
            if factor != 2.0:
                hide()
            assert equal(compiled(X), X * factor)


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
        by_reader = compile(lambda x, a, read=read: x * read(a))
        for value in (None, None, None, 5.0, 5.0, 7.0):
            if value is not None:
                thing.scale = other.scale = value
            assert equal(reached(X), X * (value or 1.0)) and equal(by_reader(X, other), X * (value or 1.0))


def test_module_getattr_for_missing_and_defined_names() -> None:
    module = types.ModuleType("lazily")
    module.rate = 4.0
    module.__getattr__ = eval("lambda name: rate", vars(module))
    compiled = compile(lambda x: x * module.lazy)
    for change, expected in ((lambda: None, 4.0), (lambda: setattr(module, "lazy", 6.0), 6.0), (lambda: delattr(module, "lazy"), 4.0), (lambda: setattr(module, "rate", 5.0), 5.0),
                             (lambda: setattr(module, "__getattr__", lambda name: 7.0), 7.0)):  # fmt: skip
        change()
        assert [compiled(X).tolist() for _ in range(2)] == [(X * expected).tolist()] * 2
