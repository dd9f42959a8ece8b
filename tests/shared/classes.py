"""Random classes and objects, functions that read and write them, and changes between calls: for tests that compare
eager and compiled calls.

A seed determines a `World`; worlds of one seed differ only in the identity of their objects.
"""

from __future__ import annotations

import array
import random
from collections import OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from dataclasses import make_dataclass
from typing import Any

import numpy as np

import numod

# what a built-in class's instances are made of, and how their content is changed outside
BASES: dict[type, tuple[tuple, Callable | None]] = {
    object: ((), None),
    list: (([2.0, 3.0],), lambda o, n: list.__setitem__(o, 0, n)),
    dict: (({"k": 2.0, "j": 1.0},), lambda o, n: dict.__setitem__(o, "k", n)),
    OrderedDict: (({"k": 2.0, "j": 1.0},), lambda o, n: OrderedDict.move_to_end(o, next(iter(OrderedDict.keys(o))))),
    defaultdict: ((float, {"k": 2.0}), lambda o, n: dict.__setitem__(o, f"k{n}", n)),
    deque: (([2.0, 3.0],), lambda o, n: deque.append(o, n)),
    set: (({2, 3},), lambda o, n: set.add(o, n)),
    bytearray: ((b"ab",), lambda o, n: bytearray.append(o, int(n))),
    array.array: (("d", [2.0, 3.0]), lambda o, n: array.array.__setitem__(o, 0, n)),
    np.ndarray: (((2,),), lambda o, n: np.ndarray.__setitem__(o, 0, n)),
    UserDict: (({"k": 2.0},), lambda o, n: o.data.update(k=n)),
    tuple: (((2.0, 3.0),), None), frozenset: (({2, 3},), None),
    str: (("ab",), None), bytes: ((b"ab",), None), int: ((3,), None), float: ((2.5,), None), complex: ((2.0,), None),
}  # fmt: skip
_SLOTLESS = (tuple, int, bytes)
CALLS = 7


class Shared:
    """Numbers that code of the classes reads, or counts in."""

    def __init__(self) -> None:
        self.scale, self.count = 2.0, 0


class Descriptor:
    """One that computes; with `__set__` it comes before what is in the object."""

    def __init__(self, shared: Shared, counting: bool) -> None:
        self.shared, self.counting, self.stored = shared, counting, 1.5

    def __get__(self, instance: Any, owner: type | None = None) -> float:
        if self.counting:
            self.shared.count += 1
        return self.stored * self.shared.scale


class Setting(Descriptor):
    def __set__(self, instance: Any, value: float) -> None:
        self.stored = value


