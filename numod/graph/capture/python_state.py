"""State in Python: tensors and numbers that a function stores for its next call.

Examples: `self.hidden = cell(x, self.hidden)`, `p.data = p.data.clamp(0, 1)`, `self.steps += 1`. In-place writes to
tensors are ordinary steps of a program and need none of this.

A compiled function takes the values at such places as arguments and returns the new ones as results, which are stored
after each call (`StateArguments`). Plain objects are passed in parts (`values.instances`). Numbers are passed as
tensors; while the function is recorded it finds lazy scalars in their places.
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
from ..guards.guard import strongly
from ..guards.snapshot import Snapshot
from ..guards.state_visitor import Place, StateVisitor
from ..values import objects
from ..values.instances import (
    Returned,
    Unchanged,
    create_objects,
    has_other_references,
    holds_objects,
    holds_parts,
    read_lazy_scalars,
    same_parts,
    take_apart,
)
from ..values.kinds import is_module, is_plain_key
from ..values.lazy_scalar import STAND_INS, LazyScalar, known_early
from ..values.pytree import contents, replace
from .recorder import Recorder, line, recording

_REGISTRIES = ("_parameters", "_buffers", "_modules")


class Count(NamedTuple):
    """A number, as a tensor."""

    value: Tensor


class StateArguments:
    """Places whose values a compiled function takes as arguments and returns as results."""

    def __init__(self, places: list[Place], former: StateArguments | None = None) -> None:
        """`former`: the state that was known before, to which the places are added."""
        self.places = [*(former.places if former else ()), *places]
        self.rounds = former.rounds + 1 if former else 1  # how often places were added
        self.excluded = frozenset((id(holder), key) for holder, key in self.places)
        self._stored = [location for location in self.places if not is_gradient(*location)]

    def wrap(self, function: Callable, mathematics: Sequence[Place]) -> Callable:
        """A function of (values at the places, arguments, keyword arguments) that returns (result, new values)."""
        call = _caller(self.places, mathematics)

        @wraps(function)
        def run(values: list, arguments: tuple, kwargs: dict) -> tuple:
            return call(function, values, arguments, kwargs)

        return run

    def read(self) -> list:
        """The values that the wrapped function takes now: for a tensor's memory, the tensor."""
        values = [
            holder if issubclass(type(holder), Tensor) and key == "data" else read_place(holder, key)
            for holder, key in self.places
        ]
        return [as_count(value) if is_number(value) else take_apart(value) for value in values]

    def store(self, new_values: list, outputs: Any, snapshots: Iterable[Snapshot]) -> None:
        """Store the new values of a call that returned `outputs`.

        The `snapshots` exclude these places, so they stay valid.
        """
        for (holder, key), value in zip(self._stored, new_values):
            former = read_place(holder, key)
            if type(value) is Unchanged:
                value = former
            elif type(value) is Returned:
                value = contents(outputs)[value.number][0]
            else:
                value = create_objects(value)
            if former is not value and not (issubclass(type(holder), Tensor) and _is_alias(former, value)):
                before = changes.count
                write_place(holder, key, value)
                for snapshot in snapshots:
                    if snapshot.count == before:
                        snapshot.count = changes.count


def _is_alias(one: Tensor, other: Tensor) -> bool:
    return one._storage is other._storage and one._layout is other._layout and one._offset == other._offset


def _caller(places: list[Place], mathematics: Sequence[Place]) -> Callable:
    """The body of a function wrapped by StateArguments. As a function of this library it is not guarded."""

    def call(function: Callable, values: list, arguments: tuple, kwargs: dict) -> tuple:
        """Call the function with lazy scalars in `places`; return its result and the new values of the places."""
        before = [(*location, read_place(*location)) for location in places]
        counts = [(*location, value.value.item()) for location, value in zip(places, values) if type(value) is Count]
        for holder, key, number in counts:
            if type(number) is LazyScalar:
                write_place(holder, key, known_early(number, partial(_refuse, recording(), key)))
        with math_functions_of_lazy_scalars(mathematics):
            result = function(*arguments, **kwargs)
        if (recorder := recording()) is None:
            new_values = [read_place(*location) for location in places if not is_gradient(*location)]
        else:
            new_values = _encode_new_values(places, before, values, result)
            # the result may be a container whose former contents are restored below: return a copy of it
            result = replace(
                result,
                lambda leaf: leaf,
                whole=lambda container: (
                    container if recorder.environment.encode_container(container) is not None else None
                ),
            )
        for holder, key, former in before:
            if type(read_place(holder, key)) is LazyScalar:
                write_place(holder, key, former)
        return result, new_values

    return call


def _refuse(recorder: Recorder, key: Any) -> None:
    recorder.decisions.give_up(
        f"compile: {key} changes whenever the function runs, and {line()} depends on its "
        "value, which a compiled function cannot repeat; keep it outside, or make it a tensor"
    )


