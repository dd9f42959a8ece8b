"""Structures of arguments and results: nested tuples, lists, dicts and dataclasses with tensors and plain values as leaves."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from keyword import iskeyword
from typing import Any

from .kinds import PACKAGE, SIMPLE
from .later import Later, Reading


def is_data(each: Any) -> bool:
    """Whether it is an instance of a user's dataclass."""
    return _is_data_class(type(each))


@lru_cache(maxsize=4096)
def _is_data_class(kind: type) -> bool:
    called = any("__call__" in vars(base) for base in kind.__mro__)
    return dataclasses.is_dataclass(kind) and not issubclass(kind, (type, *SIMPLE)) and not called and not kind.__module__.startswith(PACKAGE + ".")


def fields_of(each: Any) -> list[str]:
    """The names of the dataclass fields that are set on the object, and of what else it has been given."""
    names = [field.name for field in dataclasses.fields(each) if hasattr(each, field.name)]
    return [*names, *(name for name in getattr(each, "__dict__", ()) if name not in names and name.isidentifier() and not iskeyword(name))]


def parts(each: Any) -> list | None:
    """The items of a structure, in order; None if it is not one."""
    if type(each) is Later:
        return None
    if isinstance(each, dict):
        return list(each.values())
    if isinstance(each, (list, tuple)):
        return list(each)
    return [getattr(each, name) for name in fields_of(each)] if is_data(each) else None


def remade(each: Any, new: list) -> Any:
    """A copy of a structure with other items, made without running its class's code."""
    if isinstance(each, dict):
        return type(each)(zip(each, new))
    if isinstance(each, (list, tuple)):
        return tuple.__new__(type(each), new) if isinstance(each, tuple) else type(each)(new)
    result = copy.copy(each)
    for name, value in zip(fields_of(each), new):
        object.__setattr__(result, name, value)
    return result


def keys(each: Any) -> list:
    """What its items are had by, one by one: keys, positions, names of fields."""
    return list(each) if isinstance(each, dict) else list(range(len(each))) if isinstance(each, (list, tuple)) else fields_of(each)


def is_remade(each: Any) -> bool:
    """Whether it is a structure that `remade` makes another of without running code of a user's class."""
    return type(each) in (list, dict, OrderedDict, tuple) or (isinstance(each, tuple) and hasattr(each, "_fields")) or is_data(each)


def is_frozen(each: Any) -> bool:
    """Whether a structure is one whose items cannot be set."""
    return isinstance(each, tuple) or (is_data(each) and type(each).__dataclass_params__.frozen)


def replace(structure: Any, function: Callable, read: Callable = lambda *reading: Reading(*reading), whole: Callable = lambda each: None) -> Any:
    """`structure` with its leaves replaced. `read` makes what takes a reading's place, of its operation and its operands; `whole` what takes a container's."""
    if type(structure) is Later:
        return function(structure)
    if (type(structure) in (list, dict, OrderedDict) or is_data(structure)) and (found := whole(structure)) is not None:
        return found
    if type(structure) is Reading:
        return read(structure.operation, tuple([replace(each, function, read) for each in structure.operands]))
    if isinstance(structure, tuple) or is_remade(structure):
        return remade(structure, [replace(each, function, read, whole) for each in parts(structure)])
    return function(structure)


class Given:
    """In the stead of a container among a call's arguments: its number in `containers`."""

    def __init__(self, number: int) -> None:
        self.number = number


def containers(arguments: tuple, named: dict) -> list:
    """All lists, dicts and dataclass instances among the arguments of a call."""
    return [each for each, _ in contents((*arguments, *named.values()))]


def contents(structure: Any) -> list[tuple[Any, list]]:
    """All lists, dicts and dataclass instances in a structure, with their current items."""
    inside = parts(structure)
    if inside is None:
        return []
    own = [] if isinstance(structure, tuple) else [(structure, inside)]
    return own + [found for each in inside for found in contents(each)]


def changed(before: list[tuple[Any, list]]) -> str | None:
    """The kind of the first of these containers whose items have changed."""
    for each, inside in before:
        now = parts(each)
        if len(now) != len(inside) or any(a is not b for a, b in zip(now, inside)):
            return type(each).__name__
    return None
