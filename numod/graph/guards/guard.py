"""Guards: conditions that are tested at every call of a compiled function.

A guard is an expression over objects. Some can also be tested by native code, as words of memory that the interpreter
changes (`Guard.words`). `build` finds the guards of a function.
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
    """Whether two constants have the same type and value: 0.0 differs from -0.0, NaN equals NaN."""
    return type(a) is type(b) and ((a == b and (a or repr(a) == repr(b))) or (a != a and b != b))


class Weak(ref):
    """A reference to an object that guards do not keep alive."""

    __slots__ = ()


class _Gone:
    """Placeholder for an object that no longer exists."""

    __slots__ = ()


_GONE = _Gone()


def weakly(obj: Any) -> Any:
    """A weak reference to an object, or the object itself if its class does not support weak references."""
    kind = type(obj)
    plain = objects.base_of(kind) is object and hasattr(kind, "__weakref__") and not issubclass(kind, Tensor)
    return Weak(obj) if plain or kind is types.FunctionType else obj


def strongly(obj: Any) -> Any:
    """The object of a `Weak` reference, `_GONE` if it no longer exists; any other object itself."""
    if type(obj) is not Weak:
        return obj
    referent = obj()
    return _GONE if referent is None else referent


class _DictionaryReaders(dict):
    """Functions that read an instance's `__dict__`, by class. In guards this is faster than a Python function."""

    def __missing__(self, kind: type) -> Callable[[Any], dict]:
        if len(self) >= 4096:
            self.clear()
        descriptor = dictionary_of(kind)
        self[kind] = reader = (lambda _: {}) if descriptor is None else descriptor.__get__
        return reader


# the names that the texts of guards use. None of the functions runs user code.
SPACE = {
    "equal": equal, "dictionary": objects.dictionary, "dictionary_of": _DictionaryReaders(),
    "fields_of": _DictionaryReaders(),
    "attribute": objects.read_attribute, "item": objects.read_item, "value_at": objects.value_at,
    "lacks": objects.lacks, "alive": strongly,
}  # fmt: skip


def _may_go(obj: Any) -> bool:
    """Whether an object may no longer exist when a guard is tested.

    Modules and functions are arguments, or parts of arguments, which exist during the call.
    """
    return type(obj) is Weak and not (type(obj()) is types.FunctionType or is_module(obj()))


@dataclass(eq=False)
class Guard:
    """A condition, as an expression over objects: "{0}.cell_contents is {1}"."""

    name: str
    text: str
    objects: tuple

    def expression(self, space: dict[str, Any]) -> str:
        """The condition with names for its objects, which are added to `space`."""
        names = []
        for object_ in self.objects:
            space[name := f"obj{len(space)}"] = object_
            # the first object is None if it no longer exists: reading from it raises AttributeError
            names.append(name if type(object_) is not Weak else f"alive({name})" if len(names) else f"{name}()")
        return self.text.format(*names)

    @property
    def same(self) -> Any:
        """The object whose identity the guard checks: {1} in "{0}.cell_contents is {1}"."""
        match = re.search(r" is \{(\d+)\}$", self.text)
        return None if match is None else strongly(self.objects[int(match[1])])

    def loosen(self, ids: set[int]) -> None:
        """Refer to the objects with these ids weakly."""
        self.objects = tuple(weakly(object_) if id(object_) in ids else object_ for object_ in self.objects)

    @property
    def words(self) -> list[tuple[int, int]]:
        """(address, content) of words of memory that have this content exactly while the condition holds; or none.

        Native code compares them in order, up to the first that differs: twenty times faster than an expression. The
        guard keeps the objects at these addresses alive.
        """
        offset = _FIELDS.get(self.text)
        if offset is None or any(map(_may_go, self.objects)):
            return []
        return [(id(strongly(self.objects[0])) + offset, id(self.objects[1]))]


