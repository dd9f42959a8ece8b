"""The state of a Python object, read, written and rebuilt without running its class's code.

An object is what its `__dict__` and its slots hold and, where its class is derived from a built-in one, that one's
content: items of a container, the value of a number or a text. Attributes are read past properties, descriptors and
`__getattr__`, items by methods of the built-in class (`dict.items(batch)`). Another object like it is made by `__new__`
of the built-in class. What instances of other classes in C keep to themselves is unknown: these are not rebuilt.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from .kinds import PACKAGE, dictionary, dictionary_of, of_library, package_of

VALUES = (int, float, complex, str, bytes)
MAPPINGS = (defaultdict, OrderedDict, dict)
SEQUENCES = (tuple, list)
MEMBERS = (set, frozenset)
_WITH_CONTENT = (*VALUES, *MAPPINGS, *SEQUENCES, *MEMBERS, deque)
DEFAULT = vars(defaultdict)["default_factory"]
_CONTAINERS = (*SEQUENCES, *MEMBERS, dict, deque)
_IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, of classes written in C


class Attribute(str):
    """The name of an attribute of a container, which is no key of an item."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return type(other) is Attribute and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def place_of(value: Any, name: str) -> str:
    """The name of an attribute, in a container told from a key."""
    return Attribute(name) if issubclass(type(value), _CONTAINERS) else name


@lru_cache(maxsize=4096)
def base_of(kind: type) -> type | None:
    """The class in C that decides what instances keep beside attributes:

    `object` if they keep nothing; None if that is not known.
    """
    base = next((each for each in kind.__mro__ if each in _WITH_CONTENT or each.__flags__ & _IMMUTABLE), object)
    return base if base in (*_WITH_CONTENT, object, types.SimpleNamespace) else None


@lru_cache(maxsize=4096)
def slots_of(kind: type) -> dict[str, Any]:
    """The slots of a class and of its bases that are the user's, by the attributes' names."""
    found: dict[str, Any] = {}
    for each in kind.__mro__ if not issubclass(kind, type) else ():
        for name, slot in vars(each).items() if not of_library(each) else ():
            if isinstance(slot, types.MemberDescriptorType):
                found.setdefault(name, slot)
    return found


def attributes(value: Any) -> dict[str, Any]:
    """What an object's dictionary and slots hold."""
    found = dict(dictionary(value) or ())
    for name, slot in slots_of(type(value)).items():
        try:
            found[name] = slot.__get__(value)
        except AttributeError:
            pass  # not set
    return found


def has_attributes(kind: type) -> bool:
    """Whether instances can be given attributes of their own."""
    return dictionary_of(kind) is not None or bool(slots_of(kind))


def read_attribute(value: Any, name: str) -> Any:
    """One of them. Raises LookupError or AttributeError where it is not there."""
    name = str.__str__(name)  # of an `Attribute`, which is equal to no key
    slot = slots_of(type(value)).get(name)
    return slot.__get__(value) if slot is not None else (dictionary(value) or {})[name]


def lacks(value: Any, name: str) -> bool:
    """Whether an attribute is not there."""
    return name not in attributes(value)


def write_attribute(value: Any, name: str, new: Any) -> None:
    """Set one of them as the library's class of modules or optimizers does, which notes it; in other objects in its
    place.
    """
    name = str.__str__(name)  # of an `Attribute`, which is equal to no key
    slot = slots_of(type(value)).get(name)
    if slot is not None:
        slot.__set__(value, new)
    elif (own := _method_of_library(type(value), "__setattr__")) is not None:
        own(value, name, new)
    else:
        dictionary(value)[name] = new


def delete_attribute(value: Any, name: str) -> None:
    """Remove one of them."""
    name = str.__str__(name)  # of an `Attribute`, which is equal to no key
    slot = slots_of(type(value)).get(name)
    if slot is not None:
        slot.__delete__(value)
    elif (own := _method_of_library(type(value), "__delattr__")) is not None:
        own(value, name)
    else:
        del dictionary(value)[name]


