"""Tensors that modules keep as attributes from call to call: `self.hidden = cell(x, self.hidden)` in a `forward`. Not buffers written in place.

A compiled function is given their values as arguments and gives the next ones as results; what stands in the modules is exchanged around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from ..core import changes
from ..core.tensor import Tensor
from .guards import Entry
from .reach import is_module

Cell = tuple[Any, str]  # a module and an attribute of it


def attributes(entries: Iterable[Entry]) -> list[tuple[Any, dict[str, Any]]]:
    """The modules in a picture, with what they hold now."""
    return [(thing, dict(vars(thing))) for _, kind, thing in entries if kind == "is" and is_module(thing)]


def written(before: list[tuple[Any, dict[str, Any]]]) -> list[Cell]:
    """The attributes that hold another tensor than before, or one where none was. Parameters are not among them."""
    found = []
    for module, held in before:
        for key, now in vars(module).items():
            if isinstance(now, Tensor) and now is not held.get(key) and isinstance(held.get(key), (Tensor, type(None))) and key not in module._parameters:
                found.append((module, key))
    return found


def values(cells: list[Cell]) -> list[Tensor | None]:
    """What the attributes hold."""
    return [vars(module).get(key) for module, key in cells]


def given(function: Callable, cells: list[Cell]) -> Callable:
    """A function of (what the attributes hold, its arguments, those with names) that gives (its result, what they hold then)."""

    def run(held: list, arguments: tuple, named: dict) -> tuple:
        return function(*arguments, **named), values(cells)

    return run


def put(cells: list[Cell], new: list[Tensor | None], pictures: Iterable[Any]) -> None:
    """Assign what a run gave. `pictures` leave these attributes out, so where they held before they hold still."""
    for (module, key), value in zip(cells, new):
        if vars(module).get(key) is not value:
            before = changes.count
            setattr(module, key, value)
            for each in pictures:
                if each.count == before:
                    each.count = changes.count
