"""Steps that check what indices a program reads with, for one that comes from a file and need not have those that it
was recorded with.

Eager functions check an index before they launch an op, and a recorded program has these checks. Here each op is asked
what its inputs may hold (`ops.contract.index_limits`); where no check has just said so, the same steps are added before
it.
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

_Limit = tuple[Value, int]  # a value of indices, and what each of them is below


def bounded(program: Program) -> Program:
    """The verified program with checks of all indices that its ops read memory by."""
    return _Bounding(program).run()


class _Bounding:
    def __init__(self, program: Program) -> None:
        self.program, self.effects = copied(program, []), Effects(program)
        self.before = program.steps
        self.next = 1 + max((layout.number for layout in program.layouts), default=0)

    def run(self) -> Program:
        """The program with further steps."""
        total, proven, pending = reduction.closing(table.bounds), set(), {}
        for step in self.before:
            if isinstance(step, Check):
                if step.value in pending and step.found == 0:
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
        """The steps that check a step's indices, but for those that are `proven`."""
        limits = contract.index_limits(step.op, arguments_of(step, self.program.layouts), step.parameters)
        for position, limit in limits.items():
            size, spared = limit if isinstance(limit, tuple) else (limit, None)
            value = step.inputs[position]
            if not isinstance(value, Value) or any(known == value and below <= size for known, below in proven):
                continue
            if not self._is_index(value):  # `bounds` counts in integers of 64 bits
                wide = self._made(table.copy, (value,), (dtypes.int64,), step)
                yield wide
                value = wide.results[0]
            if spared is not None:
                spare = self._made(table.eq, (value, spared), (), step)
                yield spare
                chosen = self._made(table.where, (spare.results[0], 0, value), (), step)
                yield chosen
                value = chosen.results[0]
            total = self._made(reduction.closing(table.bounds), (value, 0, size), (1,), step)
            yield total
            yield Check(total.results[0], 0, step.where)
            if spared is None:
                proven.add((value, size))

    def _is_index(self, value: object) -> bool:
        return isinstance(value, Value) and self.program.layouts[value].dtype is dtypes.int64

    def _with_known_values(self, step: Step) -> Step:
        """The step with inputs whose values its attributes tell: as they are where they are known to have these values;
        else others.
        """
        inputs = list(step.inputs)
        for position, values in step.op.known_values(step.parameters).items():
            if self._values_of(inputs[position]) != values:
                inputs[position] = self._held(values)
        return Step(step.op, tuple(inputs), step.parameters, step.results, step.in_place, step.where)

    def _values_of(self, value: Value) -> tuple | None:
        """The elements of a value, where it is held or filled with a number, and no step writes to it."""
        if not self.effects.fixed(value):
            return None
        filled = next(
            (
                step
                for step in self.before
                if isinstance(step, Step) and step.results == (value,) and step.op is table.fill
            ),
            None,
        )
        if filled is not None:
            return (filled.inputs[0],) * self.program.layouts[value].size
        return tuple(self.program.held[value].tolist()) if value in self.program.held else None

    def _held(self, values: tuple[int, ...]) -> Value:
        made = tensor(values, dtype=dtypes.int64, device="cpu")
        value = self._new(made._layout)
        self.program.held = {**self.program.held, value: made}
        return value

    def _made(self, op: Op, inputs: tuple, attributes: tuple, before: Step) -> Step:
        described = tuple(
            [self.program.layouts[input] if isinstance(input, Value) else type(input) for input in inputs]
        )
        with bind.unbuilt():
            layout = op.prepare(described, attributes).layout
        return Step(op, inputs, attributes, (self._new(layout),), False, before.where)

    def _new(self, layout: object) -> Value:
        value, self.next = Value(self.next), self.next + 1
        self.program.layouts[value] = layout
        return value
