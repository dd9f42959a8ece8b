"""Guards of attributes: in objects, in their classes and bases, and in modules of Python."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
import types
from typing import TYPE_CHECKING, Any

from ..values import objects
from ..values.kinds import PACKAGE, is_compiled, is_module, is_optimizer, of_library, package_of
from .definition_names import visit_names
from .definitions import (
    METHODS,
    called_names,
    class_attribute,
    functions_of,
    has_module_getattr,
    implicit_methods,
    is_autograd_function,
    is_fixed,
    runs_code,
    user_classes,
)
from .guard import Guard, entry, unwritten
from .library_state import library_fields, reads_all_fields, visit_class_fields, visit_library_slots

if TYPE_CHECKING:
    from .build import GuardBuilder

REGISTRIES = ("_parameters", "_buffers", "_modules")
OPTIMIZER_ATTRIBUTES = {"param_groups", "state"}  # guarded by `optimizers`
_FORMULA_MODULES = tuple(f"{PACKAGE}.{name}" for name in ("distributions", "fft", "linalg", "nn", "special"))
_AUTOGRAD_METHODS = ("backward", "vjp", "jvp", "setup_context")  # of autograd.Function, which `apply` calls


def visit_attributes(builder: GuardBuilder, name: str, value: Any, kind: type | types.ModuleType) -> None:
    """Guard the attributes that the code mentions, and visit the code of methods.

    For an object of a library, guard the contents of its dictionary.
    """
    if not is_module(value) and value is not kind:
        guard_dictionary(builder, name, value)
    if isinstance(kind, type):
        guard_library_class(builder, name, kind)
        if value is not kind:
            visit_class_fields(builder, name, kind)
            visit_library_slots(builder, name, value)
    if of_library(kind):
        return
    if not is_module(value) and value is not kind:
        builder.guards.append(Guard(f"the class of {name}", "type({0}) is {1}", (value, kind)))
    if isinstance(kind, type) and (id(kind), "__name__") not in builder.seen:
        builder.seen.add((id(kind), "__name__"))
        visit_names(builder, f"the class of {name}", kind)
    for holder in user_classes(kind):
        guard_absence(builder, name, holder)
    visited, present = set(), {} if value is kind else objects.attributes(value)
    implicit = {
        "forward",
        *implicit_methods(kind, value is kind),
        *overriding_methods(builder, kind),
        *(_AUTOGRAD_METHODS if is_autograd_function(kind) else ()),
    }
    while new := [
        key
        for key in builder.mentioned | implicit
        if key not in visited and (not key.startswith("__") or key in implicit)
    ]:
        visited.update(new)
        for key in sorted(new):
            visit_attribute(builder, name, value, kind, key, present)
    if isinstance(kind, type):
        guard_inherited(builder, kind, {*visited, "__call__"})
        builder.guards.append(Guard(f"the bases of {kind.__name__}", "{0}.__mro__ is {1}", (kind, kind.__mro__)))


def overriding_methods(builder: GuardBuilder, kind: type | types.ModuleType) -> set[str]:
    """The methods and properties of a user class that override those of this library, and that it calls."""
    if kind not in builder.overrides:
        library = [base for base in kind.__mro__ if package_of(base) == PACKAGE] if isinstance(kind, type) else []
        keys = {key for holder in user_classes(kind) for key in vars(holder)} if library else set()
        keys = {key for key in keys if any(key in vars(base) for base in library)}
        builder.overrides[kind] = keys & called_names(kind, builder.mentioned | {"forward", "step"}) if keys else keys
    return builder.overrides[kind]


def guard_inherited(builder: GuardBuilder, kind: type, names: set[str]) -> None:
    """Guard that no user class gets a method that hides an inherited one."""
    methods = {
        key
        for key in names
        if isinstance(inspect.getattr_static(kind, key, None), (*METHODS, property, functools.cached_property))
    }
    for holder in user_classes(kind):
        methods -= vars(holder).keys()
        if methods and (id(holder), *sorted(methods)) not in builder.seen:
            builder.seen.add((id(holder), *sorted(methods)))
            builder.guards.append(
                Guard(
                    f"a method of {holder.__name__}",
                    "{0}.keys().isdisjoint({1})",
                    (vars(holder), frozenset(methods)),
                )
            )


def _unwritten_namespace(space: dict) -> Guard:
    """A guard that a module's namespace is unchanged. The first warning at one of its lines would add this key."""
    space.setdefault("__warningregistry__", {})
    return unwritten(space["__name__"], space)


