"""Values that a recorded function reads in Python and only returns: `return loss.item()`. Runs of its program read them when they have ended.

While it is recorded, the function gets a `Later` in the value's stead. Arithmetic with numbers makes another one; whatever else looks at it raises.
"""

from __future__ import annotations

import builtins
import operator
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple
from weakref import ref

from ..core.tensor import Tensor

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
METHODS = ("item", "tolist", "numpy")  # of a tensor
_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "neg", "pos", "abs", "round")
_LOOKS = (
    "__bool__", "__int__", "__float__", "__complex__", "__index__", "__hash__", "__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__repr__", "__format__",
    "__len__", "__iter__", "__getitem__", "__contains__", "__getattr__", "__array__", "__reduce_ex__", "__trunc__", "__floor__", "__ceil__", "__divmod__", "__rdivmod__",
)


class Reading(NamedTuple):
    """A value that Python reads, in a program's outputs: a method of a tensor, or an operation of Python, on `operands`."""

    operation: str
    operands: tuple


def function_of(operation: str) -> Callable:
    """What computes a reading from its operands."""
    return getattr(Tensor, operation) if operation in METHODS else getattr(operator, operation, None) or getattr(builtins, operation)


def compute(operation: str, operands: Iterable) -> Any:
    """The value of a reading."""
    return function_of(operation)(*operands)


class Later:
    """Stands for a reading while the function runs. `look` is called by whatever looks at it, and raises. `made` collects all that are alive, with their looks."""

    __slots__ = ("__weakref__", "_look", "_made", "_reading")

    def __init__(self, reading: Reading, look: Callable[[], None], made: list[tuple[ref, Callable]]) -> None:
        self._reading, self._look, self._made = reading, look, made
        made.append((ref(self), look))

    @property
    def __class__(self) -> type:
        """What isinstance() looks at. A module's `__setattr__`, which only tells parameters and modules from the rest, may."""
        code = sys._getframe(1).f_code
        return Later if code.co_name == "__setattr__" and code.co_filename.startswith(_PACKAGE) else _look(self)


def reading_of(later: Later) -> Reading:
    """What a Later stands for."""
    return Later._reading.__get__(later)


def guarded(later: Later, look: Callable[[], None]) -> Later:
    """The same, with another `look`."""
    return Later(reading_of(later), look, Later._made.__get__(later))


def _arithmetic(operation: str, reflected: bool) -> Callable:
    def method(self: Later, *others: Any) -> Any:
        look = Later._look.__get__(self)
        operands = tuple(reading_of(each) if type(each) is Later else each for each in (self, *others))
        if not all(type(each) in (bool, int, float, complex) or (type(each) is Reading and each.operation != "numpy") for each in operands):
            look()  # an array shares the tensor's memory, which may change until the run has ended
        return Later(Reading(operation, operands[::-1] if reflected else operands), look, Later._made.__get__(self))

    return method


def _look(self: Later, *arguments: Any) -> Any:
    Later._look.__get__(self)()
    raise AssertionError("a value that is not known yet was looked at")


for _each in _ARITHMETIC:
    setattr(Later, f"__{_each}__", _arithmetic(_each, False))
    setattr(Later, f"__r{_each}__", _arithmetic(_each, True))
for _each in _LOOKS:
    setattr(Later, _each, _look)
