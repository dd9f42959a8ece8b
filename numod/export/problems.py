"""Checks for everything that native code cannot do, made before anything is written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..core.convert.transfer import Move
from ..core.tensor import Tensor
from ..graph.backend.lower import Call, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Step, Value
from ..ops.fft.fft import Transform
from ..ops.update import Update
from ..optim import Optimizer
from ..serialization.program import unsaveable

if TYPE_CHECKING:
    from .state import State


class ExportError(RuntimeError):
    """A program cannot be exported. `problems` has a line for each reason."""

    def __init__(self, problems: Sequence[str], name: str = "aot_compile") -> None:
        self.problems = list(problems)
        super().__init__(
            f"{name}: {len(self.problems)} thing{'s' * (len(self.problems) > 1)} cannot be exported:\n  "
            + "\n  ".join(self.problems)
        )


def problems(program: Program) -> list[str]:
    """A line for each step that native code does not support: where, what, and what to do instead."""
    lines = [*_of_steps(program), *unsaveable(program), *_of_memory(program)]
    return list(dict.fromkeys(lines or of_calls(program)))


def of_calls(program: Program) -> list[str]:
    """A line for each step that only NumPy computes."""
    return [
        f"{_line(call.step)}: {call.step.op.name} is computed by NumPy, {_reason(call.step)}; compute it outside, and "
        "pass the result in"
        for call in lower(optimise(program)[0]).calls
        if isinstance(call, Call) and call.kernel is None
    ]


def _reason(step: Step) -> str:
    if isinstance(step.op, Transform):
        return "since the length has a prime factor above 512"
    return "with LAPACK, which native code does not have"


def of_optimizers(optimizers: dict[str, Optimizer]) -> list[str]:
    """A line for each optimizer whose steps cannot be captured."""
    return [
        f"{name}: steps of {type(optimizer).__name__} depend on values in Python; use another optimizer, such as AdamW"
        for name, optimizer in optimizers.items()
        if type(optimizer)._updates is Optimizer._updates
    ]


def of_rates(state: State, former: dict[int, Any]) -> list[str]:
    """A line for each learning rate that Python computes in the function. `trace` refuses those computed as tensors.

    `former`: the rates before the call, by the ids of their groups.
    """
    if not state.optimizers:
        return []
    advice = "pass it in as a tensor, and assign that: group['lr'] = rate"
    lines = [
        f"{name}: the function refers to a {type(scheduler).__name__}, which computes the learning rate in Python; "
        f"call it outside. For a rate that changes, {advice}"
        for name, scheduler in state.schedulers.items()
    ]
    changed = [
        f"{name}: the function changes the learning rate of param_groups[{number}] in Python; {advice}"
        for name, optimizer in state.optimizers.items()
        for number, group in enumerate(optimizer.param_groups)
        if not isinstance(group["lr"], Tensor) and group["lr"] != former[id(group)]
    ]
    return lines or changed


def adding_up(program: Program, gradients: set[int]) -> list[str]:
    """A line for each step that reads a gradient of an earlier call. `gradients`: ids of those tensors."""
    values = {value for value, tensor in program.held.items() if id(tensor) in gradients}
    steps = [
        step
        for step in program.steps
        if isinstance(step, Step) and any(isinstance(input, Value) and input in values for input in step.inputs)
    ]
    adding = [step for step in steps if not isinstance(step.op, Update)] or steps
    lines = [
        f"{_line(step)}: gradients accumulate from call to call; call "
        "optimizer.zero_grad() in the function, before backward()"
        for step in adding
    ]
    return list(dict.fromkeys(lines))


def _line(step: Step) -> str:
    return step.location or "an unknown line"


def _of_steps(program: Program) -> list[str]:
    lines = []
    for step in program.steps:
        if not isinstance(step, Step):
            continue
        if isinstance(step.op, Move):
            lines.append(f"{_line(step)}: a copy to another device; move tensors beforehand, and export on the CPU")
    return lines


def _of_memory(program: Program) -> list[str]:
    if program.gradients:
        return [
            "the program leaves gradients in .grad of outside tensors; return them, or call the optimizer's step() in "
            "the function"
        ]
    return []