class World:
    """A class, an object, a function of (x, object) and changes before some of the calls."""

    def __init__(self, seed: int) -> None:
        self.pick = random.Random(seed)
        self.shared, self.traits = Shared(), {name for name in TRAITS if self.pick.random() < 0.25}
        self.base = self.pick.choice(list(BASES))
        self.counting = self.pick.random() < 0.2
        self.where = self.pick.choice(WHERES)
        self.kind = self._class()
        self.other = type(self.kind)(
            "Other",
            (self.kind,),
            {"__module__": __name__, "rate": 7.0, **({"__slots__": ()} if "slots" in self.traits else {})},
        )
        self.tensor = numod.tensor([1.0, -2.0])
        self.readers = [reader(self) for reader in self.pick.sample(READERS, self.pick.randint(1, 3))]
        self.writers = [writer(self) for writer in self.pick.sample(WRITERS, self.pick.choice((0, 0, 1)))]
        self.returns = self.pick.choice((False, False, True))
        self.changes = {k: self.pick.choice(CHANGES) for k in range(1, CALLS) if self.pick.random() < 0.5}
        self.object = self.made()
        self.function = self._function()

    def _class(self) -> type:
        shared, counting, traits = self.shared, self.counting, self.traits
        bases, members = () if self.base is object else (self.base,), {"rate": 2.0, "__module__": __name__}
        if "slots" in traits:
            members["__slots__"] = ("a", "t", "n", "late") if self.base not in _SLOTLESS else ()
        if "property" in traits:
            members["p"] = property(lambda self: _count(shared, counting, shared.scale + 1))
        if "descriptor" in traits:
            members["d"] = Descriptor(shared, counting)
        if "setting" in traits:
            members["e"] = Setting(shared, counting)
        if "getattr" in traits:
            members["__getattr__"] = lambda self, name: _count(shared, counting, _read_value(shared, name))
        if "getattribute" in traits:
            members["__getattribute__"] = _overriding(self.base, "__getattribute__", shared, counting)
        if "setattr" in traits:
            members["__setattr__"] = _overriding(self.base, "__setattr__", shared, counting)
        for name in ("__len__", "__iter__", "__getitem__", "__setitem__", "__eq__", "__bool__"):
            if (
                name in traits
                and (hasattr(self.base, name) or name == "__bool__")
                and not (name == "__eq__" and self.base in (np.ndarray,))
            ):
                members[name] = _overriding(self.base, name, shared, counting)
                if name == "__eq__" and self.base.__hash__ is not None:
                    members["__hash__"] = self.base.__hash__
        meta = _meta(shared, counting) if "metaclass" in traits and type(self.base) is type else type(self.base)
        if "dataclass" in traits and self.base in (object, list, dict, OrderedDict) and "slots" not in traits:
            kind = make_dataclass(
                "Random",
                [("a", Any, None), ("t", Any, None)],
                bases=bases,
                namespace={**members, "__init__": _no_init},
                eq=False,
            )
        else:
            kind = meta("Random", bases, members)
        return kind

    def made(self, number: float = 3.0) -> Any:
        """Another object, whose class's constructor is a built-in one."""
        content = BASES[self.base][0]
        made = (
            self.base.__new__(self.kind, *content)
            if self.base in (tuple, frozenset, str, bytes, int, float, complex, array.array, np.ndarray)
            else None
        )
        if made is None:
            made = self.base.__new__(self.kind)
            self.base.__init__(made, *content)
        if self.base is np.ndarray:
            np.ndarray.fill(made, 2.0)
        for name, value in (("a", number), ("t", self.tensor * number), ("n", 0)):
            _put(made, name, value)
        return made

    def _function(self) -> Callable:
        readers, writers, returns, instance = self.readers, self.writers, self.returns, self.object

        def function(x: numod.Tensor, o: Any) -> Any:
            results = [read(o) for read in readers]
            for write in writers:
                write(o, x)
            outputs = [x * number if isinstance(number, (int, float)) else number for number in results]
            return (outputs, o) if returns else outputs

        if self.where == "closure":
            return lambda x: function(x, instance)
        if self.where == "attribute":
            holder = type("Holder", (), {})()
            holder.inside = instance
            return lambda x: function(x, holder.inside)
        if self.where == "module":
            module = numod.nn.Module()
            module.inside = instance
            return lambda x: function(x, module.inside)
        if self.where == "list":
            return lambda x, items: function(x, items[0])
        return function

    def arguments(self, k: int) -> tuple:
        """What the call of this number is given."""
        x = numod.tensor([1.0, 2.0]) + k
        if self.where in ("closure", "attribute", "module"):
            return (x,)
        instance = self.made(3.0 + k // 2) if self.where == "fresh" else self.object
        return (x, [instance]) if self.where == "list" else (x, instance)

    def change(self, k: int) -> None:
        """What happens before a call."""
        if k in self.changes:
            self.changes[k](self, float(k))

    def state(self) -> list:
        """What can be seen of the object and its class."""
        return [shown(self.object), self.shared.count, getattr(self.kind, "rate", None)]


def _count(shared: Shared, counting: bool, value: Any) -> Any:
    if counting:
        shared.count += 1
    return value


def _read_value(shared: Shared, name: str) -> float:
    if name in ("late", "missing"):
        return shared.scale * 3
    raise AttributeError(name)


def _no_init(self: Any, *content: Any) -> None:
    """In the stead of a dataclass's constructor."""


def _overriding(base: type, name: str, shared: Shared, counting: bool) -> Callable:
    if name == "__bool__":
        return lambda self: _count(shared, counting, True)
    base_member = getattr(base, name)
    return lambda self, *arguments: _count(shared, counting, base_member(self, *arguments))


def _meta(shared: Shared, counting: bool) -> type:
    return type(
        "Meta",
        (type,),
        {"level": 2.0, "__instancecheck__": lambda cls, class_: _count(shared, counting, cls.level > 3.0)},
    )


def _put(made: Any, name: str, value: Any) -> None:
    """Set an attribute past the class's code, where there is room for it."""
    slot = next(
        (
            vars(class_)[name]
            for class_ in type(made).__mro__
            if type(vars(class_).get(name)).__name__ == "member_descriptor"
        ),
        None,
    )
    try:
        if slot is not None:
            slot.__set__(made, value)
        else:
            object.__getattribute__(made, "__dict__")[name] = value
    except AttributeError:
        pass


def _attributes(made: Any) -> dict:
    try:
        attributes = dict(object.__getattribute__(made, "__dict__"))
    except AttributeError:
        attributes = {}
    for class_ in type(made).__mro__:
        for name, slot in vars(class_).items():
            if type(slot).__name__ == "member_descriptor" and not hasattr(object, name):
                try:
                    attributes[name] = slot.__get__(made)
                except AttributeError:
                    pass
    return attributes


def shown(value: Any) -> Any:
    """A value as numbers and texts, with what objects are made of, past their classes' code."""
    kind = type(value)
    if kind is numod.Tensor:
        return "tensor", value.detach().tolist()
    base = next((class_ for class_ in kind.__mro__ if class_ in BASES), object)
    if kind in (type(None), bool, int, float, str, bytes, complex):
        return kind.__name__, value
    if base is object and kind.__module__ == "builtins":
        return kind.__name__
    content: Any = None
    if base in (dict, OrderedDict, defaultdict):
        content = [(key, shown(value_)) for key, value_ in base.items(value)]
    elif base in (list, tuple, deque):
        content = [shown(value_) for value_ in base.__iter__(value)]
    elif base in (set, frozenset):
        content = sorted(base.__iter__(value))
    elif base in (bytearray, array.array, np.ndarray):
        content = bytes(value) if base is bytearray else base.tobytes(value)
    elif base in (str, bytes, int, float, complex):
        content = base(*base.__getnewargs__(value))
    return kind.__name__, content, sorted((name, shown(attribute)) for name, attribute in _attributes(value).items())


TRAITS = (
    "slots", "dataclass", "property", "descriptor", "setting", "getattr", "getattribute", "setattr", "metaclass",
    "__len__", "__iter__", "__getitem__", "__setitem__", "__eq__", "__bool__",
)  # fmt: skip
WHERES = ("closure", "attribute", "module", "argument", "fresh", "list")


def _instance_state(world: World, name: str) -> bool:
    return name in _attributes(world.made())


READERS = [
    lambda world: (lambda o: o.a) if _instance_state(world, "a") else (lambda o: 1.0),
    lambda world: (lambda o: o.t) if _instance_state(world, "t") else (lambda o: 1.0),
    lambda world: (lambda o: o.n * 1.0) if _instance_state(world, "n") else (lambda o: 1.0),
    lambda world: (lambda o: o.p) if "property" in world.traits else (lambda o: o.rate),
    lambda world: (lambda o: o.d) if "descriptor" in world.traits else (lambda o: type(o).rate),
    lambda world: (lambda o: o.e) if "setting" in world.traits else (lambda o: o.rate),
    lambda world: lambda o: getattr(o, "late", 9.0),
    lambda world: lambda o: 2.0 if hasattr(o, "late") else 3.0,
    lambda world: (lambda o: len(o) * 1.0) if hasattr(world.base, "__len__") else (lambda o: 1.0),
    lambda world: (
        (lambda o: o[0])
        if world.base in (list, tuple, deque, array.array)
        else (lambda o: o["k"])
        if world.base in (dict, OrderedDict, UserDict)
        else (lambda o: 1.0)
    ),
    lambda world: (
        (lambda o: sum(number for number in o))
        if world.base in (tuple, set, frozenset, bytearray, bytes)
        else (lambda o: 1.0)
    ),
    lambda world: (lambda o: list(o)[0] + "x") if world.base in (dict, OrderedDict, str) else (lambda o: 1.0),
    lambda world: (lambda o: o * 2.0) if world.base in (int, float) else (lambda o: 1.0),
    lambda world,: lambda o, kind=world.kind: 2.0 if isinstance(1, kind) else 5.0,
    lambda world: (lambda o, kind=world.kind: kind.level) if hasattr(type(world.kind), "level") else (lambda o: 1.0),
    lambda world: (lambda o: 2.0 if o else 5.0) if world.base is not np.ndarray else (lambda o: 1.0),
]


def _set_tensor(o: Any, x: numod.Tensor) -> None:
    o.t = x * 2


def _set_new(o: Any, x: numod.Tensor) -> None:
    o.fresh = x * 3


def _step(o: Any, x: numod.Tensor) -> None:
    o.n += 1


def _set_item(o: Any, x: numod.Tensor) -> None:
    o[0] = x * 2


def _set_entry(o: Any, x: numod.Tensor) -> None:
    o["k"] = x * 2


def _nothing(o: Any, x: numod.Tensor) -> None:
    """For objects that cannot be written to."""


WRITERS = [
    lambda world: _set_tensor if _instance_state(world, "t") else _nothing,
    lambda world: _set_new if "slots" not in world.traits or _takes_any(world) else _nothing,
    lambda world: _step if _instance_state(world, "n") else _nothing,
    lambda world: (
        _set_item if world.base is list else _set_entry if world.base in (dict, OrderedDict, UserDict) else _nothing
    ),
]


def _takes_any(world: World) -> bool:
    try:
        object.__getattribute__(world.made(), "__dict__")
    except AttributeError:
        return False
    return True


def _change_content(world: World, number: float) -> None:
    change = BASES[world.base][1]
    if change is not None:
        change(world.object, number)


def _remove(world: World, number: float) -> None:
    attributes = _attributes(world.object)
    if "late" in attributes and "slots" not in world.traits:
        del object.__getattribute__(world.object, "__dict__")["late"]


def _change_class(world: World, number: float) -> None:
    try:
        object.__setattr__(world.object, "__class__", world.other)
    except TypeError:
        pass  # of a built-in base


def _change_meta(world: World, number: float) -> None:
    if hasattr(type(world.kind), "level"):
        type(world.kind).level = number + 1


def _change_descriptor(world: World, number: float) -> None:
    for name in ("d", "e"):
        if name in vars(world.kind):
            vars(world.kind)[name].stored = number


CHANGES = [
    lambda world, number: _put(world.object, "a", number),
    lambda world, number: _put(world.object, "t", numod.tensor([number, 1.0])),
    lambda world, number: _put(world.object, "late", number),
    _remove, _change_content, _change_class, _change_meta, _change_descriptor,
    lambda world, number: setattr(world.kind, "rate", number),
    lambda world, number: setattr(world.shared, "scale", number),
    lambda world,
    number: setattr(world.kind, "p", property(lambda self: number)) if "property" in world.traits else None,
]  # fmt: skip


def run(world: World, wrap: Callable) -> list:
    """What can be seen after each call."""
    function, seen = wrap(world.function), []
    for k in range(CALLS):
        world.change(k)
        try:
            outputs = shown(function(*world.arguments(k)))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            outputs = type(error).__name__, str(error)
        seen.append((outputs, world.state()))
    return seen
