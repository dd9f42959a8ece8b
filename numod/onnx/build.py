"""Builds an OnnxModule from a ModelProto: checks the graph, finds each node's operator, and registers the tensors.

Unsupported features are collected and raised as one error.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import numod

from ..core import Tensor, from_numpy
from ..dtypes import dtype
from . import opset  # noqa: F401  fills the table
from .attributes import read_attributes
from .checks import (
    check_arguments,
    check_text,
    declared_shape,
    declared_type,
    domain_of,
    full_name,
    in_checked_order,
    label_of,
    output_names,
    read_opsets,
    schema_function,
    scope_of,
)
from .layers import make_layers
from .model import OnnxModule, Value, add_tensor
from .program import CALL, UNUSED, Program, Step, set_dropped, subprograms
from .recurrent_layers import make_recurrent_layers
from .registry import HOST, Operator, find
from .tensors import DTYPES, WIDER, dtype_name, read_tensor
from .ties import separate_equal_tensors

_MOST_STEPS = 100_000  # nodes, where a function's nodes count at each call
_DEEPEST = 32  # levels of nested functions and subgraphs
_MOST_FOLDED = 4096  # elements of a constant that is computed when the file is loaded
_MOST_COMBINED = 1 << 22  # product of the sizes of its inputs, which bounds the size after broadcasting
# names of values that an exporter computed, as opposed to names in a state dict
_COMPUTED = re.compile(r"val_\d+$|scalar_tensor|_?const|/|onnx::|_to_copy|lifted_tensor", re.IGNORECASE)
# operators whose result is the same for a constant in a wider dtype
_READ_WIDENED = {"Cast", "DequantizeLinear", "MatMulNBits"}
_PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul", "FusedMatMul", "FusedGemm", "FusedConv", "LSTM", "GRU", "RNN"}


def build_module(model: object, folder: Path | None) -> OnnxModule:
    """The module of a model. Raises NotImplementedError that lists all unsupported features."""
    builder = Builder(model, folder)
    module = builder.module()
    if builder.problems:
        lines = "\n".join(f"  {line}" for line in problem_lines(builder.problems))
        raise NotImplementedError(f"numod.onnx.load does not support\n{lines}")
    return module


def problem_lines(problems: dict[str, list[str]]) -> list[str]:
    """A line for each unsupported feature, with the first nodes that use it."""
    return [
        f"{problem}: {', '.join(places[:3])}" + (f" and {len(places) - 3} more" if len(places) > 3 else "")
        for problem, places in problems.items()
    ]


@dataclass
class Context:
    """The surroundings of a graph: opsets, attributes of the function's caller, names of outer graphs, depth.

    `widened` has the types of constants that are stored in a wider dtype, by name.
    """

    opsets: dict[str, int]
    attributes: dict[str, object] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    depth: int = 0
    prefix: str = ""
    widened: dict[str, str] = field(default_factory=dict)

    def inner(self, names: Iterable[str]) -> Context:
        """The context of a subgraph."""
        names = self.names.union(names)
        return Context(self.opsets, self.attributes, names, self.depth + 1, self.prefix, dict(self.widened))


class Builder:
    """Builds one model. `problems` has the unsupported features, with the nodes that use them."""

    def __init__(self, model: object, folder: Path | None) -> None:
        self.model, self.folder = model, folder
        self.problems: dict[str, list[str]] = {}
        self.functions = {
            (domain_of(function.domain), function.name, function.overload): function for function in model.functions
        }
        self.saved = {tensor.name for tensor in model.graph.initializer}
        self.root = OnnxModule("", (), ())

    def module(self) -> OnnxModule:
        """The module. It lacks the steps of nodes with problems."""
        graph = self.model.graph
        if self._count(graph.node, {}) > _MOST_STEPS:
            raise ValueError(f"the model has more than {_MOST_STEPS} nodes, counting those of functions at each call")
        initializers = {tensor.name for tensor in graph.initializer}
        inputs = [value for value in graph.input if value.name not in initializers]
        self.root = OnnxModule(graph.name, map(self._declared, inputs), map(self._declared, graph.output))
        self.root._program = self.graph(graph, Context(read_opsets(self.model.opset_import)))
        return self.root.eval()

    def _count(self, nodes: Iterable, counts: dict[tuple, int | None], depth: int = 0) -> int:
        """The number of steps of the nodes. `counts` has the numbers of functions, None while one is counted."""
        if depth > _DEEPEST:
            raise ValueError(f"functions and graphs are nested deeper than {_DEEPEST}")
        total = 0
        for node in nodes:
            total += 1 + sum(
                self._count(attribute.g.node, counts, depth + 1)
                for attribute in node.attribute
                if attribute.HasField("g")
            )
            key = (domain_of(node.domain), node.op_type, node.overload)
            if key in self.functions:
                if key not in counts:
                    counts[key] = None
                    counts[key] = self._count(self.functions[key].node, counts, depth + 1)
                if counts[key] is None:
                    raise ValueError(f"function '{node.op_type}' calls itself")
                total += counts[key]
        return total

    def _declared(self, value: object) -> Value:
        """An input or output of the graph with its declared type and shape."""
        check_text(value.name)
        kind, shape = declared_type(value.type)
        if shape is not None and any(isinstance(size, int) and size < 0 for size in shape):
            raise ValueError(f"'{value.name}' has a negative size: {list(shape)}")
        return Value(value.name, kind, shape)

    # ---- graphs

    def graph(self, graph: object, context: Context) -> Program:
        """The program of a GraphProto."""
        if context.depth > _DEEPEST:
            raise ValueError(f"graphs are nested deeper than {_DEEPEST}")
        tensors = self._initializers(graph, context)
        names = [value.name for value in graph.input]
        check_text(*names)
        program = Program(tuple(name for name in names if name not in tensors))
        for name in program.inputs:
            context.widened.pop(name, None)
        program.empty_outputs = [_empty_form(value.type) for value in graph.output]
        if len(set(names)) != len(names):
            raise ValueError(f"graph '{graph.name}' has two inputs of one name")
        if graph.sparse_initializer:
            self._problem("sparse initializers", graph.name)
        return self._body(program, graph.node, [value.name for value in graph.output], tensors, context)

    def function(self, function: object, node: object, context: Context) -> Step:
        """A call of a FunctionProto. Its nodes can refer to attributes of the caller, else to their defaults."""
        if context.depth > _DEEPEST:
            raise ValueError(f"functions call each other deeper than {_DEEPEST}")
        check_text(*function.input, *function.output)
        attributes = {attribute.name: attribute for attribute in function.attribute_proto}
        attributes |= {attribute.name: attribute for attribute in self._resolved(node, context).attribute}
        opsets = {**context.opsets, **read_opsets(function.opset_import)}
        prefix = f"{context.prefix}{node.name or function.name}."
        arguments = zip(function.input, node.input)
        widened = {name: context.widened[value] for name, value in arguments if value in context.widened}
        inner = Context(opsets, attributes, frozenset(), context.depth + 1, prefix, widened)
        program = Program(tuple(function.input))
        self._body(program, function.node, list(function.output), {}, inner)
        inputs = [*node.input, *[""] * (len(function.input) - len(node.input))]
        if len(inputs) > len(function.input):
            raise ValueError(
                f"{label_of(node)} has {len(inputs)} inputs, function '{function.name}' takes {len(function.input)}"
            )
        if len(node.output) > len(function.output):
            raise ValueError(
                f"{label_of(node)} has {len(node.output)} outputs, function '{function.name}' has "
                f"{len(function.output)}"
            )
        return Step(CALL, tuple(inputs), output_names(node), {"body": program}, label_of(node))

    def _body(
        self, program: Program, nodes: Iterable, outputs: list[str], tensors: dict[str, object], context: Context
    ) -> Program:
        """Add the nodes as steps to the program, with constants folded and unused steps left out."""
        own_names = {*program.inputs, *tensors}
        program.constants = {name: value for name, value in tensors.items() if isinstance(value, np.ndarray)}
        stored = {name: value for name, value in tensors.items() if not isinstance(value, np.ndarray)}
        read: set[str] = set()
        for node in in_checked_order(list(nodes), own_names | context.names):
            step = self._step(node, program, own_names, context)
            own_names |= set(node.output)
            if step is not None:
                read |= {*step.inputs, *step.captured}
                if not self._fold(step, program, stored):
                    program.steps.append(step)
        if unknown := [name for name in outputs if name not in own_names | context.names]:
            raise ValueError(f"output '{unknown[0]}' is computed by no node")
        for name in outputs:
            if name in context.widened:
                self._problem(f"outputs that are constants of type {context.widened[name]}", name)
        program.outputs = tuple(outputs)
        leaves = [step.attributes["xs"] for step in program.steps if step.operator.name == "Gradient"]
        program.differentiated = frozenset(program.inputs).intersection(set().union(*leaves))
        program.shadows = tuple(context.names.intersection(program.inputs))
        program.captured = frozenset((read | set(outputs)) - own_names - {""})
        self._register_tensors(program, stored, context)
        set_dropped(program, frozenset(program.constants))
        return program

    def _initializers(self, graph: object, context: Context) -> dict[str, object]:
        """The stored tensors of a graph by name."""
        tensors: dict[str, object] = {}
        for proto in graph.initializer:
            check_text(proto.name)
            if not proto.name or proto.name in tensors:
                raise ValueError(
                    f"two initializers are called '{proto.name}'" if proto.name else "an initializer has no name"
                )
            context.widened.pop(proto.name, None)
            if proto.data_type in WIDER:
                context.widened[proto.name] = dtype_name(proto.data_type)
            try:
                tensors[proto.name] = read_tensor(proto, self.folder)
            except NotImplementedError as problem:
                self._problem(f"constants of type {dtype_name(proto.data_type)}", str(problem))
                tensors[proto.name] = np.zeros(0, np.float32)
        return {name: value if _is_host(value) else _as_tensor(value) for name, value in tensors.items()}

    # ---- nodes

    def _step(self, node: object, program: Program, names: set[str], context: Context) -> Step | None:
        """The step of a node: a call of a function or an operator; None for an unsupported operator."""
        domain = domain_of(node.domain)
        function = self.functions.get((domain, node.op_type, node.overload))
        if function is not None:
            return self.function(function, node, context)
        version = context.opsets.get(domain)
        if version is None:
            raise ValueError(f"{label_of(node)}: the model does not import the domain '{node.domain}'")
        row = find(domain, node.op_type, version)
        if row is None:
            body = schema_function(domain, node.op_type, version)
            if body is not None:
                return self.function(body, node, context)
            self._problem(f"operator {full_name(domain, node.op_type)}, version {version}", node.name or node.output[0])
            return None
        return self._operator_step(row, self._resolved(node, context), names, context)

    def _operator_step(self, row: Operator, node: object, names: set[str], context: Context) -> Step | None:
        """The step of a node; None, with a problem noted, if it uses something unsupported."""
        try:
            check_arguments(row, node, context.opsets[domain_of(node.domain)])
            attributes = read_attributes(node, row, lambda graph: self.graph(graph, context.inner(names)), self.folder)
        except NotImplementedError as problem:
            self._problem(str(problem), label_of(node))
            return None
        except ValueError as error:
            raise ValueError(f"{label_of(node)}: {error}") from error
        self._check_widened(row, node, context)
        if "outputs" in row.keywords:
            attributes["outputs"] = len(node.output)
        step = Step(row, tuple(node.input), output_names(node), attributes, label_of(node), scope=scope_of(node))
        step.captured = frozenset().union(*[program.captured for program in subprograms(step)])
        if row.name == "Gradient":
            step.captured |= {attributes["y"]}
        return step

    def _check_widened(self, row: Operator, node: object, context: Context) -> None:
        """Note a problem if the operator reads a constant in a wider dtype, and its result depends on the dtype."""
        stored = [dtype_name(value.t.data_type) for value in node.attribute if value.t.data_type in WIDER]
        if row.name == "Constant" and stored:
            context.widened[node.output[0]] = stored[0]
            return
        read = [context.widened[name] for name in node.input if name in context.widened]
        for name in dict.fromkeys(stored if row.name in _READ_WIDENED else stored + read):
            self._problem(f"{row.name} with constants of type {name}", label_of(node))

    def _resolved(self, node: object, context: Context) -> object:
        """The node, with references to attributes of the enclosing function replaced by their values."""
        if not any(value.ref_attr_name for value in node.attribute):
            return node
        resolved = type(node)()
        resolved.CopyFrom(node)
        del resolved.attribute[:]
        for attribute in node.attribute:
            source = context.attributes.get(attribute.ref_attr_name) if attribute.ref_attr_name else attribute
            if source is not None:
                copied = resolved.attribute.add()
                copied.CopyFrom(source)
                copied.name = attribute.name
        return resolved

    def _fold(self, step: Step, program: Program, stored: dict[str, object]) -> bool:
        """Make the step's outputs constants if they do not depend on inputs. Returns whether they do not."""
        constant = step.operator.name == "Constant" and not step.inputs
        known = all(name in program.constants or not name for name in step.inputs)
        if not constant and not (step.inputs and known and step.operator.name in HOST):
            return False
        arguments = [program.constants[name] if name else None for name in step.inputs]
        if math.prod(max(array.size, 1) for array in arguments if array is not None) > _MOST_COMBINED:
            return False
        try:
            values = step.operator.function(**step.attributes) if constant else step.on_host(arguments)
        except Exception:  # the call will raise it
            return False
        if values is NotImplemented:
            return False
        values = values if type(values) is tuple else (values,)
        if len(values) < len(step.outputs):  # the call will raise it
            return False
        results = {name: value for name, value in zip(step.outputs, values) if name != UNUSED}
        if not constant and not all(
            isinstance(result, np.ndarray) and result.size <= _MOST_FOLDED for result in results.values()
        ):
            return False
        for name, value in results.items():
            (program.constants if isinstance(value, np.ndarray) else stored)[name] = value
        return True

    # ---- tensors

    def _register_tensors(self, program: Program, stored: dict[str, object], context: Context) -> None:
        """Register the tensors as parameters and buffers, and constants that are used as tensors as buffers."""
        if not context.depth:
            separate_equal_tensors(program, stored)
        uses = _uses(program)
        if not context.depth:
            trained = {name for name, value in stored.items() if self._is_trained(name, value, uses.get(name, set()))}
            make_layers(program, stored, trained, self.root)
            make_recurrent_layers(program, stored, trained, self.root)
        for name, value in stored.items():
            if uses.get(name) == {"host"}:
                program.constants[name] = value.numpy()
                continue
            trained = self._is_trained(name, value, uses.get(name, set())) and not context.prefix
            module, attribute = add_tensor(self.root, context.prefix + name, value, trained)
            program.add_tensor(name, module, attribute)
        for name, value in program.constants.items():
            if uses.get(name, set()) - {"host"} and value.dtype != object:
                location = add_tensor(self.root, context.prefix + name, _as_tensor(value), False, name in self.saved)
                program.add_tensor(name, *location)

    @staticmethod
    def _is_trained(name: str, value: Tensor, uses: set[str]) -> bool:
        """Whether a stored tensor becomes a parameter: a float, no buffer, not computed by an exporter."""
        if not value.dtype.differentiable or "state" in uses:
            return False
        if _is_computed(name) or (value.ndim == 0 and name.isdigit()):
            return value.ndim > 0 and "product" in uses
        return True

    def _problem(self, problem: str, location: str) -> None:
        self.problems.setdefault(problem, []).append(location)