@lru_cache(maxsize=4096)
def _method_of_library(kind: type, name: str) -> Any:
    return next((vars(each)[name] for each in kind.__mro__ if package_of(each) == PACKAGE and name in vars(each)), None)


def size_of(value: Any) -> int:
    """The number of items of a container."""
    return base_of(type(value)).__len__(value)


def members_of(value: Any) -> list:
    """The items of a sequence or a set, the keys of a dictionary."""
    return list(base_of(type(value)).__iter__(value))


def items_of(value: Any) -> list[tuple[Any, Any]]:
    """(key, value) of a dictionary's entries, (position, item) of a sequence."""
    base = base_of(type(value))
    return list(base.items(value) if base in MAPPINGS else enumerate(base.__iter__(value)))


def values_of(value: Any) -> list:
    """The items of a sequence, the values of a dictionary."""
    base = base_of(type(value))
    return list(base.values(value) if base in MAPPINGS else base.__iter__(value))


def value_at(value: Any, position: int) -> Any:
    """The value of a dictionary's entry, without asking for hashes of keys."""
    return values_of(value)[position]


def read_item(value: Any, key: Any) -> Any:
    """An item. Raises LookupError where there is none; a dictionary's `__missing__` is not asked."""
    base = base_of(type(value))
    if base in MAPPINGS and not dict.__contains__(value, key):
        raise KeyError(key)
    return base.__getitem__(value, key)


def write_item(value: Any, key: Any, new: Any) -> None:
    """Set an item."""
    base_of(type(value)).__setitem__(value, key, new)


def delete_item(value: Any, key: Any) -> None:
    """Remove an item."""
    base_of(type(value)).__delitem__(value, key)


def plain(value: Any) -> Any:
    """The number or text that an instance of a class derived from one is."""
    base = base_of(type(value))
    return base(*base.__getnewargs__(value))


@lru_cache(maxsize=4096)
def can_rebuild(kind: type) -> bool:
    """Whether an object like an instance can be made of its items and attributes."""
    base = base_of(kind)
    if base in (None, deque, *MEMBERS) or issubclass(kind, (type, enum.Enum)):
        return False
    if any("__call__" in vars(each) for each in kind.__mro__) or hasattr(kind, "__del__"):
        return False
    try:
        base.__new__(kind)
    except TypeError:  # of an abstract class
        return False
    return True


def rebuilt(value: Any, items: Iterable, inside: dict[str, Any]) -> Any:
    """An object of the same class with other items, in the same places, and attributes."""
    kind, base = type(value), base_of(type(value))
    if base is tuple:
        result = tuple.__new__(kind, items)
    elif base in VALUES:
        result = base.__new__(kind, *base.__getnewargs__(value))
    else:
        result = base.__new__(kind)
    if base is list:
        list.extend(result, items)
    elif base in MAPPINGS:
        if base is defaultdict:
            DEFAULT.__set__(result, DEFAULT.__get__(value))
        for key, item in zip(members_of(value), items):
            base.__setitem__(result, key, item)
    set_attributes(result, inside)
    return result


def set_attributes(result: Any, inside: dict[str, Any]) -> None:
    """Give a new object its attributes."""
    slots = slots_of(type(result))
    for name, each in inside.items():
        if name in slots:
            slots[name].__set__(result, each)
        else:
            dictionary(result)[name] = each


@lru_cache(maxsize=4096)
def reads_plainly(kind: type, name: str) -> bool:
    """Whether `value.name` gives what the object's dictionary or slots hold, and runs no code of the user's."""
    if any(
        not of_library(each) and not {"__getattribute__", "__getattr__"}.isdisjoint(vars(each)) for each in kind.__mro__
    ):
        return False
    found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
    return isinstance(found, types.MemberDescriptorType) or not hasattr(type(found), "__set__")


def is_data_class(kind: type) -> bool:
    """Whether it is a user's dataclass."""
    return dataclasses.is_dataclass(kind) and package_of(kind) != PACKAGE
