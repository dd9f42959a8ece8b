"""Lines of a fast path that check the structure of its arguments and assign their tensors to names."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from keyword import iskeyword
from typing import Any

from ...core.tensor import Tensor
from ..guards.guard import equal, weakly
from ..values import objects
from ..values.kinds import is_plain_key, is_simple
from ..values.pytree import fields_of, has_identity, is_data, is_structure, keys, parts


class ArgumentUnpacking:
    """Generates the lines for arguments, and collects the names of the tensors and containers among them.

    A failed check leaves the loop around the lines by `break`, which leads to the fallback.
    """

    def __init__(self, name_object: Callable[[Any, str], str]) -> None:
        self._name = name_object  # adds an object to the function's globals
        self.tensor_names: list[str] = []
        self.tensors: list[Tensor] = []
        self.containers: list[str] = []  # names of the lists, dicts and dataclass instances

    def lines(self, name: str, argument: Any) -> list[str]:
        """Lines that check an argument's structure and assign its tensors to names."""
        if issubclass(type(argument), Tensor):
            self.tensor_names.append(name)
            self.tensors.append(argument)
            return []
        if is_simple(argument) or not is_structure(argument):
            reference = weakly(argument)
            constant = self._name(reference, "constant")
            same = f"{name} is {constant}() is not None" if reference is not argument else f"{name} is {constant}"
            return [f"if not ({same}{f' or equal({name}, {constant})' if is_simple(argument) else ''}):", "    break"]
        if has_identity(argument):
            self.containers.append(name)
        if type(argument) in (list, tuple, dict) or (
            issubclass(type(argument), tuple) and not objects.has_attributes(type(argument))
        ):
            return self._unpack_items(name, argument)
        if is_data(argument) and all(
            objects.reads_plainly(type(argument), field) and field.isidentifier() and not iskeyword(field)
            for field in fields_of(argument)
        ):
            return self._unpack_fields(name, argument)
        return self._unpack_parts(name, argument)

    def _unpack_items(self, name: str, container: Any) -> list[str]:
        """`lines` for a built-in container or a named tuple."""
        keys = [key for key, _ in objects.items_of(container)]
        condition = f"type({name}) is {self._name(type(container), 'kind')} and "
        if not issubclass(type(container), dict):
            base = objects.base_of(type(container))
            condition += (
                f"len({name}) == {len(keys)}"
                if type(container) is base
                else f"{self._name(base.__len__, 'size')}({name}) == {len(keys)}"
            )
        elif all(map(is_plain_key, keys)):
            condition += f"list({name}) == {self._name(keys, 'keys')}"
        else:
            condition += (
                f"len({name}) == {len(keys)} and all(map({self._name(operator.is_, 'condition')}, {name}, "
                f"{self._name(keys, 'keys')}))"
            )
        parts = [f"{name}_{k}" for k in range(len(keys))]
        # a named tuple may override __getitem__
        overrides_getitem = type(container).__getitem__ not in (list.__getitem__, tuple.__getitem__, dict.__getitem__)
        texts = [
            f"{self._name(tuple.__getitem__, 'item')}({name}, {key})"
            if overrides_getitem
            else f"{name}[{self._name(key, 'key')}]"
            for key in keys
        ]
        items = [item for _, item in objects.items_of(container)]
        lines = [
            line
            for part, text, item in zip(parts, texts, items)
            for line in (f"{part} = {text}", *self.lines(part, item))
        ]
        return [f"if not ({condition}):", "    break", *lines]

    def _unpack_fields(self, name: str, instance: Any) -> list[str]:
        """`lines` for a dataclass instance. A missing field raises AttributeError, which leads to the fallback."""
        fields = objects.attributes(instance)
        lines = [
            line
            for field, part in fields.items()
            for line in (f"{name}_{field} = {name}.{field}", *self.lines(f"{name}_{field}", part))
        ]
        dictionary = objects.dictionary(instance)
        other_attributes = f" or len({name}.__dict__) != {len(dictionary)}" if dictionary is not None else ""
        return [f"if type({name}) is not {self._name(type(instance), 'kind')}{other_attributes}:", "    break", *lines]

    def _unpack_parts(self, name: str, structure: Any) -> list[str]:
        """`lines` for other structures: slices, and instances of classes derived from built-in ones."""
        structure_parts = parts(structure)
        names = [f"{name}_{k}" for k in range(len(structure_parts))]
        take_apart = self._name(
            partial(_matching_parts, kind=type(structure), names=keys(structure), value=_plain_value(structure)),
            "apart",
        )
        lines = [line for part, item in zip(names, structure_parts) for line in self.lines(part, item)]
        unpacked = [f"{', '.join(names)}, = {name}_parts"] if names else []
        return [f"{name}_parts = {take_apart}({name})", f"if {name}_parts is None:", "    break", *unpacked, *lines]


def _plain_value(structure: Any) -> Any:
    """The value of a structure derived from a number or string class, without its attributes."""
    return objects.plain(structure) if objects.base_of(type(structure)) in objects.VALUES else None


def _matching_parts(structure: Any, kind: type, names: list, value: Any) -> list | None:
    """The parts of a structure if its class, value and part names are these, else None."""
    if type(structure) is not kind or (kind is not slice and not equal(_plain_value(structure), value)):
        return None
    current_keys = keys(structure)
    equal_keys = len(current_keys) == len(names) and all(
        current is expected or (is_plain_key(expected) and type(current) is type(expected) and current == expected)
        for current, expected in zip(current_keys, names)
    )
    return parts(structure) if equal_keys else None
