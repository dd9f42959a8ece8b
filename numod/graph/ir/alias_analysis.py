"""Alias analysis for passes: the memory of a program's values, the steps that write to it, and the results of a run."""

from __future__ import annotations

from typing import Any

from ...core.create.generator import Draw
from ...core.convert.transfer import Move
from ...device import Layout
from ...ops.update import Update
from .program import EMPTY, Check, Program, Step, Value
from ..values.pytree import replace


class Boundary:
    """Marks where the backward pass starts in a list of steps."""


class Effects:
    """The memory that a program's steps access.

    `root`: per value, the owner of its memory: an input, a held tensor, or the value that allocated it.
    `written`: per root, the positions of the steps that write to it. `output_roots`: roots of results and gradients.
    """

    def __init__(self, program: Program) -> None:
        self.root: dict[Value, Any] = {}
        self.written: dict[Any, list[int]] = {}
        for number, value in enumerate(program.inputs):
            self.root[value] = "input", program.shared[number] if program.shared else number
        for value, tensor in program.held.items():
            self.root[value] = "held", id(tensor._storage)
        for position, step in enumerate(program.steps):
            if isinstance(step, Step):
                self._record(position, step)
        self.output_roots = {self.root[value] for value in program_outputs(program)}

    def _record(self, position: int, step: Step) -> None:
        for result in step.results:
            if step.in_place:
                self.written.setdefault(self.root[result], []).append(position)
            else:
                self.root[result] = self.root[step.inputs[0]] if step.op.is_view else result

    def fixed(self, value: Value) -> bool:
        """Whether no step writes to this value's memory."""
        return self.root[value] not in self.written

    def private(self, value: Value) -> bool:
        """Whether the memory was allocated by the program and is not visible after the run."""
        root = self.root[value]
        return isinstance(root, Value) and root not in self.output_roots


def program_outputs(program: Program) -> list[Value]:
    """The values of results and gradients."""
    values: list[Value] = [gradient for gradient in program.gradients.values() if gradient is not None]
    replace(program.outputs, lambda part: values.append(part) if issubclass(type(part), Value) else None)
    return values


def accessed_values(step: Step | Check) -> list[Value]:
    """The values a step reads, including those it writes in place."""
    if not isinstance(step, Step):
        return [step.value] if isinstance(step, Check) else []
    return [
        operand
        for operand in (*step.inputs, *(step.results if step.in_place else ()))
        if issubclass(type(operand), Value)
    ]


def prepare_arguments(step: Step, layouts: dict[Value, Layout]) -> tuple:
    """A step's inputs as arguments of its op's `prepare`: layouts of tensors, types of numbers."""
    return tuple(
        [
            layouts[input] if issubclass(type(input), Value) else int if isinstance(input, Draw) else type(input)
            for input in step.inputs
        ]
    )


def draws_random_numbers(step: Step) -> bool:
    """Whether the step draws random numbers."""
    return any(isinstance(input, Draw) for input in step.inputs)


def is_pure(step: Step | Check) -> bool:
    """Whether a step has no side effects and is deterministic."""
    return (
        isinstance(step, Step)
        and not step.in_place
        and step.op is not EMPTY
        and not isinstance(step.op, (Move, Update))
        and not draws_random_numbers(step)
    )


def renamed(step: Step | Check, names: dict[Value, Value]) -> Step | Check:
    """The step with values replaced by others."""
    if not names or isinstance(step, Boundary):
        return step
    if isinstance(step, Check):
        return Check(names.get(step.value, step.value), step.expected, step.location)
    inputs = tuple([names.get(input, input) if issubclass(type(input), Value) else input for input in step.inputs])
    results = tuple([names.get(result, result) for result in step.results]) if step.in_place else step.results
    return Step(step.op, inputs, step.attributes, results, step.in_place, step.location)


def copied(program: Program, steps: list[Step | Check], names: dict[Value, Value] | None = None) -> Program:
    """A copy of the program with other steps, and with results and gradients renamed."""
    names = names or {}
    result = Program()
    result.inputs = program.inputs
    result.held = program.held
    result.shared = program.shared
    result.layouts = dict(program.layouts)
    result.steps = steps
    result.gradients = {
        leaf: names.get(gradient, gradient) if gradient is not None else None
        for leaf, gradient in program.gradients.items()
    }
    result.outputs = replace(
        program.outputs, lambda part: names.get(part, part) if issubclass(type(part), Value) else part
    )
    return result
