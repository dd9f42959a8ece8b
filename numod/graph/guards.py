"""What a recorded program took as given outside its inputs, and whether it still holds: numbers, tensors, modules and optimizers that the function reaches.

A picture is a list of (name, kind, thing): "is" entries must be the same object, "equal" entries must have the same type and value. "state" entries
are dicts of an optimizer's state, which must be the same objects.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from .. import dtypes
from ..core import changes
from ..core.tensor import Tensor
from ..device import Size
from ..device.device import Device

dtypes.on_default_change.append(changes.note)
SIMPLE = (bool, int, float, complex, str, bytes, type(None), dtypes.dtype, Device, Size, slice, type(Ellipsis))
_DEPTH = 6  # of plain objects and containers
_PACKAGE = __name__.partition(".")[0]
Entry = tuple[str, str, Any]


@dataclass
class Guard:
    """A condition that is tested at every call, as an expression over objects: "{0}.cell_contents is {1}"."""

    name: str
    text: str
    objects: tuple

    def expression(self, space: dict[str, Any]) -> str:
        """The condition with names for its objects, which are put into `space`."""
        names = []
        for each in self.objects:
            names.append(f"thing{len(space)}")
            space[names[-1]] = each
        return self.text.format(*names)


class Picture:
    """How things were when a program was recorded. `difference()` names what changed since, or is None."""

    def __init__(self, function: Callable, more: Iterable[Guard] = ()) -> None:
        self.function = function
        self.entries = list(picture(function))
        self.count = changes.count
        self.guards = [*quick(function), *more]
        for _, kind, thing in self.entries:
            if kind == "is" and isinstance(thing, Tensor):
                thing._pictured = True
        self.counting = [thing for _, kind, thing in self.entries if kind == "state" and any(type(each) in (int, float) for each in thing.values())]
        space: dict[str, Any] = {"equal": _equal}
        self.holds = eval("lambda: " + conditions(self.guards, space), space)  # noqa: S307  our own text over our own objects

    def difference(self) -> str | None:
        """What changed. The whole picture is taken again only where something noted a change."""
        if not self.holds():
            space: dict[str, Any] = {"equal": _equal}
            return next(each.name for each in self.guards if not eval(each.expression(space), space))  # noqa: S307
        if changes.count == self.count:
            return None
        found = compare(self.entries, list(picture(self.function)))
        if found is None:
            self.count = changes.count
        return found


def conditions(guards: list[Guard], space: dict[str, Any]) -> str:
    """All guards as one expression."""
    return " and ".join(f"({each.expression(space)})" for each in guards) or "True"


def compare(before: list[Entry], after: list[Entry]) -> str | None:
    """The first difference between two pictures, in words."""
    for (name, kind, thing), (now_name, _, now) in zip(before, after):
        if name != now_name:
            return f"{now_name or name} appeared or went"
        if now is not thing and (kind != "equal" or not _equal(now, thing)):
            return _told(name, thing, now)
    if len(before) != len(after):
        return f"{(before if len(before) > len(after) else after)[min(len(before), len(after))][0]} appeared or went"
    return None


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and (a == b or (a != a and b != b))


def _told(name: str, before: Any, now: Any) -> str:
    if isinstance(before, SIMPLE) and isinstance(now, SIMPLE):
        return f"{name} was {before!r}, is {now!r}"
    return f"{name} is another {type(now).__name__}"


def quick(function: Callable) -> Iterator[Guard]:
    """Conditions on what can change without a note: closure cells and globals that hold numbers, tensors, modules, optimizers or containers."""
    for text, owner, name, value in names_of(function):
        if owner is None:
            pass  # the function's own object is the one it was bound to
        elif isinstance(value, SIMPLE):
            yield Guard(name, f"{text} is {{1}} or equal({text}, {{1}})", (owner, value))
        elif _is_module(value) or not isinstance(value, (types.ModuleType, type)) and not callable(value):
            yield Guard(name, f"{text} is {{1}}", (owner, value))
        if _is_optimizer(value):
            yield from _quick_optimizer(name, value)
        elif isinstance(value, (list, dict)):
            yield Guard(f"len({name})", "len({0}) == {1}", (value, len(value)))
            for key, each in value.items() if isinstance(value, dict) else enumerate(value):
                yield Guard(f"{name}[{key!r}]", "{0}[{1}] is {2}" + (" or equal({0}[{1}], {2})" if isinstance(each, SIMPLE) else ""), (value, key, each))


def _quick_optimizer(name: str, optimizer: Any) -> Iterator[Guard]:
    """Tensors of its state, and of its groups' settings what a step branches on: flags, and whether numbers are zero."""
    for state in optimizer.state.values():
        for key, each in state.items():
            if isinstance(each, Tensor):
                yield Guard(f"{name}'s state {key!r}", "{0}.get({1}) is {2}", (state, key, each))
    yield Guard(f"{name}'s state", "len({0}.state) == {1}", (optimizer, len(optimizer.state)))
    for group in optimizer.param_groups:
        for key, each in group.items():
            if key not in ("params", "lr", "initial_lr") and isinstance(each, (bool, int, float, type(None))):
                yield Guard(f"{name}'s {key}", "{0}[{1}]" if each else "not {0}[{1}]", (group, key))


