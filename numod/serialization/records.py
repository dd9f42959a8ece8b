"""Records: named tuples and registered dataclasses among the arguments and results of saved programs.

A file has a record's registered name and fields, never a class to import: the class is the one that this process
registered. No code of the class runs when a record is read.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from ..func.trees import registered
from ..graph.values import objects
from ..weak_values import WeakValues

dataclasses_by_type: dict[type, None] = {}  # those that `register_dataclass` registered
types_by_name: dict[str, type] = {}
_UNNAMED = "<unnamed> "
_unnamed: WeakValues[str, type] = WeakValues()  # of programs that live in this process only


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Allow instances of a dataclass as arguments and results of exported functions, and as trees of `pytree`.

    `serialized_type_name`: the name in files. Without one, programs with this class cannot be saved. Raises ValueError
    for other classes, and for a name that another class has.
    """
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        raise ValueError(
            f"field_names must be specified with a list of all fields used to initialize {cls}, as it is not a "
            "dataclass."
        )
    if not objects.can_rebuild(cls) or objects.base_of(cls) is not object:
        raise ValueError(f"register_dataclass: {cls} has content beside its fields; pass a plain dataclass")
    _name(cls, serialized_type_name)
    dataclasses_by_type[cls] = None
    registered.setdefault(cls, (_flattened, _unflattened))


def register_namedtuple(cls: type, *, serialized_type_name: str) -> None:
    """Give a named tuple a name in files. Raises ValueError for other classes, and for a name that another has."""
    if not _is_named_tuple(cls):
        raise ValueError(f"register_namedtuple: expected a class of named tuples, got {cls}")
    _name(cls, serialized_type_name)


def _name(cls: type, name: str | None) -> None:
    if name is not None and types_by_name.setdefault(name, cls) is not cls:
        raise ValueError(f"the name {name!r} is that of {types_by_name[name]}; choose another serialized_type_name")


def _flattened(record: Any) -> tuple[list[Any], tuple[type, list[str]]]:
    """(the fields that are not None, the class and their names), as PyTorch has it."""
    present = {name: part for name, part in fields(record).items() if part is not None}
    return [*present.values()], (type(record), [*present])


def _unflattened(parts: list[Any], context: tuple[type, list[str]]) -> Any:
    cls, names = context
    absent = {field.name: None for field in dataclasses.fields(cls)}
    return rebuilt(cls, absent | dict(zip(names, parts)))


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and cls.__mro__[-2] is tuple and isinstance(getattr(cls, "_fields", None), tuple)


def is_record(value: Any) -> bool:
    """Whether the value is a named tuple or an instance of a registered dataclass."""
    return type(value) in dataclasses_by_type or _is_named_tuple(type(value))


def fields(record: Any) -> dict[str, Any]:
    """A record's fields by name."""
    if isinstance(record, tuple):
        return dict(zip(type(record)._fields, tuple(record)))
    return {field.name: getattr(record, field.name, None) for field in dataclasses.fields(record)}


def rebuilt(cls: type, parts: dict[str, Any]) -> Any:
    """A record of these fields, made without the class's code."""
    if issubclass(cls, tuple):
        return tuple.__new__(cls, parts.values())
    result = object.__new__(cls)
    objects.set_attributes(result, parts)
    return result


def described(record: Any) -> list:
    """[the record's name, its fields]. A class without a name gets one that is valid in this process only."""
    cls = type(record)
    names = [name for name, other in types_by_name.items() if other is cls]
    if not names:
        names = [f"{_UNNAMED}{id(cls)}"]
        _unnamed[names[0]] = cls
    return [names[0], fields(record)]


def require_names(node: Any) -> None:
    """Raise ValueError if a program's JSON form has a record that a file cannot name."""
    parts = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    if isinstance(node, dict) and "record" in node and node["record"][0].startswith(_UNNAMED):
        cls = _unnamed.get(node["record"][0])
        raise ValueError(
            f"save_program: a {getattr(cls, '__name__', 'record')} cannot be written to a file, which holds tensors, "
            "numbers, strings and classes with a name; give it one before the export: "
            "torch.export.register_dataclass(cls, serialized_type_name=...), for named tuples "
            "torch.utils._pytree._register_namedtuple(cls, serialized_type_name=...)"
        )
    for part in parts:
        require_names(part)


def of_description(name: Any, parts: dict[str, Any]) -> Any:
    """The record that `described` described. Raises ValueError for anything else."""
    cls = (types_by_name.get(name) or _unnamed.get(name)) if type(name) is str else None
    if cls is None:
        raise ValueError(
            f"it has a record {str(name)[:80]!r}; register its class before loading, by "
            "torch.export.register_dataclass(cls, serialized_type_name=...)"
        )
    names = cls._fields if issubclass(cls, tuple) else [field.name for field in dataclasses.fields(cls)]
    if [*parts] != [*names]:
        raise ValueError(f"the fields of {name!r} are {[*names]}, the file has {[*parts]}")
    return rebuilt(cls, parts)