def _is_computed(name: str) -> bool:
    """Whether an exporter created the name, after the function that computed a constant, as `zeros_1`."""
    function = re.sub(r"_\d+$", "", name)
    return bool(_COMPUTED.match(name)) or hasattr(numod, function) or hasattr(Tensor, function)


def _uses(program: Program) -> dict[str, set[str]]:
    """How values are used in a graph and its subgraphs: as "host", "state", "product" (as a weight) or "tensor"."""
    uses: dict[str, set[str]] = {}
    for step in program.all_steps():
        row = step.operator
        for position, name in enumerate(step.inputs):
            kind = "host" if position in row.host else "state" if position in row.state else "tensor"
            uses.setdefault(name, set()).add("product" if kind == "tensor" and row.name in _PRODUCTS else kind)
    return uses


def _empty_form(proto: object) -> tuple[dtype, tuple[int, ...]]:
    """The declared dtype and shape of an output of which no slices are stacked; float32 if it is not declared."""
    tensor = proto.tensor_type
    sizes = [size if isinstance(size, int) else 0 for size in declared_shape(tensor) or ()]
    return DTYPES.get(tensor.elem_type, numod.float32), (0, *sizes)


def _is_host(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind not in "fc"


def _as_tensor(value: object) -> object:
    return from_numpy(value if value.flags.writeable else value.copy()) if isinstance(value, np.ndarray) else value
