"""Tensors and numbers that Python keeps from call to call:

`self.hidden = cell(x, self.hidden)`, `p.data = p.data.clamp(0, 1)`, `self.steps += 1`. Not tensors written in place.

A compiled function takes them as arguments and returns the next ones as results; they are read from and stored to their
places around each call. Plain objects that hold some go in and out in parts (`instance`).
Numbers are passed as tensors, and while it is recorded the function finds in their places what stands for their values
(`later`).
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from typing import Any, NamedTuple

import numpy as np

from ...core import changes
from ...core.tensor import Tensor, wrap
from ...device import Layout, Storage
from ...device.device import Device
from ...device.layout import layout
from ...dtypes import dtype as DType
from ...dtypes import float64, int32, int64
from ..values import objects
from ..guards.guard import strongly
from ..guards.snapshot import StateVisitor, Place
from ..values.instances import (
    Returned,
    Unchanged,
    holds_objects,
    holds_parts,
    known_elsewhere,
    look_at_numbers,
    made,
    same,
    taken,
)
from ..values.kinds import is_module, is_plain_key
from ..values.lazy_scalar import STAND_INS, LazyScalar, early, look, value_of
from ..values.pytree import changed, contents, is_frozen, is_remade, keys, parts, remade, replace
from .recorder import Recorder, line, recording


# to a number among arguments: the argument's position or name, then positions in structures
Path = tuple[int | str, ...]
_REGISTRIES = ("_parameters", "_buffers", "_modules")
_FOLLOWED = 64  # numbers in structures, beyond which they are not given as tensors


class Count(NamedTuple):
    """A number, as a tensor."""

    value: Tensor


class Stripped(tuple):
    """Arguments without some of their numbers, also those with names; `given`, as they came, are what a function gets
    that runs in Python.
    """

    given: tuple[tuple, dict]


def written(before: StateVisitor, after: StateVisitor) -> list[Place]:
    """The places that hold another tensor than before, including new attributes of modules and new entries of
    dictionaries.
    """
    was = {_mark(holder, key): value for holder, key, value in before.places}
    may_be_new = (
        holder
        for holder, _, _ in after.places
        if id(holder) in before.seen and (is_module(holder) or issubclass(type(holder), dict))
    )
    new = dict.fromkeys(map(id, may_be_new))
    found = (
        (holder, key, value, was.get(_mark(holder, key), None if id(holder) in new else value))
        for holder, key, value in after.places
    )
    return [(holder, key) for holder, key, value, former in found if value is not None and value is not former]


def _mark(holder: Any, key: Any) -> tuple:
    """What tells a place from others. The hash of a user's key is not asked for."""
    return id(holder), key if is_plain_key(key) else id(key)


def read(holder: Any, key: Any) -> Any:
    """The value at a place. `...` if the attribute or entry does not exist."""
    holder = strongly(holder)
    try:
        if issubclass(type(holder), types.CellType):
            return holder.cell_contents
        if issubclass(type(holder), Tensor):
            return holder._grad if key == "grad" else holder.detach()
        if _is_item(holder, key):
            return objects.read_item(holder, key)
        if is_module(holder) and key not in (fields := objects.dictionary(holder)):
            return next(fields[registry][key] for registry in _REGISTRIES if key in fields[registry])
        return objects.read_attribute(holder, key)
    except (LookupError, AttributeError, ValueError, StopIteration):
        return ...


def _is_item(holder: Any, key: Any) -> bool:
    return issubclass(type(holder), (dict, list, deque)) and type(key) is not objects.Attribute


def values(places: list[Place]) -> list:
    """The values at the places, as a compiled function takes them: for a tensor's memory, the tensor."""
    found = [
        holder if issubclass(type(holder), Tensor) and key == "data" else read(holder, key) for holder, key in places
    ]
    return [counted(each) if is_number(each) else taken(each) for each in found]


def is_number(value: Any) -> bool:
    """Whether it is a float, or an integer that a tensor can hold."""
    return type(value) is float or (type(value) is int and -(1 << 63) <= value < 1 << 63)


