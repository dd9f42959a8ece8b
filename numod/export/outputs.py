"""Gives every output of a program memory of its own: dense, and shared with no input, parameter or other output.

A caller in C passes that memory in.
"""

from __future__ import annotations

from ..core.create.creation import empty
from ..formats import contiguous_format
from ..graph.ir.alias_analysis import Effects, copied
from ..graph.ir.program import Program, Step, Value
from ..graph.values.pytree import replace
from ..graph.capture.trace import trace


def outputs_of(program: Program) -> list[Value]:
    """The values among the program's results, in order."""
    found: list[Value] = []
    replace(program.outputs, lambda each: found.append(each) if issubclass(type(each), Value) else None)
    return found


def with_own_outputs(program: Program) -> Program:
    """The program, with copies of outputs that have no memory of their own."""
    result, effects, taken = copied(program, list(program.steps)), Effects(program), set()
    sizes = {
        value: program.layouts[value].extent
        for step in program.steps
        if isinstance(step, Step)
        for value in step.results
    }

    def own(each: object) -> object:
        if not issubclass(type(each), Value):
            return each
        root = effects.root[each]
        fits = (
            isinstance(root, Value)
            and root not in taken
            and result.layouts[each].dense
            and sizes[root] == result.layouts[each].size
        )
        taken.add(root)
        return each if fits else _copied(result, each)

    result.outputs = replace(program.outputs, own)
    return result


def _copied(program: Program, value: Value) -> Value:
    """Add steps that copy a value, as `clone` would, and return the copy."""
    layout = program.layouts[value]
    example = empty((layout.extent,), dtype=layout.dtype).as_strided(layout.shape, layout.strides)
    part = trace(lambda x: x.clone(memory_format=contiguous_format), example)
    number = 1 + max(layout.number for layout in program.layouts)
    names = {part.inputs[0]: value}
    for step in part.steps:
        for result in step.results:
            names.setdefault(result, Value(number))
            program.layouts[names[result]] = part.layouts[result]
            number += 1
        inputs = tuple([names.get(input, input) if issubclass(type(input), Value) else input for input in step.inputs])
        program.steps.append(
            Step(step.op, inputs, step.attributes, tuple([names[result] for result in step.results]), step.in_place)
        )
    return names[part.outputs]
