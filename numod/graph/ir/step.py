"""The parts of a program: values, steps and checks."""

from __future__ import annotations

from dataclasses import dataclass

from ...ops.op import Op


class _Empty:
    """The op of uninitialised memory: a buffer without a call."""

    name, is_view, reports, outputs = "empty", False, False, ()


EMPTY = _Empty()


@dataclass(frozen=True)
class Value:
    """A tensor of the program, by number."""

    number: int

    def __hash__(self) -> int:
        return self.number


@dataclass
class Step:
    """One op: inputs are Values, numbers or None; results are new values, or existing ones written in place."""

    op: Op
    inputs: tuple
    attributes: tuple
    results: tuple[Value, ...]
    in_place: bool
    location: str = ""  # its line in the user's code


def numbers_of(step: Step) -> tuple:
    """The scalars of an optimizer's update that are its last inputs: numbers, or values of one element.

    The step's attributes are (function that returns the scalars, number of parameters, types of the scalars). Only if
    the function is None are the scalars inputs.
    """
    numbers, _, kinds = step.attributes
    return step.inputs[len(step.inputs) - len(kinds) :] if numbers is None else ()


@dataclass
class Check:
    """A value that the library read during recording, and the number it found. A run must find an equal number."""

    value: Value
    expected: float | int | bool
    location: str = ""


def name(value: object) -> str:
    """A value as text, as in printed programs: %3."""
    return f"%{value.number}" if issubclass(type(value), Value) else repr(value)
