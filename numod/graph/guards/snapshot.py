"""What a recorded program took as given outside its inputs, and whether it still holds: numbers, tensors, modules and
optimizers that the function reaches.

A picture is a list of (name, kind, thing): "is" entries must be the same object, "equal" entries must have the same
type and value. "state" entries are dicts of an optimizer's state, which must be the same objects.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import zip_longest
from typing import Any

from ... import dtypes
from ...core import changes
from ...core.create.random import Generator
from ...core.tensor import Tensor, fields_of
from ...device import Storage
from ...device.device import default_device, on_default_change
from ...kernel import tensor_cores
from ...ops.index import indexing
from .guard import SPACE, Guard, Setting, equal, strongly, weakly
from ..values import objects
from ..values.instances import is_instance, is_tuple
from ..values.kinds import (
    PACKAGE,
    hooks_on,
    is_compiled,
    is_module,
    is_optimizer,
    is_schedule,
    is_simple,
    methods_put_into,
    step_hooks,
    worded,
)
from ..values.lazy_scalar import LazyScalar
from .bytecode import names_of
from ..capture.turns import is_disturbed

dtypes.on_default_change.append(changes.note)
on_default_change.append(changes.note)
_DEPTH = 6  # of plain objects and containers
Entry = tuple[str, str, Any]
_PLACES = ("{0}.", "{0}[", "attribute(", "item(", "value_at(")  # how texts of guards on what lies at a place begin
_CONTAINERS = (list, tuple, dict, set, frozenset, deque)
# what holds something, and where in it: an attribute's name ("data" and "grad" of a tensor), a key, a name of a closure
# or of a module
Place = tuple[Any, Any]


class Snapshot:
    """How things were when a program was recorded, those of `weak_ids` ids not kept alive.

    `difference()` names what changed since, or is None.
    """

    def __init__(
        self,
        function: Callable,
        roots: Sequence = (),
        guards: Sequence[Guard] = (),
        without: frozenset = frozenset(),
        weak_ids: frozenset | set = frozenset(),
    ) -> None:
        self.function, self.roots, self.without, self.guards = function, [*map(weakly, roots)], without, guards
        self.count = changes.count  # before the look: what another thread changes meanwhile is seen by the next
        look = StateVisitor(function, roots, without)
        self.entries = [
            (name, kind, weakly(thing) if id(thing) in weak_ids else thing) for name, kind, thing in look.entries
        ]
        read = [
            (*guard.place, guard.objects[1])
            for guard in guards
            if isinstance(guard, Setting) and guard.place[1] == "lr"
        ]
        places = [(holder, key) for holder, key, value in [*look.places, *read] if type(value) in (int, float)]
        self.numbers: dict[tuple[int, Any], Place] = {
            (id(holder), key): (weakly(holder), key) for holder, key in places
        }
        # of tensors, with which code may compare arguments
        self.storages = frozenset(thing for _, _, thing in self.entries if type(thing) is Storage)
        for _, kind, thing in self.entries:
            if kind == "is" and issubclass(type(thing), Tensor):
                thing._pictured = True
        self.counting = [
            thing
            for _, kind, thing in self.entries
            if kind == "state" and any(type(value) in (int, float) for value in thing.values())
        ]
        space: dict[str, Any] = dict(SPACE)
        self.all_hold = eval("lambda: " + conditions(self.guards, space), space)  # our own text over our own objects

    def difference(self) -> str | None:
        """What changed. The whole picture is taken again only where something noted a change."""
        change = self._broken()
        if change is not None:
            return change
        count = changes.count  # before the look: what another thread changes meanwhile is for the next
        if count == self.count:
            return None
        try:
            found = compare(
                self.entries, StateVisitor(self.function, [*map(strongly, self.roots)], self.without).entries
            )
        except RuntimeError as error:
            if not is_disturbed(error):
                raise
            return "state that another thread is changing"
        if found is None:
            self.count = count
        return found

    def _broken(self) -> str | None:
        try:
            if self.all_hold():
                return None
        except (AttributeError, LookupError):
            pass  # one is gone; which, is found below
        return broken(self.guards)


def broken(guards: Iterable[Guard]) -> str | None:
    """The name of the first guard that does not hold."""
    for guard in guards:
        space: dict[str, Any] = dict(SPACE)
        try:
            if not eval(guard.expression(space), space):  # our own text over our own objects
                return guard.name
        except (AttributeError, LookupError):
            return guard.name
    return None


def moved(before: list[Guard], after: list[Guard]) -> str | None:
    """What a call changed that its guards show: those of before no longer hold, or there are others now.

    What lies in containers they show by itself.
    """
    found = broken(
        each
        for each in before
        if not each.text.startswith(_PLACES) or not issubclass(type(each.objects[-1]), _CONTAINERS)
    )
    others = (
        one or two
        for one, two in zip_longest(before, after)
        if one is None or two is None or (one.name, one.text) != (two.name, two.text)
    )
    return f"{found} changes" if found else next((f"{each.name} appeared or went" for each in others), None)


def conditions(guards: list[Guard], space: dict[str, Any]) -> str:
    """All guards as one expression."""
    return " and ".join(f"({guard.expression(space)})" for guard in guards) or "True"


def compare(before: list[Entry], after: list[Entry]) -> str | None:
    """The first difference between two pictures, in words."""
    for (name, kind, thing), (now_name, _, now) in zip(before, after):
        if name != now_name:
            return f"{now_name or name} appeared or went"
        thing = strongly(thing)
        if now is not thing and (kind != "equal" or not equal(now, thing)):
            return _told(name, thing, now)
    if len(before) != len(after):
        return f"{(before if len(before) > len(after) else after)[min(len(before), len(after))][0]} appeared or went"
    return None


def _told(name: str, before: Any, now: Any) -> str:
    if is_simple(before) and is_simple(now):
        return f"{name} was {before!r}, is {now!r}"
    return f"{name} is another {type(now).__name__}"


def stands_for_numbers(value: Any) -> bool:
    """Whether it is a number that is not known yet, or a tuple with one."""
    return type(value) is LazyScalar or (type(value) is tuple and any(map(stands_for_numbers, value)))


def can_be_kept(value: Any) -> bool:
    """Whether it is a number, or only tensors."""
    return type(value) in (int, float) or only_tensors(value)


def only_tensors(value: Any, around: tuple = ()) -> bool:
    """Whether it is a tensor, None, a plain object that holds tensors, or a tuple, list or dictionary of such, which is
    not among those `around` it.
    """
    if type(value) in (list, dict) or is_tuple(value):
        inside = value.values() if issubclass(type(value), dict) else value
        return (
            bool(value)
            and not any(each is value for each in around)
            and all(only_tensors(each, (*around, value)) for each in inside)
        )
    return value is None or (type(value) is not LazyScalar and issubclass(type(value), Tensor)) or is_instance(value)


class StateVisitor:
    """One look at all that a function reaches by name, and at the objects it is given (`roots`), but for the places
    `without`, whose tensors it is given.

    `entries` tell how it is. `places` are (holder, key, what is there) of numbers, tensors, structures of them, None,
    and tensors' memory, in whose stead others can be put.
    """

    def __init__(self, function: Callable, roots: Sequence = (), without: frozenset = frozenset()) -> None:
        self.without, self.holders, self.seen = without, {holder for holder, _ in without}, set()
        self.places: list[tuple[Any, Any, Any]] = []
        self.entries: list[Entry] = list(self._everything(function, roots))

    def _everything(self, function: Callable, roots: Sequence) -> Iterator[Entry]:
        yield "default dtype", "is", dtypes.get_default_dtype()
        yield "default device", "equal", default_device()
        yield "precision of float32 products", "equal", tensor_cores.precision
        yield "mode of deterministic algorithms", "equal", indexing.deterministic
        for hooks in changes.everywhere:
            yield from ((f"the hooks of all modules[{number}]", "is", hook) for number, hook in hooks.items())
        yield from self._names("", function, _DEPTH)
        for k, root in enumerate(roots):
            yield from self._look(f"object {k} given", root, _DEPTH)

    def _names(self, prefix: str, function: Callable, depth: int) -> Iterator[Entry]:
        for _, owner, name, value in names_of(function):
            if isinstance(owner, (types.CellType, dict)):
                yield from self._at(owner, name, prefix + name, value, depth)
            else:
                yield from self._look(prefix + name, value, depth)

    def _is_given(self, holder: Any, key: Any) -> bool:
        """Whether a place is one whose value is among the arguments. The hash of a user's key is not asked for."""
        return id(holder) in self.holders and (id(holder), key) in self.without

    def _at(self, holder: Any, key: Any, name: str, value: Any, depth: int) -> Iterator[Entry]:
        """What lies at a place."""
        if not self._is_given(holder, key):
            if stands_for_numbers(value) or can_be_kept(value):
                self.places.append((holder, key, value))
            yield from self._look(name, value, depth)

    def _look(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        kind = type(value)
        if kind is LazyScalar:
            return
        if is_simple(value):
            yield name, "equal", value
            return
        if (
            issubclass(kind, (types.ModuleType, type, types.BuiltinFunctionType))
            or id(value) in self.seen
            or depth == 0
        ):
            return
        self.seen.add(id(value))
        if issubclass(kind, Tensor):
            yield from self._tensor(name, value, depth)
        elif is_compiled(value):
            yield from self._names(f"{name}: ", value.function, depth - 1)
        elif is_module(value):
            yield from self._module(name, value, depth)
        elif is_optimizer(value):
            yield from self._optimizer(name, value)
        elif is_schedule(value):
            yield name, "is", value  # its steps run in Python
            yield from self._look(f"{name}.optimizer", value.optimizer, depth)
        elif issubclass(kind, (types.FunctionType, types.MethodType)):
            if not (getattr(value, "__module__", None) or "").startswith(PACKAGE):
                yield from self._names(f"{name}: ", value, depth - 1)
            elif (owner := getattr(value, "__self__", None)) is not None:
                yield from self._look(f"{name}.__self__", owner, depth - 1)
        elif issubclass(kind, partial):
            yield from self._names(f"{name}: ", value, depth - 1)
        elif issubclass(kind, _CONTAINERS):
            yield from self._container(name, value, depth)
            yield from self._attributes(name, value, depth)
        elif issubclass(kind, Generator):
            yield name, "is", value  # its draws are recorded
        else:
            yield name, "is", value
            yield from self._attributes(name, value, depth)

    def _container(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        keyed, members = not issubclass(type(value), (list, tuple, deque)), objects.members_of(value)
        yield f"the class of {name}", "is", type(value)
        yield (
            f"len({name})",
            "equal",
            len(members) - sum(self._is_given(value, key) for key in members if issubclass(type(value), dict)),
        )
        self.places += [(value, member, member) for member in members if keyed and stands_for_numbers(member)]
        for each in members if keyed else ():  # arguments may be looked for among tensors that are keys
            yield from self._look(f"a key of {name}", each, depth) if not is_simple(each) else ()
        fixed = issubclass(type(value), (tuple, set, frozenset))  # whose members are no places
        for key, each in objects.items_of(value):
            inside = f"{name}[{worded(key)}]"
            yield from self._look(inside, each, depth - 1) if fixed else self._at(value, key, inside, each, depth - 1)

    def _attributes(self, name: str, value: Any, depth: int) -> Iterator[Entry]:
        for key, attribute in objects.attributes(value).items():
            yield from self._at(value, objects.place_of(value, key), f"{name}.{key}", attribute, depth - 1)

    def _tensor(self, name: str, tensor: Tensor, depth: int) -> Iterator[Entry]:
        yield name, "is", tensor
        self.places.append((tensor, "data", tensor._storage))
        if (id(tensor), "data") not in self.without:
            yield f"{name}'s memory", "is", tensor._storage
            yield f"{name}'s bytes", "is", tensor._storage.data
            # which one that is not initialised yet does not show
            yield f"{name}'s layout", "is", fields_of(tensor)["_layout"]
            yield f"{name}'s offset", "equal", tensor._offset
        yield f"{name}.requires_grad", "equal", tensor.requires_grad
        yield f"{name}'s history", "is", tensor.grad_fn
        for number, hook in hooks_on(tensor):
            yield f"{name}'s hooks[{number}]", "is", hook
            yield from self._look(f"{name}'s hooks[{number}]", hook, depth - 1)

    def _module(self, name: str, module: Any, depth: int) -> Iterator[Entry]:
        """Settings, parameters, buffers and submodules.

        Its dictionary has copies of the entries of its registries, so that is enough.
        """
        yield name, "is", module
        yield f"the class of {name}", "is", type(module)
        for key, each in list(objects.dictionary(module).items()):
            if key in ("_parameters", "_modules"):
                yield f"{name}.{key}", "equal", " ".join(each)
                for inner, part in list(each.items()):
                    yield from self._look(f"{name}.{inner}", part, _DEPTH)
            elif key == "_buffers":
                yield f"{name}.{key}", "equal", " ".join(each)
            elif key.endswith("_hooks") or "_hooks_" in key:
                for number, hook in list(each.items() if issubclass(type(each), dict) else ()):
                    yield f"{name}.{key}[{number}]", "is", hook
                    yield from self._look(f"{name}.{key}[{number}]", hook, depth - 1)
            elif module._parameters.get(key, module) is not each:
                if callable(each):
                    yield f"{name}.{key}", "is", each
                yield from self._at(module, key, f"{name}.{key}", each, depth - 1)

    def _optimizer(self, name: str, optimizer: Any) -> Iterator[Entry]:
        """Flags of its groups (numbers are read at every step, so only whether they are zero), the parameters, and
        tensors of its state.
        """
        yield name, "is", optimizer
        yield f"the class of {name}", "is", type(optimizer)
        for number, hook in step_hooks(optimizer).items():
            yield f"{name}'s hooks[{number}]", "is", hook
            yield from self._look(f"{name}'s hooks[{number}]", hook, _DEPTH)
        for key, each in methods_put_into(optimizer).items():
            yield f"{name}.{key}", "is", each
            yield from self._look(f"{name}.{key}", each, _DEPTH)
        yield from ((f"{name}.{key}", "is", getattr(optimizer, key)) for key in ("param_groups", "state"))
        for k, group in enumerate(optimizer.param_groups):
            for key, each in group.items():
                if key == "params":
                    yield f"{name}: parameters of group {k}", "equal", len(each)
                    for n, parameter in enumerate(each):
                        yield from self._again(f"{name}: parameter {n} of group {k}", parameter)
                elif type(each) is LazyScalar:
                    self.places.append((group, key, each))
                elif isinstance(each, (bool, type(None), str)):
                    yield f"{name}.param_groups[{k}][{key!r}]", "equal", each
                elif isinstance(each, (int, float)):
                    yield f"{name}.param_groups[{k}][{key!r}] != 0", "equal", bool(each)
        for n, state in enumerate(optimizer.state.values()):
            yield f"{name}.state[{n}]", "state", state
            for key, each in state.items():
                if issubclass(type(each), Tensor):
                    yield from self._again(f"{name}.state[{n}][{key!r}]", each)

    def _again(self, name: str, tensor: Tensor) -> Iterator[Entry]:
        """A tensor, whether or not it was seen elsewhere."""
        self.seen.discard(id(tensor))
        yield from self._look(name, tensor, 1)
