"""Plain objects with tensors that every call creates and stores in an attribute.

Examples: `self.last = Output(loss, logits)`, `self.distribution = Normal(mean, scale)`. A program takes and
returns them as `Instance`s. After a run, an object with equal class and attributes is created without running code of
the class.
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
from .lazy_scalar import LazyScalar, read_value

_MAX_DEPTH = 6  # of nested objects and containers


class Instance(NamedTuple):
    """A plain object, taken apart."""

    kind: type
    attributes: dict[str, Any]


class Unchanged(NamedTuple):
    """Placeholder for an object that the call did not replace."""


class Returned(NamedTuple):
    """Placeholder for an object that the function also returns: its number among the returned containers."""

    number: int


def is_instance(value: Any) -> bool:
    """Whether the value is a plain object that contains tensors, and otherwise only constants, containers and such."""
    return (
        _is_plain_object(value)
        and any(issubclass(type(leaf), Tensor) for leaf in _leaves(value))
        and _holds_only_data(value, _MAX_DEPTH)
    )


def _is_plain_object(value: Any) -> bool:
    """Whether an object's state consists only of its attributes, so a copy of these is equivalent."""
    kind = type(value)
    return (
        kind is not LazyScalar
        and _has_attributes_only(kind)
        and not (is_module(value) or is_optimizer(value) or is_schedule(value))
    )


@lru_cache
def _has_attributes_only(kind: type) -> bool:
    """Whether instances have no hidden state in C, and no `__del__` or `__call__`."""
    if (
        issubclass(kind, Tensor)
        or objects.base_of(kind) not in (object, types.SimpleNamespace)
        or not objects.can_rebuild(kind)
    ):
        return False
    if of_library(kind) and package_of(kind) != PACKAGE and kind is not types.SimpleNamespace:
        return False
    return not any(of_library(base) and vars(base).get("__slots__") for base in kind.__mro__)


def _holds_only_data(value: Any, depth: int) -> bool:
    if type(value) is LazyScalar or depth == 0:
        return False
    if issubclass(type(value), Tensor) or is_simple(value):
        return True
    if _is_container(value):
        return all(
            _holds_only_data(item, depth - 1) for item in (value.values() if issubclass(type(value), dict) else value)
        )
    return _is_plain_object(value) and all(
        _holds_only_data(attribute, depth - 1) for attribute in objects.attributes(value).values()
    )


def _is_container(value: Any) -> bool:
    return type(value) in (list, dict) or is_tuple(value)


def is_tuple(value: Any) -> bool:
    """Whether the value is a tuple or a named tuple."""
    kind = type(value)
    return kind is tuple or (issubclass(kind, tuple) and hasattr(kind, "_fields") and not objects.has_attributes(kind))


def _leaves(value: Any, depth: int = _MAX_DEPTH) -> Iterator[Any]:
    """The leaves of nested plain objects and containers.

    Other objects, such as Python modules, count as leaves: the whole process is reachable from them.
    """
    if (
        type(value) is LazyScalar
        or (issubclass(type(value), Tensor) or is_simple(value))
        or depth == 0
        or not (_is_container(value) or _is_plain_object(value))
    ):
        yield value
        return
    children = (
        value.values() if type(value) is dict else value if _is_container(value) else objects.attributes(value).values()
    )
    for child in children:
        yield from _leaves(child, depth - 1)


def take_apart(value: Any, containers: list | None = None) -> Any:
    """The value with plain objects as `Instance`s.

    The objects, and the lists and dictionaries around and in them, are appended to `containers`.
    """
    return _take_apart_into(value, [] if containers is None else containers) if holds_objects(value) else value


def holds_objects(value: Any) -> bool:
    """Whether the value is a plain object with tensors, or a container of one."""
    if _is_container(value):
        return any(map(holds_objects, value.values() if issubclass(type(value), dict) else value))
    return is_instance(value)


def _take_apart_into(value: Any, containers: list) -> Any:
    """The value with its objects as `Instance`s, whose containers are appended to `containers`."""
    if issubclass(type(value), Tensor) or is_simple(value):
        return value
    if not is_tuple(value):
        containers.append(value)
    if type(value) is dict:
        return {key: _take_apart_into(item, containers) for key, item in value.items()}
    if type(value) is list:
        return [_take_apart_into(item, containers) for item in value]
    if is_tuple(value):
        return tuple.__new__(type(value), [_take_apart_into(item, containers) for item in value])
    return Instance(
        type(value),
        {key: _take_apart_into(attribute, containers) for key, attribute in objects.attributes(value).items()},
    )


def create_objects(value: Any) -> Any:
    """The inverse of `take_apart`: create the objects."""
    if type(value) is Instance:
        result = objects.base_of(value.kind).__new__(value.kind)
        objects.set_attributes(result, {key: create_objects(attribute) for key, attribute in value.attributes.items()})
        return result
    if not holds_parts(value):
        return value
    if issubclass(type(value), dict):
        return {key: create_objects(item) for key, item in value.items()}
    return (
        [*map(create_objects, value)] if type(value) is list else tuple.__new__(type(value), map(create_objects, value))
    )


def holds_parts(value: Any) -> bool:
    """Whether the value is an `Instance`, or a container of one."""
    return type(value) is Instance or (
        _is_container(value) and any(map(holds_parts, value.values() if issubclass(type(value), dict) else value))
    )


def read_lazy_scalars(value: Any, depth: int = _MAX_DEPTH) -> None:
    """Replace lazy scalars in an object by their values, which ends the recording."""
    for key, attribute in objects.attributes(value).items() if depth and _is_plain_object(value) else ():
        if type(attribute) is LazyScalar:
            objects.write_attribute(value, key, read_value(attribute))
        else:
            read_lazy_scalars(attribute, depth - 1)


def same_parts(first: Any, second: Any) -> bool:
    """Whether two values returned by `take_apart` have identical tensors and equal constants."""
    if type(first) is not type(second):
        return False
    if type(first) is dict:
        return list(first) == list(second) and all(map(same_parts, first.values(), second.values()))
    if _is_container(first):
        return len(first) == len(second) and all(map(same_parts, first, second))
    return first is second or (is_simple(first) and (first == second or first != first))


def has_other_references(containers: list) -> bool:
    """Whether any of these containers has other references, which would still refer to the old object after a run.

    The list of containers is cleared. A sample object shows the reference count of an object with one reference.
    """
    sample = [object()]
    counted_objects = [sample[0], *containers]
    containers.clear()
    counts = [sys.getrefcount(object_) for object_ in counted_objects]
    return any(count != counts[0] for count in counts) or any(map(weakref.getweakrefcount, counted_objects))
