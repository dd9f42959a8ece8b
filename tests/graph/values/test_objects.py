"""Objects of any class as arguments, results and state of compiled functions.

Their state is read and rebuilt without running code of their classes.

The random classes take some seconds, and with `-m fuzz` more than a minute.
"""

from __future__ import annotations

import array
import collections
import dataclasses
import functools
import gc
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import classes
import numpy as np
import pytest
from classes import World, run, shown
from pairs import compile, equal
from selection import every

import numod
from numod.graph import compile as compiled_natively
from numod.graph.values import objects

X = numod.ones(2)


def in_turn(function: Callable) -> Callable:
    return compiled_natively(function, options={"linked": False})


def check(seeds: range) -> None:
    for seed in seeds:
        world = World(seed)
        actual, expected = run(world, in_turn), run(World(seed), lambda function: function)
        for call, (result, expected_result) in enumerate(zip(actual, expected)):
            assert result == expected_result, (
                f"seed {seed}, call {call}: {world.base.__name__} with {sorted(world.traits)} as {world.where}"
            )


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("first", every(2, range(0, 200, 50), others=pytest.mark.fuzz))
def test_random_classes(first: int) -> None:
    check(range(first, first + 50))


@pytest.mark.fuzz
@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("first, last", [(200, 700), *[(first, first + 1000) for first in range(1000, 5000, 1000)]])
def test_more_random_classes(first: int, last: int) -> None:
    check(range(first, last))


def loud(base: type) -> type:
    """A class whose own code must not run."""

    def fail(self: Any, *arguments: Any) -> None:
        raise AssertionError("a user's code runs")

    names = (
        "__len__", "__iter__", "__getitem__", "__setitem__", "__eq__", "__getattribute__", "__setattr__",
        "__getattr__", "__init__", "__contains__",
    )  # fmt: skip
    return type(
        "Loud",
        (base,),
        {**{name: fail for name in names if hasattr(base, name) or name == "__getattr__"}, "__hash__": base.__hash__},
    )


@pytest.mark.parametrize(("base", "content"), [
    (list, ([1, 2],)), (dict, ({"a": 1},)), (OrderedDict, ({"a": 1, "b": 2},)), (tuple, ((1, 2),)), (str, ("ab",)), (int, (3,)), (float, (2.5,)), (object, ()),
    (bytes, (b"ab",)), (complex, (1j,)),
])  # fmt: skip
def test_state_is_read_and_made_again_without_the_class(base: type, content: tuple) -> None:
    kind = loud(base)
    instance = base.__new__(kind, *content) if base in (tuple, str, int, float, bytes, complex) else base.__new__(kind)
    for key, item in content[0].items() if base in (dict, OrderedDict) else ():
        base.__setitem__(instance, key, item)
    if base is list:
        list.extend(instance, *content)
    objects.write_attribute(instance, "mask", X)
    items = objects.values_of(instance) if base in (list, tuple, dict, OrderedDict) else []
    assert objects.attributes(instance) == {"mask": X} and objects.read_attribute(instance, "mask") is X
    copy = objects.rebuilt(instance, items, {"mask": 5})
    assert type(copy) is kind and objects.attributes(copy) == {"mask": 5} and shown(copy)[1] == shown(instance)[1]


def test_slots_of_all_bases_and_private_ones() -> None:
    class Base:
        __slots__ = ("__hidden", "a")

        def __init__(self) -> None:
            self.__hidden = 1

    class Derived(Base):
        __slots__ = ("b", "__dict__")

    instance = Derived()
    instance.b, instance.c = 2, 3
    assert objects.attributes(instance) == {"_Base__hidden": 1, "b": 2, "c": 3}
    objects.delete_attribute(instance, "b")
    assert objects.attributes(objects.rebuilt(instance, [], objects.attributes(instance))) == {
        "_Base__hidden": 1,
        "c": 3,
    }


def test_objects_with_c_state_are_not_copied() -> None:
    kinds = [
        type("Kind", (base,), {}) for base in (np.ndarray, Exception, array.array, bytearray, weakref.ref, deque, set)
    ]
    assert not any(map(objects.can_rebuild, kinds)) and objects.can_rebuild(type("Kind", (defaultdict,), {}))


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("base", [list, dict, tuple, OrderedDict, str, float])
def test_attributes_of_arguments_are_those_of_each_call(base: type, linked: bool | None) -> None:
    kind = type("Kind", (base,), {})
    compiled = compiled_natively(lambda batch: batch.mask * batch.scale, options={"linked": linked}, fullgraph=True)
    for k in range(4):
        batch = kind()
        batch.mask, batch.scale = X * k, 2.0
        assert compiled(batch).tolist() == [2.0 * k] * 2
    assert compiled.recorded == 1
    batch.scale = 3.0
    assert compiled(batch).tolist() == [9.0] * 2


