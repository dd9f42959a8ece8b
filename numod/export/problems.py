"""What native code cannot do, found before anything is written, and all at once."""

from __future__ import annotations

from collections.abc import Sequence

from ..core.create.random import Draw
from ..core.convert.transfer import Move
from ..graph.ir.alias_analysis import Effects
from ..graph.backend.lower import Call, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Step
from ..ops.update import Update
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
    return step.where or "an unknown line"


def _of_steps(program: Program) -> list[str]:
    found = []
    for step in program.steps:
        if not isinstance(step, Step):
            continue
        if isinstance(step.op, Update):
            found.append(f"{_place(step)}: an optimizer's step cannot be exported yet; export the forward pass")
        elif isinstance(step.op, Move):
            found.append(f"{_place(step)}: a copy to another device; move tensors before, and export on the CPU")
        elif any(isinstance(input, Draw) for input in step.inputs):
            found.append(
                f"{_place(step)}: {step.op.name} draws random numbers, which cannot be exported yet; call eval(), or "
                "pass the numbers in"
            )
    return found


def _of_memory(program: Program) -> list[str]:
    """Writes to what a caller lends: weights and inputs are read only."""
    effects, found = Effects(program), []
    for root, positions in effects.written.items():
        kind = root[0] if isinstance(root, tuple) else None
        if kind is not None:
            what = (
                "a tensor that existed before, such as a running mean (call eval() first)"
                if kind == "held"
                else "an input (work on a clone of it)"
            )
            found += [
                f"{_place(program.steps[position])}: {program.steps[position].op.name} writes to {what}"
                for position in positions
            ]
    if program.gradients:
        found.append("the program sets gradients of parameters, which cannot be exported yet; return them instead")
    return found