def guard_namespaces(builder: GuardBuilder, definition: Any) -> None:
    """Guard the namespaces of functions of this library that call other ones: a function's, or those of a class."""
    functions = vars(definition).values() if isinstance(definition, type) else [definition]
    for function in functions:
        if not isinstance(function, types.FunctionType):
            continue
        space = getattr(inspect.unwrap(function), "__globals__", {"__name__": ""})  # some wrap functions in C
        if space["__name__"].startswith(_FORMULA_MODULES) and (id(space), None) not in builder.seen:
            builder.seen.add((id(space), None))
            builder.guards.append(_unwritten_namespace(space))


def guard_library_class(builder: GuardBuilder, name: str, kind: Any) -> None:
    """Guard that a class of this library, or the base of a user class, is not changed.

    Visits functions that the user has put among its methods.
    """
    bases = kind.__mro__ if isinstance(kind, type) else ()
    base = next((base for base in bases if package_of(base) == PACKAGE), None)
    if base is None or (id(base), None) in builder.seen:
        return
    builder.seen.add((id(base), None))
    builder.guards.append(unwritten(f"the class {base.__name__}", base))
    guard_namespaces(builder, base)
    user_functions = [
        (key, function)
        for holder in base.__mro__[:-1]
        for key, function in vars(holder).items()
        if isinstance(function, types.FunctionType) and not of_library(function)
    ]
    if user_functions:
        used = called_names(base, builder.mentioned | {"forward", "__call__"})
        for key, function in user_functions:
            if key in used:
                builder.visit(f"{name}.{key}", function)
    functional = vars(sys.modules[f"{PACKAGE}.nn.functional"])  # layers call its functions
    if hasattr(base, "register_buffer") and (id(functional), None) not in builder.seen:
        builder.seen.add((id(functional), None))
        builder.guards.append(_unwritten_namespace(functional))


