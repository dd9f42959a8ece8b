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

_WHOLE = {tuple, list, dict}  # classes whose instances have nothing but items


def is_data(each: Any) -> bool:
    """Whether it is an instance of a user's dataclass that is nothing else."""
    kind = type(each)
    return _is_structure(kind) and objects.base_of(kind) is object


@lru_cache(maxsize=4096)
def _is_structure(kind: type) -> bool:
    """Whether instances are taken apart: containers, dataclasses and, as they have attributes, instances of a user's
    class derived from that of a number or a text.
    """
    base = objects.base_of(kind)
    known = base in (*objects.SEQUENCES, *objects.MAPPINGS, *objects.VALUES) or objects.is_data_class(kind)
    return kind is slice or kind in _WHOLE or (known and objects.can_rebuild(kind))


def is_structure(each: Any) -> bool:
    """Whether it is a structure. A slice is one if there is something in it that is no constant."""
    return _is_structure(type(each)) and not is_simple(each)


@lru_cache(maxsize=4096)
def _has_items(kind: type) -> bool:
    return objects.base_of(kind) in (*objects.SEQUENCES, *objects.MAPPINGS)


def fields_of(each: Any) -> list[str]:
    """The names of a structure's attributes. Those of the library's own classes are not part of it."""
    return list(objects.attributes(each)) if _has_fields(type(each)) else []


@lru_cache(maxsize=4096)
def _has_fields(kind: type) -> bool:
    return objects.has_attributes(kind) and package_of(kind) != PACKAGE


def parts(each: Any) -> list | None:
    """The items of a structure, in order, and then its attributes; None if it is not one."""
    kind = type(each)
    if kind in _WHOLE:
        return list(each.values() if kind is dict else each)
    if not is_structure(each):
        return None
    each, kind = _exactly(each)
    if kind is slice:
        return [each.start, each.stop, each.step]
    return [
        *(objects.values_of(each) if _has_items(kind) else ()),
        *(objects.attributes(each).values() if _has_fields(kind) else ()),
    ]


def _exactly(each: Any) -> tuple[Any, type]:
    """(a structure, its class), of one that has another form in a program (a packed sequence) as it is outside."""
    each = each.exactly() if hasattr(type(each), "exactly") and package_of(type(each)) == PACKAGE else each
    return each, type(each)


def remade(each: Any, new: list) -> Any:
    """A copy of a structure with other parts, made without running its class's code."""
    kind = type(each)
    if kind in _WHOLE:
        return dict(zip(each, new)) if kind is dict else kind(new)
    if kind is slice:
        return slice(*new)
    count = objects.size_of(each) if _has_items(kind) else 0
    return objects.rebuilt(each, new[:count], dict(zip(fields_of(each), new[count:])))


def keys(each: Any) -> list:
    """What its parts are had by, one by one: keys, positions, names of attributes."""
    if type(each) is slice:
        return ["start", "stop", "step"]
    inside = [key for key, _ in objects.items_of(each)] if _has_items(type(each)) else []
    return [*inside, *map(objects.Attribute, fields_of(each))]


def is_frozen(each: Any) -> bool:
    """Whether a structure is one whose parts cannot be set."""
    kind = type(each)
    return (
        objects.base_of(kind) in (tuple, *objects.VALUES)
        or kind is slice
        or (is_data(each) and kind.__dataclass_params__.frozen)
    )


def has_identity(each: Any) -> bool:
    """Whether it matters which object a structure is: it can be changed in place, or be given attributes."""
    kind = type(each)
    return not (kind is slice or objects.base_of(kind) in (tuple, *objects.VALUES)) or _has_fields(kind)


def is_remade(each: Any) -> bool:
    """Whether it is a structure in which numbers are looked for: one of Python's, a named tuple or a dataclass."""
    kind = type(each)
    if not is_structure(each) or kind is slice or objects.base_of(kind) in objects.VALUES:
        return False
    return not (objects.base_of(kind) is tuple and _has_fields(kind))


def replace(
    structure: Any,
    function: Callable,
    read: Callable = lambda *reading: ScalarExpression(*reading),
    whole: Callable = lambda each: None,
) -> Any:
    """`structure` with its leaves replaced.

    `read` makes what takes a reading's place, of its operation and its operands; `whole` what takes a container's.
    """
    if type(structure) is LazyScalar:
        return function(structure)
    if type(structure) is ScalarExpression:
        return read(structure.operation, tuple([replace(operand, function, read) for operand in structure.operands]))
    if not is_structure(structure):
        return function(structure)
    structure, _ = _exactly(structure)
    if has_identity(structure) and (found := whole(structure)) is not None:
        return found
    return remade(structure, [replace(part, function, read, whole) for part in parts(structure)])


class Given:
    """In the stead of a container among a call's arguments: its number in `containers`."""

    def __init__(self, number: int) -> None:
        self.number = number


def containers(arguments: tuple, named: dict) -> list:
    """All structures among the arguments of a call that can be changed in place."""
    return [each for each, _ in contents((*arguments, *named.values()))]


def contents(structure: Any) -> list[tuple[Any, list]]:
    """All structures in a structure that can be changed in place, each with its current (key, part) pairs."""
    inside = parts(structure)
    if inside is None:
        return []
    own = [(structure, list(zip(keys(structure), inside)))] if has_identity(structure) else []
    return own + [found for each in inside for found in contents(each)]


def changed(before: list[tuple[Any, list]]) -> str | None:
    """The kind of the first of these structures whose parts have changed."""
    for each, inside in before:
        now = list(zip(keys(each), parts(each)))
        if len(now) != len(inside) or any(
            part is not former or not _same_key(key, other) for (key, part), (other, former) in zip(now, inside)
        ):
            return type(each).__name__
    return None


def _same_key(one: Any, two: Any) -> bool:
    return one is two or (type(one) in (int, str, objects.Attribute) and type(one) is type(two) and one == two)
