"""`ExportedProgram.graph_signature` and `call_spec`: what the inputs, constants and results of a program stand for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..graph.ir.alias_analysis import Effects
from ..graph.ir.program import Value
from ..graph.values.pytree import replace
from ..serialization import records

if TYPE_CHECKING:
    from .program import ExportedProgram


@dataclass(frozen=True)
class ExportGraphSignature:
    """Names as in PyTorch's class: those of parameters and buffers in the module, and those of nodes.

    `user_inputs` and `user_outputs` are names of nodes, and the constants among the arguments and results.
    """

    parameters: tuple[str, ...]
    buffers: tuple[str, ...]
    user_inputs: tuple[Any, ...]
    user_outputs: tuple[Any, ...]
    inputs_to_parameters: dict[str, str]
    inputs_to_buffers: dict[str, str]
    buffers_to_mutate: dict[str, str]
    non_persistent_buffers: tuple[str, ...]
    lifted_tensor_constants: tuple[str, ...]
    inputs_to_lifted_tensor_constants: dict[str, str]


class CallSpec(NamedTuple):
    """The structures of the arguments, (args, kwargs), and of the result, as of `utils._pytree.tree_structure`."""

    in_spec: Any
    out_spec: Any


class ModuleCallSignature(NamedTuple):
    """The structures of a call's arguments and result. The tensors between submodules are not recorded."""

    inputs: list[Any]
    outputs: list[Any]
    in_spec: Any
    out_spec: Any


class ModuleCallEntry(NamedTuple):
    """A module by its name, and the structures of its call."""

    fqn: str
    signature: ModuleCallSignature | None


def signature_of(exported: ExportedProgram) -> ExportGraphSignature:
    """The signature of a program."""
    graph, effects = exported.graph, Effects(exported.program)
    parameters = {value: key for value, key in exported.names.items() if key in exported.parameter_names}
    buffers = {value: key for value, key in exported.names.items() if value not in parameters}
    unnamed = [value for value in exported.program.held if value not in exported.names]
    constants = {value: f"constant{number}" for number, value in enumerate(unnamed)}
    nodes = {value: graph.names[value] for value in (*parameters, *buffers, *constants, *exported.program.inputs)}

    def by_node(names: dict[Value, str]) -> dict[str, str]:
        return {nodes[value]: key for value, key in names.items()}

    inputs = [
        nodes[exported.program.inputs[leaf.number]] if isinstance(leaf, Value) else leaf
        for leaf in _leaves(exported.spec)
    ]
    return ExportGraphSignature(
        tuple(parameters.values()),
        tuple(buffers.values()),
        tuple(inputs),
        tuple([getattr(result, "name", result) for result in graph.results()]),
        by_node(parameters),
        by_node(buffers),
        by_node({value: key for value, key in buffers.items() if not effects.fixed(value)}),
        exported.non_persistent,
        tuple(constants.values()),
        by_node(constants),
    )


def _leaves(argument: Any) -> list[Any]:
    """The leaves of an argument. Fields of a dataclass that are None are none, as in PyTorch."""
    parts = argument
    if records.is_record(argument):
        fields = records.fields(argument)
        parts = [part for part in fields.values() if isinstance(argument, tuple) or part is not None]
    elif isinstance(argument, dict):
        parts = argument.values()
    elif not isinstance(argument, (tuple, list)):
        return [argument]
    return [leaf for part in parts for leaf in _leaves(part)]


def call_spec_of(exported: ExportedProgram) -> CallSpec:
    """The structures of a program's arguments and result."""
    return CallSpec(
        replace(tuple(exported.spec), lambda leaf: None), replace(exported.program.outputs, lambda leaf: None)
    )
