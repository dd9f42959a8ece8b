"""What native code cannot do, found before anything is written, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.convert.transfer import Move
from ..graph.backend.lower import Call, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Step, Value
from ..ops.update import Update
from ..optim import Optimizer
from ..serialization.program import unsaveable


class ExportError(RuntimeError):
    """A program cannot be exported. `problems` has a line for each reason."""

    def __init__(self, problems: Sequence[str], name: str = "aot_compile") -> None:
        self.problems = list(problems)
        super().__init__(
            f"{name}: {len(self.problems)} thing{'s' * (len(self.problems) > 1)} cannot be exported:\n  "
            + "\n  ".join(self.problems)
        )


def problems(program: Program) -> list[str]:
    """A line for each step that native code cannot have: where, what, and what to do instead."""
    found = [*_of_steps(program), *unsaveable(program), *_of_memory(program)]
    return list(dict.fromkeys(found or of_calls(program)))


def of_calls(program: Program) -> list[str]:
    """A line for each step that only NumPy can do."""
    return [
        f"{_place(call.step)}: {call.step.op.name} is computed by NumPy (LAPACK, or a transform with a large prime "
        "factor); compute it outside, and pass the result in"
        for call in lower(optimise(program)[0]).calls
        if isinstance(call, Call) and call.kernel is None
    ]


def of_optimizers(optimizers: dict[str, Optimizer]) -> list[str]:
    """A line for each optimizer whose steps no program can have."""
    return [
        f"{name}: a step of {type(each).__name__} is steered by values in Python; use another optimizer, such as AdamW"
        for name, each in optimizers.items()
        if type(each)._updates is Optimizer._updates
    ]


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
        f"{_place(step)}: gradients of an earlier call take part, which add up from call to call; call "
        "optimizer.zero_grad() in the function, before backward()"
        for step in adding
    ]
    return list(dict.fromkeys(lines))


def _place(step: Step) -> str:
    return step.location or "an unknown line"


def _of_steps(program: Program) -> list[str]:
    found = []
    for step in program.steps:
        if not isinstance(step, Step):
            continue
        if isinstance(step.op, Move):
            found.append(f"{_place(step)}: a copy to another device; move tensors before, and export on the CPU")
    return found


def _of_memory(program: Program) -> list[str]:
    if program.gradients:
        return [
            "the program leaves gradients in .grad of tensors from outside; return them, or let the function take the "
            "optimizer's step"
        ]
    return []
