"""Visits the numbers, tensors, modules and optimizers that a function reaches outside its inputs.

The results are the entries of a snapshot, (name, kind, object): "is" objects must be the same, "equal" objects must
have the same type and value, "state" objects are dictionaries of an optimizer's state, which must be the same.
"""

from __future__ import annotations

import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ... import dtypes
from ...core import changes
from ...core.create.generator import Generator
from ...core.tensor import Tensor, fields_of
from ...device.device import default_device, on_default_change
from ...kernel import tensor_cores
from ...ops.index import indexing
from ...ops.op import Op
from ..values import objects
from ..values.instances import is_instance, is_tuple
from ..values.kinds import (
    PACKAGE,
    hooks_on,
    is_compiled,
    is_module,
    is_optimizer,
    is_schedule,
    is_simple,
    methods_put_into,
    step_hooks,
    worded,
)
from ..values.lazy_scalar import LazyScalar
from .bytecode import names_of

dtypes.on_default_change.append(changes.note)
on_default_change.append(changes.note)
_DEPTH = 6  # how deep plain objects and containers are visited
CONTAINERS = (list, tuple, dict, set, frozenset, deque)
Entry = tuple[str, str, Any]  # (name, kind, object)
# (holder, key). The key is an attribute's name ("data" or "grad" of a tensor), a dictionary's key, or a variable's name
Place = tuple[Any, Any]


def identical_objects(entries: list[Entry]) -> Iterator[Any]:
    """The objects in a snapshot that must be the same at every run."""
    return (obj for _, kind, obj in entries if kind == "is")


def stands_for_numbers(value: Any) -> bool:
    """Whether it is a lazy scalar, or a tuple with one."""
    return type(value) is LazyScalar or (type(value) is tuple and any(map(stands_for_numbers, value)))


def can_be_state(value: Any) -> bool:
    """Whether it is a number, or consists of tensors."""
    return type(value) in (int, float) or only_tensors(value)


def only_tensors(value: Any, around: tuple = ()) -> bool:
    """Whether it is a tensor, None, a plain object with tensors, or a tuple, list or dictionary of these.

    A container must not contain itself, by being one of those `around` it.
    """
    if type(value) in (list, dict) or is_tuple(value):
        items = value.values() if issubclass(type(value), dict) else value
        return (
            bool(value)
            and not any(container is value for container in around)
            and all(only_tensors(item, (*around, value)) for item in items)
        )
    return value is None or (type(value) is not LazyScalar and issubclass(type(value), Tensor)) or is_instance(value)


