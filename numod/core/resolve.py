"""Memoized argument handling: a call's checks and its op's parameters are worked out once per layout and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps

from ..device import Layout
from ..errors import WHOLE
from .apply import listeners

_LIMIT = 4096  # calls remembered per function; beyond it the oldest are forgotten


def resolved(function: Callable) -> Callable:
    """`function`, memoized by its arguments (layouts, ints, names); with unhashable arguments (lists, tensors) it is
    called every time.
    """
    kept = lru_cache(_LIMIT, typed=True)(_of_constants(function))

    @wraps(function)
    def resolve(*arguments: object) -> object:
        try:
            return kept(*arguments)
        except TypeError:
            if listeners:  # while a function is recorded, what stands for a number may be among them
                arguments = [
                    argument.__number__(None, ()) if hasattr(type(argument), "__number__") else argument
                    for argument in arguments
                ]
            return function(*arguments)

    return resolve


def _of_constants(function: Callable) -> Callable:
    def checked(*arguments: object) -> object:
        if not all(map(_is_constant, arguments)):
            raise TypeError("not to be remembered")
        return function(*arguments)

    return checked


def flat(sizes: tuple) -> tuple:
    """Sizes one by one, also if they came as one tuple.

    (Inside a cache key, a tuple of floats would equal one of ints.)
    """
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes


def whole(name: str, sizes: tuple) -> tuple[int, ...]:
    """Sizes given one by one or as one sequence.

    Raises TypeError if they are not ints, or start with a bool: a flag in the place of a size.
    """
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = tuple(sizes[0])
    if sizes and isinstance(sizes[0], bool):
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}")
    try:
        return tuple([n.__index__() for n in sizes])
    except AttributeError:
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}") from None


def whole_number(name: str, argument: str, given: object) -> int:
    """An argument that is an int. Raises TypeError for floats and bools."""
    if isinstance(given, bool) or not isinstance(given, WHOLE):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(given).__name__}")
    return given


def _is_constant(each: object) -> bool:
    return issubclass(
        type(each), (int, str, Layout, type(None))
    )  # its own type: what stands for a number while a function is recorded is none of them
