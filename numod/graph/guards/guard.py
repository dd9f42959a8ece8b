"""What a guard is: a condition that is tested at every call, as an expression over objects, or by a word of memory that
the interpreter changes.

Which conditions a function's program has, `reach` finds.
"""

from __future__ import annotations

import operator
import re
import types
from collections.abc import Callable
from ctypes import addressof, c_int64, c_ssize_t, sizeof
from dataclasses import dataclass
from typing import Any
from weakref import ref

from ..values import objects
from ...core.tensor import Tensor
from ..values.kinds import dictionary_of, is_module, is_simple


def equal(a: Any, b: Any) -> bool:
    """Whether two constants are of one type and value: 0.0 is not -0.0, NaN is NaN."""
    return type(a) is type(b) and ((a == b and (a or repr(a) == repr(b))) or (a != a and b != b))


class Weak(ref):
    """An object that guards do not keep alive."""

    __slots__ = ()


class _Gone:
    """In the stead of an object that is no more."""

    __slots__ = ()


_GONE = _Gone()


def weakly(thing: Any) -> Any:
    """A weak reference to an object, or the object where it cannot be had."""
    kind = type(thing)
    plain = objects.base_of(kind) is object and hasattr(kind, "__weakref__") and not issubclass(kind, Tensor)
    return Weak(thing) if plain or kind is types.FunctionType else thing


def strongly(thing: Any) -> Any:
    """The object of a weak reference, or what is nobody's object if it is no more; and any other object itself."""
    if type(thing) is not Weak:
        return thing
    found = thing()
    return _GONE if found is None else found


class _DictionaryReaders(dict):
    """Functions that read an instance's `__dict__`, by class: in an expression this is faster than a Python function."""

    def __missing__(self, kind: type) -> Callable[[Any], dict]:
        if len(self) >= 4096:
            self.clear()
        descriptor = dictionary_of(kind)
        self[kind] = reader = (lambda _: {}) if descriptor is None else descriptor.__get__
        return reader


# the names that the texts of guards use. None of the functions runs user code.
SPACE = {
    "equal": equal, "dictionary": objects.dictionary, "dictionary_of": _DictionaryReaders(), "attribute": objects.read_attribute, "item": objects.read_item,
    "value_at": objects.value_at, "lacks": objects.lacks, "alive": strongly,
}  # fmt: skip


def _may_go(thing: Any) -> bool:
    """Whether an object may be gone when a guard is tested.

    A module or a function that is given, or lies in one that is, stays for the call.
    """
    return type(thing) is Weak and not (type(thing()) is types.FunctionType or is_module(thing()))


@dataclass(eq=False)
class Guard:
    """A condition that is tested at every call, as an expression over objects: "{0}.cell_contents is {1}"."""

    name: str
    text: str
    objects: tuple

    def expression(self, space: dict[str, Any]) -> str:
        """The condition with names for its objects, which are put into `space`."""
        names = []
        for object_ in self.objects:
            space[name := f"thing{len(space)}"] = object_
            # nothing is asked of the first if it is gone
            names.append(name if type(object_) is not Weak else f"alive({name})" if len(names) else f"{name}()")
        return self.text.format(*names)

    @property
    def same(self) -> Any:
        """The object that is the same where the condition holds: of "{0}.cell_contents is {1}" the second."""
        found = re.search(r" is \{(\d+)\}$", self.text)
        return None if found is None else strongly(self.objects[int(found[1])])

    def loosen(self, ids: set[int]) -> None:
        """Keep none of these objects alive."""
        self.objects = tuple(weakly(object_) if id(object_) in ids else object_ for object_ in self.objects)

    @property
    def words(self) -> list[tuple[int, int]]:
        """The addresses of words of memory and what they hold as long as the condition does, where the condition is on
        fields of an object; else none.

        Native code compares them in turn, up to the first that differs, each in a twentieth of the time that an
        expression takes. The addresses are those of the guard's objects, which it keeps.
        """
        place = _FIELDS.get(self.text)
        return (
            []
            if place is None or any(map(_may_go, self.objects))
            else [(id(strongly(self.objects[0])) + place, id(self.objects[1]))]
        )


