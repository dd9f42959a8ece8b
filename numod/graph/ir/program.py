"""A program: what a function did, as steps over numbered values.

It is recorded by `trace`, made smaller by `passes`, and run here op by op, which is its meaning.

Tensors that existed before (parameters, buffers, optimizer state) are held as themselves, so a run updates them as the
function would. Random draws are drawn anew, hyper-parameters read anew. A run with other shapes, or a check with
another outcome, is an error: never a silently different answer.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core import apply as dispatch
from ...core.create.creation import empty
from ...core.create.random import Draw
from ...core.tensor import Tensor
from ...core.convert.transfer import Move
from ...device import Layout
from ...device.layout import same
from ...ops.update import Update
from ..values.lazy_scalar import compute
from ..values.pytree import replace
from .step import EMPTY as EMPTY
from .step import Check as Check
from .step import Step as Step
from .step import Value as Value
from .step import name as name


class Program:
    """A recorded function. Call it like the function, with tensors of the same shapes, dtypes and devices."""

    def __init__(self) -> None:
        self.inputs: list[Value] = []
        self.layouts: dict[Value, Layout] = {}
        self.held: dict[Value, Tensor] = {}
        self.steps: list[Step | Check] = []
        self.gradients: dict[Value, Value | None] = {}
        self.shared: list[int] = []  # for each input, the first input with the same memory
        self.outputs: Any = None

    def __call__(self, *inputs: Tensor) -> Any:
        """Run the steps. Raises RuntimeError where the inputs, or a check's outcome, are not those recorded."""
        self._expect(inputs)
        values = {**self.held, **dict(zip(self.inputs, inputs))}
        with no_grad():
            for step in self.steps:
                _run(step, values, self.layouts)
        for held, gradient in self.gradients.items():
            values[held]._grad = None if gradient is None else values[gradient]
        return replace(self.outputs, lambda each: values[each] if issubclass(type(each), Value) else each, compute)

    def _expect(self, inputs: tuple) -> None:
        if len(inputs) != len(self.inputs):
            raise RuntimeError(
                f"this program was recorded with {len(self.inputs)} inputs, got {len(inputs)}; trace again"
            )
        for number, input in enumerate(inputs):
            layout = self.layouts[self.inputs[number]]
            if not isinstance(input, Tensor) or not same(input._layout, layout):
                came = (
                    f"{tuple(input.shape)} {input.dtype} on {input.device}"
                    if isinstance(input, Tensor)
                    else type(input).__name__
                )
                raise RuntimeError(
                    f"input {number} was recorded as {tuple(layout.shape)} {layout.dtype} on {layout.device}, got "
                    f"{came}; trace again"
                )

    def __str__(self) -> str:
        """The program as text, a line per step, with the user's lines."""
        from ..report.program_text import text  # here, so that `import numod` does not load it

        return text(self)

    def dot(self) -> str:
        """The program as a graph in Graphviz's language: `dot -Tsvg`."""
        from ..report.graphviz import dot

        return dot(self)


def _run(step: Step | Check, values: dict[Value, Tensor], layouts: dict[Value, Layout]) -> None:
    """Run one step, whose results are put into `values`."""
    if isinstance(step, Check):
        found = values[step.value]._observe()
        if found != step.found:
            raise RuntimeError(
                f"a check found {found} where {step.found} was recorded (indices out of range, masks of another size, "
                "ignored targets); trace again"
            )
        return
    inputs = tuple([values[input] if issubclass(type(input), Value) else input for input in step.inputs])
    inputs = _drawn_anew(inputs, values)
    if isinstance(step.op, Update):
        numbers, count, _ = step.parameters
        size = len(inputs) // max(count, 1)
        dispatch.apply_updates(step.op, [inputs[k * size : (k + 1) * size] for k in range(count)], numbers)
    elif step.op is EMPTY:
        layout = layouts[step.results[0]]
        values[step.results[0]] = empty(layout.shape, dtype=layout.dtype, device=layout.device)
    elif isinstance(step.op, Move):
        values[step.results[0]] = inputs[0].to(device=step.parameters[0])
    elif step.in_place:
        dispatch.apply_into(step.op, inputs, tuple(values[result] for result in step.results), step.parameters)
    else:
        found = dispatch.apply(step.op, inputs, step.parameters)
        values.update(zip(step.results, found if step.op.outputs else (found,)))


def _drawn_anew(inputs: tuple, values: dict) -> tuple:
    """Seed and offset of a random op, replaced by the generator's next: one draw per run, which a gradient shares with
    its op.
    """
    for k, input in enumerate(inputs):
        if isinstance(input, Draw):
            drawn = values.get(("draw", id(input)))
            if drawn is None:
                drawn = values["draw", id(input)] = input.generator.draw(input.count)
            return (*inputs[: k - 1], *drawn, *inputs[k + 1 :])
    return inputs
