"""`ExportedProgram.graph_signature`: what the inputs, held tensors and outputs of a program stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..graph.ir.alias_analysis import Effects
from ..graph.ir.program import Value, name
from .outputs import outputs_of

if TYPE_CHECKING:
    from .program import ExportedProgram


@dataclass(frozen=True)
class Signature:
    """Names as in PyTorch's ExportGraphSignature. Values of the graph are named as it prints them, such as "%3"."""

    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    user_inputs: tuple[str, ...]
    user_outputs: tuple[str, ...]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]


def signature_of(exported: ExportedProgram) -> Signature:
    """The signature of a program."""
    program, effects = exported.program, Effects(exported.program)
    parameters = {value: key for value, key in exported.names.items() if key in exported.parameter_names}
    buffers = {value: key for value, key in exported.names.items() if value not in parameters}
    return Signature(
        tuple(parameters.values()),
        tuple(buffers.values()),
        exported.input_names,
        tuple(map(name, outputs_of(program))),
        _named_values(parameters),
        _named_values(buffers),
        _named_values({value: key for value, key in buffers.items() if not effects.fixed(value)}),
    )


def _named_values(names: dict[Value, str]) -> dict[str, str]:
    return {name(value): key for value, key in names.items()}