def names_of(function: Callable) -> Iterator[tuple[str, Any, str, Any]]:
    """(expression, its object {0}, name, value) of everything a function's code can reach by name: its object, closure, globals, defaults."""
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, types.ModuleType):
        yield "", None, "self", owner
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if code is None:
        return
    for name, cell in zip(code.co_freevars, function.__closure__ or ()):
        try:
            yield "{0}.cell_contents", cell, name, cell.cell_contents
        except ValueError:
            pass  # not yet assigned
    space = function.__globals__
    for name in _global_names(code):
        if name in space:
            yield f"{{0}}.get({name!r})", space, name, space[name]
    for k, value in enumerate(function.__defaults__ or ()):
        yield f"{{0}}.__defaults__[{k}]", function, f"default {k}", value


def mentions(function: Callable, part: str) -> bool:
    """Whether a name in the function's own code has `part` in it."""
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return code is not None and any(part in name for name in _global_names(code))


def _global_names(code: types.CodeType) -> list[str]:
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(_global_names(constant)))
    return list(found)


def picture(function: Callable) -> Iterator[Entry]:
    """All that `function` reaches by name, looked into."""
    seen: set[int] = set()
    yield "default dtype", "is", dtypes.get_default_dtype()
    for *_, name, value in names_of(function):
        yield from _look(name, value, seen, _DEPTH)


def _look(name: str, value: Any, seen: set[int], depth: int) -> Iterator[Entry]:
    if isinstance(value, SIMPLE):
        yield name, "equal", value
        return
    if isinstance(value, (types.ModuleType, type, types.BuiltinFunctionType)) or id(value) in seen or depth == 0:
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        yield name, "is", value
        yield f"{name}'s memory", "is", value._storage
        yield f"{name}.requires_grad", "equal", value.requires_grad
        yield f"{name}'s history", "is", value.grad_fn
    elif _is_module(value):
        yield from _look_at_module(name, value, seen, depth)
    elif _is_optimizer(value):
        yield from _look_at_optimizer(name, value)
    elif isinstance(value, (types.FunctionType, types.MethodType)):
        if not (getattr(value, "__module__", None) or "").startswith(_PACKAGE):
            for *_, inner, each in names_of(value):
                yield from _look(f"{name}: {inner}", each, seen, depth - 1)
    elif isinstance(value, (list, tuple, dict, set, frozenset)):
        yield f"len({name})", "equal", len(value)
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _look(f"{name}[{key!r}]", each, seen, depth - 1)
    else:
        yield name, "is", value
        for key, each in list(getattr(value, "__dict__", {}).items()):
            yield from _look(f"{name}.{key}", each, seen, depth - 1)


def _look_at_module(name: str, module: Any, seen: set[int], depth: int) -> Iterator[Entry]:
    """Settings, parameters, buffers and submodules. Its registries show their entries in `__dict__` too, so that is enough."""
    yield name, "is", module
    for key, each in list(module.__dict__.items()):
        if key in ("_parameters", "_buffers", "_modules"):
            yield f"{name}.{key}", "equal", " ".join(each)
            for inner, part in list(each.items()):
                yield from _look(f"{name}.{inner}", part, seen, _DEPTH)
        elif key.endswith("_hooks") or "_hooks_" in key:
            for number, hook in list(each.items() if isinstance(each, dict) else ()):
                yield f"{name}.{key}[{number}]", "is", hook
        else:
            yield from _look(f"{name}.{key}", each, seen, depth - 1)


def _look_at_optimizer(name: str, optimizer: Any) -> Iterator[Entry]:
    """Flags of its groups (numbers are read at every step, so only whether they are zero), the parameters, and tensors of its state."""
    yield name, "is", optimizer
    for k, group in enumerate(optimizer.param_groups):
        for key, each in group.items():
            if key == "params":
                yield f"{name}: parameters of group {k}", "equal", len(each)
                for n, parameter in enumerate(each):
                    yield f"{name}: parameter {n} of group {k}", "is", parameter
            elif isinstance(each, (bool, type(None), str)):
                yield f"{name}.param_groups[{k}][{key!r}]", "equal", each
            elif isinstance(each, (int, float)):
                yield f"{name}.param_groups[{k}][{key!r}] != 0", "equal", bool(each)
    for n, state in enumerate(optimizer.state.values()):
        yield f"{name}.state[{n}]", "state", state
        for key, each in state.items():
            if isinstance(each, Tensor):
                yield f"{name}.state[{n}][{key!r}]", "is", each


def _is_module(value: Any) -> bool:
    return hasattr(value, "_modules") and hasattr(value, "_parameters")


def _is_optimizer(value: Any) -> bool:
    return hasattr(value, "param_groups") and hasattr(value, "state")
