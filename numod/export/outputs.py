"""Gives every output of a program separate, dense memory, shared with no input, parameter or other output.

The caller of exported code passes this memory in.
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
    values: list[Value] = []
    replace(program.outputs, lambda leaf: values.append(leaf) if issubclass(type(leaf), Value) else None)
    return values


def with_own_outputs(program: Program) -> Program:
    """The program with copies of those outputs that share memory or are not dense."""
    result, effects, taken = copied(program, list(program.steps)), Effects(program), set()
    sizes = {
        value: program.layouts[value].extent
        for step in program.steps
        if isinstance(step, Step)
        for value in step.results
    }

    def with_own_memory(leaf: object) -> object:
        if not issubclass(type(leaf), Value):
            return leaf
        root = effects.root[leaf]
        fits = (
            isinstance(root, Value)
            and root not in taken
            and result.layouts[leaf].dense
            and sizes[root] == result.layouts[leaf].size
        )
        taken.add(root)
        return leaf if fits else _copied(result, leaf)

    result.outputs = replace(program.outputs, with_own_memory)
    return result


def _copied(program: Program, value: Value) -> Value:
    """Append steps that clone a value, and return the copy."""
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
