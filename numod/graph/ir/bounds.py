"""Adds bounds checks of indices to a program that was loaded from a file.

A recorded program contains the checks of the eager functions, but a file may have been changed. For each op,
`ops.contract.index_limits` returns the limits of its index inputs. If no earlier step checks them, the check is added.
"""

from __future__ import annotations

from collections.abc import Iterator

from ... import dtypes
from ...core.create.values import tensor
from ...kernel import bind
from ...ops import contract, table
from ...ops.reduce import reduction
from ...ops.op import Op
from .alias_analysis import Effects, copied
from .program import Check, Program, Step, Value
from .verify import arguments_of

_Limit = tuple[Value, int]  # (indices, upper bound of their elements)


def bounded(program: Program) -> Program:
    """The verified program with checks of all indices that its ops use to access memory."""
    return _Bounding(program).run()


class _Bounding:
    """One pass over a program, which adds checks of index inputs that no earlier step checks."""

    def __init__(self, program: Program) -> None:
        self.program, self.effects = copied(program, []), Effects(program)
        self.recorded_steps = program.steps
        self.next_number = 1 + max((layout.number for layout in program.layouts), default=0)

    def run(self) -> Program:
        """The program with the added checks."""
        total, proven, pending = reduction.fused_map_reduce(table.bounds), set(), {}
        for step in self.recorded_steps:
            if isinstance(step, Check):
                if step.value in pending and step.expected == 0:
                    proven.add(pending[step.value])
            elif step.in_place:
                proven.clear()
                pending.clear()
            elif step.op is total and self._is_index(step.inputs[0]) and type(step.inputs[2]) is int:
                pending[step.results[0]] = step.inputs[0], step.inputs[2]
            if isinstance(step, Step) and isinstance(step.op, Op) and step.op.takes is not None:
                step = self._with_known_values(step)
                self.program.steps += self._checks(step, proven)
            self.program.steps.append(step)
        return self.program

    def _checks(self, step: Step, proven: set[_Limit]) -> Iterator[Step | Check]:
        """The steps that check a step's indices, except those that are already `proven`."""
        limits = contract.index_limits(step.op, arguments_of(step, self.program.layouts), step.attributes)
        for position, limit in limits.items():
            size, ignored = limit if isinstance(limit, tuple) else (limit, None)
            value = step.inputs[position]
            if not isinstance(value, Value) or any(
                checked_value == value and bound <= size for checked_value, bound in proven
            ):
                continue
            if not self._is_index(value):  # `bounds` takes int64
                as_int64 = self._new_step(table.copy, (value,), (dtypes.int64,), step)
                yield as_int64
                value = as_int64.results[0]
            if ignored is not None:
                is_ignored = self._new_step(table.eq, (value, ignored), (), step)
                yield is_ignored
                masked = self._new_step(table.where, (is_ignored.results[0], 0, value), (), step)
                yield masked
                value = masked.results[0]
            total = self._new_step(reduction.fused_map_reduce(table.bounds), (value, 0, size), (1,), step)
            yield total
            yield Check(total.results[0], 0, step.location)
            if ignored is None:
                proven.add((value, size))

    def _is_index(self, value: object) -> bool:
        """Whether it is an int64 tensor."""
        return isinstance(value, Value) and self.program.layouts[value].dtype is dtypes.int64

    def _with_known_values(self, step: Step) -> Step:
        """The step with inputs that are determined by its attributes replaced by constants, unless they are known to be
        equal.
        """
        inputs = list(step.inputs)
        for position, values in step.op.known_values(step.attributes).items():
            if self._values_of(inputs[position]) != values:
                inputs[position] = self._add_held(values)
        return Step(step.op, tuple(inputs), step.attributes, step.results, step.in_place, step.location)

    def _values_of(self, value: Value) -> tuple | None:
        """The elements of a value that is held or filled with a number and never modified, else None."""
        if not self.effects.fixed(value):
            return None
        fill_step = next(
            (
                step
                for step in self.recorded_steps
                if isinstance(step, Step) and step.results == (value,) and step.op is table.fill
            ),
            None,
        )
        if fill_step is not None:
            return (fill_step.inputs[0],) * self.program.layouts[value].size
        return tuple(self.program.held[value].tolist()) if value in self.program.held else None

    def _add_held(self, values: tuple[int, ...]) -> Value:
        """A new held tensor of these integers."""
        held_tensor = tensor(values, dtype=dtypes.int64, device="cpu")
        value = self._new_value(held_tensor._layout)
        self.program.held = {**self.program.held, value: held_tensor}
        return value

    def _new_step(self, op: Op, inputs: tuple, attributes: tuple, before: Step) -> Step:
        described = tuple(
            [self.program.layouts[input] if isinstance(input, Value) else type(input) for input in inputs]
        )
        with bind.unbuilt():
            layout = op.prepare(described, attributes).layout
        return Step(op, inputs, attributes, (self._new_value(layout),), False, before.location)

    def _new_value(self, layout: object) -> Value:
        value, self.next_number = Value(self.next_number), self.next_number + 1
        self.program.layouts[value] = layout
        return value
