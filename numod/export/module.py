"""A loaded program as an object file for one machine: optimised, lowered and planned for it, linked into one function,
and compiled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

from ..core.tensor import Tensor
from ..device import ahead
from ..device.device import Device
from ..device.target import Machine
from ..graph.backend import memory_plan, schedule
from ..graph.backend.lower import Buffer, Call, Lowered, Test, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Value
from ..graph.backend.section import small
from ..kernel import build
from .entry import Data, Entry
from .interface import Interface
from .link import main_function
from .outputs import outputs_of


@dataclass(frozen=True)
class Planned:
    """A lowered program whose outputs are buffers that the caller gives."""

    program: Program
    lowered: Lowered
    outputs: tuple[Buffer, ...]

    @property
    def held(self) -> list[Buffer]:
        """The buffers of tensors that the program holds and its calls use."""
        spans = [call.span for call in self.lowered.calls if isinstance(call, Test)]
        spans += [
            part
            for call in self.lowered.calls
            if isinstance(call, Call)
            for part in call.arguments
            if hasattr(part, "buffer")
        ]
        return [each for each in dict.fromkeys(span.buffer for span in spans) if each.kind == "held"]

    @property
    def checks(self) -> list[str]:
        """The lines of the checks, in the order of their codes."""
        return [call.where for call in self.lowered.calls if isinstance(call, Test)]

    def flops(self) -> int:
        """Floating-point operations of a run."""
        from ..graph.report.explain import work

        return work(self.program)[0]


def planned(program: Program) -> Planned:
    """The program, lowered for the machine of `target.compile_for`."""
    program, _ = optimise(program)
    lowered = lower(program)
    lowered.calls = schedule.checks_first(lowered.calls, program.shared)
    outputs = []
    for value in outputs_of(program):
        span = lowered.places[value]
        if span.offset or span.buffer.kind != "local" or not program.layouts[value].dense:
            raise RuntimeError(f"aot_compile: output %{value.number} has no memory of its own")
        span.buffer.kind = "result"
        outputs.append(span.buffer)
    return Planned(program, lowered, tuple(outputs))


def weights_of(plan: Planned, names: dict[Value, str]) -> dict[str, Tensor]:
    """The tensors that the calls read, by name: of a storage that several values view, the flat whole."""
    found: dict[str, Tensor] = {}
    constants = (name for name in map("constant{}".format, count()) if name not in names.values())
    for buffer in plan.held:
        values = [value for value, tensor in plan.program.held.items() if tensor._storage is buffer.tensor._storage]
        name = next((names[value] for value in values if value in names), None) or next(constants)
        tensor = buffer.tensor
        plain = len(values) == 1 and tensor.numel() == buffer.size and tensor.is_contiguous()
        found[name] = tensor if plain else _whole(tensor)
    return found


def _whole(tensor: Tensor) -> Tensor:
    from ..core.tensor import wrap
    from ..device.layout import layout

    return wrap(tensor._storage, layout((len(tensor._storage.data),), tensor.dtype, tensor.device), 0)


def offsets_of(plan: Planned, interface: Interface, weights: dict[str, Tensor]) -> dict[Buffer, int]:
    """Where in the block of weights each held buffer lies."""
    places = {id(weights[weight.name]._storage): weight.offset for weight in interface.weights}
    return {each: places[id(each.tensor._storage)] for each in plan.held}


@dataclass(frozen=True)
class Compiled:
    """An object file, and the bytes of arena that its code needs."""

    code: bytes
    arena: int


def compiled(
    plan: Planned, interface: Interface, weights: dict[str, Tensor], machine: Machine, data: Data, size: bool
) -> Compiled:
    """The object file of a program that was planned for this machine."""
    places, arena = memory_plan.plan(plan.lowered, alignment=machine.alignment)
    names = {place: "arena" for place in places} | {each: "weights" for each in plan.held}
    names |= {output: f"output{k}" for k, output in enumerate(plan.outputs)}
    names |= {input: f"input{input.number}" for input in _inputs(plan.lowered)}
    arguments = [
        "weights",
        "arena",
        *(f"input{k}" for k in range(len(interface.inputs))),
        *(f"output{k}" for k in range(len(interface.outputs))),
    ]
    main = main_function(plan.lowered.calls, places | offsets_of(plan, interface, weights), names, arguments)
    function = build.function(Device("cpu").backend, f"numod_{interface.name}", main.text)
    # larger programs run kernel by kernel in Python, each for any sizes: same rounding
    generic = () if size or small(plan.lowered.calls) else main.functions
    translated = ahead.translated(function, ", ".join(["int64"] * len(arguments)), build.FAST_POINTWISE, generic)
    block = b"".join(_bytes(weights[weight.name]) for weight in interface.weights) if interface.embedded else b""
    entry = Entry(
        interface,
        machine,
        arena,
        Data(block, main.table, data.inputs, data.outputs, data.scales, data.abi),
        sections=machine.is_elf,
    )
    return Compiled(ahead.object_file(translated, entry.text(), entry.exported, machine, size), entry.arena)


def _inputs(lowered: Lowered) -> list[Buffer]:
    return [each for each in dict.fromkeys(span.buffer for span in lowered.places.values()) if each.kind == "input"]


def _bytes(tensor: Tensor) -> bytes:
    return tensor._storage.data[tensor._offset : tensor._offset + tensor._layout.extent].tobytes()
