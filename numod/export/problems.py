"""What native code cannot do, found before anything is written, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.convert.transfer import Move
from ..graph.backend.lower import Call, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Step
from ..serialization.program import unsaveable


class ExportError(RuntimeError):
    """A program cannot be exported. `problems` has a line for each reason."""

    def __init__(self, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        super().__init__(
            f"aot_compile: {len(self.problems)} thing{'s' * (len(self.problems) > 1)} cannot be exported:\n  "
            + "\n  ".join(self.problems)
        )


def problems(program: Program) -> list[str]:
    """A line for each step that native code cannot have: where, what, and what to do instead."""
    found = [*_of_steps(program), *unsaveable(program), *_of_memory(program)]
    if not found:
        found = [
            f"{_place(call.step)}: {call.step.op.name} is computed by NumPy (LAPACK, FFT); compute it outside, and "
            "pass the result in"
            for call in lower(optimise(program)[0]).calls
            if isinstance(call, Call) and call.kernel is None
        ]
    return list(dict.fromkeys(found))


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
