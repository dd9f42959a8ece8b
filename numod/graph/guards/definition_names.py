"""Guards of the names, docstrings and subclasses of functions, classes and modules."""

from __future__ import annotations

import types
import weakref
from typing import TYPE_CHECKING, Any

from .guard import Guard

if TYPE_CHECKING:
    from .build import GuardBuilder

_NAMES = {"__name__", "__qualname__", "__doc__", "__module__", "__annotations__"}
_READS_NAMESPACE = {"vars", "__dict__", "dir", "getmembers"}


def visit_names(builder: GuardBuilder, name: str, value: Any) -> None:
    """Guard the names and texts of a function, class or module that the code reads. It runs no user code."""
    is_class = issubclass(type(value), type)
    for key in sorted(_NAMES & builder.mentioned):
        if issubclass(type(value), types.ModuleType):
            builder.guard_value(f"{name}.{key}", f"{{0}}.get({key!r})", (vars(value),), vars(value).get(key))
        elif is_class and key == "__doc__":
            builder.guard_value(f"{name}.__doc__", "{0}.get('__doc__')", (vars(value),), vars(value).get("__doc__"))
        elif (descriptor := vars(type if is_class else type(value)).get(key)) is not None:
            if isinstance(descriptor, (types.GetSetDescriptorType, types.MemberDescriptorType)):
                text = descriptor.__get__(value)
                builder.guard_value(f"{name}.{key}", "{1}.__get__({0})", (value, descriptor), text)
    if is_class and "__subclasses__" in builder.mentioned:
        children = [*map(weakref.ref, type.__subclasses__(value))]
        text = "len({1}({0})) == len({2}) and all(map({3}, {1}({0}), {2}))"
        builder.guards.append(Guard(f"the subclasses of {name}", text, (value, type.__subclasses__, children, _refers)))
    if is_class and not _READS_NAMESPACE.isdisjoint(builder.mentioned):
        builder.guards.append(Guard(f"the names in {name}", "tuple({0}) == {1}", (vars(value), tuple(vars(value)))))


def _refers(kind: type, reference: weakref.ref) -> bool:
    return reference() is kind
