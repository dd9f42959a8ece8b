"""Snapshots of the numbers, tensors, modules and optimizers that a function reaches outside its inputs.

A recorded program may run again while the snapshot is unchanged. `state_visitor` describes its entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import zip_longest
from typing import Any

from ...core import changes
from ...core.tensor import Tensor
from ...device import Storage
from ..capture.call_lock import is_disturbed
from ..values.kinds import is_simple
from .guard import SPACE, Guard, Setting, equal, strongly, weakly
from .state_visitor import CONTAINERS, Entry, Place, StateVisitor

# prefixes of guards on the value at a place
_PLACES = ("{0}.", "{0}[", "attribute(", "item(", "value_at(", "fields_of[")


class Snapshot:
    """The state that a program was recorded with. `difference()` names a change since then.

    Objects with ids in `weak_ids` are not kept alive.
    """

    def __init__(
        self,
        function: Callable,
        roots: Sequence = (),
        guards: Sequence[Guard] = (),
        excluded: frozenset = frozenset(),
        weak_ids: frozenset | set = frozenset(),
    ) -> None:
        self.function, self.roots, self.excluded, self.guards = function, [*map(weakly, roots)], excluded, guards
        self.count = changes.count  # read before the visit: a concurrent change is seen by the next comparison
        visitor = StateVisitor(function, roots, excluded)
        self.entries = [
            (name, kind, weakly(obj) if id(obj) in weak_ids else obj) for name, kind, obj in visitor.entries
        ]
        rates = [
            (*guard.location, guard.objects[1])
            for guard in guards
            if isinstance(guard, Setting) and guard.location[1] == "lr"
        ]
        places = [(holder, key) for holder, key, value in [*visitor.places, *rates] if type(value) in (int, float)]
        self.numbers: dict[tuple[int, Any], Place] = {
            (id(holder), key): (weakly(holder), key) for holder, key in places
        }
        # of reachable tensors: an argument may not share them
        self.storages = frozenset(obj for _, _, obj in self.entries if issubclass(type(obj), Storage))
        for _, kind, obj in self.entries:
            if kind == "is" and issubclass(type(obj), Tensor):
                obj._in_snapshot = True
        # states of optimizers with Python numbers, such as step counts, which a failed run must restore
        self.counting = [
            obj
            for _, kind, obj in self.entries
            if kind == "state" and any(type(value) in (int, float) for value in obj.values())
        ]
        space: dict[str, Any] = dict(SPACE)
        self.all_hold = eval("lambda: " + conditions(self.guards, space), space)  # generated text

    def difference(self) -> str | None:
        """What has changed, or None. The state is visited again only if a change was counted."""
        change = self._broken()
        if change is not None:
            return change
        count = changes.count  # read before the visit, as above
        if count == self.count:
            return None
        try:
            visitor = StateVisitor(self.function, [*map(strongly, self.roots)], self.excluded)
            change = compare(self.entries, visitor.entries)
        except RuntimeError as error:
            if not is_disturbed(error):
                raise
            return "state that another thread is changing"
        if change is None:
            self.count = count
        return change

    def _broken(self) -> str | None:
        try:
            if self.all_hold():
                return None
        except (AttributeError, LookupError):
            pass  # an object no longer exists; `broken` finds out which
        return broken(self.guards)


def broken(guards: Iterable[Guard]) -> str | None:
    """The name of the first guard that does not hold."""
    for guard in guards:
        space: dict[str, Any] = dict(SPACE)
        try:
            if not eval(guard.expression(space), space):  # generated text
                return guard.name
        except (AttributeError, LookupError):
            return guard.name
    return None


def change_of_guards(before: list[Guard], after: list[Guard]) -> str | None:
    """A change that a call made, in words: a guard from before no longer holds, or there are other guards now.

    Guards on the identity of a container are skipped: there are other guards for its contents.
    """
    name = broken(
        guard
        for guard in before
        if not guard.text.startswith(_PLACES) or not issubclass(type(guard.objects[-1]), CONTAINERS)
    )
    if name:
        return f"{name} changes"
    different = (
        first or second
        for first, second in zip_longest(before, after)
        if first is None or second is None or (first.name, first.text) != (second.name, second.text)
    )
    return next((f"{guard.name} appeared or disappeared" for guard in different), None)


def conditions(guards: list[Guard], space: dict[str, Any]) -> str:
    """All guards as one expression."""
    return " and ".join(f"({guard.expression(space)})" for guard in guards) or "True"


def compare(before: list[Entry], after: list[Entry]) -> str | None:
    """The first difference between the entries of two snapshots, in words."""
    for (name, kind, obj), (new_name, _, new) in zip(before, after):
        if name != new_name:
            return f"{new_name or name} appeared or disappeared"
        obj = strongly(obj)
        if new is not obj and (kind != "equal" or not equal(new, obj)):
            return _describe_change(name, obj, new)
    if len(before) != len(after):
        longer, shorter = (before, after) if len(before) > len(after) else (after, before)
        return f"{longer[len(shorter)][0]} appeared or disappeared"
    return None


def _describe_change(name: str, before: Any, now: Any) -> str:
    if is_simple(before) and is_simple(now):
        return f"{name} was {before!r}, is {now!r}"
    return f"{name} is a different {type(now).__name__}"
