"""Tensors that Python keeps from call to call: `self.hidden = cell(x, self.hidden)`, `seen["input"] = x.detach()` in a hook. Not those written in place.

A compiled function takes them as arguments and returns the next ones as results; they are read from and stored to their places around each call.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

from ..core import changes
from ..core.tensor import Tensor
from .guards import Look, Place
from .reach import is_module


def written(before: Look, after: Look) -> list[Place]:
    """The places that hold another tensor than before, including new attributes of modules and new entries of dictionaries."""
    was = {(id(holder), key): value for holder, key, value in before.places}
    may_be_new = (holder for holder, _, _ in after.places if id(holder) in before.seen and (is_module(holder) or isinstance(holder, dict)))
    new = dict.fromkeys(map(id, may_be_new))
    found = ((holder, key, value, was.get((id(holder), key), None if id(holder) in new else value)) for holder, key, value in after.places)
    return [(holder, key) for holder, key, value, former in found if value is not None and value is not former]


def read(holder: Any, key: Any) -> Any:
    """The value at a place; of a leaf, its gradient. `...` if the attribute or entry does not exist."""
    try:
        if isinstance(holder, types.CellType):
            return holder.cell_contents
        if isinstance(holder, Tensor):
            return holder._grad
        return holder[key] if isinstance(holder, (dict, list, deque)) else getattr(holder, key)
    except (LookupError, AttributeError, ValueError):
        return ...


def values(places: list[Place]) -> list:
    """The values at the places."""
    return [read(*each) for each in places]


def given(function: Callable, places: list[Place]) -> Callable:
    """A function of (what lies at the places, its arguments, those with names) that gives (its result, what lies there then, but no gradients)."""
    then = _reader([each for each in places if not isinstance(each[0], Tensor)])

    @wraps(function)
    def run(held: list, arguments: tuple, named: dict) -> tuple:
        return function(*arguments, **named), then()

    return run


def _reader(places: list[Place]) -> Callable:
    """A function of this library, which guards do not look into."""
    return lambda: values(places)


def put(places: list[Place], new: list, pictures: Iterable[Any]) -> None:
    """Store a run's results at their places. `pictures` exclude these places, so they stay valid."""
    for (holder, key), value in zip([each for each in places if not isinstance(each[0], Tensor)], new):
        if read(holder, key) is not value:
            before = changes.count
            _lay(holder, key, value)
            for each in pictures:
                if each.count == before:
                    each.count = changes.count


def _lay(holder: Any, key: Any, value: Any) -> None:
    inside = isinstance(holder, (dict, list, deque))
    if isinstance(holder, types.CellType):
        holder.cell_contents = value
    elif value is ...:
        holder.pop(key) if inside else delattr(holder, key)
    elif inside:
        holder[key] = value
    else:
        setattr(holder, key, value)
