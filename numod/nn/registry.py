"""The dictionaries that store a Module's parameters, buffers and submodules, and a warning about plain lists of them.

A `Registry` copies its entries into the dictionary of the module's fields, so that ordinary attribute lookup finds
`self.weight` without the Python call of `__getattr__`. `vars(module)` does not show these copies.
"""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..errors import warn_caller
from ..core import changes
from ..core.attribute_view import AttributeView

if TYPE_CHECKING:
    from .module import Module

NAMES = ("_parameters", "_buffers", "_modules")
# PyTorch has no such attributes, so `vars(module)` shows them only if there are any
_INTERNAL = ("_state_dict_hooks_in_place", "_load_state_dict_pre_hooks_with_module")


class ModuleBase:
    """The object whose dictionary holds a module's attributes and copies of its registries' entries."""


_descriptor = vars(ModuleBase)["__dict__"]
fields_of = _descriptor.__get__  # the whole dictionary of a module


class ModuleAttributes(AttributeView):
    """The result of `vars(module)`: its attributes, without the copies of its registries' entries."""

    __slots__ = ("module",)

    def __init__(self, module: Module) -> None:
        self.module = module
        super().__init__(fields_of(module))

    def is_hidden(self, name: str, value: object) -> bool:
        if name in _INTERNAL:
            return not value
        return any(value is registry.get(name, self) for registry in _registries(self.fields))

    def __setitem__(self, name: str, value: object) -> None:
        changes.note(name)
        if name in NAMES:
            adopt(self.module, name, value)
        else:
            super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        changes.note(name)
        super().__delitem__(name)
        for registry in _registries(self.fields):  # an attribute hid an entry of this name
            if name in registry:
                self.fields[name] = registry[name]


def _get_attributes(module: Module) -> ModuleAttributes:
    return ModuleAttributes(module)


def _set_attributes(module: Module, values: dict[str, Any]) -> None:
    """Replace a module's dictionary. Two modules share one after `first.__dict__ = second.__dict__`."""
    if isinstance(values, ModuleAttributes):
        _descriptor.__set__(module, values.fields)
        return
    fields = dict(values)
    for registry in _registries(fields):
        for name, value in registry.items():
            fields.setdefault(name, value)
    _descriptor.__set__(module, fields)


visible_attributes = property(_get_attributes, _set_attributes)


def show_visible_attributes(cls: type) -> None:
    """Set `visible_attributes` as the `__dict__` of a module class if a base before Module defines another.

    `setattr` cannot do this, since the class has a `__dict__` of its own.
    """
    first = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))
    if first is not visible_attributes:
        (namespace,) = gc.get_referents(vars(cls))
        namespace["__dict__"] = visible_attributes
        ctypes.pythonapi.PyType_Modified(ctypes.py_object(cls))


def _registries(fields: dict[str, Any]) -> list[dict[str, Any]]:
    return [fields[name] for name in NAMES if name in fields]


class Registry(dict):
    """The parameters, buffers or submodules of one module, by name. Copied or pickled it is a plain dict."""

    __slots__ = ("_module",)

    def __init__(self, module: Module, entries: dict[str, Any] | None = None) -> None:
        self._module = weakref.ref(module)  # weak, so that a module dies with its last user
        self.update(entries or {})

    def _fields(self) -> dict[str, Any]:
        module = self._module()
        return {} if module is None else fields_of(module)

    def __setitem__(self, name: str, value: Any) -> None:
        changes.note()
        fields = self._fields()
        if name not in fields or fields[name] is self.get(name, fields):  # otherwise an attribute hides the entry
            fields[name] = value
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        changes.note()
        value = self[name]
        super().__delitem__(name)
        remove_copy(self._fields(), name, value)

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self:
            return super().pop(name, *default)
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name = next(reversed(self), "")
        return (name, self.pop(name)) if self else super().popitem()

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def update(self, *others: Any, **kwargs: Any) -> None:
        for name, value in dict(*others, **kwargs).items():
            self[name] = value

    def setdefault(self, name: str, default: Any = None) -> Any:
        if name not in self:
            self[name] = default
        return self[name]

    def __ior__(self, other: Any) -> Registry:
        self.update(other)
        return self

    def __reduce_ex__(self, protocol: int) -> tuple:
        return dict, (dict(self),)


def remove_copy(fields: dict[str, Any], name: str, value: Any) -> None:
    """Remove the copy of a registry's entry from `fields`, unless an attribute has replaced it."""
    if name in fields and fields[name] is value:
        del fields[name]


def adopt(module: Module, registry_name: str, entries: dict[str, Any]) -> None:
    """Make `entries` the module's registry of that name, replacing an existing one."""
    fields = fields_of(module)
    for name, value in fields.get(registry_name, {}).items():
        remove_copy(fields, name, value)
    fields[registry_name] = Registry(module, entries)


# ---- modules in plain containers -------------------------------------------------------------------------------------

# number of entries of a container that are checked, so that assigning a long list stays cheap
_CHECKED_ENTRIES = 8
_warned: set[tuple[type, str]] = set()
_empty_containers: dict[tuple[type, str], weakref.ref] = {}


def notice_container(module: Module, name: str, value: list | dict, parts: tuple[type, ...]) -> None:
    """Warn, once per class and attribute, about modules or parameters in a plain list or dict.

    Empty containers are checked again later.
    """
    class_and_name = type(module), name
    if class_and_name in _warned:
        return
    if not value:
        _empty_containers[class_and_name] = weakref.ref(module)
    part = _first_part(value, parts)
    if part is not None and not _registered(module, part):
        _warned.add(class_and_name)
        _warn(class_and_name, value, part)


def notice_filled_containers(parts: tuple[type, ...]) -> None:
    """Check again the containers that were empty when assigned: `self.layers = []`, then `append`."""
    while _empty_containers:
        try:
            (_, name), reference = _empty_containers.popitem()
        except KeyError:  # another thread removed the last one
            return
        module = reference()
        value = None if module is None else fields_of(module).get(name)
        if type(value) in (list, dict) and value:
            notice_container(module, name, value, parts)


def _first_part(value: list | dict, parts: tuple[type, ...]) -> Any:
    values: Iterable = value.values() if isinstance(value, dict) else value
    return next((entry for entry in islice(values, _CHECKED_ENTRIES) if isinstance(entry, parts)), None)


def _registered(module: Module, part: Any) -> bool:
    """Whether `part` is registered somewhere in the module's tree."""
    return any(
        part is module_ or any(part is parameter for parameter in module_._parameters.values())
        for module_ in module.modules()
    )


def _warn(class_and_name: tuple[type, str], value: list | dict, part: Any) -> None:
    owner, name = class_and_name
    container, part_name = type(value).__name__, type(part).__name__
    replacement = ("Parameter" if part_name == "Parameter" else "Module") + ("List" if container == "list" else "Dict")
    warn_caller(
        f"{owner.__name__}.{name} is a {container} holding a {part_name}: its contents are not registered, so "
        "parameters(), to() and "
        f"state_dict() will not see it. Use nn.{replacement}, or a tuple to keep it unregistered."
    )
