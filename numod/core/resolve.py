"""Memoized argument handling: argument checks and op attributes are computed once per layout and arguments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, wraps

from ..device import Layout
from ..errors import SINGLE_INT
from .listeners import listeners

_MAX_CALLS = 4096  # cached calls per function


def resolved(function: Callable) -> Callable:
    """`function`, memoized by its arguments (layouts, ints, names). Calls with lists or tensors are not cached."""
    memoized = lru_cache(_MAX_CALLS, typed=True)(_of_constants(function))

    @wraps(function)
    def resolve(*arguments: object) -> object:
        try:
            return memoized(*arguments)
        except TypeError:
            if listeners:  # while a function is recorded, arguments may be lazy scalars
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
    """Sizes passed as separate arguments or as one tuple.

    Flat, since in a cache key a tuple of floats would equal one of ints.
    """
    return sizes[0] if len(sizes) == 1 and isinstance(sizes[0], tuple) else sizes


def whole(name: str, sizes: tuple) -> tuple[int, ...]:
    """Sizes passed as separate arguments or as one sequence.

    Raises TypeError if they are not ints or start with a bool, which is a flag passed as a size.
    """
    if len(sizes) == 1 and isinstance(sizes[0], Sequence):
        sizes = tuple(sizes[0])
    if sizes and isinstance(sizes[0], bool):
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}")
    try:
        return tuple([n.__index__() for n in sizes])
    except AttributeError:
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}") from None


def refuse_floats(name: str, sizes: tuple) -> None:
    """Raise TypeError for floats among the sizes. As a key of plans, 2.0 equals 2; lazy numbers pass."""
    if float in [size.__class__ for size in sizes]:
        raise TypeError(f"{name}(): sizes must be ints, got {sizes!r}")


def whole_number(name: str, argument: str, value: object) -> int:
    """An argument that is an int. Raises TypeError for floats and bools."""
    if isinstance(value, bool) or not isinstance(value, SINGLE_INT):
        raise TypeError(f"{name}(): argument '{argument}' must be int, not {type(value).__name__}")
    return value


def _is_constant(value: object) -> bool:
    return issubclass(
        type(value), (int, str, Layout, type(None))
    )  # by exact type: lazy scalars of a recorded function are excluded
