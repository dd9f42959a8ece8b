"""The dictionaries in which a Module keeps its parameters, buffers and submodules, and the warning about plain lists
and dicts of them.

A `Registry` is a dictionary that mirrors its entries in the module's `__dict__`, so that `self.weight` is found by
ordinary, fast attribute lookup. The registry is authoritative; the `__dict__` entry is only a cache.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from ..core import changes

if TYPE_CHECKING:
    from .module import Module

NAMES = ("_parameters", "_buffers", "_modules")


class Registry(dict):
    """The parameters, buffers or submodules of one module, by name. Copied or pickled it is a plain dict."""

    __slots__ = ("_module",)

    def __init__(self, module: Module, entries: dict[str, Any] | None = None) -> None:
        self._module = weakref.ref(module)  # weak, so that a module dies with its last user
        self.update(entries or {})

    def _shown_in(self) -> dict[str, Any]:
        module = self._module()
        return {} if module is None else module.__dict__

    def __setitem__(self, name: str, value: Any) -> None:
        changes.note()
        super().__setitem__(name, value)
        self._shown_in()[name] = value

    def __delitem__(self, name: str) -> None:
        changes.note()
        value = self[name]
        super().__delitem__(name)
        hide(self._shown_in(), name, value)

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self:
            return super().pop(name, *default)
        value = self[name]
        del self[name]
        return value

    def popitem(self) -> tuple[str, Any]:
        name, value = super().popitem()
        hide(self._shown_in(), name, value)
        return name, value

    def clear(self) -> None:
        for name in list(self):
            del self[name]

    def update(self, *others: Any, **named: Any) -> None:
        for name, value in dict(*others, **named).items():
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


def hide(attributes: dict[str, Any], name: str, value: Any) -> None:
    """Remove the cached `value` from `__dict__`, unless the user has replaced it."""
    if name in attributes and attributes[name] is value:
        del attributes[name]


def adopt(module: Module, registry_name: str, entries: dict[str, Any]) -> None:
    """Make `entries` the module's registry of that name, replacing an existing one."""
    attributes = module.__dict__
    for name, value in attributes.get(registry_name, {}).items():
        hide(attributes, name, value)
    attributes[registry_name] = Registry(module, entries)


# ---- modules in plain containers
# ---------------------------------------------------------------------------------------

# entries of a list that are looked at: lists of modules start with modules, and assigning a long list stays cheap
_LOOK_AT = 8
_told: set[tuple[type, str]] = set()
_empty: dict[tuple[type, str], weakref.ref] = {}


def notice_container(module: Module, name: str, value: list | dict, parts: tuple[type, ...]) -> None:
    """Warn, once per class and attribute, of modules or parameters in a plain list or dict; remember empty containers
    for later.
    """
    place = type(module), name
    if place in _told:
        return
    if not value:
        _empty[place] = weakref.ref(module)
    part = _first_part(value, parts)
    if part is not None and not _registered(module, part):
        _told.add(place)
        _warn(place, value, part)


def notice_filled_containers(parts: tuple[type, ...]) -> None:
    """Check again the containers that were empty when assigned: `self.layers = []`, then `append`."""
    while _empty:
        try:
            (_, name), reference = _empty.popitem()
        except KeyError:  # another thread had the last one
            return
        module = reference()
        value = None if module is None else module.__dict__.get(name)
        if type(value) in (list, dict) and value:
            notice_container(module, name, value, parts)


def _first_part(value: list | dict, parts: tuple[type, ...]) -> Any:
    values: Iterable = value.values() if isinstance(value, dict) else value
    return next((each for each in islice(values, _LOOK_AT) if isinstance(each, parts)), None)


def _registered(module: Module, part: Any) -> bool:
    """Whether `part` is in the module's tree under some other name."""
    return any(
        part is each or any(part is parameter for parameter in each._parameters.values()) for each in module.modules()
    )


def _warn(place: tuple[type, str], value: list | dict, part: Any) -> None:
    owner, name = place
    container, part_name = type(value).__name__, type(part).__name__
    better = ("Parameter" if part_name == "Parameter" else "Module") + ("List" if container == "list" else "Dict")
    warnings.warn(
        f"{owner.__name__}.{name} is a {container} holding a {part_name}: what is in it is not registered, so "
        "parameters(), to() and "
        f"state_dict() will not see it. Use nn.{better}; if it is meant to stay outside, a tuple says so.",
        stacklevel=5,
    )
