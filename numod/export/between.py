"""Optimised programs for a range of sizes, from those of a few sizes.

The passes of `graph.passes` decide by thresholds, so sizes between two that have the same steps have them too, unless
one that is tried in between shows another choice. Then the range is halved. The numbers of a step are polynomials of
the size. Kernels are chosen for each size afterwards, when its program is lowered, so each size has a valid plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from types import FunctionType, MethodType
from typing import Any

from ..core.create.generator import Draw
from ..core.tensor import Tensor
from ..device.layout import Layout, layout
from ..graph.ir.program import Program, Value
from ..graph.passes.pipeline import optimise
from ..kernel.expression import Expression
from ..ops.op import Op, PlanTables
from . import polynomial

_FEW_SIZES = 12  # sizes of a range whose programs are all optimised
_OPAQUE = FunctionType, MethodType, partial, type  # what they refer to is not in their `__dict__`
_CACHES = ("tables", "plans", "backward_plans")  # attributes of an op


class Different(Exception):
    """Two programs differ in more than numbers that follow the size."""


def optimised(program_for: Callable[[tuple[int, ...]], Program], points: Sequence[tuple]) -> Iterator[Program]:
    """The optimised programs at all points, which are consecutive sizes of the last dimension, line by line."""
    at = cache(lambda point: optimise(program_for(point))[0])
    first = 0
    while first < len(points):
        last = first + 1
        while last < len(points) and points[last][:-1] == points[first][:-1]:
            last += 1
        yield from _between(at, points[first:last])
        first = last


def _between(at: Callable[[tuple], Program], points: Sequence[tuple]) -> Iterator[Program]:
    """The programs at points on a line."""
    if len(points) <= _FEW_SIZES:
        yield from map(at, points)
        return
    middle = len(points) // 2
    tried = [points[k] for k in (0, 1, middle, middle + 1, len(points) - 1)]
    try:
        program_at = common([*map(at, tried)], [point[-1:] for point in tried])
    except Different:
        yield from _between(at, points[:middle])
        yield from _between(at, points[middle:])
    else:
        yield from (filled(program_at, point[-1:]) for point in points)


class Varying:
    """A part that depends on the size. `at`: the part for a size."""

    def __init__(self, at: Callable[[tuple[int, ...]], Any]) -> None:
        self.at = at


def filled(part: Any, point: tuple[int, ...]) -> Any:
    """A part for a size."""
    return part.at(point) if type(part) is Varying else part


def common(parts: Sequence[Any], points: Sequence[tuple[int, ...]]) -> Any:
    """What parts of programs at several points have in common: the first part if all are equal, else a Varying.

    Raises Different if the parts differ in anything but integers, or integers are not polynomials of the size.
    """
    first = parts[0]
    if all(part is first for part in parts):
        return first
    if any(type(part) is not type(first) for part in parts) or isinstance(first, Draw):  # a draw is known by identity
        raise Different
    if type(first) is int:
        return _common_integer(parts, points)
    for kind, merge in _MERGED.items():
        if isinstance(first, kind):
            return merge(parts, points)
    if hasattr(first, "__dict__") and not isinstance(first, _OPAQUE):
        return _common_object(parts, points)
    return _equal(parts, points)


def _equal(parts: Sequence[Any], points: Sequence[tuple[int, ...]]) -> Any:
    if any(part != parts[0] for part in parts):
        raise Different
    return parts[0]


def _common_integer(parts: Sequence[int], points: Sequence[tuple[int, ...]]) -> Any:
    if len({*parts}) == 1:
        return parts[0]
    terms = polynomial.fit(points, parts)
    if terms is None:
        raise Different
    return Varying(lambda point: polynomial.value(terms, point))


def _common_sequence(parts: Sequence[Any], points: Sequence[tuple[int, ...]]) -> Any:
    if any(len(part) != len(parts[0]) for part in parts):
        raise Different
    members = [common(same, points) for same in zip(*parts)]
    make = getattr(type(parts[0]), "_make", type(parts[0]))  # of a NamedTuple
    return _joined(parts[0], members, lambda point: make([filled(member, point) for member in members]))


def _common_dict(parts: Sequence[dict], points: Sequence[tuple[int, ...]]) -> Any:
    keys = [*parts[0]]
    if any([*part] != keys for part in parts):
        raise Different
    members = [common([part[key] for part in parts], points) for key in keys]
    return _joined(parts[0], members, lambda point: {key: filled(member, point) for key, member in zip(keys, members)})


def _common_layout(parts: Sequence[Layout], points: Sequence[tuple[int, ...]]) -> Any:
    first = parts[0]
    if any((part.dtype, part.device) != (first.dtype, first.device) for part in parts):
        raise Different
    members = [common([tuple(part.shape) for part in parts], points), common([part.strides for part in parts], points)]
    return _joined(
        first, members, lambda at: layout(filled(members[0], at), first.dtype, first.device, filled(members[1], at))
    )


def _common_object(parts: Sequence[Any], points: Sequence[tuple[int, ...]]) -> Any:
    """An object with a dict: a step, a program, or an op that a pass made."""
    kind, attributes = type(parts[0]), common([_attributes(part) for part in parts], points)

    def at(point: tuple[int, ...]) -> Any:
        made = object.__new__(kind)
        made.__dict__.update(filled(attributes, point))
        if isinstance(made, Op):
            made.tables, made.backward_plans = PlanTables(), {}
            made.plans = made.tables
        return made

    return _joined(parts[0], [attributes], at)


def _attributes(part: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if name not in _CACHES}


def _same_formula(parts: Sequence[Expression], points: Sequence[tuple[int, ...]]) -> Expression:
    names = type(parts[0]).__slots__
    if any(type(common([getattr(part, name) for part in parts], points)) is Varying for name in names):
        raise Different
    return parts[0]


def _same_tensor(parts: Sequence[Tensor], points: Sequence[tuple[int, ...]]) -> Tensor:
    _equal([(id(part._storage), part._offset, id(part._layout)) for part in parts], points)
    return parts[0]


def _joined(first: Any, members: Sequence[Any], at: Callable[[tuple[int, ...]], Any]) -> Any:
    """`first` if no member depends on the size."""
    return Varying(at) if any(type(member) is Varying for member in members) else first


_MERGED: dict[Any, Callable] = {
    (tuple, list): _common_sequence, dict: _common_dict, Layout: _common_layout, Expression: _same_formula,
    Tensor: _same_tensor, Value: _equal,
}  # fmt: skip
