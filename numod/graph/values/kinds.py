"""What guards need to know of an object: whether it is a module, an optimizer, a schedule or a library's, and what lies
in it.

Modules and optimizers are known by their attributes, since this folder cannot import their classes, which are above it.
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
_SIMPLE = (
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
_KEPT_BY_C = types.GetSetDescriptorType, types.MemberDescriptorType
PACKAGE = __name__.partition(".")[0]
# where the folder, or the archive, of Python's own modules lies
_PYTHON = os.path.dirname(os.path.dirname(os.__file__))
LIBRARIES = {*sys.stdlib_module_names, PACKAGE, "numpy", "numba", "builtins"}


def is_simple(value: Any) -> bool:
    """Whether it is a number, a text or another constant: nothing but its value.

    An instance of a user's class derived from one has attributes and methods.
    """
    kind = type(value)
    return _is_simple(kind) and (
        kind is not slice or (is_simple(value.start) and is_simple(value.stop) and is_simple(value.step))
    )


@lru_cache(maxsize=4096)
def _is_simple(kind: type) -> bool:
    return issubclass(kind, _SIMPLE) and (of_library(kind) or issubclass(kind, enum.Enum))


def is_plain_key(key: Any) -> bool:
    """Whether it is a constant, or a tuple of these."""
    return is_simple(key) or (type(key) is tuple and all(map(is_plain_key, key)))


@lru_cache(maxsize=4096)
def dictionary_of(kind: type) -> Any:
    """What gives the dictionary of a class's instances."""
    return next((found for each in kind.__mro__ if isinstance(found := vars(each).get("__dict__"), _KEPT_BY_C)), None)


def dictionary(value: Any) -> dict | None:
    """The dictionary that an object's attributes are in."""
    found = dictionary_of(type(value))
    return None if found is None else found.__get__(value)


def _has(value: Any, name: str) -> bool:
    """Whether an object has an attribute of its own or of its class. A user's code is not asked."""
    return name in (dictionary(value) or ()) or any(name in vars(each) for each in type(value).__mro__)


def is_module(value: Any) -> bool:
    """Whether it is a module of layers."""
    return _has(value, "_modules") and _has(value, "_parameters")


def is_compiled(value: Any) -> bool:
    """Whether it is a compiled function."""
    return _has(value, "versions") and _has(value, "function")


def is_optimizer(value: Any) -> bool:
    """Whether it is an optimizer."""
    return _has(value, "param_groups") and _has(value, "state")


def parameters_of(optimizer: Any) -> list[Tensor]:
    """The parameters of all groups."""
    return [each for group in optimizer.param_groups for each in group["params"]]


def step_hooks(optimizer: Any) -> dict[tuple[str, int], Callable]:
    """The hooks around an optimizer's steps."""
    return {
        (when, number): hook
        for when in ("pre", "post")
        for number, hook in getattr(optimizer, f"_optimizer_step_{when}_hooks", {}).items()
    }


def methods_put_into(optimizer: Any) -> dict[str, Any]:
    """What an optimizer has been given in the stead of its class's methods."""
    return {key: each for key, each in getattr(optimizer, "__dict__", {}).items() if hasattr(type(optimizer), key)}


def is_schedule(value: Any) -> bool:
    """Whether it is a schedule of an optimizer's rates."""
    return _has(value, "_last_lr") and _has(value, "optimizer")


def counts_of(schedules: Sequence) -> list[dict]:
    """The dictionaries with the numbers that steps of schedules change: their attributes, those of schedules in them,
    and optimizers' groups.
    """
    inner = [part for schedule in schedules for part in getattr(schedule, "_schedulers", ())]
    return [
        *map(vars, schedules),
        *(group for schedule in schedules for group in schedule.optimizer.param_groups),
        *(counts_of(inner) if inner else ()),
    ]


def hooks_on(tensor: Tensor) -> list[tuple[int, Callable]]:
    """The hooks of a leaf, with their keys."""
    return [pair for table in (tensor._hooks, tensor._after_hooks) for pair in (table or {}).items()]


def attributes_of(tensor: Tensor) -> list[tuple[str, Any]]:
    """The attributes that a user has given a tensor."""
    return [pair for pair in vars(tensor).items() if pair[0][0] != "_"]


def is_plain(tensor: Tensor, leaf: bool) -> bool:
    """Whether a backward pass that reaches the tensor calls no hooks of it, and, if it is to be a `leaf`, ends
    there.
    """
    node = tensor.grad_fn
    hooks = (
        (tensor._hooks, tensor._after_hooks)
        if node is None
        else ()
        if node.hooks is None
        else (*node.hooks.tensor.values(), node.hooks.retain, node.hooks.before, node.hooks.after)
    )
    return (node is None or not leaf) and not any(hooks)


def package_of(thing: Any) -> str:
    """The package that a thing is from."""
    name = getattr(thing, "__module__", None)  # Cython's metaclasses have a descriptor there
    return (name if name and isinstance(name, str) else getattr(thing, "__name__", "")).partition(".")[0]


def of_library(thing: Any) -> bool:
    """Whether it is part of a library whose code holds no state that a function could see change."""
    return is_library(package_of(thing))


@cache
def is_library(name: str) -> bool:
    """Whether a package is such a library, and not a module of the user's that has the name of one."""
    file = getattr(sys.modules.get(name), "__file__", None)
    own = file is None or (file.startswith(_PYTHON) and "-packages" not in file)
    return name in LIBRARIES and (own or name not in sys.stdlib_module_names)


def worded(key: Any) -> str:
    """A key of a dictionary, as it is told. Tensors can be keys, whose values nobody shall read."""
    return repr(key) if is_simple(key) else f"a {type(key).__name__}"
