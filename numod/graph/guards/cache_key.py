"""The key of a call of a compiled function: tensor layouts, values of other arguments, shared memory, grad modes."""

from __future__ import annotations

from typing import Any

from ...core.apply import state
from ...core.tensor import Tensor
from ...device import Layout
from ..values import objects, pytree
from .guard import strongly, weakly
from ..values.kinds import is_plain_key, is_simple, of_library


def describe(args: tuple, kwargs: dict) -> tuple[tuple, tuple[Tensor, ...]]:
    """(the key of a call, its tensors)."""
    tensors: list[Tensor] = []
    key = tuple([_key(argument, tensors) for argument in args])
    if kwargs:
        key += tuple([(name, _key(argument, tensors)) for name, argument in kwargs.items()])
    if len(tensors) > 1:
        storages = [id(tensor._storage) for tensor in tensors]
        if len(set(storages)) < len(storages):
            first = [tensors[storages.index(storage)] for storage in storages]
            places = [
                (storages.index(id(tensor._storage)), tensor._offset - other._offset, _position(tensor, tensors))
                for tensor, other in zip(tensors, first)
            ]
            key += (tuple(places),)
    return (key, state.grad_enabled, state.inference, state.autocast), tuple(tensors)


def _key(argument: Any, tensors: list[Tensor]) -> Any:
    """The part of the key for an argument. Its tensors are added to the list."""
    if issubclass(type(argument), Tensor):
        tensors.append(argument)
        properties = (argument._layout, argument.requires_grad) if state.grad_enabled else argument._layout
        return properties if type(argument) is Tensor else (properties, type(argument))
    if is_simple(argument):
        if type(argument) is slice:  # it has no hash before Python 3.12
            return slice, *[_key(part, tensors) for part in (argument.start, argument.stop, argument.step)]
        # 0.0 and -0.0 are different keys; NaN is equal to itself
        return type(argument), argument if argument and argument == argument else repr(argument)
    kind, parts = type(argument), pytree.parts(argument)
    if parts is None:
        return Same(argument)
    if kind is list or kind is tuple:
        return kind, *[_key(part, tensors) for part in parts]
    value = (_key(objects.plain(argument), tensors),) if objects.base_of(kind) in objects.VALUES else ()
    return kind, *value, *[(_name(name), _key(part, tensors)) for name, part in zip(pytree.keys(argument), parts)]


def _name(key: Any) -> Any:
    """A dictionary's key. Tensors and other objects are compared by identity."""
    return ("key", type(key), key) if is_plain_key(key) else Same(key)


def family(key: Any, integers: bool = True) -> Any:
    """A key without sizes. It is equal for calls that differ only in sizes, or also in integers if not `integers`."""
    if isinstance(key, Layout):
        return key.ndim, key.dtype, key.device
    if not isinstance(key, tuple) or (key[:1] == (int,) and integers):
        return key
    return (tuple, int) if key[:1] == (int,) else (type(key), *(family(part, integers) for part in key))


def difference(key: tuple, before: tuple, has_state: bool = False) -> str:
    """The difference between the keys of two calls, in words. `has_state`: see `_arguments`."""
    if key[1:] != before[1:]:
        return "the grad mode"
    for number, (now, then) in enumerate(zip(_arguments(key[0], has_state), _arguments(before[0], has_state))):
        if now != then:
            return f"argument {number}: {_worded(then)} was recorded, got {_worded(now)}"
    return "the number of arguments"


def _arguments(keys: tuple, has_state: bool) -> tuple:
    """The keys of a call's arguments; with `has_state` they follow those of passed state, as a tuple and a dict."""
    return (*keys[1][1:], *keys[2][1:]) if has_state else keys


def _worded(part: Any) -> str:
    """The part of a key for an argument, in words."""
    if isinstance(part, Layout):
        return f"{part.dtype} {tuple(part.shape)}"
    if isinstance(part, Same):
        return f"the {part.kind} at {part.id:#x}"
    is_tuple = issubclass(type(part), tuple)
    if is_tuple and len(part) == 2 and isinstance(part[1], type):
        return f"{_worded(part[0])} of class {part[1].__name__}"
    if is_tuple and part and isinstance(part[0], Layout):
        return _worded(part[0]) + (" that requires a gradient" if part[1] else "")
    return repr(part[1]) if is_tuple and len(part) == 2 and isinstance(part[0], type) else "another structure"


def _position(tensor: Tensor, tensors: list[Tensor]) -> int:
    return next(position for position, other in enumerate(tensors) if other is tensor)


def roots_in(structure: Any) -> list:
    """The objects in arguments that are compared by identity: modules, optimizers, plain objects, keys.

    Also the classes of structures and tensors, whose methods the function may call.
    """
    kinds = [] if of_library(type(structure)) else [type(structure)]
    if issubclass(type(structure), Tensor):
        return kinds
    parts = pytree.parts(structure)
    if parts is None:
        return [] if is_simple(structure) else [structure]
    keys = [key for key in pytree.keys(structure) if not is_plain_key(key)]
    return [*kinds, *keys, *(root for part in parts for root in roots_in(part))]


class Same:
    """An argument that is compared by identity. It is not kept alive."""

    def __init__(self, obj: Any) -> None:
        self.id, self.kind, self.reference = id(obj), type(obj).__name__, weakly(obj)

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and strongly(other.reference) is strongly(self.reference) and other.id == self.id
