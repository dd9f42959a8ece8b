"""Compiles a loaded program to an object file for one machine: optimise, lower, plan, link, compile."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING

from ..core.create.values import tensor
from ..core.tensor import Tensor
from ..dtypes import int64
from ..device import ahead
from ..device.device import Device
from ..device.target import Machine
from ..graph.backend import memory_plan, schedule
from ..graph.backend.lower import Buffer, Call, CheckCall, Lowered, lower
from ..graph.passes.pipeline import optimise
from ..graph.ir.program import Program, Value
from ..graph.backend.section import is_linked
from ..kernel import build
from .entry import Data, Entry
from .interface import PACKED_ALIGNMENT, STREAM, Arena, Interface, aligned
from .link import Stream, main_function
from .outputs import outputs_of

if TYPE_CHECKING:
    from .variants import Variants


@dataclass(frozen=True)
class Planned:
    """A lowered program whose output buffers are passed in by the caller.

    `packed`: weights in the form of one processor's kernels, which are constants of its code.
    """

    program: Program
    lowered: Lowered
    outputs: tuple[Buffer, ...]
    stream: Buffer | None  # seed and offset of random numbers
    packed: tuple[Tensor, ...] = ()

    @property
    def draws(self) -> dict[int, int]:
        """How many random numbers are drawn before each draw, by the draw's index among the sources."""
        drawn_before, before = {}, 0
        for number, source in enumerate(self.lowered.sources):
            drawn_before[number] = before
            before += source.count
        return drawn_before

    @property
    def drawn(self) -> int:
        """How many random numbers a run draws."""
        return sum([source.count for source in self.lowered.sources])

    @property
    def written(self) -> tuple[set[int], bool]:
        """(indices of inputs that a run writes, whether it writes held tensors)."""
        calls = [call for call in self.lowered.calls if isinstance(call, Call)]
        buffers = {buffer for call in calls for buffer in call.writes}
        inputs = {written_buffer.number for written_buffer in buffers if written_buffer.kind == "input"}
        return inputs, self.stream is not None or any(written_buffer.kind == "held" for written_buffer in buffers)

    @property
    def held_buffers(self) -> list[Buffer]:
        """The buffers of held tensors in the block of weights."""
        packed = self.packed_buffers
        buffers = [buffer for buffer in self._used_buffers if buffer not in packed]
        return buffers if self.stream is None else [*buffers, self.stream]

    @property
    def packed_buffers(self) -> dict[Buffer, int]:
        """The buffers of packed weights, with their offsets among the constants of the code."""
        offsets, end = {}, 0
        for weight in self.packed:
            offsets[id(weight._storage)] = end
            end += aligned(weight.numel() * weight.element_size(), PACKED_ALIGNMENT)
        return {
            buffer: offsets[id(buffer.tensor._storage)]
            for buffer in self._used_buffers
            if id(buffer.tensor._storage) in offsets
        }

    @property
    def _used_buffers(self) -> list[Buffer]:
        """The buffers of held tensors that the program's calls use."""
        spans = [call.span for call in self.lowered.calls if isinstance(call, CheckCall)]
        spans += [
            part
            for call in self.lowered.calls
            if isinstance(call, Call)
            for part in call.arguments
            if hasattr(part, "buffer")
        ]
        return [
            buffer_used for buffer_used in dict.fromkeys(span.buffer for span in spans) if buffer_used.kind == "held"
        ]

    @property
    def checks(self) -> list[str]:
        """The source lines of the checks, in the order of their codes."""
        return [call.location for call in self.lowered.calls if isinstance(call, CheckCall)]

    def flops(self) -> int:
        """Floating-point operations of a run."""
        from ..graph.report.explain import work

        return work(self.program)[0]


def planned(program: Program, stream: tuple[int, int] = (0, 0), packed: Sequence[Tensor] = ()) -> Planned:
    """The program, optimised and lowered for the machine of `target.compile_for`.

    `stream`: seed and offset of its first draw. `packed`: see `Planned`.
    """
    return planned_as_it_is(optimise(program)[0], stream, packed)


def planned_as_it_is(program: Program, stream: tuple[int, int] = (0, 0), packed: Sequence[Tensor] = ()) -> Planned:
    """As `planned`, for a program that is optimised."""
    lowered = lower(program)
    lowered.calls = schedule.checks_first(lowered.calls, program.shared)
    outputs = []
    for value in outputs_of(program):
        span = lowered.places[value]
        if span.offset or span.buffer.kind != "local" or not program.layouts[value].dense:
            raise RuntimeError(f"aot_compile: output %{value.number} does not have separate memory")
        span.buffer.kind = "result"
        outputs.append(span.buffer)
    return Planned(program, lowered, tuple(outputs), _stream(*stream) if lowered.sources else None, tuple(packed))


def _stream(seed: int, offset: int) -> Buffer:
    state = tensor([seed, offset], dtype=int64)
    return Buffer("held", 2, state._layout.storage, state.device, state)


