"""A program: the steps of a recorded function over numbered values.

It is recorded by `trace`, optimised by `passes`, and can be run here op by op, which defines its semantics.

Existing tensors (parameters, buffers, optimizer state) are held, so a run updates them as the function would. Each run
draws new random numbers and reads current hyper-parameters. Inputs of other shapes, or a check with another outcome,
raise an error.
"""

from __future__ import annotations

from typing import Any

from ...autograd import no_grad
from ...core import apply as dispatch
from ...core.create.creation import empty
from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...core.updates import apply_updates
from ...core.convert.transfer import Move
from ...device import Layout
from ...device.layout import same
from ...notebook import preformatted
from ...ops.update import Update
from ..values.lazy_scalar import compute
from ..values.pytree import replace
from .step import EMPTY as EMPTY
from .step import Check as Check
from .step import Step as Step
from .step import Value as Value
from .step import name as name
from .step import numbers_of as numbers_of


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
        """Run the steps. Raises RuntimeError if inputs or the outcome of a check differ from those recorded."""
        self._expect(inputs)
        values = {**self.held, **dict(zip(self.inputs, inputs))}
        with no_grad():
            for step in self.steps:
                _run(step, values, self.layouts)
        for leaf, gradient in self.gradients.items():
            values[leaf]._grad = None if gradient is None else values[gradient]
        return replace(self.outputs, lambda leaf: values[leaf] if issubclass(type(leaf), Value) else leaf, compute)

    def _expect(self, inputs: tuple) -> None:
        """Raise RuntimeError unless the inputs have the recorded layouts."""
        if len(inputs) != len(self.inputs):
            raise RuntimeError(
                f"this program was recorded with {len(self.inputs)} inputs, got {len(inputs)}; trace again"
            )
        for number, input in enumerate(inputs):
            layout = self.layouts[self.inputs[number]]
            if not isinstance(input, Tensor) or not same(input._layout, layout):
                received = (
                    f"{tuple(input.shape)} {input.dtype} on {input.device}"
                    if isinstance(input, Tensor)
                    else type(input).__name__
                )
                raise RuntimeError(
                    f"input {number} was recorded as {tuple(layout.shape)} {layout.dtype} on {layout.device}, got "
                    f"{received}; trace again"
                )

    def new_value(self, layout: Layout) -> Value:
        """A value of this layout that the program does not have yet."""
        value = Value(1 + max(value.number for value in self.layouts))
        self.layouts[value] = layout
        return value

    def existing_tensors(self) -> dict[Value, Tensor]:
        """The parameters, buffers and constants that the program reads, by their values."""
        return self.held

    def __str__(self) -> str:
        """The program as text, one line per step, with positions in the user's code."""
        from ..report.program_text import text  # here, so that `import numod` does not load it

        return text(self)

    def _repr_html_(self) -> str:
        return preformatted(self)

    def dot(self) -> str:
        """The program as a Graphviz graph: `dot -Tsvg`."""
        from ..report.graphviz import dot

        return dot(self)


def _run(step: Step | Check, values: dict[Value, Tensor], layouts: dict[Value, Layout]) -> None:
    """Run one step, and add its results to `values`."""
    if isinstance(step, Check):
        observed = values[step.value]._observe()
        if observed != step.expected:
            raise RuntimeError(
                f"a check found {observed} where {step.expected} was recorded (indices out of range, masks of another "
                "size, ignored targets); trace again"
            )
        return
    inputs = tuple([values[input] if issubclass(type(input), Value) else input for input in step.inputs])
    inputs = _with_draws(inputs, values)
    if isinstance(step.op, Update):
        numbers, count, _ = step.attributes
        if numbers is None:  # the scalars are the step's last inputs (see `numbers_of`)
            update_numbers = [
                number.item() if isinstance(number, Tensor) else number
                for number in inputs[len(inputs) - len(numbers_of(step)) :]
            ]
            inputs, numbers = inputs[: len(inputs) - len(update_numbers)], lambda: tuple(update_numbers)
        size = len(inputs) // max(count, 1)
        apply_updates(step.op, [inputs[k * size : (k + 1) * size] for k in range(count)], numbers)
    elif step.op is EMPTY:
        layout = layouts[step.results[0]]
        values[step.results[0]] = empty(layout.shape, dtype=layout.dtype, device=layout.device)
    elif isinstance(step.op, Move):
        values[step.results[0]] = inputs[0].to(device=step.attributes[0])
    elif step.in_place:
        dispatch.apply_into(step.op, inputs, tuple(values[result] for result in step.results), step.attributes)
    else:
        outputs = dispatch.apply(step.op, inputs, step.attributes)
        values.update(zip(step.results, outputs if step.op.outputs else (outputs,)))


def _with_draws(inputs: tuple, values: dict) -> tuple:
    """The inputs with a draw's seed and offset replaced by new ones. Steps that share a draw get equal numbers."""
    for k, input in enumerate(inputs):
        if isinstance(input, Draw):
            numbers = values.get(("draw", id(input)))
            if numbers is None:
                numbers = values["draw", id(input)] = input.generator.draw(input.count)
            return (*inputs[: k - 1], *numbers, *inputs[k + 1 :])
    return inputs
