"""The key of a call of a compiled function: layouts of its tensors, values of other arguments, which arguments share
memory, the grad modes.
"""

from __future__ import annotations

from typing import Any

from ...core.apply import state
from ...core.tensor import Tensor
from ...device import Layout
from ..values import objects, pytree
from .guard import strongly, weakly
from ..values.kinds import is_plain_key, is_simple, of_library


def describe(arguments: tuple, named: dict) -> tuple[tuple, tuple[Tensor, ...]]:
    """A call's key (layouts of tensors, values of the rest, which arguments share memory, the modes) and its
    tensors.
    """
    tensors: list[Tensor] = []
    key = tuple([_key(argument, tensors) for argument in arguments])
    if named:
        key += tuple([(name, _key(each, tensors)) for name, each in named.items()])
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


def _key(each: Any, tensors: list[Tensor]) -> Any:
    if issubclass(type(each), Tensor):
        tensors.append(each)
        own = (each._layout, each.requires_grad) if state.grad_enabled else each._layout
        return own if type(each) is Tensor else (own, type(each))
    if is_simple(each):
        if type(each) is slice:
            # which has no hash before Python 3.12
            return slice, *[_key(part, tensors) for part in (each.start, each.stop, each.step)]
        # 0.0 and -0.0 are different keys; NaN is equal to itself
        return type(each), each if each and each == each else repr(each)
    kind, inside = type(each), pytree.parts(each)
    if inside is None:
        return Same(each)
    if kind is list or kind is tuple:
        return kind, *[_key(part, tensors) for part in inside]
    value = (_key(objects.plain(each), tensors),) if objects.base_of(kind) in objects.VALUES else ()
    return kind, *value, *[(_name(name), _key(part, tensors)) for name, part in zip(pytree.keys(each), inside)]


def _name(key: Any) -> Any:
    """A dictionary's key as part of a call's: tensors, for one, can be keys, and are not compared as such."""
    return ("key", type(key), key) if is_plain_key(key) else Same(key)


def family(key: Any, integers: bool = True) -> Any:
    """A key without sizes, which is equal for calls that differ only in sizes; or, without `integers`, also in
    these.
    """
    if isinstance(key, Layout):
        return key.ndim, key.dtype, key.device
    if not isinstance(key, tuple) or (key[:1] == (int,) and integers):
        return key
    return (tuple, int) if key[:1] == (int,) else (type(key), *(family(each, integers) for each in key))


def difference(key: tuple, before: tuple) -> str:
    """The difference between two calls' keys as text."""
    if key[1:] != before[1:]:
        return "the grad mode"
    for number, (now, then) in enumerate(zip(key[0], before[0])):
        if now != then:
            return f"argument {number}: {_worded(then)} was recorded, {_worded(now)} came"
    return "the number of arguments"


def _worded(each: Any) -> str:
    """An argument's part of a key, in words."""
    if isinstance(each, Layout):
        return f"{each.dtype} {tuple(each.shape)}"
    if issubclass(type(each), tuple) and len(each) == 2 and isinstance(each[1], type):
        return f"{_worded(each[0])} of class {each[1].__name__}"
    if issubclass(type(each), tuple) and each and isinstance(each[0], Layout):
        return _worded(each[0]) + (" that requires a gradient" if each[1] else "")
    if isinstance(each, Same):
        return f"the {each.kind} at {each.id:#x}"
    return (
        repr(each[1])
        if issubclass(type(each), tuple) and len(each) == 2 and isinstance(each[0], type)
        else "another structure"
    )


def _position(tensor: Tensor, tensors: list[Tensor]) -> int:
    return next(k for k, each in enumerate(tensors) if each is tensor)


def roots_in(each: Any) -> list:
    """The arguments compared by identity: modules, optimizers, plain objects, keys; and the classes of structures,
    whose methods the function may call.
    """
    inside = pytree.parts(each)
    if inside is not None:
        named = [key for key in pytree.keys(each) if not is_plain_key(key)]
        return [
            *([] if of_library(type(each)) else [type(each)]),
            *named,
            *(found for part in inside for found in roots_in(part)),
        ]
    return [] if issubclass(type(each), Tensor) or is_simple(each) else [each]


class Same:
    """Any other argument: compared by identity. It is not kept alive."""

    def __init__(self, thing: Any) -> None:
        self.id, self.kind, self.held = id(thing), type(thing).__name__, weakly(thing)

    def __hash__(self) -> int:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and strongly(other.held) is strongly(self.held) and other.id == self.id
