"""Guards of containers and arrays: their length, items, keys and bytes."""

from __future__ import annotations

import array
import ctypes
import operator
from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ..values import objects
from ..values.kinds import is_plain_key, of_library, worded
from .guard import Guard

if TYPE_CHECKING:
    from .build import GuardBuilder

C_DATA = (ctypes._SimpleCData, ctypes.Structure, ctypes.Union, ctypes.Array)
BUFFERS = (np.ndarray, np.void, array.array, bytearray, memoryview, *C_DATA)


def visit_container(builder: GuardBuilder, name: str, value: list | tuple | dict | deque) -> None:
    """Guard the length and the items of a container."""
    is_immutable, base = issubclass(type(value), tuple), objects.base_of(type(value))
    is_subclass = type(value) is not base or base is defaultdict  # it may override methods
    excluded = {key for holder, key in builder.excluded if holder == id(value) and type(key) is not objects.Attribute}
    if issubclass(type(value), dict) and all(dict.__contains__(value, key) for key in excluded):
        guard_members(builder, f"len({name})", value)
    elif not is_immutable:
        count = len(objects.members_of(value)) - (
            sum(key in excluded for key in objects.members_of(value)) if issubclass(type(value), dict) else 0
        )
        length = "{2}({0})" if is_subclass else "len({0})"
        text = (
            f"{length} - sum({{4}}({{0}}, key) for key in {{3}})"
            if issubclass(type(value), dict) and excluded
            else length
        )
        builder.guards.append(
            Guard(
                f"len({name})",
                f"{text} == {{1}}",
                (value, count, base.__len__, excluded, getattr(base, "__contains__", None)),
            )
        )
    if issubclass(type(value), defaultdict):
        factory = objects.DEFAULT.__get__(value)
        builder.guard_value(f"the default factory of {name}", "{1}.__get__({0})", (value, objects.DEFAULT), factory)
    for position, (key, item) in enumerate(objects.items_of(value)):
        if is_immutable:
            builder.visit(f"{name}[{key}]", item)
        elif not excluded or key not in excluded:
            # comparing other keys may run user code
            is_safe = is_plain_key(key) or of_library(type(key))
            text = f"value_at({{0}}, {position})" if not is_safe else "item({0}, {1})" if is_subclass else "{0}[{1}]"
            builder.guard_value(f"{name}[{worded(key)}]", text, (value, key), item)


def guard_members(builder: GuardBuilder, name: str, value: set | frozenset | dict) -> None:
    """Guard the members of a set or the keys of a dictionary, in order: by value if plain, else by identity."""
    members, base = tuple(objects.members_of(value)), objects.base_of(type(value))
    iterable = "{0}" if type(value) is base else "{2}({0})"
    are_plain = all(map(is_plain_key, members))
    if are_plain and issubclass(type(value), dict):
        builder.guards.append(Guard(name, f"tuple({iterable}) == {{1}}", (value, members, base.__iter__)))
        return
    text = f"{{3}}({{0}}) == len({{1}}) and all(map({'equal' if are_plain else '{4}'}, {iterable}, {{1}}))"
    builder.guards.append(Guard(name, text, (value, members, base.__iter__, base.__len__, operator.is_)))
    for member in members if not are_plain else ():
        builder.visit(f"a member of {name}", member)


def guard_buffer(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the bytes of an array, its shape and its dtype."""
    if issubclass(type(value), bytearray):
        builder.guards.append(Guard(name, "{2}({0}, {1})", (value, bytes(value), bytearray.__eq__)))
        return
    if issubclass(type(value), C_DATA):
        builder.guards.append(Guard(name, "{2}({0}).tobytes() == {1}", (value, bytes(value), memoryview)))
        return
    kind = next(base for base in (np.ndarray, np.void, array.array, memoryview) if issubclass(type(value), base))
    builder.guards.append(Guard(name, "{2}({0}) == {1}", (value, kind.tobytes(value), kind.tobytes)))
    if kind is np.ndarray:
        plain = np.ndarray.view(value, np.ndarray)
        layout = [vars(np.ndarray)[name].__get__ for name in ("shape", "dtype")]
        builder.guards.append(Guard(name, "({2}({0}), {3}({0})) == {1}", (value, (plain.shape, plain.dtype), *layout)))
        if not builder.mentioned.isdisjoint(("flags", "strides", "setflags")):
            readers = [vars(np.ndarray)[key].__get__ for key in ("strides", "flags")]
            state = plain.strides, readers[1](value).num
            builder.guards.append(Guard(name, "({2}({0}), {3}({0}).num) == {1}", (value, state, *readers)))
        for position, item in enumerate(plain.flat if plain.dtype.hasobject else ()):
            builder.visit(f"{name}[{position}]", item)