def counted(number: float | int) -> Count:
    """A number as a tensor.

    That most integers are small is known by their dtype, when something is computed of them.
    """
    dtype = float64 if type(number) is float else int32 if -(1 << 31) <= number < 1 << 31 else int64
    return Count(wrap(Storage(np.array([number], dtype.storage)), _layout(dtype), 0))


@cache
def _layout(dtype: DType) -> Layout:
    return layout((), dtype, Device("cpu"))


@contextmanager
def _standing_in(mathematics: Sequence[Place]) -> Iterator[None]:
    """Have names of the math module give functions of what stands for numbers."""
    laid = (
        [(holder, key, each) for holder, key in mathematics if id(each := read(holder, key)) in STAND_INS]
        if recording()
        else []
    )
    try:
        for holder, key, each in laid:
            lay(holder, key, STAND_INS[id(each)])
        yield
    finally:
        for holder, key, each in laid:
            lay(holder, key, each)


def given(function: Callable, places: list[Place], mathematics: Sequence[Place]) -> Callable:
    """A function of (what lies at the places, its arguments, those with names) that gives (its result, what lies there
    then, but no gradients).
    """
    call = _caller(places, mathematics)

    @wraps(function)
    def run(held: list, arguments: tuple, named: dict) -> tuple:
        return call(function, held, arguments, named)

    return run


def numbers_among(arguments: tuple, named: dict, inside: bool) -> dict[Path, int | float]:
    """The numbers among arguments, and those `inside` tuples, lists, dictionaries and dataclasses, unless these are
    many.
    """
    given = [*enumerate(arguments), *named.items()]
    direct = {(name,): each for name, each in given if is_number(each)}
    found = dict(pair for name, each in given for pair in _numbers_in(each, (name,))) if inside else direct
    return found if len(found) - len(direct) <= _FOLLOWED else direct


def _numbers_in(each: Any, path: Path) -> Iterator[tuple[Path, int | float]]:
    if is_number(each):
        yield path, each
    elif is_remade(each):
        for k, part in enumerate(parts(each)):
            yield from _numbers_in(part, (*path, k))


def tree_of(paths: Sequence[Path]) -> dict:
    """Paths as dictionaries in dictionaries, with the paths' own numbers at the ends."""
    root: dict = {}
    for number, path in enumerate(paths):
        node = root
        for step in path[:-1]:
            node = node.setdefault(step, {})
        node[path[-1]] = number
    return root


def taken_out(tree: dict, count: int, arguments: tuple, named: dict) -> tuple[list, Stripped, dict] | None:
    """(the `count` numbers at the ends of a tree, the arguments without them), or None where there is anything else."""
    numbers, rest, others = [0] * count, [*arguments], {**named}
    try:
        for name, inner in tree.items():
            target = rest if type(name) is int else others
            target[name] = _without(inner, target[name], numbers)
    except LookupError:  # an argument or an item may be left out
        return None
    stripped = Stripped(rest)
    stripped.given = arguments, named
    return numbers, stripped, others


def _without(tree: dict | int, each: Any, numbers: list) -> Any:
    if type(tree) is int:
        if not is_number(each):
            raise LookupError
        numbers[tree] = each
        return None
    if not is_remade(each):
        raise LookupError
    inside = parts(each)
    for k, inner in tree.items():
        inside[k] = _without(inner, inside[k], numbers)
    return remade(each, inside)


def freed(
    function: Callable,
    dynamic_paths: Sequence[Path],
    places: Sequence[Place],
    specialised_on: set,
    mathematics: Sequence[Place],
) -> Callable:
    """A function of (numbers, its arguments, those with names) that calls `function` with the numbers at these paths,
    and then at these places.

    Where it looks at one of them, its path, or its place as (id of the holder, key), is added to `specialised_on`.
    """
    call = _with_numbers(dynamic_paths, places, specialised_on, mathematics)

    @wraps(function)
    def run(numbers: list[Count], arguments: Stripped, named: dict) -> Any:
        return call(function, numbers, arguments)

    return run


