"""Plain objects that hold tensors, made anew by every call and kept in an attribute:

`self.last = Output(loss, logits)`, `self.distribution = Normal(mean, scale)`.

A program takes and returns them in parts, as `Instance`s. What is put back after a run has the same class and the same
attributes; the class's code does not run.
"""

from __future__ import annotations

import sys
import types
import weakref
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from ...core.tensor import Tensor
from . import objects
from .kinds import PACKAGE, is_module, is_optimizer, is_schedule, is_simple, of_library, package_of
from .lazy_scalar import LazyScalar, look

_DEPTH = 6  # of objects and containers in an object


class Instance(NamedTuple):
    """A plain object in parts."""

    kind: type
    attributes: dict[str, Any]


class Unchanged(NamedTuple):
    """In the stead of an object that lies where it lay before the call."""


class Returned(NamedTuple):
    """In the stead of an object that is also part of what the function returns: its number among the containers
    there.
    """

    number: int


def is_instance(value: Any) -> bool:
    """Whether it is a plain object that holds tensors, and else only numbers, texts, containers and such objects."""
    return (
        _is_plain_object(value)
        and any(issubclass(type(leave), Tensor) for leave in _leaves(value))
        and _is_kept(value, _DEPTH)
    )


def _is_plain_object(value: Any) -> bool:
    """Whether there is nothing to an object but the attributes that can be seen: another with the same ones is like
    it.
    """
    kind = type(value)
    return (
        kind is not LazyScalar
        and _has_attributes_only(kind)
        and not (is_module(value) or is_optimizer(value) or is_schedule(value))
    )


@lru_cache
def _has_attributes_only(kind: type) -> bool:
    """Whether instances of a class have no memory that only C knows, nor code that runs when they go or are called."""
    if (
        issubclass(kind, Tensor)
        or objects.base_of(kind) not in (object, types.SimpleNamespace)
        or not objects.can_rebuild(kind)
    ):
        return False
    if of_library(kind) and package_of(kind) != PACKAGE and kind is not types.SimpleNamespace:
        return False
    return not any(of_library(each) and vars(each).get("__slots__") for each in kind.__mro__)


def _is_kept(value: Any, depth: int) -> bool:
    if type(value) is LazyScalar or depth == 0:
        return False
    if issubclass(type(value), Tensor) or is_simple(value):
        return True
    if _is_container(value):
        return all(_is_kept(each, depth - 1) for each in (value.values() if issubclass(type(value), dict) else value))
    return _is_plain_object(value) and all(
        _is_kept(attribute, depth - 1) for attribute in objects.attributes(value).values()
    )


def _is_container(value: Any) -> bool:
    return type(value) in (list, dict) or is_tuple(value)


def is_tuple(value: Any) -> bool:
    """Whether it is a tuple, or one with names."""
    kind = type(value)
    return kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields") and not objects.has_attributes(kind))


def _leaves(value: Any, depth: int = _DEPTH) -> Iterator[Any]:
    """What lies in plain objects and containers.

    Modules of Python, for one, are not looked into: all the process can be reached from there.
    """
    if (
        type(value) is LazyScalar
        or (issubclass(type(value), Tensor) or is_simple(value))
        or depth == 0
        or not (_is_container(value) or _is_plain_object(value))
    ):
        yield value
        return
    inside = (
        value.values() if type(value) is dict else value if _is_container(value) else objects.attributes(value).values()
    )
    for each in inside:
        yield from _leaves(each, depth - 1)


def taken(value: Any, found: list | None = None) -> Any:
    """The value with objects in parts. These, and lists and dictionaries around and in them, are added to `found`."""
    return _taken(value, [] if found is None else found) if holds_objects(value) else value


def holds_objects(value: Any) -> bool:
    """Whether it is a plain object that holds tensors, or a container of such."""
    if _is_container(value):
        return any(map(holds_objects, value.values() if issubclass(type(value), dict) else value))
    return is_instance(value)


def _taken(value: Any, found: list) -> Any:
    if issubclass(type(value), Tensor) or is_simple(value):
        return value
    if not is_tuple(value):
        found.append(value)
    if type(value) is dict:
        return {key: _taken(each, found) for key, each in value.items()}
    if type(value) is list:
        return [_taken(each, found) for each in value]
    if is_tuple(value):
        return tuple.__new__(type(value), [_taken(each, found) for each in value])
    return Instance(
        type(value), {key: _taken(attribute, found) for key, attribute in objects.attributes(value).items()}
    )


def made(value: Any) -> Any:
    """The opposite of `taken`."""
    if type(value) is Instance:
        result = objects.base_of(value.kind).__new__(value.kind)
        objects.set_attributes(result, {key: made(attribute) for key, attribute in value.attributes.items()})
        return result
    if not holds_parts(value):
        return value
    if issubclass(type(value), dict):
        return {key: made(each) for key, each in value.items()}
    return [*map(made, value)] if type(value) is list else tuple.__new__(type(value), map(made, value))


def holds_parts(value: Any) -> bool:
    """Whether something in it is an object in parts."""
    return type(value) is Instance or (
        _is_container(value) and any(map(holds_parts, value.values() if issubclass(type(value), dict) else value))
    )


def look_at_numbers(value: Any, depth: int = _DEPTH) -> None:
    """Put values in the stead of numbers that are not known yet, which gives up the recording."""
    for key, each in objects.attributes(value).items() if depth and _is_plain_object(value) else ():
        if type(each) is LazyScalar:
            objects.write_attribute(value, key, look(each))
        else:
            look_at_numbers(each, depth - 1)


def same(one: Any, two: Any) -> bool:
    """Whether two values `taken` are of the same tensors and equal numbers and texts."""
    if type(one) is not type(two):
        return False
    if type(one) is dict:
        return list(one) == list(two) and all(map(same, one.values(), two.values()))
    if _is_container(one):
        return len(one) == len(two) and all(map(same, one, two))
    return one is two or (is_simple(one) and (one == two or one != one))


def known_elsewhere(found: list) -> bool:
    """Whether any of these, which are let go of, has more than one owner, who would see that it is another after a run.

    An object of one owner shows how one is counted.
    """
    owner = [object()]
    objects = [owner[0], *found]
    found.clear()
    counts = [sys.getrefcount(object_) for object_ in objects]
    return any(count != counts[0] for count in counts) or any(map(weakref.getweakrefcount, objects))