def guard_dictionary(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the dictionary of a plain object: the values that the code may use, and names that it must not have.

    These are all values if the code computes names. For an object of a library they are the values that the code
    mentions, and those that methods use which it calls.
    """
    fields, present = objects.dictionary(value), objects.attributes(value)
    for key in sorted(key for key in builder.optional & objects.slots_of(type(value)).keys() if key not in present):
        builder.guards.append(Guard(f"{name}.{key}", f"lacks({{0}}, {key!r})", (value,)))
    if fields is None or package_of(type(value)) == PACKAGE or is_optimizer(value):
        return
    if issubclass(type(value), logging.Handler):  # output is not repeated
        return
    used = library_fields(builder, type(value), fields)
    used |= builder.mentioned & fields.keys() if of_library(type(value)) else set()
    for key in sorted(fields if builder.any_name else used):
        if (
            not key.startswith("__")
            and (id(value), objects.place_of(value, key)) not in builder.excluded
            and not is_fixed(key, fields[key])
        ):
            guard = (
                builder.guard_value
                if key in builder.mentioned
                else builder.guard_inside
                if key in used
                else builder.guard_unless_refused
            )
            guard(f"{name}.{key}", f"fields_of[type({{0}})]({{0}})[{key!r}]", (value,), fields[key])
    if reads_all_fields(builder, type(value)) or (builder.any_name and not of_library(type(value))):
        builder.guards.append(
            Guard(f"the attributes of {name}", "fields_of[type({0})]({0}).keys() == {1}", (value, frozenset(fields)))
        )
    # __getattr__ returns attributes that are absent
    optional = builder.mentioned | builder.optional if class_attribute(type(value), "__getattr__") else builder.optional
    missing = frozenset(key for key in optional if key not in fields and class_attribute(type(value), key) is None)
    if missing:
        builder.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint(dictionary({0}))", (value, missing)))


def guard_absence(builder: GuardBuilder, name: str, holder: type | types.ModuleType) -> None:
    """Guard that a user's class or module has no attribute that the code would use if it existed."""
    names = builder.mentioned | builder.optional if has_module_getattr(holder) else builder.optional
    missing = frozenset(names - vars(holder).keys())
    if missing and (id(holder), None) not in builder.seen:
        builder.seen.add((id(holder), None))
        builder.guards.append(Guard(f"an attribute of {name}", "{1}.isdisjoint({0}.__dict__)", (holder, missing)))


def visit_attribute(
    builder: GuardBuilder, name: str, value: Any, kind: type | types.ModuleType, key: str, present: dict[str, Any]
) -> None:
    """Guard an attribute: its value in the object (`present`) or its class, and the code of a descriptor.

    It runs no user code.
    """
    descriptor = class_attribute(kind, key)
    if is_compiled(descriptor):
        builder.visit(f"{name}.{key}", descriptor)
        return
    if runs_code(descriptor) and (is_module(value) or key not in present or hasattr(type(descriptor), "__set__")):
        visit_descriptor(builder, name, value, kind, key, descriptor)
    is_guarded = is_module(value) and any(key in objects.dictionary(value)[registry] for registry in REGISTRIES)
    if is_guarded and present.get(key) is not None and (id(value), key) not in builder.excluded:
        builder.guards.append(entry(name, value, key))
    is_guarded = is_guarded or (is_optimizer(value) and key in OPTIMIZER_ATTRIBUTES)
    if key in present:
        is_excluded = (id(value), objects.place_of(value, key)) in builder.excluded
        if not (is_guarded or is_excluded or is_fixed(key, present[key])):
            text = f"{{0}}.{key}" if objects.reads_plainly(type(value), key) else f"attribute({{0}}, {key!r})"
            builder.guard_value(f"{name}.{key}", text, (value,), present[key])
    elif (
        not (is_guarded or runs_code(descriptor))
        and any(key in vars(holder) for holder in user_classes(kind))
        and not is_fixed(key, descriptor)
    ):
        if not isinstance(descriptor, types.MemberDescriptorType):
            visit_class_attribute(builder, name, value, kind, key, descriptor)


def visit_class_attribute(
    builder: GuardBuilder, name: str, value: Any, kind: type | types.ModuleType, key: str, inherited: Any
) -> None:
    """Guard an attribute that an object has from its class."""
    if (id(value), objects.place_of(value, key)) in builder.excluded:
        return
    if objects.reads_plainly(type(value), key) and key.isidentifier():
        builder.guard_value(f"{name}.{key}", f"{{0}}.{key}", (value,), inherited)
        return
    guard_definition(builder, name, kind, key)
    guard_not_in_dictionary(builder, name, value, kind, key)
    builder.visit(f"{name}.{key}", inherited)


def visit_descriptor(
    builder: GuardBuilder, name: str, value: Any, kind: type | types.ModuleType, key: str, descriptor: Any
) -> None:
    """Visit the code that runs when an attribute is read or called."""
    guard_definition(builder, name, kind, key)
    guard_not_in_dictionary(builder, name, value, kind, key)
    for code in functions_of(descriptor):
        builder.visit(f"{name}.{key}", code)
    if "super" in builder.mentioned:
        visit_overridden(builder, name, kind, key)


def guard_not_in_dictionary(
    builder: GuardBuilder, name: str, value: Any, kind: type | types.ModuleType, key: str
) -> None:
    """Guard that an object has no attribute of its own that hides the one of its class."""
    if (
        not is_module(value)
        and value is not kind
        and objects.dictionary(value) is not None
        and key not in objects.dictionary(value)
    ):
        builder.guards.append(Guard(f"{name}.{key}", f"{key!r} not in dictionary({{0}})", (value,)))


def visit_overridden(builder: GuardBuilder, name: str, kind: type | types.ModuleType, key: str) -> None:
    """Visit the methods of this name in further user classes, which `super()` finds."""
    for holder in [holder for holder in user_classes(kind) if key in vars(holder)][1:]:
        guard_definition(builder, f"{name}: {holder.__name__}", holder, key)
        for code in functions_of(vars(holder)[key]):
            builder.visit(f"{name}: {holder.__name__}.{key}", code)


def guard_definition(builder: GuardBuilder, name: str, kind: type | types.ModuleType, key: str) -> None:
    """Guard that a user's class or module still has the function of this name."""
    holder = next(holder for holder in user_classes(kind) if key in vars(holder))
    if (id(holder), key) not in builder.seen:
        builder.seen.add((id(holder), key))
        namespace = vars(holder)  # faster than reading `__dict__` of a class, which makes a new proxy
        builder.guards.append(Guard(f"{name}.{key}", f"{{0}}[{key!r}] is {{1}}", (namespace, namespace[key])))