def test_a_training_step_learns_from_each_batch_labels() -> None:
    class Batch(dict):
        """A batch as a data loader creates it."""

    def losses(wrap: Callable) -> list[float]:
        weight = numod.full((2, 1), 0.5, requires_grad=True)
        optimizer = numod.optim.SGD([weight], lr=0.1)

        def step(batch: Batch) -> numod.Tensor:
            optimizer.zero_grad()
            loss = (batch["x"] @ weight - batch.labels).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step, losses = wrap(step), []
        for k in range(5):
            batch = Batch(x=numod.ones(3, 2))
            batch.labels = numod.full((3, 1), float(k))
            losses.append(round(step(batch).item(), 5))
        return losses

    assert losses(compile) == losses(lambda function: function)


@pytest.mark.parametrize(
    "base", [str, float, int, bytes, frozenset, set, complex, list, dict, deque, bytearray, np.ndarray]
)
def test_attributes_of_objects_that_a_function_reaches(base: type) -> None:
    instance = type("Kind", (base,), {})(*((1,) if base is np.ndarray else ()))
    instance.scale = 3.0
    compiled = compile(lambda x: x * instance.scale)
    for scale in (3.0, 3.0, 5.0, 5.0, 3.0):
        instance.scale = scale
        assert compiled(X).tolist() == [scale] * 2


