"""The steps of a program as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.step import Step, Value, name
from ..values.pytree import replace

if TYPE_CHECKING:
    from ..ir.program import Program

MAX_WIDTH = 160  # characters


def text(program: Program, cost: Callable[[Program, Step], str] | None = None, boundary: int | None = None) -> str:
    """One line per step: source line, op, inputs, results and their shapes. The rows of a fused loop follow it.

    `cost` returns the cost of a step as text. `boundary`: the step where the backward pass starts.
    """
    lines = [f"inputs {_names(program.inputs, program)}", f"held   {_names(list(program.held), program)}"]
    for number, step in enumerate(program.steps):
        lines += [f"{'':24} -- backward --"] * (number == boundary)
        lines += (
            step_lines(step, program, cost)
            if isinstance(step, Step)
            else [f"{step.location:24} check {name(step.value)} == {step.expected}"]
        )
    lines += [f"{'':24} {name(leaf)}.grad = {name(gradient)}" for leaf, gradient in program.gradients.items()]
    lines.append(f"{'':24} return {_structure(program.outputs if boundary is None else program.outputs[:2])}")
    return "\n".join(lines)


def step_lines(step: Step, program: Program, cost: Callable[[Program, Step], str] | None = None) -> list[str]:
    """The lines of a step: one, and the rows of a fused loop."""
    results = (
        ", ".join(map(name, step.results))
        if len(step.results) < 4
        else f"{name(step.results[0])} ... ({len(step.results)} tensors)"
    )
    shapes = ", ".join(_shape(result, program) for result in step.results[:2])
    line = f"{step.location:24} {results} {'<-' if step.in_place else '='} {step.op.name}({_arguments(step)})  {shapes}"
    if cost is not None and not step.op.is_view:
        line += f"  {cost(program, step)}"
    return [line, *_rows(step)]


def _arguments(step: Step) -> str:
    inputs = [name(input) for input in step.inputs[:8]] + ["..."] * (len(step.inputs) > 8)
    return ", ".join(inputs + [_attribute_text(attribute) for attribute in step.attributes if not callable(attribute)])


def _attribute_text(attribute: Any) -> str:
    text = repr(attribute)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _rows(step: Step) -> list[str]:
    """The rows of a fused loop with their arguments: inputs of the step, earlier rows (r0, r1 ...), constants."""
    lines = []
    for number, (op, arguments, _) in enumerate(getattr(step.op, "rows", ())):
        format_of = {"in": lambda k: name(step.inputs[k]), "row": "r{}".format, "product": lambda _: "the product"}
        arguments_text = ", ".join(format_of.get(kind, repr)(k) for kind, k in arguments)
        lines.append(f"{'':24}   | r{number} = {op.name}({arguments_text})")
    if (reduction := getattr(step.op, "row", None)) is not None:
        lines.append(f"{'':24}   | {reduction.name} of r{len(lines) - 1}")
    return lines


def _shape(value: Value, program: Program) -> str:
    layout = program.layouts[value]
    return f"{layout.dtype.name}{list(layout.shape)}"


def _names(values: list[Value], program: Program) -> str:
    return ", ".join(f"{name(value)} {_shape(value, program)}" for value in values) or "none"


def _structure(outputs: Any) -> str:
    text = str(replace(outputs, name)).replace("'", "")
    return text if len(text) <= MAX_WIDTH else f"{text[:MAX_WIDTH]}..."