def _with_numbers(
    dynamic_paths: Sequence[Path], places: Sequence[Place], specialised_on: set, mathematics: Sequence[Place]
) -> Callable:
    """A function of this library, which guards do not look into."""
    names, tree = [*dynamic_paths, *((id(holder), key) for holder, key in places)], tree_of(dynamic_paths)

    def call(function: Callable, counts: list[Count], arguments: Stripped) -> Any:
        numbers = [each.value.item() for each in counts]
        numbers = [
            early(number, partial(specialised_on.add, name)) if type(number) is LazyScalar else number
            for name, number in zip(names, numbers)
        ]
        before, laid = contents(arguments.given), []
        try:
            given, own = map(dict, (enumerate(arguments.given[0]), arguments.given[1]))
            for name, inner in tree.items():
                target = given if type(name) is int else own
                target[name] = _with(inner, target[name], numbers, laid)
            inside = len(laid)
            for place, number in zip(places, numbers[len(dynamic_paths) :]):
                _lay_for_now(*place, number, laid)
            if recording() is not None:
                recording().expose = partial(_expose, laid[inside:])
            with _standing_in(mathematics):
                result = function(*given.values(), **own)
            if recording() is not None and any(
                each is holder for each, _ in contents(result) for holder, *_ in laid[:inside]
            ):
                result = replace(result, lambda each: each)  # it has a container that is put back as it was
        finally:
            if recording() is not None:
                recording().expose = None
            for holder, key, _, number in [each for each in laid[::-1] if not _put_back(*each)]:
                _look_into(number)  # the function writes there: its next value depends on this one's
                if type(written := read(holder, key)) is LazyScalar:
                    lay(holder, key, value_of(written))
        if recording() is not None and (kind := changed(before)):
            recording().give_up(
                f"compile: what is in an argument, a {kind}, changes, which a compiled function cannot repeat"
            )
        return result

    return call


def _with(tree: dict | int, each: Any, numbers: list, laid: list[tuple]) -> Any:
    """A structure with numbers at the ends of a tree: another one where it is immutable, else the same, for the time of
    a call.
    """
    if type(tree) is int:
        return numbers[tree]
    inside, names = parts(each), keys(each)
    for k, inner in tree.items():
        former, inside[k] = inside[k], _with(inner, inside[k], numbers, laid)
        if not is_frozen(each) and inside[k] is not former:
            _lay_for_now(each, names[k], inside[k], laid)
    return remade(each, inside) if is_frozen(each) else each


def _lay_for_now(holder: Any, key: Any, value: Any, laid: list[tuple]) -> None:
    """Put a value at a place, and note what was there."""
    laid.append((holder, key, read(holder, key), value))
    try:
        lay(holder, key, value)
    except Exception:  # a class whose setter takes nothing but numbers
        _look_into(value)


def _expose(laid: list[tuple], asking: bool) -> None:
    """The numbers at places while an optimizer's update asks for its own: it does so again at every run, when nothing
    stands for them.
    """
    for holder, key, former, value in laid:
        now, then = (value, former) if asking else (former, value)
        if read(holder, key) is now:
            lay(holder, key, then)


def _put_back(holder: Any, key: Any, former: Any, value: Any) -> bool:
    """Put what was at a place back, if the value that was put there is there still, or never was."""
    now = read(holder, key)
    if now is value:
        lay(holder, key, former)
    return now is value or now is former


def _look_into(value: Any) -> None:
    for part in parts(value) or [value]:
        if type(part) is LazyScalar:
            look(part)
        elif part is not value:
            _look_into(part)


