"""A program as a Graphviz graph: boxes for steps, ovals for inputs and held tensors, arrows labelled with shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ir.step import Check, Step, Value, name
from ..values.pytree import replace

if TYPE_CHECKING:
    from ..ir.program import Program


def dot(program: Program) -> str:
    """The program as Graphviz text. In-place steps are bold, views are dashed, fused loops list their rows."""
    lines = [
        "digraph program {",
        '  node [fontname="monospace", fontsize=10, shape=box];',
        '  edge [fontname="monospace", fontsize=8];',
    ]
    source: dict[Value, str] = {}
    for kind, values in (("input", program.inputs), ("held", program.held)):
        for value in values:
            source[value] = f"{kind}{value.number}"
            lines.append(f'  {source[value]} [shape=oval, label="{kind} {name(value)}\\n{_shape(value, program)}"];')
    for number, step in enumerate(program.steps):
        lines += _step(number, step, program, source)
    results: list[Value] = []
    replace(program.outputs, lambda part: results.append(part) if issubclass(type(part), Value) else None)
    for kind, values in (
        ("result", results),
        ("gradient", [gradient for gradient in program.gradients.values() if gradient is not None]),
    ):
        for number, output in enumerate(values):
            lines += [
                f'  {kind}{number} [shape=oval, style=filled, label="{kind}"];',
                f"  {source[output]} -> {kind}{number} {_label(output, program)};",
            ]
    return "\n".join([*lines, "}"]) + "\n"


def _step(number: int, step: Step | Check, program: Program, source: dict[Value, str]) -> list[str]:
    """The lines of a step's node and of the edges to it. `source` has the node of each value."""
    node = f"step{number}"
    if isinstance(step, Check):
        return [f'  {node} [shape=diamond, label="== {step.expected}"];', f"  {source[step.value]} -> {node};"]
    rows = getattr(step.op, "rows", ())  # of a fused loop
    labels = [step.op.name, *(op.name for op, *_ in rows)]
    style = (
        ", style=bold" if step.in_place else ", style=dashed" if step.op.is_view else ", style=rounded" if rows else ""
    )
    lines = [f'  {node} [label="{_quoted(chr(10).join([*labels, step.location]))}"{style}];']
    for operand in dict.fromkeys(input for input in step.inputs if issubclass(type(input), Value)):
        lines.append(f"  {source[operand]} -> {node} {_label(operand, program)};")
    source.update(dict.fromkeys(step.results, node))
    return lines


def _label(value: Value, program: Program) -> str:
    return f'[label="{name(value)} {_shape(value, program)}"]'


def _shape(value: Value, program: Program) -> str:
    layout = program.layouts[value]
    return f"{layout.dtype.name}{list(layout.shape)}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