def _encode_new_values(places: list[Place], before: list[tuple], values: list, result: Any) -> list:
    """The new values at the places, encoded as results of the program.

    Gives up the recording if other code could observe that each run creates new objects.
    """
    triples = [
        (read_place(*location), former, value)
        for location, (*_, former), value in zip(places, before, values)
        if not is_gradient(*location)
    ]
    returned = {id(container): number for number, (container, _) in enumerate(contents(result))}
    objects_in_parts: list = []
    new_values = [_encode(*triple, returned, objects_in_parts) for triple in triples]
    is_written = any(holds_parts(value) and not same_parts(take_apart(former), value) for _, former, value in triples)
    triples.clear()  # its references would be counted by `has_other_references`
    if is_written or has_other_references(objects_in_parts):
        recording().decisions.give_up(
            "compile: an object that the function stores is also referenced elsewhere, or is written to later, which "
            "a compiled function cannot repeat; store its tensors instead"
        )
        return [Unchanged() if holds_parts(value) else value for value in new_values]
    return new_values


def _encode(value: Any, former: Any, argument: Any, returned: dict[int, int], objects_in_parts: list) -> Any:
    """Encode a new value at a place as a result of the program."""
    read_lazy_scalars(value)
    if value is former and holds_parts(argument):
        return Unchanged()
    if id(value) in returned and holds_objects(value):
        return Returned(returned[id(value)])
    return take_apart(value, objects_in_parts)


# ---- numbers as tensors


def is_number(value: Any) -> bool:
    """Whether the value is a float, or an integer that a tensor can hold."""
    return type(value) is float or (type(value) is int and -(1 << 63) <= value < 1 << 63)


def as_count(number: float | int) -> Count:
    """The number as a tensor. Integers that fit are int32: arithmetic on them cannot overflow int64 soon."""
    dtype = float64 if type(number) is float else int32 if -(1 << 31) <= number < 1 << 31 else int64
    return Count(wrap(Storage(np.array([number], dtype.storage)), _layout(dtype), 0))


@cache
def _layout(dtype: DType) -> Layout:
    return layout((), dtype, Device("cpu"))


@contextmanager
def math_functions_of_lazy_scalars(mathematics: Sequence[Place]) -> Iterator[None]:
    """Replace functions of the math module, at these places, by functions that accept lazy scalars while recording."""
    originals = [(holder, key, read_place(holder, key)) for holder, key in mathematics] if recording() else []
    originals = [(holder, key, value) for holder, key, value in originals if id(value) in STAND_INS]
    try:
        for holder, key, value in originals:
            write_place(holder, key, STAND_INS[id(value)])
        yield
    finally:
        for holder, key, value in originals:
            write_place(holder, key, value)


# ---- places


def changed_places(before: StateVisitor, after: StateVisitor) -> list[Place]:
    """The places that hold another value than before, including new attributes of modules and new dictionary keys."""
    former_values = {_identity(holder, key): value for holder, key, value in before.places}
    may_have_new = {
        id(holder)
        for holder, _, _ in after.places
        if id(holder) in before.seen and (is_module(holder) or issubclass(type(holder), dict))
    }
    changed = []
    for holder, key, value in after.places:
        former = former_values.get(_identity(holder, key), None if id(holder) in may_have_new else value)
        if value is not None and value is not former:
            changed.append((holder, key))
    return changed


def _identity(holder: Any, key: Any) -> tuple:
    """A hashable identity of a place. It does not call a user's `__hash__`."""
    return id(holder), key if is_plain_key(key) else id(key)


def is_gradient(holder: Any, key: Any) -> bool:
    """Whether a place is the gradient of a leaf."""
    return issubclass(type(holder), Tensor) and key == "grad"


def _is_item(holder: Any, key: Any) -> bool:
    return issubclass(type(holder), (dict, list, deque)) and type(key) is not objects.Attribute


def read_place(holder: Any, key: Any) -> Any:
    """The value at a place. `...` if the attribute or item does not exist."""
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


def write_place(holder: Any, key: Any, value: Any) -> None:
    """Store a value at a place. `...` removes the attribute or item."""
    holder = strongly(holder)
    is_item = _is_item(holder, key)
    if issubclass(type(holder), types.CellType):
        holder.cell_contents = value
    elif issubclass(type(holder), Tensor):
        setattr(holder, key, value)
    elif value is ...:
        objects.delete_item(holder, key) if is_item else objects.delete_attribute(holder, key)
    elif is_item:
        objects.write_item(holder, key, value)
    else:
        objects.write_attribute(holder, key, value)


def replace_member(holder: set | dict, former: Any, value: Any) -> None:
    """Replace the member of a set, or the key of a dictionary, which keeps its order."""
    if issubclass(type(holder), set):
        set.remove(holder, former)
        set.add(holder, value)
    else:
        items = [(value if key is former else key, item) for key, item in objects.items_of(holder)]
        dict.clear(holder)
        for key, item in items:
            objects.write_item(holder, key, item)
