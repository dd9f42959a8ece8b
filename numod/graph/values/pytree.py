"""Structures of arguments and results: nested tuples, lists, dicts and dataclasses with tensors and plain values as
leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from . import objects
from .kinds import is_simple, package_of, PACKAGE
from .lazy_scalar import LazyScalar, ScalarExpression

_PLAIN_CONTAINERS = {tuple, list, dict}  # their instances have items and no attributes


def is_data(value: Any) -> bool:
    """Whether the value is an instance of a user's dataclass without another built-in base."""
    kind = type(value)
    return _is_structure(kind) and objects.base_of(kind) is object


@lru_cache(maxsize=4096)
def _is_structure(kind: type) -> bool:
    """Whether instances are structures: containers, dataclasses, and user classes derived from a number or string."""
    base = objects.base_of(kind)
    is_container_or_data = base in (*objects.SEQUENCES, *objects.MAPPINGS, *objects.VALUES) or objects.is_data_class(
        kind
    )
    return kind is slice or kind in _PLAIN_CONTAINERS or (is_container_or_data and objects.can_rebuild(kind))


def is_structure(value: Any) -> bool:
    """Whether the value is a structure. A slice counts if it contains anything but constants."""
    return _is_structure(type(value)) and not is_simple(value)


@lru_cache(maxsize=4096)
def _has_items(kind: type) -> bool:
    return objects.base_of(kind) in (*objects.SEQUENCES, *objects.MAPPINGS)


def fields_of(structure: Any) -> list[str]:
    """The names of a structure's attributes; none for classes of this package."""
    return list(objects.attributes(structure)) if _has_fields(type(structure)) else []


@lru_cache(maxsize=4096)
def _has_fields(kind: type) -> bool:
    return objects.has_attributes(kind) and package_of(kind) != PACKAGE


def parts(structure: Any) -> list | None:
    """The items and then the attribute values of a structure, or None for other values."""
    kind = type(structure)
    if kind in _PLAIN_CONTAINERS:
        return list(structure.values() if kind is dict else structure)
    if not is_structure(structure):
        return None
    structure, kind = _unpacked(structure)
    if kind is slice:
        return [structure.start, structure.stop, structure.step]
    return [
        *(objects.values_of(structure) if _has_items(kind) else ()),
        *(objects.attributes(structure).values() if _has_fields(kind) else ()),
    ]


def _unpacked(structure: Any) -> tuple[Any, type]:
    """(the structure in its public form, its class). A packed sequence has another form within a program."""
    structure = (
        structure.exactly()
        if hasattr(type(structure), "exactly") and package_of(type(structure)) == PACKAGE
        else structure
    )
    return structure, type(structure)


def rebuilt(structure: Any, new_parts: list) -> Any:
    """A copy of a structure with new parts. It does not run code of the structure's class."""
    kind = type(structure)
    if kind in _PLAIN_CONTAINERS:
        return dict(zip(structure, new_parts)) if kind is dict else kind(new_parts)
    if kind is slice:
        return slice(*new_parts)
    count = objects.size_of(structure) if _has_items(kind) else 0
    return objects.rebuilt(structure, new_parts[:count], dict(zip(fields_of(structure), new_parts[count:])))


def keys(structure: Any) -> list:
    """The key of each part: a dictionary key, a position or an attribute."""
    if type(structure) is slice:
        return ["start", "stop", "step"]
    items = [key for key, _ in objects.items_of(structure)] if _has_items(type(structure)) else []
    return [*items, *map(objects.Attribute, fields_of(structure))]


def is_frozen(structure: Any) -> bool:
    """Whether a structure's parts cannot be set."""
    kind = type(structure)
    return (
        objects.base_of(kind) in (tuple, *objects.VALUES)
        or kind is slice
        or (is_data(structure) and kind.__dataclass_params__.frozen)
    )


def has_identity(structure: Any) -> bool:
    """Whether a structure's identity matters: it can be modified in place, or has attributes."""
    kind = type(structure)
    return not (kind is slice or objects.base_of(kind) in (tuple, *objects.VALUES)) or _has_fields(kind)


def may_hold_numbers(value: Any) -> bool:
    """Whether numbers are searched in the value: a Python container, named tuple or dataclass."""
    kind = type(value)
    if not is_structure(value) or kind is slice or objects.base_of(kind) in objects.VALUES:
        return False
    return not (objects.base_of(kind) is tuple and _has_fields(kind))


def replace(
    structure: Any,
    function: Callable,
    read: Callable = lambda *expression: ScalarExpression(*expression),
    whole: Callable = lambda container: None,
) -> Any:
    """`structure` with its leaves replaced by `function(leaf)`.

    `read(operation, operands)` replaces a scalar expression. `whole(container)` may replace a container as a whole.
    """
    if type(structure) is LazyScalar:
        return function(structure)
    if type(structure) is ScalarExpression:
        return read(structure.operation, tuple([replace(operand, function, read) for operand in structure.operands]))
    if not is_structure(structure):
        return function(structure)
    structure, _ = _unpacked(structure)
    if has_identity(structure) and (replacement := whole(structure)) is not None:
        return replacement
    return rebuilt(structure, [replace(part, function, read, whole) for part in parts(structure)])


class ArgumentContainer:
    """Placeholder for a container among a call's arguments: its number in `containers`."""

    def __init__(self, number: int) -> None:
        self.number = number


def containers(arguments: tuple, kwargs: dict) -> list:
    """All structures among a call's arguments that can be modified in place."""
    return [structure for structure, _ in contents((*arguments, *kwargs.values()))]


def contents(structure: Any) -> list[tuple[Any, list]]:
    """All structures in a structure that can be modified in place, each with its current (key, part) pairs."""
    structure_parts = parts(structure)
    if structure_parts is None:
        return []
    entries = [(structure, list(zip(keys(structure), structure_parts)))] if has_identity(structure) else []
    return entries + [entry for part in structure_parts for entry in contents(part)]


def changed(before: list[tuple[Any, list]]) -> str | None:
    """The class name of the first structure whose parts have changed since `contents`, or None."""
    for structure, former_parts in before:
        current_parts = list(zip(keys(structure), parts(structure)))
        if len(current_parts) != len(former_parts) or any(
            part is not former or not _same_key(key, former_key)
            for (key, part), (former_key, former) in zip(current_parts, former_parts)
        ):
            return type(structure).__name__
    return None


def _same_key(first: Any, second: Any) -> bool:
    return first is second or (
        type(first) in (int, str, objects.Attribute) and type(first) is type(second) and first == second
    )
