"""Contents of containers, views, caches and weak references that a compiled function reaches."""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import mmap
import threading
import types
import warnings
import weakref
from collections import defaultdict
from collections.abc import Callable

import numpy as np
import pytest
from pairs import X, compile, equal

import numod
from numod import nn
from numod.graph import compile as compiled_natively


def test_results_of_a_cache_that_is_cleared_are_computed_again() -> None:
    rate = [1.0]
    cached = functools.lru_cache(lambda n: n * rate[0])
    compiled = compile(lambda x: x * cached(2))
    for k in range(7):
        rate[0] = float(k)
        if k == 5:
            cached.cache_clear()
        assert equal(compiled(X), X * (0.0 if k < 5 else 10.0))


def test_bound_methods_of_containers() -> None:
    settings: dict[str, float] = {"factor": 2.0}
    get, count = settings.get, settings.__len__
    compiled = compile(lambda x: x * get("factor", 1.0) + count())
    for settings["factor"] in (2.0, 5.0):
        assert equal(compiled(X), X * settings["factor"] + 1)
    settings.clear()
    assert equal(compiled(X), X)


def test_defaults_of_names_that_are_replaced_as_a_whole() -> None:
    def scale(x: numod.Tensor, *, by: float = 2.0) -> numod.Tensor:
        return x * by

    compiled = compile(lambda x: scale(x))
    for factor in (2.0, 3.0):
        scale.__kwdefaults__ = {"by": factor}
        assert equal(compiled(X), X * factor)


def test_members_of_sets_and_keys_of_dictionaries() -> None:
    settings, layer = {"factor": 1.0}, nn.Dropout(0.0)
    layer.gain = 1.0
    functions, weights = {lambda x: x * settings["factor"]}, {layer: 2.0}

    @compile
    def scaled(x: numod.Tensor) -> numod.Tensor:
        for function in functions:
            x = function(x)
        for module, weight in weights.items():
            x = module(x) * module.gain * weight
        return x

    for settings["factor"] in (1.0, 1.0, 2.0):
        assert equal(scaled(X), X * settings["factor"] * 2)
    layer.gain = 3.0
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


def test_missing_keys_of_dictionaries() -> None:
    made = defaultdict(lambda: 2.0)
    compiled = compile(lambda x: x * made["factor"])
    assert equal([compiled(X), compiled(X)], [X * 2, X * 2])
    made.clear()
    made.default_factory = lambda: 5.0
    assert equal(compiled(X), X * 5)


def test_a_dictionary_that_holds_itself() -> None:
    settings: dict = {"v": 2.0}
    settings["self"] = settings
    compiled = compile(lambda x: x * settings["self"]["v"])
    for settings["v"] in (2.0, 2.0, 3.0):
        assert equal(compiled(X), X * settings["v"])


def test_views_of_dictionaries_and_of_memory_are_looked_through() -> None:
    entries, numbers = {"a": 2.0, "b": 3.0}, array.array("d", [3.0])
    values = entries.values()
    keys = entries.keys()
    items = entries.items()
    proxy = types.MappingProxyType(entries)
    memory = memoryview(numbers)
    uses = [
        lambda x: x * sum(values), lambda x: x * len(keys), lambda x: x * sum(item for _, item in items),
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

    instance = Kind()
    reference = weakref.ref(instance)
    use = lambda x: x * (reference().scale if reference() is not None else 9.0)  # noqa: E731
    compiled = compile(use)
    for scale in (2.0, 3.0):
        instance.scale = scale
        assert equal(compiled(X), use(X)) and equal(compiled(X), use(X))
    del instance
    gc.collect()
    assert reference() is None and [compiled(X).tolist() for _ in range(2)] == [(X * 9).tolist()] * 2


def test_weak_dictionaries_and_sets() -> None:
    class Kind:
        scale = 2.0

    instance = Kind()
    values = weakref.WeakValueDictionary(a=instance)
    keys = weakref.WeakKeyDictionary({instance: 2.0})
    members = weakref.WeakSet([instance])
    uses = [
        lambda x: x * (values["a"].scale if "a" in values else 5.0), lambda x: x * sum(keys.values()) * len(keys),
        lambda x: x * len(members),
    ]  # fmt: skip
    compiled = [compile(use) for use in uses]
    for scale in (2.0, 2.0, 3.0, 3.0):
        instance.scale, keys[instance] = scale, scale
        assert all(equal(one(X), other(X)) for one, other in zip(compiled, uses))
    del instance
    gc.collect()
    for _ in range(2):
        assert not members and all(equal(one(X), other(X)) for one, other in zip(compiled, uses))


def test_sets_of_numbers_that_are_equal_but_of_another_kind() -> None:
    members = {1}
    compiled = compile(lambda x: x.long() * sum(members))
    for number in (1, 1.0, 1):
        members.clear()
        members.add(number)
        assert compiled(X).dtype is (numod.float32 if number.__class__ is float else numod.int64)


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
    container = make()
    of_closure, of_argument = compile(lambda x: x * read(container)), compile(lambda x, values: x * read(values))
    for call in range(4):
        other = make()
        if call == 2:
            write(container)
        if call % 2:
            write(other)
        assert equal(of_closure(X), X * read(container)) and equal(of_argument(X, other), X * read(other))


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
    container = make()
    compiled = compiled_natively(lambda x: x * read(container))
    with pytest.warns(UserWarning, match="cannot compare them from call to call"):
        assert equal(compiled(X), X * read(container))
    write(container)
    assert equal(compiled(X), X * 5) and equal(compiled(X), X * 5)