class StateVisitor:
    """Visits the state that a function reaches by name, and its arguments (`roots`), except for the `excluded` places.

    `entries` describe the state. `places` are (holder, key, value) of values that can be replaced: numbers, tensors,
    structures of them, None, and the memory of tensors.
    """

    def __init__(self, function: Callable, roots: Sequence = (), excluded: frozenset = frozenset()) -> None:
        self.excluded, self.seen = excluded, set()
        self._excluded_holders = {holder for holder, _ in excluded}
        self.places: list[tuple[Any, Any, Any]] = []
        self.entries: list[Entry] = list(self._everything(function, roots))

    def _everything(self, function: Callable, roots: Sequence) -> Iterator[Entry]:
        yield "default dtype", "is", dtypes.get_default_dtype()
        yield "default device", "equal", default_device()
        yield "precision of float32 products", "equal", tensor_cores.precision
        yield "mode of deterministic algorithms", "equal", indexing.deterministic
        for hooks in changes.global_hooks:
            yield from ((f"the global hooks of modules[{number}]", "is", hook) for number, hook in hooks.items())
        yield from self._names("", function, _DEPTH)
        for number, root in enumerate(roots):
            yield from self._entries_of(f"argument object {number}", root, _DEPTH)

    def _names(self, prefix: str, function: Callable, depth: int) -> Iterator[Entry]:
        for _, owner, name, value in names_of(function):
            if isinstance(owner, (types.CellType, dict)):
                yield from self._entries_at(owner, name, prefix + name, value, depth)
            else:
                yield from self._entries_of(prefix + name, value, depth)

    def _is_excluded(self, holder: Any, key: Any) -> bool:
        """Whether the value at a place is an argument. It does not call `__hash__` of a user's key of other holders."""
        return id(holder) in self._excluded_holders and (id(holder), key) in self.excluded

    def _entries_at(self, holder: Any, key: Any, name: str, value: Any, depth: int) -> Iterator[Entry]:
        """The entries of the value at a place."""
        if not self._is_excluded(holder, key):
            if stands_for_numbers(value) or can_be_state(value):
                self.places.append((holder, key, value))
            yield from self._entries_of(name, value, depth)

    def _entries_of(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        """The entries of a value and of all values inside it, each (name, how to compare, value)."""
        kind = type(value)
        if kind is LazyScalar:
            return
        if is_simple(value):
            yield name, "equal", value
            return
        if (
            issubclass(kind, (types.ModuleType, type, types.BuiltinFunctionType))
            or id(value) in self.seen
            or depth == 0
        ):
            return
        self.seen.add(id(value))
        if issubclass(kind, Tensor):
            yield from self._tensor(name, value, depth)
        elif is_compiled(value):
            yield from self._names(f"{name}: ", value.function, depth - 1)
        elif is_module(value):
            yield from self._module(name, value, depth)
        elif is_optimizer(value):
            yield from self._optimizer(name, value)
        elif is_schedule(value):
            yield name, "is", value  # its steps run in Python
            yield from self._entries_of(f"{name}.optimizer", value.optimizer, depth)
        elif issubclass(kind, (types.FunctionType, types.MethodType)):
            if not (getattr(value, "__module__", None) or "").startswith(PACKAGE):
                yield from self._names(f"{name}: ", value, depth - 1)
            elif (owner := getattr(value, "__self__", None)) is not None:
                yield from self._entries_of(f"{name}.__self__", owner, depth - 1)
        elif issubclass(kind, partial):
            yield from self._names(f"{name}: ", value, depth - 1)
        elif issubclass(kind, CONTAINERS):
            yield from self._container(name, value, depth)
            yield from self._attributes(name, value, depth)
        elif issubclass(kind, (Generator, Op)):
            yield name, "is", value  # a generator's draws are recorded, an op's plans are a cache
        else:
            yield name, "is", value
            yield from self._attributes(name, value, depth)

    def _container(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        """The entries of a container: its class, its length, and its items."""
        has_keys, members = not issubclass(type(value), (list, tuple, deque)), objects.members_of(value)
        yield f"the class of {name}", "is", type(value)
        yield (
            f"len({name})",
            "equal",
            len(members) - sum(self._is_excluded(value, key) for key in members if issubclass(type(value), dict)),
        )
        self.places += [(value, member, member) for member in members if has_keys and stands_for_numbers(member)]
        for member in members if has_keys else ():  # code may look for an argument among keys that are tensors
            yield from self._entries_of(f"a key of {name}", member, depth) if not is_simple(member) else ()
        is_fixed = issubclass(type(value), (tuple, set, frozenset))  # items cannot be replaced
        for key, item in objects.items_of(value):
            item_name = f"{name}[{worded(key)}]"
            if is_fixed:
                yield from self._entries_of(item_name, item, depth - 1)
            else:
                yield from self._entries_at(value, key, item_name, item, depth - 1)

    def _attributes(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        for key, attribute in objects.attributes(value).items():
            yield from self._entries_at(value, objects.place_of(value, key), f"{name}.{key}", attribute, depth - 1)

    def _tensor(self, name: str, tensor: Tensor, depth: int) -> Iterator[Entry]:
        """The entries of a tensor: the object itself, its memory, layout, history and hooks."""
        yield name, "is", tensor
        self.places.append((tensor, "data", tensor._storage))
        if (id(tensor), "data") not in self.excluded:
            yield f"{name}'s memory", "is", tensor._storage
            yield f"{name}'s bytes", "is", _reference(tensor._storage.data)
            # an uninitialised parameter hides it
            yield f"{name}'s layout", "is", fields_of(tensor)["_layout"]
            yield f"{name}'s offset", "equal", tensor._offset
        if "_quantizer" in fields_of(tensor):
            yield f"{name}'s scale", "is", fields_of(tensor)["_quantizer"]
        yield f"{name}.requires_grad", "equal", tensor.requires_grad
        yield f"{name}'s history", "is", tensor.grad_fn
        for number, hook in hooks_on(tensor):
            yield f"{name}'s hooks[{number}]", "is", hook
            yield from self._entries_of(f"{name}'s hooks[{number}]", hook, depth - 1)

    def _module(self, name: str, module: Any, depth: int) -> Iterator[Entry]:
        """Settings, parameters, buffers and submodules.

        The module's dictionary has copies of the entries of its registries.
        """
        yield name, "is", module
        yield f"the class of {name}", "is", type(module)
        for key, attribute in list(objects.dictionary(module).items()):
            if key in ("_parameters", "_modules"):
                yield f"{name}.{key}", "equal", " ".join(attribute)
                for entry_name, registered in list(attribute.items()):
                    yield from self._entries_of(f"{name}.{entry_name}", registered, _DEPTH)
            elif key == "_buffers":
                yield f"{name}.{key}", "equal", " ".join(attribute)
            elif key.endswith("_hooks") or "_hooks_" in key:
                for number, hook in list(attribute.items() if issubclass(type(attribute), dict) else ()):
                    yield f"{name}.{key}[{number}]", "is", hook
                    yield from self._entries_of(f"{name}.{key}[{number}]", hook, depth - 1)
            elif module._parameters.get(key, module) is not attribute:
                if callable(attribute):
                    yield f"{name}.{key}", "is", attribute
                yield from self._entries_at(module, key, f"{name}.{key}", attribute, depth - 1)

    def _optimizer(self, name: str, optimizer: Any) -> Iterator[Entry]:
        """Flags of its groups, the parameters, and tensors of its state.

        Steps read numbers at every run, so that only whether they are zero is an entry.
        """
        yield name, "is", optimizer
        yield f"the class of {name}", "is", type(optimizer)
        for number, hook in step_hooks(optimizer).items():
            yield f"{name}'s hooks[{number}]", "is", hook
            yield from self._entries_of(f"{name}'s hooks[{number}]", hook, _DEPTH)
        for key, method in methods_put_into(optimizer).items():
            yield f"{name}.{key}", "is", method
            yield from self._entries_of(f"{name}.{key}", method, _DEPTH)
        yield from ((f"{name}.{key}", "is", getattr(optimizer, key)) for key in ("param_groups", "state"))
        for k, group in enumerate(optimizer.param_groups):
            for key, setting in group.items():
                if key == "params":
                    yield f"{name}: parameters of group {k}", "equal", len(setting)
                    for n, parameter in enumerate(setting):
                        yield from self._entries_again(f"{name}: parameter {n} of group {k}", parameter)
                elif type(setting) is LazyScalar:
                    self.places.append((group, key, setting))
                elif isinstance(setting, (bool, type(None), str)):
                    yield f"{name}.param_groups[{k}][{key!r}]", "equal", setting
                elif isinstance(setting, (int, float)):
                    yield f"{name}.param_groups[{k}][{key!r}] != 0", "equal", bool(setting)
        for n, state in enumerate(optimizer.state.values()):
            yield f"{name}.state[{n}]", "state", state
            for key, value in state.items():
                if issubclass(type(value), Tensor):
                    yield from self._entries_again(f"{name}.state[{n}][{key!r}]", value)

    def _entries_again(self, name: str, tensor: Tensor) -> Iterator[Entry]:
        """The entries of a tensor, even if it was visited before."""
        self.seen.discard(id(tensor))
        yield from self._entries_of(name, tensor, 1)


def _reference(data: object) -> object:
    """What stands for memory in a snapshot: a weak reference to an array (each array has one such object).

    A strong one would keep memory that a tensor no longer has.
    """
    return weakref.ref(data) if isinstance(data, np.ndarray) else data