def weights_of(plan: Planned, names: dict[Value, str], constant: str = "constant") -> dict[str, Tensor]:
    """The tensors that the calls read, by name. If several values view one storage, it is the whole storage, flat.

    Unnamed tensors are called `constant` with a number.
    """
    weights: dict[str, Tensor] = {}
    constants = (name for name in map(f"{constant}{{}}".format, count()) if name not in names.values())
    for buffer in plan.held_buffers:
        values = [value for value, tensor in plan.program.held.items() if tensor._storage is buffer.tensor._storage]
        stored = buffer.tensor
        if buffer is plan.stream:
            weights[STREAM] = stored
            continue
        name = next((names[value] for value in values if value in names), None) or next(constants)
        plain = len(values) == 1 and stored.numel() == buffer.size and stored.is_contiguous()
        weights[name] = stored if plain else _whole(stored)
    return weights


def _whole(tensor: Tensor) -> Tensor:
    from ..core.tensor import wrap
    from ..device.layout import layout

    return wrap(tensor._storage, layout((len(tensor._storage.data),), tensor.dtype, tensor.device), 0)


def offsets_of(plan: Planned, interface: Interface, weights: dict[str, Tensor]) -> dict[Buffer, int]:
    """The offset of each held buffer, in the block of weights or among the constants."""
    offsets = {weight.name: weight.offset for weight in interface.weights}
    places = {id(weight._storage): offsets[name] for name, weight in weights.items()}
    return {
        buffer: offsets[STREAM] if buffer is plan.stream else places[id(buffer.tensor._storage)]
        for buffer in plan.held_buffers
    } | plan.packed_buffers


@dataclass(frozen=True)
class Compiled:
    """An object file and the arena that its code needs."""

    code: bytes
    arena: Arena


def compiled(
    plan: Planned,
    interface: Interface,
    weights: dict[str, Tensor],
    machine: Machine,
    data: Data,
    size: bool,
    kernel: str = "",
    variants: Variants | None = None,
) -> Compiled:
    """The object file of a program that was planned for this machine.

    `kernel`: if given, return LLVM IR of a function with this name instead. `variants`: the plans of a program with
    dynamic dimensions.
    """
    arguments = [
        "weights",
        "arena",
        *(f"size{k}" for k in range(len(interface.sizes))),
        *(f"input{k}" for k in range(len(interface.inputs))),
        *(f"output{k}" for k in range(len(interface.outputs))),
    ]
    apart = machine.bits == 64 and not size

    def offsets(plan: Planned) -> dict[Buffer, int]:
        return offsets_of(plan, interface, weights)

    packed = b"".join(_padded(_bytes(weight)) for weight in plan.packed)
    if variants is None:
        places, fixed = memory_plan.plan(plan.lowered, alignment=machine.alignment)
        arena, weight_offsets = Arena(fixed), offsets(plan)
        stream = None if plan.stream is None else Stream(weight_offsets[plan.stream], plan.draws, plan.drawn)
        main = main_function(
            plan.lowered.calls, places | weight_offsets, _names(plan, places), arguments, stream, apart, len(packed)
        )
    else:
        arena = Arena(variants.fixed, variants.unit)
        main = variants.main(_names, offsets, arguments, apart, len(packed))
    function = build.function(Device("cpu").backend, f"numod_{interface.name}", main.text)
    # programs that are not linked run kernel by kernel in Python, with kernels for any size: equal rounding needs these
    alone = variants is None and (size or is_linked(plan.lowered.calls))
    generic = main.apart if alone else main.functions
    translated = ahead.translated(function, ", ".join(["int64"] * len(arguments)), build.FAST_POINTWISE, generic)
    embedded = interface.weights if interface.embedded and not kernel else ()
    block = b"".join(_bytes(weights[weight.name]) for weight in embedded)
    entry = Entry(
        interface,
        machine,
        arena,
        Data(block, main.table, data.inputs, data.outputs, data.scales, data.abi, data.header, packed),
        sections=machine.is_elf,
    )
    if kernel:
        return Compiled(ahead.kernel_text(translated, entry.table(), kernel, machine, size).encode(), arena)
    return Compiled(ahead.object_file(translated, entry.text(), entry.exported, machine, size), entry.arena)


def _names(plan: Planned, places: Iterable[Buffer]) -> dict[Buffer, str]:
    """The name of the argument that contains each buffer."""
    names = dict.fromkeys(places, "arena") | dict.fromkeys(plan.held_buffers, "weights")
    names |= dict.fromkeys(plan.packed_buffers, "constants")
    names |= {output: f"output{k}" for k, output in enumerate(plan.outputs)}
    return names | {input: f"input{input.number}" for input in _inputs(plan.lowered)}


def _inputs(lowered: Lowered) -> list[Buffer]:
    return [
        buffer for buffer in dict.fromkeys(span.buffer for span in lowered.places.values()) if buffer.kind == "input"
    ]


def _padded(data: bytes) -> bytes:
    return data.ljust(aligned(len(data), PACKED_ALIGNMENT), b"\0")


def _bytes(tensor: Tensor) -> bytes:
    return tensor._storage.data[tensor._offset : tensor._offset + tensor._layout.extent].tobytes()
