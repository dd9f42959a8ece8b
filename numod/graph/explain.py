"""A compiled program as text: what was recorded, with the user's lines; the kernels it became; where its memory lies; what it costs."""

from __future__ import annotations

from collections import Counter

from .lower import Buffer, Call, Test
from .run import Executable
from .section import Section
from .trace import Check, Program, name


def explain(executable: Executable) -> str:
    """The whole story of a program, for a terminal of 160 columns."""
    sections = [executable.section, *([executable.backward] if hasattr(executable, "backward") else [])]
    parts = [_recorded(executable.program), *map(_kernels, sections), _memory(executable)]
    return "\n\n".join(parts)


def _recorded(program: Program) -> str:
    lines = ["Recorded"]
    for step in program.steps:
        if isinstance(step, Check):
            lines.append(f"  {step.where:24} check {name(step.value)} == {step.found}")
            continue
        results = ", ".join(map(name, step.results))
        shapes = ", ".join(f"{program.layouts[each].dtype.name}{list(program.layouts[each].shape)}" for each in step.results[:2])
        inputs = ", ".join(map(name, step.inputs[:8])) + (", ..." if len(step.inputs) > 8 else "")
        lines.append(f"  {step.where:24} {results if len(step.results) < 4 else f'{len(step.results)} tensors'} {'<-' if step.in_place else '='} {step.op.name}({inputs})  {shapes}")
    return "\n".join(lines)


def _kernels(section: Section) -> str:
    calls = [each for each in section.calls if isinstance(each, Call)]
    counts = Counter(each.kernel.name if each.kernel else f"{each.step.op.name} (host)" for each in calls)
    form = f"one native function, {section.kernel.name}{', from the disk cache' if section.kernel.cached else ''}" if section.linked else f"{len(calls)} launches in turn"
    lines = [f"Kernels: {form}", *(f"  {count:4} x {each}" for each, count in counts.most_common())]
    checks = sum(isinstance(each, Test) for each in section.calls)
    return "\n".join(lines + ([f"  {checks:4} checks, each of which can stop the run before anything is written"] if checks else []))


def _memory(executable: Executable) -> str:
    buffers: dict[Buffer, None] = {}
    for each in executable.lowered.calls:
        if isinstance(each, Call):
            buffers.update(dict.fromkeys((*each.reads, *each.writes)))
    totals = {kind: sum(each.nbytes for each in buffers if each.kind == kind) for kind in ("input", "held", "result", "gradient", "local")}
    lines = ["Memory, bytes", *(f"  {total:12,} {_KINDS[kind]}" for kind, total in totals.items() if total)]
    return "\n".join([*lines, f"  {executable.arena_size:12,} arena that holds them: buffers that are never alive together share it"] if totals["local"] else lines)


_KINDS = {
    "input": "inputs", "held": "tensors that existed: parameters, buffers, optimizer state", "result": "results, new at every call",
    "gradient": "gradients", "local": "values in between",
}  # fmt: skip
