"""Visits of objects, by their class: each adds guards for the contents that the code may use.

`visit_contents` is called by `GuardBuilder.visit` for an object that is known to be the same one.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import gc
import logging
import operator
import os
import types
import weakref
from abc import ABCMeta
from collections import ChainMap, UserDict, UserList, deque
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from typing import TYPE_CHECKING, Any

from ...core.tensor import Tensor
from ..values import objects, pytree
from ..values.kinds import (
    PACKAGE,
    attributes_of,
    is_compiled,
    is_library,
    is_module,
    is_optimizer,
    is_schedule,
    is_simple,
    methods_put_into,
    of_library,
    package_of,
    parameters_of,
    step_hooks,
)
from ..values.source_location import CannotRepeat
from .attributes import OPTIMIZER_ATTRIBUTES, REGISTRIES, guard_namespaces, visit_attributes
from .bytecode import OPTIONAL_ACCESS
from .containers import BUFFERS, guard_buffer, guard_members, visit_container
from .definition_names import visit_names
from .definitions import OS_RANDOM, UNREPEATABLE_MODULES, called_names, unrepeatable
from .guard import Guard, entry, sized
from .library_state import visit_definition, visit_finalizer, visit_log_manager, visit_members, visit_value

if TYPE_CHECKING:
    from .build import GuardBuilder

_NOTED_ATTRIBUTE = "_non_persistent_buffers_set"  # changes only when the buffers do
_WRAPPERS = {  # containers written in Python, and the attribute that holds their contents
    **dict.fromkeys((UserDict, UserList, weakref.WeakValueDictionary, weakref.WeakKeyDictionary, weakref.WeakSet),
        "data"), ChainMap: "maps",
}  # fmt: skip
_VIEWS = (types.MappingProxyType, KeysView, ValuesView, ItemsView)


def visit_contents(builder: GuardBuilder, name: str, value: Any) -> None:
    """Add guards for the contents of an object."""
    kind = type(value)
    for kinds, visit in _VISITS:
        if issubclass(kind, kinds):
            visit(builder, name, value)
            return
    _visit_other(builder, name, value)


def _visit_tensor(builder: GuardBuilder, name: str, value: Tensor) -> None:
    """Visit the hooks of a tensor, the attributes that the user has added, and those of a user's subclass."""
    _visit_hooks(builder, name, value)
    if not of_library(type(value)):
        visit_attributes(builder, name, value, type(value))
    for key, attribute in attributes_of(value):
        if key in builder.mentioned or builder.any_name:
            builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)


def _visit_routine(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit a Python function or method. For one of a library, guard its namespace and visit its object."""
    if value is os.getenv:
        builder.visit("os.environ", os.environ)
    if not of_library(value):
        builder.visit_function(value, f"{name}: ")
    else:
        guard_namespaces(builder, value)
        visit_definition(builder, name, value)
        builder.visit(f"{name}.__self__", getattr(value, "__self__", None))


def _visit_partial(builder: GuardBuilder, name: str, value: functools.partial) -> None:
    """Visit a partial function."""
    builder.visit_function(value, f"{name}: ")


def _visit_wrapper(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit a container written in Python, such as UserDict."""
    kind = type(value)
    key = next(_WRAPPERS[base] for base in kind.__mro__ if base in _WRAPPERS)
    builder.guard_value(f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), objects.read_attribute(value, key))
    visit_attributes(builder, name, value, kind)