def _caller(places: list[Place], mathematics: Sequence[Place]) -> Callable:
    """A function of this library, which guards do not look into."""

    def call(function: Callable, held: list, arguments: tuple, named: dict) -> tuple:
        before = [(*place, read(*place)) for place in places]
        counts = [(*place, each.value.item()) for place, each in zip(places, held) if type(each) is Count]
        for holder, key, later in [each for each in counts if type(each[2]) is LazyScalar]:
            lay(holder, key, early(later, partial(_refuse, recording(), key)))
        with _standing_in(mathematics):
            result = function(*arguments, **named)
        new = (
            [read(*place) for place in places if not is_gradient(*place)]
            if recording() is None
            else _in_parts(places, before, held, result)
        )
        if (recorder := recording()) is not None:  # what it returns may be a container that is put back as it was
            result = replace(
                result, lambda each: each, whole=lambda each: each if recorder.itself(each) is not None else None
            )
        for holder, key, former in before:
            if type(read(holder, key)) is LazyScalar:
                lay(holder, key, former)
        return result, new

    return call


def _in_parts(places: list[Place], before: list[tuple], held: list, result: Any) -> list:
    """What lies at the places, with plain objects in parts.

    Gives the recording up where others would see that every run puts another object there.
    """
    triples = [
        (read(*place), former, given)
        for place, (*_, former), given in zip(places, before, held)
        if not is_gradient(*place)
    ]
    returned = {id(each): number for number, (each, _) in enumerate(contents(result))}
    found: list = []
    new = [_in_stead(*triple, returned, found) for triple in triples]
    written_to = any(holds_parts(given) and not same(taken(former), given) for _, former, given in triples)
    triples.clear()  # it refers to what is counted next
    if written_to or known_elsewhere(found):
        recording().give_up(
            "compile: an object that the function keeps is also known elsewhere, or is "
            "written to later, which a compiled function cannot repeat; keep its tensors instead"
        )
        return [Unchanged() if holds_parts(each) else each for each in new]
    return new


def _in_stead(value: Any, former: Any, given: Any, returned: dict[int, int], found: list) -> Any:
    """What stands for a value in a program's results."""
    look_at_numbers(value)
    if value is former and holds_parts(given):
        return Unchanged()
    if id(value) in returned and holds_objects(value):
        return Returned(returned[id(value)])
    return taken(value, found)


def is_gradient(holder: Any, key: Any) -> bool:
    """Whether a place is that of a leaf's gradient."""
    return issubclass(type(holder), Tensor) and key == "grad"


def _refuse(recorder: Recorder, key: Any) -> None:
    recorder.give_up(
        f"compile: {key} changes whenever the function runs, and {line()} depends on its "
        "value, which a compiled function cannot repeat; keep it outside, or make it a tensor"
    )


def put(places: list[Place], new: list, outputs: Any, pictures: Iterable[Any]) -> None:
    """Store what a run that returns `outputs` has left at their places.

    `pictures` exclude these places, so they stay valid.
    """
    for (holder, key), value in zip([place for place in places if not is_gradient(*place)], new):
        former = read(holder, key)
        value = (
            former
            if type(value) is Unchanged
            else contents(outputs)[value.number][0]
            if type(value) is Returned
            else made(value)
        )
        if former is not value and not (
            issubclass(type(holder), Tensor)
            and former._storage is value._storage
            and former._layout is value._layout
            and former._offset == value._offset
        ):
            before = changes.count
            lay(holder, key, value)
            for picture in pictures:
                if picture.count == before:
                    picture.count = changes.count


def lay(holder: Any, key: Any, value: Any) -> None:
    """Put a value at a place; `...` removes what is there."""
    holder = strongly(holder)
    inside = _is_item(holder, key)
    if issubclass(type(holder), types.CellType):
        holder.cell_contents = value
    elif issubclass(type(holder), Tensor):
        setattr(holder, key, value)
    elif value is ...:
        objects.delete_item(holder, key) if inside else objects.delete_attribute(holder, key)
    elif inside:
        objects.write_item(holder, key, value)
    else:
        objects.write_attribute(holder, key, value)


def replace_member(holder: set | dict, former: Any, value: Any) -> None:
    """Replace the member of a set, or the key of a dictionary, which keeps its order."""
    if issubclass(type(holder), set):
        set.remove(holder, former)
        set.add(holder, value)
    else:
        items = [(value if key is former else key, each) for key, each in objects.items_of(holder)]
        dict.clear(holder)
        for key, each in items:
            objects.write_item(holder, key, each)
