"""Classifies objects for guards: modules, optimizers, learning rate schedulers, library objects, constants.

Modules and optimizers are recognised by their attributes, since this folder cannot import their classes.
"""

from __future__ import annotations

import enum
import os
import sys
import types
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from ... import dtypes
from ...core.tensor import Tensor
from ...device import Size
from ...device.device import Device

# immutable, and compared by value
_IMMUTABLE_TYPES = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    type(None),
    np.generic,
    dtypes.dtype,
    Device,
    Size,
    slice,
    type(Ellipsis),
)
_DESCRIPTORS = types.GetSetDescriptorType, types.MemberDescriptorType
PACKAGE = __name__.partition(".")[0]
# the folder or archive that contains Python's standard library
_STANDARD_LIBRARY = os.path.dirname(os.path.dirname(os.__file__))
LIBRARIES = {*sys.stdlib_module_names, PACKAGE, "numpy", "numba", "builtins"}


def is_simple(value: Any) -> bool:
    """Whether the value is a number, a string or another constant, or a struct sequence of these (`sys.version_info`).

    Instances of user classes derived from these do not count: they have attributes and methods.
    """
    kind = type(value)
    if kind is slice:
        return is_simple(value.start) and is_simple(value.stop) and is_simple(value.step)
    return _is_simple(kind) or (_is_whole_sequence(kind) and all(map(is_simple, value)))


@lru_cache(maxsize=4096)
def _is_simple(kind: type) -> bool:
    # NumPy's records (np.void) can be written to
    is_constant = issubclass(kind, _IMMUTABLE_TYPES) and not issubclass(kind, np.void)
    return is_constant and (of_library(kind) or issubclass(kind, enum.Enum))


def is_struct_sequence(kind: type) -> bool:
    """Whether it is a tuple class with named fields that is written in C, as that of `sys.version_info`."""
    return kind.__base__ is tuple and isinstance(vars(kind).get("n_sequence_fields"), int)


@lru_cache(maxsize=4096)
def _is_whole_sequence(kind: type) -> bool:
    """Whether it is a struct sequence without fields besides its items, so that == compares everything."""
    return is_struct_sequence(kind) and kind.n_fields == kind.n_sequence_fields and of_library(kind)


def is_plain_key(key: Any) -> bool:
    """Whether the key is a constant, or a tuple of constants."""
    return is_simple(key) or (type(key) is tuple and all(map(is_plain_key, key)))


@lru_cache(maxsize=4096)
def dictionary_of(kind: type) -> Any:
    """The descriptor that reads the `__dict__` of a class's instances, or None."""
    return next(
        (descriptor for base in kind.__mro__ if isinstance(descriptor := vars(base).get("__dict__"), _DESCRIPTORS)),
        None,
    )


def dictionary(value: Any) -> dict | None:
    """An object's `__dict__`, or None."""
    try:
        descriptor = dictionary_of(type(value))
        return None if descriptor is None else descriptor.__get__(value)
    except TypeError:  # the class has other bases now
        dictionary_of.cache_clear()
        descriptor = dictionary_of(type(value))
        return None if descriptor is None else descriptor.__get__(value)


def _has(value: Any, name: str) -> bool:
    """Whether an object or its class has an attribute. It runs no user code."""
    return name in (dictionary(value) or ()) or any(name in vars(base) for base in type(value).__mro__)


def is_module(value: Any) -> bool:
    """Whether the value is an `nn.Module`."""
    return _has(value, "_modules") and _has(value, "_parameters")


def is_compiled(value: Any) -> bool:
    """Whether the value is a compiled function."""
    return _has(value, "versions") and _has(value, "function")


def is_optimizer(value: Any) -> bool:
    """Whether the value is an optimizer."""
    return _has(value, "param_groups") and _has(value, "state")


def parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters of all groups of an optimizer."""
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def step_hooks(optimizer: Any) -> dict[tuple[str, int], Callable]:
    """The hooks before and after an optimizer's steps, by (when, id)."""
    return {
        (when, number): hook
        for when in ("pre", "post")
        for number, hook in getattr(optimizer, f"_optimizer_step_{when}_hooks", {}).items()
    }


def methods_put_into(optimizer: Any) -> dict[str, Any]:
    """The instance attributes of an optimizer that override attributes of its class."""
    return {
        attribute: override
        for attribute, override in getattr(optimizer, "__dict__", {}).items()
        if hasattr(type(optimizer), attribute)
    }


def is_schedule(value: Any) -> bool:
    """Whether the value is a learning rate scheduler."""
    return _has(value, "_last_lr") and _has(value, "optimizer")


def modified_by_steps(schedules: Sequence) -> list[dict]:
    """The dictionaries that scheduler steps modify: attributes of (nested) schedulers, and optimizers' groups."""
    inner = [part for schedule in schedules for part in getattr(schedule, "_schedulers", ())]
    return [
        *map(vars, schedules),
        *(group for schedule in schedules for group in schedule.optimizer.param_groups),
        *(modified_by_steps(inner) if inner else ()),
    ]


def hooks_on(tensor: Tensor) -> list[tuple[int, Callable]]:
    """The hooks of a leaf, by key."""
    return [pair for table in (tensor._hooks, tensor._after_hooks) for pair in (table or {}).items()]


def attributes_of(tensor: Tensor) -> list[tuple[str, Any]]:
    """The attributes that a user has set on a tensor."""
    return [pair for pair in vars(tensor).items() if pair[0][0] != "_"]


def is_plain(tensor: Tensor, leaf: bool) -> bool:
    """Whether a tensor has no hooks that a backward pass would call. With `leaf`, it must also be a leaf."""
    node = tensor.grad_fn
    if node is None:
        hooks = (tensor._hooks, tensor._after_hooks)
    elif node.hooks is None:
        hooks = ()
    else:
        hooks = (*node.hooks.tensor.values(), node.hooks.retain, node.hooks.before, node.hooks.after)
    return (node is None or not leaf) and not any(hooks)


def package_of(definition: Any) -> str:
    """The package that defines a class, function or module."""
    name = getattr(definition, "__module__", None)  # a descriptor for Cython's metaclasses
    return (name if name and isinstance(name, str) else getattr(definition, "__name__", "")).partition(".")[0]


def of_library(definition: Any) -> bool:
    """Whether a class, function or module belongs to a library without state that affects compiled functions."""
    return is_library(package_of(definition))


@cache
def is_library(name: str) -> bool:
    """Whether a package is such a library, and not a user's module with the name of a standard module."""
    file = getattr(sys.modules.get(name), "__file__", None)
    installed_file = file is None or (file.startswith(_STANDARD_LIBRARY) and "-packages" not in file)
    return name in LIBRARIES and (installed_file or name not in sys.stdlib_module_names)


def worded(key: Any) -> str:
    """A dictionary key as text. For tensors this is the class, so that their values are not read."""
    return repr(key) if is_simple(key) else f"a {type(key).__name__}"