def _visit_view(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit the container that a view, such as `keys()`, refers to."""
    if not of_library(type(value)):
        _visit_other(builder, name, value)
        return
    for referent in gc.get_referents(value):
        builder.visit(name, referent)


def _visit_context_variable(builder: GuardBuilder, name: str, value: contextvars.ContextVar) -> None:
    """Guard the value of a context variable."""
    builder.guard_value(name, "{0}.get({1})", (value, None), value.get(None))


def _read_getter(builder: GuardBuilder, name: str, value: Any) -> None:
    """Note the names in an `attrgetter` or `methodcaller`."""
    paths = (path for path in value.__reduce__()[1] if isinstance(path, str))
    for path in paths:
        builder.mentioned.update(path.split("."))
        builder.loads.update(("", part) for part in path.split("."))


def _visit_class(builder: GuardBuilder, name: str, value: type) -> None:
    """Visit the attributes of a class, and of a user's metaclass."""
    builder.abstract |= issubclass(type(value), ABCMeta)
    visit_attributes(builder, name, value, value)
    if issubclass(value, enum.Enum) and not of_library(value):  # code finds members by values
        for key, member in value._member_map_.items():
            builder.visit(f"{name}.{key}", member)
    if not of_library(type(value)):
        visit_attributes(builder, name, value, type(value))


def _visit_builtin(builder: GuardBuilder, name: str, value: types.BuiltinFunctionType) -> None:
    """Visit the object that a method written in C is bound to."""
    builder.any_name |= value.__name__ in OPTIONAL_ACCESS  # getattr under another name
    visit_definition(builder, name, value)
    builder.visit(f"{name}.__self__", None if isinstance(value.__self__, types.ModuleType) else value.__self__)


def _visit_optimizer(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit the parameters and hooks of an optimizer. Its guards are added at the end of the round."""
    builder.optimizers.append((name, value))
    for parameter in parameters_of(value):
        builder.visit(f"{name}'s parameter", parameter)
    for hook in [*step_hooks(value).values(), *methods_put_into(value).values()]:
        builder.visit(f"{name}'s hooks", hook)
    _visit_object(builder, name, value)


def _visit_other(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit an object whose class is not in `_VISITS`."""
    kind = type(value)
    if is_compiled(value):
        builder.visit_function(value.function, f"{name}: ")
    elif value is os.environ:
        builder.guards.append(Guard(name, "dict({0}) == {1}", (value, dict(value))))
    elif is_schedule(value):
        builder.schedules.append((name, value))
    elif is_optimizer(value):
        _visit_optimizer(builder, name, value)
    elif hasattr(kind, "__next__"):
        raise unrepeatable(name)
    elif issubclass(kind, type):
        _visit_class(builder, name, value)
    elif issubclass(kind, types.BuiltinFunctionType):
        _visit_builtin(builder, name, value)
    elif issubclass(kind, types.MethodWrapperType):
        builder.visit(f"{name}.__self__", value.__self__)
    else:
        _visit_object(builder, name, value)


def _visit_cache(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit a function with a cache of results (functools.cache)."""
    if "cache_info" in builder.mentioned:
        raise CannotRepeat(f"compile: {name} counts its calls (cache_info), which a compiled function does not repeat")
    tables = [
        referent for referent in gc.get_referents(value) if type(referent) is dict and referent is not vars(value)
    ]
    if any(
        isinstance(part, Tensor)
        for table in tables
        for key in table
        for part in (key if isinstance(key, (tuple, list)) else [key])
    ):
        raise CannotRepeat(
            f"compile: {name} caches results by the identity of tensors (functools.cache), and the next call has "
            "other tensors"
        )
    # after cache_clear() the count is 0
    builder.guards.append(
        Guard(f"the cached results of {name}", "{0}.cache_info().misses >= {1}", (value, value.cache_info().misses))
    )
    builder.visit_function(value.__wrapped__, f"{name}: ")
    for key in sorted(builder.mentioned & vars(value).keys()):
        builder.guard_value(f"{name}.{key}", f"attribute({{0}}, {key!r})", (value,), vars(value)[key])


def _visit_namespace(builder: GuardBuilder, name: str, module: types.ModuleType) -> None:
    """Visit the names of an imported module that the code mentions."""
    root = module.__name__.partition(".")[0]
    members = [vars(module)[key] for key in builder.mentioned & vars(module).keys()]
    members += [
        vars(member)[key]
        for member in members
        if isinstance(member, types.ModuleType)
        for key in builder.mentioned & vars(member).keys()
    ]
    builder.abstract |= any(isinstance(member, ABCMeta) for member in members)
    if root in UNREPEATABLE_MODULES or (
        root == "numpy" and ("random" in builder.mentioned or module.__name__.startswith("numpy.random"))
    ):
        raise unrepeatable(module.__name__)
    if module is os and not builder.mentioned.isdisjoint(OS_RANDOM):
        raise unrepeatable(module.__name__)
    if module is os and builder.mentioned & {"environ", "getenv"}:
        builder.visit("os.environ", os.environ)
    if root != PACKAGE and is_library(root):
        visit_members(builder, module)
    if not is_library(root):
        visit_attributes(builder, name, module, module)
        visit_names(builder, name, module)
    elif root == PACKAGE:
        for key in sorted(builder.mentioned & vars(module).keys()):
            member = vars(module)[key]
            if isinstance(member, types.ModuleType):
                builder.visit(f"{name}.{key}", member)
            elif isinstance(member, (types.FunctionType, type)):  # a user may replace it
                builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (module,), member)


def _visit_hooks(builder: GuardBuilder, name: str, tensor: Tensor) -> None:
    """Visit the hooks of a tensor. Adding the first hook counts as a change, and needs no guard."""
    for table in (tensor._hooks, tensor._after_hooks):
        if table is not None:
            visit_container(builder, f"{name}'s hooks", table)


def _visit_weak_reference(builder: GuardBuilder, name: str, value: weakref.ref) -> None:
    """Guard whether the referent of a weak reference still exists. Guards do not keep it alive."""
    referent = value()
    if isinstance(referent, Tensor):
        raise CannotRepeat(
            f"compile: {name} is a weak reference to a tensor, which code may compare with arguments; pass the "
            "tensor as an argument"
        )
    builder.guards.append(
        Guard(name, f"{{1}}({{0}}) is {'not ' if referent is not None else ''}None", (value, weakref.ref.__call__))
    )
    builder.visit_weakly(name, referent)


def _visit_object(builder: GuardBuilder, name: str, value: Any) -> None:
    """Visit the parts of a module whose changes are not counted, or the attributes of a plain object."""
    if is_module(value):
        builder.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, type(value))))
        excluded = {key for holder, key in builder.excluded if holder == id(value)}
        # with excluded places the guard reads each attribute, and this library's classes count their changes
        if not (excluded and of_library(type(value))):
            builder.guards.append(sized(f"the attributes of {name}", value, excluded))
        for key, attribute in list(objects.dictionary(value).items()):
            if key in REGISTRIES:
                for entry_name, registered in list(attribute.items()):
                    builder.visit(f"{name}.{entry_name}", registered)
            elif key in ("_forward_hooks", "_forward_pre_hooks"):
                for hook in attribute.values():
                    builder.visit(f"{name}.{key}", hook)
            elif "_hooks" not in key and key != _NOTED_ATTRIBUTE:
                if (
                    pytree.is_structure(attribute)
                    and not of_library(type(attribute))
                    and (id(value), key) not in builder.excluded
                ):
                    builder.guards.append(entry(name, value, key))
                builder.visit(f"{name}.{key}", attribute)
    elif package_of(type(value)) == PACKAGE:
        _visit_library_object(builder, name, value)
    else:
        visit_value(builder, name, value)
    visit_attributes(builder, name, value, type(value))


def _visit_library_object(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard numbers and tensors of an object of this library, such as a loss scale, and containers.

    Numbers and tensors are those that methods use which the code mentions, containers those that it mentions.
    """
    operators = {"__len__", "__iter__", "__getitem__"}
    used = called_names(type(value), builder.mentioned | operators)
    for key, attribute in objects.attributes(value).items():
        if (key in used and (issubclass(type(attribute), Tensor) or is_simple(attribute))) or (
            key in used - OPTIMIZER_ATTRIBUTES and isinstance(attribute, (list, dict))
        ):
            builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), attribute)


def _visit_with_attributes(visit_kind: Callable) -> Callable:
    """A visit of an object's contents by a function of (builder, name, value), and then of its attributes."""

    def visit(builder: GuardBuilder, name: str, value: Any) -> None:
        visit_kind(builder, name, value)
        visit_attributes(builder, name, value, type(value))

    return visit


# classes, and how their instances are visited; the first entry that matches is used
_VISITS: tuple[tuple[type | tuple[type, ...], Callable[[GuardBuilder, str, Any], None]], ...] = (
    (Tensor, _visit_tensor),
    (types.ModuleType, _visit_namespace),
    ((types.FunctionType, types.MethodType), _visit_routine),
    (functools.partial, _visit_partial),
    ((list, tuple, dict, deque), _visit_with_attributes(visit_container)),
    (tuple(_WRAPPERS), _visit_wrapper),
    (_VIEWS, _visit_view),
    (functools._lru_cache_wrapper, _visit_cache),
    (weakref.ref, _visit_weak_reference),
    (weakref.finalize, visit_finalizer),
    (logging.Manager, visit_log_manager),
    (contextvars.ContextVar, _visit_context_variable),
    ((operator.attrgetter, operator.methodcaller), _read_getter),
    ((set, frozenset), _visit_with_attributes(guard_members)),
    (BUFFERS, _visit_with_attributes(guard_buffer)),
)
