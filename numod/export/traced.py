"""What `jit.trace` checks of a captured function: the containers of its results, and that two captures agree."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from ..core.create.generator import Draw
from ..core.math.elementwise import allclose
from ..errors import warn_caller
from ..graph.ir.program import Program, Step
from ..graph.report.program_text import step_lines
from .program import ExportedProgram

_MAX_LINES = 40  # of a difference between two programs


class TracerWarning(Warning):
    """A captured function may give other results than the function itself."""


class TracingCheckError(Exception):
    """Two captures of a function with the same arguments differ."""


def check_containers(results: Any) -> None:
    """Raise RuntimeError, in PyTorch's words, for a dict among the results, and warn of a list."""
    if isinstance(results, (dict, list)):
        kind = "dict" if isinstance(results, dict) else "list"
        message = (
            f"Encountering a {kind} at the output of the tracer might cause the trace to be incorrect, this is only "
            "valid if the container structure does not change based on the module's inputs. Consider using a constant "
            "container instead (e.g. for `list`, use a `tuple` instead. for `dict`, use a `NamedTuple` instead). If "
            "you absolutely need this and know the side effects, pass strict=False to trace() to allow this behavior."
        )
        if kind == "dict":
            raise RuntimeError(message)
        warn_caller(message, TracerWarning)
    for part in results if isinstance(results, (tuple, list)) else ():
        check_containers(part)


def check_captures(first: ExportedProgram, capture: Callable[[], ExportedProgram], tolerance: float) -> None:
    """Capture once more: warn of random numbers, and raise TracingCheckError if the programs differ."""
    drawing = [step for step in first.program.steps if isinstance(step, Step) and _draws(step)]
    if drawing:
        nodes = "\n".join(f"\t{line}" for step in drawing for line in step_lines(step, first.program))
        warn_caller(
            "Trace had nondeterministic nodes. Did you forget call .eval() on your model? Nodes:\n"
            f"{nodes}\nThis may cause errors in trace checking. To disable trace checking, pass check_trace=False to "
            "torch.jit.trace()",
            TracerWarning,
        )
    second = capture()
    difference = _difference(first.program, second.program)
    if difference:
        raise TracingCheckError(
            "Tracing failed sanity checks!\nERROR: Graphs differed across invocations!\n\tGraph diff:\n" + difference
        )
    for name, constant in first.constants.items():
        other = second.constants[name]
        if constant.shape != other.shape or not allclose(constant, other, tolerance, tolerance, True):
            raise TracingCheckError(
                "Tracing failed sanity checks!\nERROR: Tensor-valued Constant nodes differed in value across "
                f"invocations. This often indicates that the tracer has encountered untraceable code.\n\t{name} was "
                f"{constant} and {other}"
            )


def _lines(program: Program) -> list[str]:
    """The program's text, without the seeds and offsets of random numbers, which may differ from call to call."""
    drawing = [step for step in program.steps if isinstance(step, Step) and _draws(step)]
    drawn = {line: f"{step.location} {step.op.name}" for step in drawing for line in step_lines(step, program)}
    return [drawn.get(line, line) for line in str(program).splitlines()]


def _draws(step: Step) -> bool:
    return any(isinstance(input, Draw) for input in step.inputs)


def _difference(first: Program, second: Program) -> str:
    """The lines in which two programs differ, or an empty text."""
    one, other = _lines(first), _lines(second)
    changed = [line for line in difflib.ndiff(one, other) if line[0] in "-+"] if one != other else []
    return "\n".join(f"\t\t{line}" for line in changed[:_MAX_LINES])
