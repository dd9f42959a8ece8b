"""Structures of arguments and results: tuples, lists, dicts and data classes, nested, with tensors and plain values in them."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from .reach import SIMPLE

_PACKAGE = __name__.partition(".")[0] + "."


def is_data(each: Any) -> bool:
    """Whether it is an object of a data class of the user's."""
    return dataclasses.is_dataclass(each) and not isinstance(each, (type, *SIMPLE)) and not callable(each) and not type(each).__module__.startswith(_PACKAGE)


def fields_of(each: Any) -> list[str]:
    """The names of a data class's fields that the object has."""
    return [field.name for field in dataclasses.fields(each) if hasattr(each, field.name)]


def parts(each: Any) -> list | None:
    """What lies in a structure, in order. None where it is no structure."""
    if isinstance(each, dict):
        return list(each.values())
    if isinstance(each, (list, tuple)):
        return list(each)
    return [getattr(each, name) for name in fields_of(each)] if is_data(each) else None


def remade(each: Any, new: list) -> Any:
    """A copy of an object of a data class, with other values in its fields. Nothing of its class runs."""
    result = copy.copy(each)
    for name, value in zip(fields_of(each), new):
        object.__setattr__(result, name, value)
    return result


def replace(structure: Any, function: Callable) -> Any:
    """`structure` with its leaves replaced."""
    if type(structure) in (dict, OrderedDict):
        return type(structure)((key, replace(each, function)) for key, each in structure.items())
    if isinstance(structure, tuple) or type(structure) is list:
        made = [replace(each, function) for each in structure]
        return tuple.__new__(type(structure), made) if hasattr(structure, "_fields") else type(structure)(made)
    if is_data(structure):
        return remade(structure, [replace(each, function) for each in parts(structure)])
    return function(structure)


def contents(structure: Any) -> list[tuple[Any, list]]:
    """Every list, dict and object of a data class in a structure, with what lies in it now."""
    inside = parts(structure)
    if inside is None:
        return []
    own = [] if isinstance(structure, tuple) else [(structure, inside)]
    return own + [found for each in inside for found in contents(each)]


def changed(before: list[tuple[Any, list]]) -> str | None:
    """The kind of the first of these structures that has other things in it now."""
    for each, inside in before:
        now = parts(each)
        if len(now) != len(inside) or any(a is not b for a, b in zip(now, inside)):
            return type(each).__name__
    return None
