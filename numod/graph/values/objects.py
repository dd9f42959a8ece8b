"""Reads, writes and rebuilds the state of Python objects without running code of their classes.

An object's state is its `__dict__` and slots. If its class is derived from a built-in class, the state includes items
of the container, or the value of the number or string. Attributes are read without properties, descriptors and
`__getattr__`, items by methods of the built-in class (`dict.items(batch)`). Copies are created by the built-in class's
`__new__`. Instances of other classes written in C may have hidden state, so they cannot be rebuilt.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from .kinds import PACKAGE, dictionary, dictionary_of, is_struct_sequence, of_library, package_of

VALUES = (int, float, complex, str, bytes)
MAPPINGS = (defaultdict, OrderedDict, dict)
SEQUENCES = (tuple, list)
MEMBERS = (set, frozenset)
_WITH_CONTENT = (*VALUES, *MAPPINGS, *SEQUENCES, *MEMBERS, deque)
DEFAULT = vars(defaultdict)["default_factory"]
_CONTAINERS = (*SEQUENCES, *MEMBERS, dict, deque)
IMMUTABLE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE, of classes written in C


class Attribute(str):
    """The name of a container's attribute, which is never equal to the key of an item."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return type(other) is Attribute and str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other


def place_of(value: Any, name: str) -> str:
    """The name of an attribute, as an `Attribute` if the object also has items."""
    return Attribute(name) if issubclass(type(value), _CONTAINERS) else name


@lru_cache(maxsize=4096)
def base_of(kind: type) -> type | None:
    """The built-in class that determines an instance's state besides attributes.

    `object` if there is no such state, None if it is unknown.
    """
    base = next(
        (
            base
            for base in kind.__mro__
            if base in _WITH_CONTENT or (base.__flags__ & IMMUTABLE and not is_struct_sequence(base))
        ),
        object,
    )
    return base if base in (*_WITH_CONTENT, object, types.SimpleNamespace) else None


@lru_cache(maxsize=4096)
def slots_of(kind: type) -> dict[str, Any]:
    """The slots of a class and of its bases, except library classes, by attribute name."""
    slots: dict[str, Any] = {}
    for base_class in kind.__mro__ if not issubclass(kind, type) else ():
        for name, slot in vars(base_class).items() if not of_library(base_class) else ():
            if isinstance(slot, types.MemberDescriptorType):
                slots.setdefault(name, slot)
    return slots


def attributes(value: Any) -> dict[str, Any]:
    """The attributes in an object's dictionary and slots."""
    values = dict(dictionary(value) or ())
    for name, slot in slots_of(type(value)).items():
        try:
            values[name] = slot.__get__(value)
        except AttributeError:
            pass  # not set
    return values


def has_attributes(kind: type) -> bool:
    """Whether instances have a dictionary or slots."""
    return dictionary_of(kind) is not None or bool(slots_of(kind))


def read_attribute(value: Any, name: str) -> Any:
    """Read an attribute. Raises LookupError or AttributeError if it does not exist."""
    name = str.__str__(name)  # an `Attribute` is not equal to any key
    slot = slots_of(type(value)).get(name)
    return slot.__get__(value) if slot is not None else (dictionary(value) or {})[name]


def lacks(value: Any, name: str) -> bool:
    """Whether an object does not have this attribute."""
    return name not in attributes(value)


def write_attribute(value: Any, name: str, new: Any) -> None:
    """Set an attribute. Modules and optimizers set it by the library's `__setattr__`, which registers it."""
    name = str.__str__(name)  # an `Attribute` is not equal to any key
    slot = slots_of(type(value)).get(name)
    if slot is not None:
        slot.__set__(value, new)
    elif (setattr_method := _method_of_library(type(value), "__setattr__")) is not None:
        setattr_method(value, name, new)
    else:
        dictionary(value)[name] = new


def delete_attribute(value: Any, name: str) -> None:
    """Remove an attribute."""
    name = str.__str__(name)  # an `Attribute` is not equal to any key
    slot = slots_of(type(value)).get(name)
    if slot is not None:
        slot.__delete__(value)
    elif (delattr_method := _method_of_library(type(value), "__delattr__")) is not None:
        delattr_method(value, name)
    else:
        del dictionary(value)[name]


@lru_cache(maxsize=4096)
def _method_of_library(kind: type, name: str) -> Any:
    return next((vars(base)[name] for base in kind.__mro__ if package_of(base) == PACKAGE and name in vars(base)), None)


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
    """The value of a dictionary's entry, without computing hashes of keys."""
    return values_of(value)[position]


def read_item(value: Any, key: Any) -> Any:
    """Read an item. Raises LookupError if there is none, without calling a dictionary's `__missing__`."""
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
    """The plain number or string of an instance of a derived class."""
    base = base_of(type(value))
    return base(*base.__getnewargs__(value))


@lru_cache(maxsize=4096)
def can_rebuild(kind: type) -> bool:
    """Whether instances can be rebuilt from items and attributes."""
    base = base_of(kind)
    if base in (None, deque, *MEMBERS) or issubclass(kind, (type, enum.Enum)):
        return False
    if any("__call__" in vars(base_class) for base_class in kind.__mro__) or hasattr(kind, "__del__"):
        return False
    try:
        base.__new__(kind)
    except TypeError:  # an abstract class
        return False
    return True


def rebuilt(value: Any, items: Iterable, new_attributes: dict[str, Any]) -> Any:
    """A copy of an object with other items, at equal keys, and other attributes."""
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
    set_attributes(result, new_attributes)
    return result


def set_attributes(result: Any, new_attributes: dict[str, Any]) -> None:
    """Set the attributes of a new object."""
    slots = slots_of(type(result))
    for name, value in new_attributes.items():
        if name in slots:
            slots[name].__set__(result, value)
        else:
            dictionary(result)[name] = value


@lru_cache(maxsize=4096)
def reads_plainly(kind: type, name: str) -> bool:
    """Whether `value.name` reads the object's dictionary or slots, without running user code."""
    if any(
        not of_library(base_class) and not {"__getattribute__", "__getattr__"}.isdisjoint(vars(base_class))
        for base_class in kind.__mro__
    ):
        return False
    descriptor = next((vars(base_class)[name] for base_class in kind.__mro__ if name in vars(base_class)), None)
    return isinstance(descriptor, types.MemberDescriptorType) or not hasattr(type(descriptor), "__set__")


def is_data_class(kind: type) -> bool:
    """Whether the class is a user's dataclass."""
    return dataclasses.is_dataclass(kind) and package_of(kind) != PACKAGE
