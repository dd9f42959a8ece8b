"""Numbers that change from call to call and are passed to a program as tensors.

They are arguments, items of structures among the arguments, or values at places. While a function is recorded it
receives lazy scalars for them. A number that the code looks at (`if n > 3`) stays a constant of the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, wraps
from typing import Any

from ..guards.snapshot import Snapshot
from ..guards.state_visitor import Place
from ..values.lazy_scalar import LazyScalar, known_early, read_value, value_of
from ..values.pytree import changed, contents, is_frozen, keys, may_hold_numbers, parts, rebuilt, replace
from .python_state import Count, as_count, is_number, math_functions_of_lazy_scalars, read_place, write_place
from .recorder import recording

# the way to a number among arguments: the argument's position or name, then positions in structures
Path = tuple[int | str, ...]
_NESTED_LIMIT = 64  # numbers in structures, beyond which none of them are passed as tensors
_VALUES = 3  # different values after which a number is passed as a tensor


class StrippedArguments(tuple):
    """Positional arguments without some of their numbers; `original` has all (arguments, keyword arguments)."""

    original: tuple[tuple, dict]


class ChangingNumbers:
    """Observes which numbers change, among arguments and at places."""

    def __init__(self) -> None:
        # up to three values of each number, by its path among arguments, or by (id of the holder, key) of its place
        self.values: dict[Any, set[int | float]] = {}
        self.places: dict[tuple[int, Any], Place] = {}  # all places of numbers
        self.specialised_on: set = set()  # numbers that the code looks at: they stay constants

    def observe(self, args: tuple, kwargs: dict, snapshots: list[Snapshot]) -> tuple[list[Path], list[Place]]:
        """Note the numbers of a call; return the paths and places of those that change."""
        for snapshot in snapshots:
            self.places.update(snapshot.numbers)
        current = dict(_numbers_among(args, kwargs, nested=bool(snapshots)))
        current |= {name: read_place(*location) for name, location in self.places.items()}
        for name, value in current.items():
            values = self.values.setdefault(name, set()) if is_number(value) else ()
            if is_number(value) and len(values) < _VALUES:
                values.add(value)
        changing = [name for name, values in self.values.items() if len(values) == _VALUES and self._is_free(name)]
        paths = [name for name in changing if name not in self.places]
        return paths, [self.places[name] for name in changing if name in self.places]

    def _is_free(self, name: tuple) -> bool:
        """Whether a number can become a tensor: no code is specialised on it, and its path has a number in every call.

        In another call the path may lead to a structure of numbers, or its parent to a number.
        """
        return name not in self.specialised_on and not any(
            other != name and other[: len(name)] == name[: len(other)]
            for other in self.values
            if other not in self.places
        )


class NumberArguments:
    """The numbers that a variant of a compiled function takes as tensors: some arguments, and values at places."""

    def __init__(self, paths: list[Path], places: list[Place], specialised_on: set) -> None:
        self.paths, self.places, self.specialised_on = paths, places, specialised_on
        self.excluded = frozenset((id(holder), key) for holder, key in places)
        self._tree = _tree_of(paths)
        self._specialised_before = len(specialised_on)

    def __len__(self) -> int:
        return len(self.paths) + len(self.places)

    @property
    def found_specialised(self) -> bool:
        """Whether recording found more numbers that the code looks at."""
        return len(self.specialised_on) > self._specialised_before

    def take(self, args: tuple, kwargs: dict) -> tuple[list[Count], StrippedArguments, dict] | None:
        """(numbers, other positional arguments, other keyword arguments), or None if one of them is not a number."""
        numbers: list = [0] * len(self.paths)
        positional, keywords = [*args], {**kwargs}
        try:
            for name, subtree in self._tree.items():
                target = positional if type(name) is int else keywords
                target[name] = _take_out(subtree, target[name], numbers)
        except LookupError:  # an argument or an item may be absent
            return None
        numbers += [read_place(*location) for location in self.places]
        if not all(map(is_number, numbers)):
            return None
        stripped = StrippedArguments(positional)
        stripped.original = args, kwargs
        return [*map(as_count, numbers)], stripped, keywords

    def wrap(self, function: Callable, mathematics: Sequence[Place]) -> Callable:
        """A function of the results of `take`, which calls `function` with the numbers at their paths and places.

        If the code looks at a number, its path, or (id of the holder, key), is added to `specialised_on`.
        """
        call = _caller(self.paths, self._tree, self.places, self.specialised_on, mathematics)

        @wraps(function)
        def run(numbers: list[Count], arguments: StrippedArguments, kwargs: dict) -> Any:
            return call(function, numbers, arguments)

        return run


def _caller(
    paths: list[Path], tree: dict, places: list[Place], specialised_on: set, mathematics: Sequence[Place]
) -> Callable:
    """The body of a function wrapped by NumberArguments. As a function of this library it is not guarded."""
    names = [*paths, *((id(holder), key) for holder, key in places)]

    def call(function: Callable, counts: list[Count], arguments: StrippedArguments) -> Any:
        """Call the function with lazy scalars in place of the numbers, and restore the arguments' containers."""
        numbers = [count.value.item() for count in counts]
        numbers = [
            known_early(number, partial(specialised_on.add, name)) if type(number) is LazyScalar else number
            for name, number in zip(names, numbers)
        ]
        before, substitutions = contents(arguments.original), _Substitutions()
        try:
            positional, keywords = map(dict, (enumerate(arguments.original[0]), arguments.original[1]))
            for name, subtree in tree.items():
                target = positional if type(name) is int else keywords
                target[name] = _put_in(subtree, target[name], numbers, substitutions)
            argument_items = substitutions.entries.copy()
            for location, number in zip(places, numbers[len(paths) :]):
                substitutions.put(*location, number)
            if recording() is not None:
                recording().updates.expose_numbers = partial(_expose, substitutions.entries[len(argument_items) :])
            with math_functions_of_lazy_scalars(mathematics):
                result = function(*positional.values(), **keywords)
            if recording() is not None and any(
                container is holder for container, _ in contents(result) for holder, *_ in argument_items
            ):
                result = replace(result, lambda leaf: leaf)  # a copy: the containers' contents are restored below
        finally:
            if recording() is not None:
                recording().updates.expose_numbers = None
            substitutions.restore()
        if recording() is not None and (kind := changed(before)):
            recording().decisions.give_up(
                f"compile: the contents of an argument, a {kind}, change, which a compiled function cannot repeat"
            )
        return result

    return call