@dataclasses.dataclass
class Output(OrderedDict):
    """Like the outputs of model libraries: a dataclass that is a dict, and sets fields and items together."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if getattr(self, field.name) is not None:
                self[field.name] = getattr(self, field.name)

    def __getitem__(self, key: Any) -> Any:
        return dict(self.items())[key] if isinstance(key, str) else tuple(self.values())[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)


@dataclasses.dataclass
class Listed(list):
    """A dataclass that is a list."""

    first: Any = None

    def __post_init__(self) -> None:
        self.append(self.first)


class Named(collections.namedtuple("Named", "a b")):
    """A named tuple with attributes."""


@pytest.mark.parametrize("linked", [None, False])
@pytest.mark.parametrize("learns", [False, True])
def test_dataclasses_and_named_tuples_come_back_as_they_are(linked: bool | None, learns: bool) -> None:
    def function(x: numod.Tensor) -> tuple:
        pair = Named(x * 2, 1)
        pair.extra = x * 3
        return Output(logits=x * 4), Listed(x * 5), pair

    compiled = compiled_natively(function, options={"linked": linked}, fullgraph=True)
    for k in range(4):
        x = (X * k).requires_grad_(learns)
        output, listed, pair = compiled(x)
        assert (
            type(output) is Output
            and output[0] is output.logits is output["logits"]
            and output.loss is None
            and list(output.keys()) == ["logits"]
        )
        assert type(listed) is Listed and listed[0] is listed.first and len(listed) == 1
        assert type(pair) is Named and pair.b == 1 and shown((output, listed, pair)) == shown(function(x))
        if learns:
            (output[0].sum() + pair.extra.sum()).backward()
            assert x.grad.tolist() == [7.0] * 2
    assert compiled.recorded == 1


def test_dataclasses_that_are_dictionaries_are_given() -> None:
    compiled = compile(lambda output: output.logits * 2 + output[0])
    for k in range(3):
        assert compiled(Output(logits=X * k)).tolist() == [3.0 * k] * 2


@pytest.mark.filterwarnings("ignore:compile")
def test_an_attribute_that_a_function_gives_its_argument_is_there() -> None:
    def function(pair: Named) -> Named:
        pair.extra = pair.a + 1
        return pair

    compiled = in_turn(function)
    for k in range(4):
        pair = Named(X * k, 0)
        assert compiled(pair) is pair and pair.extra.tolist() == [k + 1.0] * 2


class Counting:
    """A class that counts assignments of attributes."""

    count = 0

    def __setattr__(self, name: str, value: Any) -> None:
        Counting.count += 1
        object.__setattr__(self, name, value)


class Items(list):
    """A list that counts assignments of items and calls of `len`."""

    count = 0

    def __setitem__(self, key: Any, value: Any) -> None:
        Items.count += 1
        list.__setitem__(self, key, value)

    def __len__(self) -> int:
        Items.count += 1
        return list.__len__(self)


class CountingDescriptor:
    """A descriptor that counts."""

    count = 0

    def __get__(self, instance: Any, owner: type | None = None) -> float:
        CountingDescriptor.count += 1
        return float(CountingDescriptor.count)


class Holder:
    value = CountingDescriptor()


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize("kind", [Counting, Items, CountingDescriptor])
def test_a_users_code_runs_as_often_as_the_function_runs_it(kind: type) -> None:
    counting, items, holder = Counting(), Items([numod.zeros(2)]), Holder()
    object.__setattr__(counting, "x", numod.zeros(2))
    kind.count = 0

    def setting(x: numod.Tensor) -> numod.Tensor:
        counting.x = counting.x + x
        return counting.x * 1

    def putting(x: numod.Tensor) -> numod.Tensor:
        items[0] = items[0] + x * len(items)
        return items[0] * 1

    compiled = in_turn({Counting: setting, Items: putting, CountingDescriptor: lambda x: x * holder.value}[kind])
    for k in range(1, 7):
        assert compiled(X).tolist() == [float(k)] * 2 and kind.count == k * (2 if kind is Items else 1)


def test_values_read_by_a_descriptor_are_guarded() -> None:
    class Scaled:
        scale = 2.0

        def __get__(self, instance: Any, owner: type | None = None) -> float:
            return self.scale * instance.base

    class Kind:
        value, base = Scaled(), 1.0

    described = Kind()
    compiled, function = compile(lambda x: x * described.value), lambda: described.value
    for change in (
        lambda: None,
        lambda: setattr(Scaled, "scale", 3.0),
        lambda: setattr(vars(Kind)["value"], "scale", 5.0),
        lambda: setattr(described, "base", 2.0),
    ):
        change()
        assert [compiled(X).tolist() for _ in range(2)] == [[function()] * 2] * 2


def test_cached_properties_are_computed_once() -> None:
    class Kind:
        count = 0

        @functools.cached_property
        def scale(self) -> float:
            Kind.count += 1
            return 3.0

    instance = Kind()
    compiled = in_turn(lambda x: x * instance.scale)
    for _ in range(4):
        assert compiled(X).tolist() == [3.0] * 2 and Kind.count == 1
    del instance.scale
    compiled(X)
    assert Kind.count == 2


def test_dictionaries_with_tensors_as_keys_and_slices_of_tensors() -> None:
    one, two = numod.ones(2), numod.full((2,), 3.0)
    compiled = compile(lambda mapping: sum(key * value for key, value in mapping.items()))
    sliced = compile(lambda part: part.stop * part.start)
    for k in range(4):
        assert compiled({one: X * k, two: X}).tolist() == [k + 3.0] * 2
        assert sliced(slice(2.0, X * k)).tolist() == [2.0 * k] * 2
    assert compiled.recorded == sliced.recorded == 1


@pytest.mark.parametrize("kind", ["an object", "a cycle of objects", "a module", "a function", "a batch"])
def test_arguments_are_not_kept_alive(kind: str) -> None:
    class Batch(dict):
        """A dict with attributes."""

    class Plain:
        """A class without items."""

    value: Any = Batch() if kind == "a batch" else Plain()
    value.scale = 2.0
    if kind == "a cycle of objects":
        value.inner = Plain()
        value.inner.outer, value.inner.scale = value, 3.0
    value = {"a module": numod.nn.ReLU(), "a function": lambda x: x * 2}.get(kind, value)
    use = (lambda x, o: o(x)) if callable(value) else (lambda x, o: x * getattr(o, "inner", o).scale)
    compiled, alive = in_turn(use), weakref.ref(value)
    expected = use(X, value)
    for _ in range(3):
        assert equal(compiled(X, value), expected)
    del value
    gc.collect()
    assert alive() is None


@pytest.mark.filterwarnings("ignore:compile")
def test_arguments_that_contain_themselves_run_eagerly() -> None:
    items = type("Items", (list,), {})([2.0])
    items.inner = items
    compiled = in_turn(lambda x, items: x * items[0])
    assert [compiled(X, items).tolist() for _ in range(3)] == [[2.0] * 2] * 3


def test_random_classes_are_the_same_for_a_seed() -> None:
    one, two = classes.World(3), classes.World(3)
    assert one.traits == two.traits and one.where == two.where and shown(one.object) == shown(two.object)
