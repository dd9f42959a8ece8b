"""Checks that a program is well formed, for passes and for programs loaded from a file. It executes nothing."""

from __future__ import annotations

from typing import Any

from ..core.transfer import Move
from ..device.layout import same
from ..ops.op import Op
from ..ops.update import Update
from .effects import described
from .program import EMPTY, Check, Program, Step, Value, name
from .structure import replace


def verify(program: Program) -> Program:
    """Return the program. Raises ValueError, naming the step, if a value is used before its definition, defined twice, or has another layout than its op
    plans."""
    known = {*program.inputs, *program.held}
    for value, tensor in program.held.items():
        _expect(program.layouts.get(value) is tensor._layout, f"the held tensor {name(value)} has another layout than the program says")
    for number, step in enumerate(program.steps):
        place = f"step {number}"
        if isinstance(step, Check):
            _expect(step.value in known, f"{place} checks {name(step.value)}, which is not there yet")
            continue
        place += f" ({step.op.name})"
        for each in step.inputs:
            _expect(not issubclass(type(each), Value) or each in known, f"{place} uses {name(each)}, which is not there yet")
        for each in step.results:
            verb, state = ("writes over", "not there") if step.in_place else ("makes", "there already")
            _expect((each in known) is step.in_place, f"{place} {verb} {name(each)}, which is {state}")
            _expect(each in program.layouts, f"{place}: {name(each)} has no layout")
        _check_layouts(program, step, place)
        known.update(step.results)
    for leaf, gradient in program.gradients.items():
        _expect(leaf in known and (gradient is None or gradient in known), f"the gradient {name(gradient)} of {name(leaf)} is not there")
    replace(program.outputs, lambda each: _expect(not issubclass(type(each), Value) or each in known, f"the result {name(each)} is not there"))
    return program


def _check_layouts(program: Program, step: Step, place: str) -> None:
    """Check that the results' layouts are those the op plans."""
    if step.in_place or step.op is EMPTY or isinstance(step.op, (Move, Update)) or not isinstance(step.op, Op):
        return
    planned: Any = step.op.prepare(described(step, program.layouts), step.parameters).layout
    planned = planned if isinstance(planned, tuple) else (planned,)
    for value, layout in zip(step.results, planned, strict=True):
        found = program.layouts[value]
        _expect(same(found, layout), f"{place}: {name(value)} is {found.dtype} {tuple(found.shape)}, and the op gives {layout.dtype} {tuple(layout.shape)}")


def _expect(condition: bool, message: str) -> None:
    if not condition:
        raise ValueError(f"not a well-formed program: {message}")
