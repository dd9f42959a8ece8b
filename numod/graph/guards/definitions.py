"""Properties of classes, functions and attributes that guards depend on, found without running user code."""

from __future__ import annotations

import ctypes
import datetime
import functools
import inspect
import random
import sys
import threading
import types
from typing import Any

import numpy as np

from ..values.kinds import is_library, of_library, package_of
from ..values.source_location import CannotRepeat
from .bytecode import global_names

UNREPEATABLE_MODULES = ("random", "time", "datetime", "secrets", "uuid", "glob")
OS_RANDOM = {"urandom", "getrandom"}  # functions of os
# each use of a method makes a new object
METHODS = (
    types.FunctionType,
    staticmethod,
    classmethod,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
)
_C_DESCRIPTORS = types.MemberDescriptorType, types.GetSetDescriptorType
_DESCRIPTORS = {  # classes of Python's library, and the attributes that hold their functions
    (staticmethod, classmethod): ("__func__",), functools.cached_property: ("func",),
    functools.partialmethod: ("func", "args", "keywords"),
    functools.singledispatchmethod: ("func", "dispatcher"),
}  # fmt: skip
CREATING_METHODS = ("__new__", "__init__", "__post_init__")
IGNORED_METHODS = (
    "__repr__", "__str__", "__del__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__", "__copy__",
    "__deepcopy__", "__init_subclass__", "__class_getitem__",
)  # fmt: skip


def runs_code(descriptor: Any) -> bool:
    """Whether reading the attribute runs code, or makes a method."""
    return isinstance(descriptor, METHODS) or (
        hasattr(type(descriptor), "__get__") and not isinstance(descriptor, _C_DESCRIPTORS)
    )


def functions_of(descriptor: Any) -> list:
    """The functions that a descriptor, such as a property, runs; for others the object itself."""
    if isinstance(descriptor, property):
        return [function for function in (descriptor.fget, descriptor.fset, descriptor.fdel) if function is not None]
    for kind, names in _DESCRIPTORS.items():
        if isinstance(descriptor, kind):
            return [getattr(descriptor, name) for name in names]
    return [descriptor]


def implicit_methods(kind: type | types.ModuleType, creates: bool) -> list[str]:
    """The user's methods that code calls without naming them: for `a[k]`, `with a`.

    Those that create an object are included if the code has the class (`creates`). Modules are created outside.
    """
    if isinstance(kind, types.ModuleType):
        return ["__getattr__"] if has_module_getattr(kind) else []
    names = [
        key
        for holder in user_classes(kind)
        for key, member in vars(holder).items()
        if key.startswith("__") and isinstance(member, METHODS)
    ]
    creates = creates and not hasattr(kind, "register_buffer")
    return [key for key in names if (creates if key in CREATING_METHODS else key not in IGNORED_METHODS)]


def has_module_getattr(holder: type | types.ModuleType) -> bool:
    """Whether it is a module with a function `__getattr__`."""
    return isinstance(holder, types.ModuleType) and "__getattr__" in vars(holder)


def is_autograd_function(kind: type | types.ModuleType) -> bool:
    """Whether it is a subclass of `autograd.Function`. `hasattr` on a module may run its `__getattr__`."""
    return isinstance(kind, type) and hasattr(kind, "setup_context")


def called_names(kind: type, names: set[str]) -> set[str]:
    """These names, and all names in the code of methods and properties of a class that they reach."""
    used, pending = set(), list(names)
    while pending:
        key = pending.pop()
        if key not in used:
            used.add(key)
            method = inspect.getattr_static(kind, key, None)
            method = method.fget if isinstance(method, property) else method
            if isinstance(method, types.FunctionType):
                pending += global_names(inspect.unwrap(method).__code__)
    return used


def class_attribute(kind: type | types.ModuleType, key: str) -> Any:
    """The attribute of a user's class or module as it is stored, or None."""
    return next((vars(holder)[key] for holder in user_classes(kind) if key in vars(holder)), None)


def user_classes(kind: type | types.ModuleType) -> list[type | types.ModuleType]:
    """Where an attribute may be stored: the module, or the class and its bases that are not a library's."""
    return [kind] if isinstance(kind, types.ModuleType) else [base for base in kind.__mro__ if not of_library(base)]


def is_fixed(name: str, value: Any) -> bool:
    """Whether it is a library's module or class, or a C function, under its own name. Nobody replaces these."""
    if issubclass(type(value), types.ModuleType):
        root = value.__name__.partition(".")[0]
        return is_library(root) and root not in {*UNREPEATABLE_MODULES, "numpy", "os"}
    return (
        issubclass(type(value), (types.BuiltinFunctionType, type))
        and of_library(value)
        and value.__name__ == name
        and not is_unrepeatable(value)
    )


def is_unrepeatable(value: Any) -> bool:
    """Whether each call returns a new value, as random numbers and clocks do; or whether it is a class of dates."""
    if value is datetime.datetime or value is datetime.date:
        return True
    generators = vars(np).get("random")
    kinds = (
        types.FunctionType,
        types.MethodType,
        types.BuiltinFunctionType,
        *([type(generators.default_rng)] if generators else []),
    )
    if not issubclass(type(value), kinds):
        return False
    is_known = (
        package_of(value) in UNREPEATABLE_MODULES
        or value.__name__ in OS_RANDOM
        or str(value.__module__).startswith("numpy.random")
    )
    return is_known or isinstance(getattr(value, "__self__", None), random_streams())


def has_hidden_state(kind: type) -> bool:
    """Whether instances keep values outside their attributes and items: per thread, at an address, or in a file."""
    files = sys.modules.get("mmap")
    return issubclass(kind, (threading.local, ctypes._Pointer)) or (files is not None and issubclass(kind, files.mmap))


def random_streams() -> tuple[type, ...]:
    """Classes of random streams.

    NumPy's only once something has imported `numpy.random`: its import takes a tenth of numod's time.
    """
    generators = vars(np).get("random")
    return (random.Random, generators.Generator, generators.RandomState) if generators else (random.Random,)


def unrepeatable(name: str) -> CannotRepeat:
    """The error for something that returns a new value at every use."""
    return CannotRepeat(
        f"compile: {name} returns a new value at every use, which a compiled function cannot repeat; draw with "
        "numod.rand, or pass the value as an argument"
    )
