"""A program: the steps of a recorded function over numbered values.

It is recorded by `trace`, optimised by `passes`, and can be run here op by op, which defines its semantics.

Existing tensors (parameters, buffers, optimizer state) are held, so a run updates them as the function would. Each run
draws new random numbers and reads current hyper-parameters. Inputs of other shapes, or a check with another outcome,
raise an error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...autograd import no_grad
from ...core import apply as dispatch
from ...core.create.creation import empty
from ...core.create.random import Draw
from ...core.tensor import Tensor
from ...core.convert.transfer import Move
from ...device import Layout
from ...device.layout import same
from ...ops.op import Op
from ...ops.update import Update
from ..values.lazy_scalar import compute
from ..values.pytree import replace


class _Empty:
    """The op of uninitialised memory: a buffer without a call."""

    name, is_view, reports, outputs = "empty", False, False, ()


EMPTY = _Empty()


@dataclass(frozen=True)
class Value:
    """A tensor of the program, by number."""

    number: int

    def __hash__(self) -> int:
        return self.number


@dataclass
class Step:
    """One op: inputs are Values, numbers or None; results are new values, or existing ones written in place."""

    op: Op
    inputs: tuple
    parameters: tuple
    results: tuple[Value, ...]
    in_place: bool
    where: str = ""  # its line in the user's code


def numbers_of(step: Step) -> tuple:
    """The numbers of an update whose parameters are (None, count of members, kinds of its numbers): its last inputs.

    They are values of one element, or numbers. Of updates that ask Python for them, there are none.
    """
    numbers, _, kinds = step.parameters
    return step.inputs[len(step.inputs) - len(kinds) :] if numbers is None else ()


@dataclass
class Check:
    """A value that the library read during recording, and the number it found. A run must find an equal number."""

    value: Value
    found: float | int | bool
    where: str = ""


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

    def __str__(self) -> str:
        """The program as text, one line per step, with positions in the user's code."""
        from ..report.explain import text

        return text(self)

    def dot(self) -> str:
        """The program as a Graphviz graph: `dot -Tsvg`."""
        from ..report.graphviz import dot

        return dot(self)


def _run(step: Step | Check, values: dict[Value, Tensor], layouts: dict[Value, Layout]) -> None:
    """Run one step, and add its results to `values`."""
    if isinstance(step, Check):
        observed = values[step.value]._observe()
        if observed != step.found:
            raise RuntimeError(
                f"a check found {observed} where {step.found} was recorded (indices out of range, masks of another "
                "size, ignored targets); trace again"
            )
        return
    inputs = tuple([values[input] if issubclass(type(input), Value) else input for input in step.inputs])
    inputs = _with_draws(inputs, values)
    if isinstance(step.op, Update):
        numbers, count, _ = step.parameters
        if numbers is None:
            given = [
                each.item() if isinstance(each, Tensor) else each
                for each in inputs[len(inputs) - len(numbers_of(step)) :]
            ]
            inputs, numbers = inputs[: len(inputs) - len(given)], lambda: tuple(given)
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
        outputs = dispatch.apply(step.op, inputs, step.parameters)
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


def name(value: object) -> str:
    """A value as text, as in printed programs: %3."""
    return f"%{value.number}" if issubclass(type(value), Value) else repr(value)
