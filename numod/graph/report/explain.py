"""A compiled program as text: the recorded steps with source lines, fused loops, costs, memory layout, and the code."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ...kernel import inspection
from ...kernel.build import Kernel
from ...ops import cost
from ...ops.op import Op
from ...ops.update import ACTION
from ..passes.fuse_reduction import FusedReduction
from ..ir.alias_analysis import prepare_arguments
from ..passes.fuse_epilogue import WithEpilogue
from ..passes.freezing import Frozen
from ..passes.fuse_pointwise import Fused
from ..backend.lower import Buffer, Call, CheckCall, Lowered
from ..backend.memory_plan import lifetimes
from ..ir.program import Program, Step, name
from ..backend.section import Section
from .program_text import step_lines, text

if TYPE_CHECKING:
    from ..backend.executable import Executable


def explain(executable: Executable, source: bool = False, assembly: bool = False, llvm: bool = False) -> str:
    """A full report on a program; optionally with its kernels' generated source, assembly and LLVM IR."""
    sections = [executable.section, *([executable.backward] if hasattr(executable, "backward") else [])]
    before, after = (
        sum(isinstance(step, Step) for step in program.steps) for program in (executable.recorded, executable.program)
    )
    parts = [
        f"Program: {after} steps, of {before} recorded",
        f"{text(executable.program, _cost, executable.boundary)}\n{_total_cost(executable.program)}",
        *map(_kernels, sections),
        memory(executable),
    ]
    parts[2:2] = [frozen(executable.frozen)] if executable.freezing or executable.frozen else []
    kernels = list({kernel.key: kernel for section in sections for kernel in section.kernels()}.values())
    parts += [f"Source of {kernel.name}\n\n{kernel.source}" for kernel in kernels if source]
    parts += [_code(kernel, assembly, llvm) for kernel in kernels if assembly or llvm]
    return "\n\n".join(parts)


# ---- steps


def work(program: Program) -> tuple[int, int]:
    """(floating-point operations of a run, bytes that its steps read and write)."""
    flops, moved = (
        sum(cost_of(program, step) for step in program.steps if isinstance(step, Step)) for cost_of in (_flops, _bytes)
    )
    return flops, moved


def _cost(program: Program, step: Step) -> str:
    return f"{_flops(program, step):,} flops, {_bytes(program, step):,} bytes"


def _total_cost(program: Program) -> str:
    flops, moved = work(program)
    return f"{flops:,} floating-point operations, {moved:,} bytes read and written"


def _flops(program: Program, step: Step) -> int:
    """The number of floating-point operations of a step."""
    results = tuple([program.layouts[result] for result in step.results])
    if isinstance(step.op, (Fused, FusedReduction)):
        reduces = isinstance(step.op, FusedReduction)
        return (sum(cost.functions(op) for op, *_ in step.op.rows) + reduces) * (
            step.op.x.size if reduces else results[0].size
        )
    if isinstance(step.op, WithEpilogue):
        count = len(step.op.product.inputs)
        multiplied = cost.flops(
            step.op.product, prepare_arguments(step, program.layouts)[:count], step.attributes, results
        )
        return multiplied + sum(cost.functions(op) for op, *_ in step.op.rows) * results[0].size
    if not isinstance(step.op, Op) or step.op is ACTION:
        return 0
    attributes = step.attributes
    # an optimizer step: (function that returns the scalars, number of parameters, recorded scalars)
    if step.attributes and callable(step.attributes[0]):
        attributes = (len(step.inputs) // step.attributes[1],)
    return cost.flops(step.op, prepare_arguments(step, program.layouts), attributes, results)


def _bytes(program: Program, step: Step) -> int:
    return cost.bytes_moved(
        step.op, prepare_arguments(step, program.layouts), tuple([program.layouts[result] for result in step.results])
    )


def frozen(values: list[Frozen]) -> str:
    """The frozen values, each with the steps that compute it."""
    lines = [
        f"Frozen: {len(values)} values, {sum(value.tensor.nbytes for value in values):,} bytes, computed once, and "
        "again after a write to a tensor that they depend on"
    ]
    return "\n".join(
        lines + [line for value in values for step in value.program.steps for line in step_lines(step, value.program)]
    )


# ---- kernels


def _kernels(section: Section) -> str:
    calls = [call for call in section.calls if isinstance(call, Call)]
    counts = Counter(call.kernel.name if call.kernel else f"{call.step.op.name} (host)" for call in calls)
    form = f"{len(calls)} launches {'in turn' if section.replay is None else 'as one graph'}"
    if section.linked:
        form = f"one native function, {section.kernel.name}{', from the disk cache' if section.kernel.cached else ''}"
    lines = [f"Kernels: {form}", *(f"  {count:4} x {kernel_name}" for kernel_name, count in counts.most_common())]
    checks = sum(isinstance(call, CheckCall) for call in section.calls)
    return "\n".join(
        lines + ([f"  {checks:4} checks, each of which can stop the run before anything is written"] if checks else [])
    )


def _code(kernel: Kernel, assembly: bool, llvm: bool) -> str:
    """The machine code of a kernel as text, with the instructions of its loops."""
    code = inspection.machine_code(kernel)
    if code is None:
        return f"{kernel.name}: no CPU machine code"
    widths = [f"{bits}-bit vectors" if bits else "scalar code" for bits, _ in code.loops]
    loops = [
        f"  loop {number}: {width}, {length} instructions"
        for number, (width, (_, length)) in enumerate(zip(widths, code.loops))
    ]
    lines = [
        f"Machine code of {kernel.name}: {code.code_bytes:,} bytes, vectors of {code.vector_bits} bits in the hot loop",
        *loops,
    ]
    return "\n".join(lines + [code.assembly] * assembly + [code.llvm] * llvm)


# ---- memory


def memory(executable: Executable) -> str:
    """Bytes by kind, and the arena's layout: offset and lifetime (first and last call) of each intermediate value."""
    lowered = executable.lowered
    buffers: dict[Buffer, None] = {}
    for call in lowered.calls:
        if isinstance(call, Call):
            buffers.update(dict.fromkeys((*call.reads, *call.writes)))
    totals = {kind: sum(buffer.nbytes for buffer in buffers if buffer.kind == kind) for kind in _KINDS}
    lines = ["Memory, bytes", *(f"  {total:12,} {_KINDS[kind]}" for kind, total in totals.items() if total)]
    if not totals["local"]:
        return "\n".join(lines)
    lines.append(
        f"  {executable.arena_size:12,} arena that holds them, the peak: buffers with disjoint lifetimes share memory"
    )
    return "\n".join(lines + _plan(lowered, executable.places))


def _plan(lowered: Lowered, places: dict[Buffer, int], max_lines: int = 40) -> list[str]:
    values = {span.buffer: value for value, span in reversed(lowered.places.items())}
    alive = lifetimes(lowered)
    name_of = {placed: name(values[placed]) if placed in values else "scratch" for placed in places if placed.nbytes}
    lines = [
        f"    {places[buffer]:12,} + {buffer.nbytes:<12,} {value_name:8} calls {alive[buffer][0]} to {alive[buffer][1]}"
        for buffer, value_name in name_of.items()
    ]
    return [
        "         offset + bytes",
        *lines[:max_lines],
        *([f"    ... and {len(lines) - max_lines} more"] if len(lines) > max_lines else []),
    ]


_KINDS = {
    "input": "inputs", "held": "held tensors: parameters, buffers, optimizer state",
    "result": "results, allocated by every call", "gradient": "gradients", "local": "intermediate values",
}  # fmt: skip