def _place_of(content: Any, holder: Any) -> int | None:
    """Where in the memory of an object the address of what it holds lies, in bytes; None if the interpreter keeps it
    elsewhere.
    """
    size = sizeof(c_ssize_t)
    words = (c_ssize_t * (type(holder).__basicsize__ // size)).from_address(id(holder))
    return list(words).index(id(content)) * size if id(content) in words else None


_FIELDS = {
    "{0}.cell_contents is {1}": _place_of(_place_of, types.CellType(_place_of)),
    "{0}.__code__ is {1}": _place_of(_place_of.__code__, _place_of),
    "type({0}) is {1}": _place_of(types.FunctionType, _place_of), "{0}.__mro__ is {1}": _place_of(Any.__mro__, Any),
}  # fmt: skip


@dataclass(eq=False)
class Listed(Guard):
    """The condition that a list, or another sequence, has the same things, in the same order."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """How many there are, where they lie, which holds for what was read there, and which they are."""
        things, *members = self.objects
        if _LIST_ITEMS is None or not isinstance(things, list):
            return []
        count, items = id(things) + _LIST_ITEMS - sizeof(c_ssize_t), id(things) + _LIST_ITEMS
        at = c_ssize_t.from_address(items).value
        return [
            (count, len(members)),
            (items, at),
            *((at + sizeof(c_ssize_t) * k, id(member)) for k, member in enumerate(members)),
        ]


def listed(name: str, things: list) -> Guard:
    """The guard of a list, by the identity of what is in it."""
    return Listed(
        name,
        " and ".join([f"len({{0}}) == {len(things)}", *(f"{{0}}[{k}] is {{{k + 1}}}" for k in range(len(things)))]),
        (things, *things),
    )


def _list_items() -> int | None:
    """Where in the memory of a list the address of its items lies, in bytes: behind its length, before how many there
    is room for; None if not there.
    """
    size = sizeof(c_ssize_t)
    probe, place = [object(), object()], list.__basicsize__ - 2 * size
    return place if c_ssize_t.from_address(id(probe) + place - size).value == 2 else None


_LIST_ITEMS = _list_items()


@dataclass(eq=False)
class Sized(Guard):
    """The condition that an object has been given no further attribute, which would hide what its class or a registry
    gives, and has lost none.
    """

    @property
    def words(self) -> list[tuple[int, int]]:
        """The address of the number of entries of its dictionary, and the number."""
        return (
            []
            if _DICTIONARY_SIZE is None or _may_go(self.objects[0])
            else [(id(self.objects[2]) + _DICTIONARY_SIZE, self.objects[1])]
        )


def sized(name: str, thing: Any, without: set) -> Guard:
    """The guard of how many attributes there are in a dictionary, but for those `without`."""
    inside = objects.dictionary(thing)
    if without:
        return Guard(
            name,
            "sum(each not in {1} for each in dictionary_of[type({0})]({0})) == {2}",
            (thing, without, sum(each not in without for each in inside)),
        )
    return Sized(name, "len(dictionary_of[type({0})]({0})) == {1}", (thing, len(inside), inside))


def _size_in_dictionary() -> int | None:
    """Where in the memory of a dictionary the number of its entries lies, in bytes."""
    words = (c_ssize_t * (dict.__basicsize__ // sizeof(c_ssize_t))).from_address(
        id(probe := dict.fromkeys(range(4321)))
    )
    return list(words).index(len(probe)) * sizeof(c_ssize_t) if list(words).count(len(probe)) == 1 else None


_SHARED_KEYS = 30  # of one class's objects, at most
_DICTIONARY_SIZE = _size_in_dictionary()


@dataclass(eq=False)
class Entry(Guard):
    """The condition that an object's dictionary has the same thing under a name."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """Where the dictionary's entries lie, which holds for what was read there, and the thing in its place."""
        _, thing, inside, key = map(strongly, self.objects)
        if _DICTIONARY_SIZE is None or _may_go(self.objects[0]):
            return []
        size = sizeof(c_ssize_t)
        words = (inside.__sizeof__() - dict.__basicsize__) // size
        keys, values = (id(inside) + _DICTIONARY_SIZE + size * k for k in (2, 3))
        table, array = (c_ssize_t.from_address(each).value for each in (keys, values))
        if array:  # the keys are shared with other objects, the values are in an array
            places = [
                array + size * k
                for k in range(min(words, _SHARED_KEYS))
                if c_ssize_t.from_address(array + size * k).value == id(thing)
            ]
        else:  # pairs of keys and values, after an index
            places = [table + size * k for k in range(1, words)]
            places = [
                place
                for place in places
                if [c_ssize_t.from_address(place - size * k).value for k in (1, 0)] == [id(key), id(thing)]
            ]
        return [(keys, table), (values, array), (places[0], id(thing))] if len(places) == 1 else []


def entry(name: str, holder: Any, key: str) -> Guard:
    """The guard of what an object's dictionary has under a name."""
    inside = objects.dictionary(holder)
    own = next(each for each in inside if each == key)
    return Entry(
        f"{name}.{key}", f"dictionary_of[type({{0}})]({{0}})[{key!r}] is {{1}}", (holder, inside[key], inside, own)
    )


@dataclass(eq=False)
class Unwritten(Guard):
    """The condition that nobody has put anything into a class, its bases, or a module's namespace: each change gives
    these another version number.
    """

    @property
    def words(self) -> list[tuple[int, int]]:
        """The address of the version number, and the number."""
        return [(addressof(self.objects[0]), self.objects[2])]


def unwritten(name: str, thing: type | dict) -> Guard:
    """The guard of a class or a namespace, by what is in it where the interpreter has no version number of it, or no
    more for one that was changed so often.
    """
    place = _CLASS_VERSION if isinstance(thing, type) else _NAMESPACE_VERSION if isinstance(thing, dict) else None
    getattr(thing, "__module__", None)  # a class has a number once something was looked up
    number = c_int64(0) if place is None else c_int64.from_address(id(thing) + place)
    if number.value == 0:
        return Guard(name, "{0}({1}) == {2}", (_members, thing, _members(thing)))
    return Unwritten(name, "{0}.value == {2}", (number, thing, number.value))


class _Members(list):
    """Compared by identity."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Members) and len(self) == len(other) and all(map(operator.is_, self, other))


def _members(thing: type | dict) -> _Members:
    """All that is in a class and its bases, or in a namespace."""
    return _Members(
        each
        for part in (map(vars, thing.__mro__) if isinstance(thing, type) else (thing,))
        for pair in part.items()
        for each in pair
    )


def _version_of(thing: Any, change: Callable[[int], Any]) -> int | None:
    """Where in the memory of an object its version number lies, in bytes: the first word after the reference count that
    other contents change.
    """
    words = (c_int64 * (type(thing).__basicsize__ // sizeof(c_int64))).from_address(id(thing))
    found = []
    for k in range(3):
        change(k)
        found.append(list(words)[1:])
    return next((sizeof(c_int64) * k for k, values in enumerate(zip(*found), 1) if len(set(values)) == 3), None)


def _write(kind: type) -> Callable[[int], Any]:
    return lambda k: (setattr(kind, "content", k), kind.content)


_CLASS_VERSION = _version_of(probe := type("Probe", (), {}), _write(probe))
_NAMESPACE_VERSION = _version_of(probe := {"content": None}, lambda k: probe.update(content=k))


@dataclass(eq=False)
class Setting(Guard):
    """The condition on one setting of an optimizer, or value of its state, that code reads: the entry of a
    dictionary.
    """

    place: tuple[dict, str]


@dataclass(eq=False)
class Settings(Guard):
    """The condition on the settings of an optimizer's group: flags, and whether numbers are zero.

    It holds where none of them has changed.
    """

    group: dict

    def __post_init__(self) -> None:
        # others would be compared as tensors are
        self.parameters = Guard(self.name, "{0}['params'] is {1}", (self.group, self.group["params"]))

    @property
    def plain(self) -> bool:
        """Whether the settings are values that cannot change in themselves."""
        return all(
            key == "params" or is_simple(each) or (isinstance(each, tuple) and all(is_simple(part) for part in each))
            for key, each in self.group.items()
        )