class _Substitutions:
    """Values that replace others at places for the duration of a call."""

    def __init__(self) -> None:
        self.entries: list[tuple[Any, Any, Any, Any]] = []  # (holder, key, former value, value)

    def put(self, holder: Any, key: Any, value: Any) -> None:
        """Store a value at a place."""
        self.entries.append((holder, key, read_place(holder, key), value))
        try:
            write_place(holder, key, value)
        except Exception:  # a class whose setter accepts nothing but numbers
            _read_all(value)

    def restore(self) -> None:
        """Restore the former values, except at places that the function has written to."""
        overwritten = [entry for entry in reversed(self.entries) if not _restore(*entry)]
        for holder, key, _, value in overwritten:
            _read_all(value)  # the number at the next call depends on this one
            if type(written := read_place(holder, key)) is LazyScalar:
                write_place(holder, key, value_of(written))


def _restore(holder: Any, key: Any, former: Any, value: Any) -> bool:
    """Restore the former value at a place. Return False if the function has written there, and leave its value."""
    current = read_place(holder, key)
    if current is value:
        write_place(holder, key, former)
    return current is value or current is former


def _expose(entries: list[tuple], are_read: bool) -> None:
    """Put the plain numbers back at their places while an optimizer reads them (`are_read`), then the lazy scalars.

    Each run reads them again, so the recording does not depend on them.
    """
    for holder, key, former, value in entries:
        shown, hidden = (former, value) if are_read else (value, former)
        if read_place(holder, key) is hidden:
            write_place(holder, key, shown)


def _read_all(value: Any) -> None:
    """Read all lazy scalars in a value, which ends the recording."""
    for part in parts(value) or [value]:
        if type(part) is LazyScalar:
            read_value(part)
        elif part is not value:
            _read_all(part)


# ---- paths


def _numbers_among(args: tuple, kwargs: dict, nested: bool) -> Iterable[tuple[Path, int | float]]:
    """The numbers among arguments; if `nested`, also those in structures, unless there are many."""
    arguments = [*enumerate(args), *kwargs.items()]
    direct = [((name,), value) for name, value in arguments if is_number(value)]
    if not nested:
        return direct
    numbers = [pair for name, value in arguments for pair in _numbers_in(value, (name,))]
    return numbers if len(numbers) - len(direct) <= _NESTED_LIMIT else direct


def _numbers_in(value: Any, path: Path) -> Iterator[tuple[Path, int | float]]:
    if is_number(value):
        yield path, value
    elif may_hold_numbers(value):
        for position, part in enumerate(parts(value)):
            yield from _numbers_in(part, (*path, position))


def _tree_of(paths: Sequence[Path]) -> dict:
    """Paths as nested dictionaries; the leaves are the paths' positions in the sequence."""
    root: dict = {}
    for number, path in enumerate(paths):
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node[path[-1]] = number
    return root


def _take_out(tree: dict | int, value: Any, numbers: list) -> Any:
    """Move the numbers at the leaves of a tree from a structure into the list. Raises LookupError for others."""
    if type(tree) is int:
        if not is_number(value):
            raise LookupError
        numbers[tree] = value
        return None
    if not may_hold_numbers(value):
        raise LookupError
    items = parts(value)
    for position, subtree in tree.items():
        items[position] = _take_out(subtree, items[position], numbers)
    return rebuilt(value, items)


def _put_in(tree: dict | int, value: Any, numbers: list, substitutions: _Substitutions) -> Any:
    """A structure with numbers at the leaves of a tree: a copy if it is immutable, else itself for now."""
    if type(tree) is int:
        return numbers[tree]
    items, names = parts(value), keys(value)
    for position, subtree in tree.items():
        former, items[position] = items[position], _put_in(subtree, items[position], numbers, substitutions)
        if not is_frozen(value) and items[position] is not former:
            substitutions.put(value, names[position], items[position])
    return rebuilt(value, items) if is_frozen(value) else value
