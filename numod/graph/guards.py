"""What a recorded program took as given outside its inputs, and whether it still holds: numbers, tensors, modules and optimizers that the function reaches.

A picture is a list of (name, kind, thing): "is" entries must be the same object, "equal" entries must have the same type and value. "state" entries
are dicts of an optimizer's state, which must be the same objects.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from .. import dtypes
from ..core import changes
from ..core.random import Generator
from ..core.tensor import Tensor
from . import reach
from .reach import SIMPLE, Guard, is_module, is_optimizer, names_of

dtypes.on_default_change.append(changes.note)
_DEPTH = 6  # of plain objects and containers
_PACKAGE = __name__.partition(".")[0]
Entry = tuple[str, str, Any]


class Picture:
    """How things were when a program was recorded. `difference()` names what changed since, or is None."""

    def __init__(self, function: Callable, roots: Sequence = (), more: Iterable[Guard] = (), without: frozenset = frozenset()) -> None:
        self.function, self.roots, self.without = function, roots, without
        self.entries = list(picture(function, roots, without))
        self.count = changes.count
        self.guards = [*reach.quick(function, roots), *more]
        for _, kind, thing in self.entries:
            if kind == "is" and isinstance(thing, Tensor):
                thing._pictured = True
        self.counting = [thing for _, kind, thing in self.entries if kind == "state" and any(type(each) in (int, float) for each in thing.values())]
        space: dict[str, Any] = {"equal": _equal}
        self.all_hold = eval("lambda: " + conditions(self.guards, space), space)  # noqa: S307  our own text over our own objects

    def difference(self) -> str | None:
        """What changed. The whole picture is taken again only where something noted a change."""
        broken = self._broken()
        if broken is not None:
            return broken
        if changes.count == self.count:
            return None
        found = compare(self.entries, list(picture(self.function, self.roots, self.without)))
        if found is None:
            self.count = changes.count
        return found

    def _broken(self) -> str | None:
        """The name of the first guard that does not hold."""
        try:
            if self.all_hold():
                return None
        except (AttributeError, LookupError):
            pass  # one is gone; which, is found below
        for each in self.guards:
            space: dict[str, Any] = {"equal": _equal}
            try:
                if not eval(each.expression(space), space):  # noqa: S307  our own text over our own objects
                    return each.name
            except (AttributeError, LookupError):
                return each.name
        return None


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
    return type(a) is type(b) and ((a == b and (a or repr(a) == repr(b))) or (a != a and b != b))


def _told(name: str, before: Any, now: Any) -> str:
    if isinstance(before, SIMPLE) and isinstance(now, SIMPLE):
        return f"{name} was {before!r}, is {now!r}"
    return f"{name} is another {type(now).__name__}"


def picture(function: Callable, roots: Sequence = (), without: frozenset = frozenset()) -> Iterator[Entry]:
    """All that `function` reaches by name, and the objects it is given (`roots`), looked into; `without` attributes, (id of module, name), that it is given."""
    seen: set = set(without)
    yield "default dtype", "is", dtypes.get_default_dtype()
    for hooks in changes.everywhere:
        yield from ((f"the hooks of all modules[{number}]", "is", hook) for number, hook in hooks.items())
    for *_, name, value in names_of(function):
        yield from _look(name, value, seen, _DEPTH)
    for k, each in enumerate(roots):
        yield from _look(f"object {k} given", each, seen, _DEPTH)


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
        yield f"{name}'s bytes", "is", value._storage.data
        yield f"{name}.requires_grad", "equal", value.requires_grad
        yield f"{name}'s history", "is", value.grad_fn
    elif is_module(value):
        yield from _look_at_module(name, value, seen, depth)
    elif is_optimizer(value):
        yield from _look_at_optimizer(name, value)
    elif isinstance(value, (types.FunctionType, types.MethodType)):
        if not (getattr(value, "__module__", None) or "").startswith(_PACKAGE):
            for *_, inner, each in names_of(value):
                yield from _look(f"{name}: {inner}", each, seen, depth - 1)
    elif isinstance(value, (list, tuple, dict, set, frozenset)):
        yield f"len({name})", "equal", len(value)
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _look(f"{name}[{key!r}]", each, seen, depth - 1)
    elif isinstance(value, Generator):
        yield name, "is", value  # its draws are recorded
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
                if (id(module), inner) not in seen:
                    yield from _look(f"{name}.{inner}", part, seen, _DEPTH)
        elif key.endswith("_hooks") or "_hooks_" in key:
            for number, hook in list(each.items() if isinstance(each, dict) else ()):
                yield f"{name}.{key}[{number}]", "is", hook
                yield from _look(f"{name}.{key}[{number}]", hook, seen, depth - 1)
        elif (id(module), key) not in seen:
            yield from _look(f"{name}.{key}", each, seen, depth - 1)


def _look_at_optimizer(name: str, optimizer: Any) -> Iterator[Entry]:
    """Flags of its groups (numbers are read at every step, so only whether they are zero), the parameters, and tensors of its state."""
    yield name, "is", optimizer
    for k, group in enumerate(optimizer.param_groups):
        for key, each in group.items():
            if key == "params":
                yield f"{name}: parameters of group {k}", "equal", len(each)
                for n, parameter in enumerate(each):
                    yield from _look(f"{name}: parameter {n} of group {k}", parameter, set(), 1)
            elif isinstance(each, (bool, type(None), str)):
                yield f"{name}.param_groups[{k}][{key!r}]", "equal", each
            elif isinstance(each, (int, float)):
                yield f"{name}.param_groups[{k}][{key!r}] != 0", "equal", bool(each)
    for n, state in enumerate(optimizer.state.values()):
        yield f"{name}.state[{n}]", "state", state
        for key, each in state.items():
            if isinstance(each, Tensor):
                yield from _look(f"{name}.state[{n}][{key!r}]", each, set(), 1)
