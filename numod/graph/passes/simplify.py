"""Simplification passes: common subexpressions, no-ops, dead code, and in-place writes to local memory.

Results are equal bit for bit. Random draws and writes to external memory are unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...device import Layout
from ...ops import table
from ...ops.pointwise import Pointwise
from ..ir.alias_analysis import (
    Effects,
    copied,
    prepare_arguments,
    draws_random_numbers,
    program_outputs,
    is_pure,
    renamed,
    accessed_values,
)
from ..ir.program import EMPTY, Check, Program, Step, Value


def out_of_place(program: Program) -> Program:
    """Replace pointwise in-place writes to local memory by new values, unless a view is used later."""
    last_view: dict[Value, int] = {}
    effects = Effects(program)
    for position, step in enumerate(program.steps):
        for value in accessed_values(step):
            if effects.root[value] != value:
                last_view[effects.root[value]] = position
    last_view.update(
        {effects.root[value]: len(program.steps) for value in program_outputs(program) if effects.root[value] != value}
    )
    names: dict[Value, Value] = {}
    steps: list[Step | Check] = []
    result = copied(program, steps)  # for the layouts of new values; its outputs are renamed at the end
    viewed: set[Value] = set()
    for position, step in enumerate(program.steps):
        target = (
            step.results[0] if isinstance(step, Step) and step.in_place and isinstance(step.op, Pointwise) else None
        )
        step = renamed(step, names)
        is_local = target is not None and effects.root[target] == target and target not in program.held
        if is_local and not (target in viewed and last_view.get(target, -1) >= position):
            if _planned(step, result.layouts) is result.layouts[target]:
                names[target] = result.new_value(result.layouts[target])
                step = Step(step.op, step.inputs, step.attributes, (names[target],), False, step.location)
        elif isinstance(step, Step) and not step.in_place and step.op.is_view:
            viewed.add(effects.root[program.steps[position].results[0]])
        steps.append(step)
    return copied(result, steps, names)


def _planned(step: Step, layouts: dict[Value, Layout]) -> Layout | None:
    """The layout of the op's result if computed out of place."""
    arguments = prepare_arguments(step, layouts)
    if not any(isinstance(argument, Layout) for argument in arguments):
        return None
    try:
        return step.op.prepare(arguments, step.attributes).layout
    except (RuntimeError, NotImplementedError, TypeError, IndexError):
        return None  # the op only supports these dtypes in place


def without_repeats(program: Program) -> Program:
    """Common subexpression elimination, and removal of steps that return their input and of checks made before."""
    effects = Effects(program)
    outputs = set(program_outputs(program))
    names: dict[Value, Value] = {}
    results_of_key: dict[tuple, tuple[Value, ...]] = {}
    checked: set[tuple[Value, str]] = set()
    steps: list[Step | Check] = []
    for step in program.steps:
        step = renamed(step, names)
        if isinstance(step, Check) and effects.fixed(step.value):
            if (step.value, repr(step.expected)) in checked:
                continue  # the backward pass repeats checks of indices
            checked.add((step.value, repr(step.expected)))
        if not is_pure(step) or outputs.intersection(step.results):
            steps.append(step)
            continue
        replacement = _unchanged(step, program.layouts, effects)
        if replacement is None and (step.op.is_view or _settled(step, effects)):
            earlier = results_of_key.setdefault(_key(step), step.results)
            replacement = earlier if earlier is not step.results else None
        if replacement is None:
            steps.append(step)
        else:
            names.update(zip(step.results, replacement))
    return copied(program, steps, names)


def _settled(step: Step, effects: Effects) -> bool:
    """Whether a step's inputs and results are never modified, and its results do not leave the program."""
    return all(effects.fixed(value) for value in (*accessed_values(step), *step.results)) and all(
        effects.private(result) for result in step.results
    )


def _key(step: Step) -> tuple:
    return (
        step.op,
        tuple([input if issubclass(type(input), Value) else (type(input), repr(input)) for input in step.inputs]),
        *map(exactly, step.attributes),
    )


def exactly(attribute: Any) -> Any:
    """An attribute as part of a key, which distinguishes 1, 1.0 and True."""
    if isinstance(attribute, (tuple, list)):
        return type(attribute), *map(exactly, attribute)
    return (
        (type(attribute), repr(attribute))
        if isinstance(attribute, (bool, int, float, str))
        else (type(attribute), id(attribute))
    )


def _unchanged(step: Step, layouts: dict[Value, Layout], effects: Effects) -> tuple[Value, ...] | None:
    """The input that a step's result equals, as a view of all elements or with unmodified values, or None."""
    tensors = [input for input in step.inputs if issubclass(type(input), Value)]
    if len(tensors) != 1 or len(step.results) != 1 or layouts[tensors[0]] is not layouts[step.results[0]]:
        return None
    if step.op.is_view:
        return (
            tuple(tensors) if step.op.prepare(prepare_arguments(step, layouts), step.attributes).offset == 0 else None
        )
    rule = _IDENTITIES.get(step.op)
    if rule is None or not rule(step.inputs) or not _settled(step, effects):
        return None
    return tuple(tensors)


def _has_one_at(position: int) -> Callable:
    return lambda inputs: len(inputs) > position and type(inputs[position]) in (int, float) and inputs[position] == 1


_IDENTITIES = {
    table.copy: lambda inputs: True,
    table.row_major: lambda inputs: True,
    table.mul: _has_one_at(1),
    table.div: _has_one_at(1),
    table.pow: _has_one_at(1),
}


def without_dead(program: Program) -> Program:
    """Dead code elimination. Keeps steps that affect results, gradients, checks, random streams or external memory."""
    effects = Effects(program)
    needed = set(program_outputs(program))
    roots = {effects.root[value] for value in needed}
    kept_steps: list[Step | Check] = []
    for step in reversed(program.steps):
        if isinstance(step, Step) and not _needed(step, needed, roots, effects):
            continue
        kept_steps.append(step)
        needed.update(accessed_values(step))
        roots.update(effects.root[value] for value in accessed_values(step))
    return copied(program, kept_steps[::-1])


def _needed(step: Step, needed: set[Value], roots: set, effects: Effects) -> bool:
    if draws_random_numbers(step) or step.op.reports:
        return True
    if step.in_place:
        return not step.results or any(
            not isinstance(effects.root[result], Value) or effects.root[result] in roots for result in step.results
        )
    if step.op is EMPTY or not step.op.is_view:
        return any(result in needed or result in roots for result in step.results)
    return any(result in needed for result in step.results)