def _offset_of(content: Any, holder: Any) -> int | None:
    """The offset in bytes of the pointer to `content` in the memory of its holder; None if it is not there."""
    size = sizeof(c_ssize_t)
    words = (c_ssize_t * (type(holder).__basicsize__ // size)).from_address(id(holder))
    return list(words).index(id(content)) * size if id(content) in words else None


_FIELDS = {
    "{0}.cell_contents is {1}": _offset_of(_offset_of, types.CellType(_offset_of)),
    "{0}.__code__ is {1}": _offset_of(_offset_of.__code__, _offset_of),
    "type({0}) is {1}": _offset_of(types.FunctionType, _offset_of), "{0}.__mro__ is {1}": _offset_of(Any.__mro__, Any),
}  # fmt: skip


@dataclass(eq=False)
class Listed(Guard):
    """The condition that a list, or another sequence, contains the same objects in the same order."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """The list's length, the address of its items, and the items."""
        sequence, *members = self.objects
        if _LIST_ITEMS is None or not isinstance(sequence, list):
            return []
        length, items = id(sequence) + _LIST_ITEMS - sizeof(c_ssize_t), id(sequence) + _LIST_ITEMS
        first = c_ssize_t.from_address(items).value
        return [
            (length, len(members)),
            (items, first),
            *((first + sizeof(c_ssize_t) * position, id(member)) for position, member in enumerate(members)),
        ]


def listed(name: str, sequence: list) -> Guard:
    """A guard of the identities of a list's items."""
    return Listed(
        name,
        " and ".join([f"len({{0}}) == {len(sequence)}", *(f"{{0}}[{k}] is {{{k + 1}}}" for k in range(len(sequence)))]),
        (sequence, *sequence),
    )


def _list_items() -> int | None:
    """The offset in bytes of the pointer to a list's items, between length and capacity; None if it is not there."""
    size = sizeof(c_ssize_t)
    probe, offset = [object(), object()], list.__basicsize__ - 2 * size
    return offset if c_ssize_t.from_address(id(probe) + offset - size).value == 2 else None


_LIST_ITEMS = _list_items()


@dataclass(eq=False)
class Sized(Guard):
    """The condition on the number of an object's attributes. A new one may hide one of its class or of a registry."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """The number of entries of the object's dictionary."""
        return (
            []
            if _DICTIONARY_SIZE is None or _may_go(self.objects[0])
            else [(id(self.objects[2]) + _DICTIONARY_SIZE, self.objects[1])]
        )


def sized(name: str, obj: Any, excluded: set) -> Guard:
    """A guard of the number of an object's attributes, except for the `excluded` ones."""
    fields = objects.dictionary(obj)
    if excluded:
        return Guard(
            name,
            "sum(key not in {1} for key in dictionary_of[type({0})]({0})) == {2}",
            (obj, excluded, sum(key not in excluded for key in fields)),
        )
    return Sized(name, "len(dictionary_of[type({0})]({0})) == {1}", (obj, len(fields), fields))


def _size_in_dictionary() -> int | None:
    """The offset in bytes of the number of a dictionary's entries."""
    words = (c_ssize_t * (dict.__basicsize__ // sizeof(c_ssize_t))).from_address(
        id(probe := dict.fromkeys(range(4321)))
    )
    return list(words).index(len(probe)) * sizeof(c_ssize_t) if list(words).count(len(probe)) == 1 else None


_SHARED_KEYS = 30  # the largest number of keys that the dictionaries of a class share
_DICTIONARY_SIZE = _size_in_dictionary()


@dataclass(eq=False)
class Entry(Guard):
    """The condition that an object's dictionary has the same object under a key."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """The addresses of the dictionary's keys and values, and the object at its position."""
        _, obj, fields, key = map(strongly, self.objects)
        if _DICTIONARY_SIZE is None or _may_go(self.objects[0]):
            return []
        size = sizeof(c_ssize_t)
        words = (fields.__sizeof__() - dict.__basicsize__) // size
        keys, values = (id(fields) + _DICTIONARY_SIZE + size * k for k in (2, 3))
        table, array = (c_ssize_t.from_address(pointer).value for pointer in (keys, values))
        if array:  # the keys are shared with other objects, the values are in an array
            addresses = [array + size * k for k in range(min(words, _SHARED_KEYS))]
            addresses = [address for address in addresses if c_ssize_t.from_address(address).value == id(obj)]
        else:  # pairs of keys and values, after an index
            addresses = [table + size * k for k in range(1, words)]
            addresses = [
                address
                for address in addresses
                if [c_ssize_t.from_address(address - size * k).value for k in (1, 0)] == [id(key), id(obj)]
            ]
        return [(keys, table), (values, array), (addresses[0], id(obj))] if len(addresses) == 1 else []


def entry(name: str, holder: Any, key: str) -> Guard:
    """A guard of the object that a dictionary of attributes has under a key."""
    fields = objects.dictionary(holder)
    stored_key = next(stored for stored in fields if stored == key)
    return Entry(
        f"{name}.{key}",
        f"dictionary_of[type({{0}})]({{0}})[{key!r}] is {{1}}",
        (holder, fields[key], fields, stored_key),
    )


@dataclass(eq=False)
class Unwritten(Guard):
    """The condition that a class and its bases, or a module's namespace, are unchanged, by their version number."""

    @property
    def words(self) -> list[tuple[int, int]]:
        """The version number."""
        return [(addressof(self.objects[0]), self.objects[2])]


def unwritten(name: str, obj: type | dict) -> Guard:
    """A guard that a class or a namespace is unchanged.

    It compares the contents if there is no version number, as for classes that change often.
    """
    offset = _CLASS_VERSION if isinstance(obj, type) else _NAMESPACE_VERSION if isinstance(obj, dict) else None
    getattr(obj, "__module__", None)  # a class gets a version number at its first lookup
    number = c_int64(0) if offset is None else c_int64.from_address(id(obj) + offset)
    if number.value == 0:
        return Guard(name, "{0}({1}) == {2}", (_members, obj, _members(obj)))
    return Unwritten(name, "{0}.value == {2}", (number, obj, number.value))


class _Members(list):
    """A list that compares its items by identity."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Members) and len(self) == len(other) and all(map(operator.is_, self, other))


def _members(obj: type | dict) -> _Members:
    """All keys and values of a class and its bases, or of a namespace."""
    return _Members(
        key_or_value
        for namespace in (map(vars, obj.__mro__) if isinstance(obj, type) else (obj,))
        for pair in namespace.items()
        for key_or_value in pair
    )


def _version_of(obj: Any, change: Callable[[int], Any]) -> int | None:
    """The offset in bytes of an object's version number: the first word that every change of the contents changes."""
    words = (c_int64 * (type(obj).__basicsize__ // sizeof(c_int64))).from_address(id(obj))
    samples = []
    for k in range(3):
        change(k)
        samples.append(list(words)[1:])  # without the reference count
    return next((sizeof(c_int64) * k for k, values in enumerate(zip(*samples), 1) if len(set(values)) == 3), None)


def _write(kind: type) -> Callable[[int], Any]:
    return lambda k: (setattr(kind, "content", k), kind.content)


_CLASS_VERSION = _version_of(probe := type("Probe", (), {}), _write(probe))
_NAMESPACE_VERSION = _version_of(probe := {"content": None}, lambda k: probe.update(content=k))


@dataclass(eq=False)
class Setting(Guard):
    """The condition on an optimizer's setting, or a value of its state, that code reads from a dictionary."""

    location: tuple[dict, str]


@dataclass(eq=False)
class Settings(Guard):
    """The condition on the settings of an optimizer's group: the values of flags, and whether numbers are zero.

    If no setting has changed, it holds.
    """

    group: dict

    def __post_init__(self) -> None:
        # by identity: == would compare the tensors
        self.parameters = Guard(self.name, "{0}['params'] is {1}", (self.group, self.group["params"]))

    @property
    def plain(self) -> bool:
        """Whether the settings are immutable values."""
        return all(
            key == "params" or is_simple(value) or (isinstance(value, tuple) and all(map(is_simple, value)))
            for key, value in self.group.items()
        )
