"""Walks a captured program and appends the ONNX nodes of its steps.

ONNX values are written once. After a step that writes in place, its tensor is a new value, and so is the tensor's base
if it is a view (`views.put`). Other views of the base are computed again when they are next read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.convert.transfer import Move
from ...core.create.generator import Draw
from ...core.tensor import Tensor
from ...dtypes import dtype as DType
from ...graph.ir.program import Value
from ...ops.pointwise import Pointwise
from ...ops.update import Update
from ...utils.scopes import Scopes
from ..symbols import Call, Check, Extent, Size, SymbolicProgram, is_empty
from . import (
    attention, image, indexing, linalg, losses, normalization, patterns, pointwise, products, quantized, random,
    recurrent, reductions, views,
)  # fmt: skip
from .graph import UNSUPPORTED, Graph, Unsupported
from .rules import ADVICE, RULES

RULE_FILES = (
    attention, image, indexing, linalg, losses, normalization, products, quantized, recurrent, reductions,
)  # fmt: skip
_BOUNDS = (
    "bounds",
    "class_bounds",
    "bag_bounds",
    "nll_loss",
    "cross_entropy",
)  # first words of the names of checks of indices


class Translation:
    """The state of a translation: the name of each value, and the steps that produce and use it."""

    def __init__(self, program: SymbolicProgram, graph: Graph, scopes: Scopes | None = None) -> None:
        self.program, self.graph, self.scopes = program, graph, scopes
        self.names: dict[Value, str] = {}
        self.weights: dict[str, str] = {}  # names of initializers, by the names of the tensors in the state dict
        self.producers: dict[Value, Call] = {}
        self.users: dict[Value, list[Call]] = {}
        self.views: dict[Value, Call] = {}  # values that are views, with the step that made them
        self.versions: dict[Value, int] = {}  # numbers of writes to tensors that are no views
        self.seen: dict[Value, int] = {}  # by view, the version of its base when it was last computed
        self.last_steps: dict[Value, tuple[Extent, str]] = {}  # recurrent states: first row and value of the last step
        self.done: set[int] = set()  # numbers of steps that became part of an earlier one's nodes
        self.written: set[Value] = set()
        self.assumptions: list[tuple[str, str]] = []  # (line, an assumption of the program about its data)
        for call in program.steps:
            if isinstance(call, Call):
                self._note(call)

    def _note(self, call: Call) -> None:
        """Record the producers and users of the values of a step."""
        if call.in_place:
            self.written.update(call.results)
        else:
            self.producers.update(dict.fromkeys(call.results, call))
        for value in dict.fromkeys(value for value in call.inputs if isinstance(value, Value)):
            self.users.setdefault(value, []).append(call)

    # ---- queries of rules

    def shape(self, value: Value) -> tuple[Extent, ...]:
        """A value's shape."""
        return self.program.shapes[value]

    def static_shape(self, value: Value, what: str) -> tuple[int, ...]:
        """A value's shape. Raises Unsupported if it is dynamic."""
        shape = self.program.shapes[value]
        if any(isinstance(size, Size) for size in shape):
            raise Unsupported(f"{what} with a dynamic size has no ONNX form; export it with a fixed size")
        return shape

    def dtype(self, value: Value) -> DType:
        """A value's dtype."""
        return self.program.dtypes[value]

    def rank(self, value: Value) -> int:
        """How many dimensions a value has."""
        return len(self.program.shapes[value])

    def name(self, value: Value) -> str:
        """The name of a value, at this point of the program."""
        root = self.root(value)
        if value in self.views and self.seen.get(value) != self.versions.get(root, 0):
            call = self.views[value]
            self.names[value] = views.forward(self, call)
            self.seen[value] = self.versions.get(root, 0)
        if value not in self.names:
            if value not in self.program.held:
                call = self.producers[value]
                raise Unsupported(f"{_ordinal(call.results.index(value))} result of {call.op.name} is not in ONNX")
            self.names[value] = self._stored(value)
        return self.names[value]

    def _stored(self, value: Value) -> str:
        """The name of an initializer with the elements of a tensor that the program holds."""
        hint = self.program.names.get(value, "constant")
        self.weights[hint] = name = self.graph.tensor(self.program.held[value], hint)
        return name

    def root(self, value: Value) -> Value:
        """The tensor of which a value is a view, or the value."""
        while value in self.views:
            value = self.views[value].inputs[0]
        return value

    def constant_of(self, value: Value) -> np.ndarray | None:
        """The elements of a tensor that the program holds and never writes to; None for other values."""
        call = self.producers.get(value)
        if call is not None and call.op.name in ("copy", "row_major") and isinstance(call.inputs[0], Value):
            return self.constant_of(call.inputs[0])
        tensor = self.program.held.get(value)
        return None if tensor is None or value in self.written else tensor.detach().numpy()

    def only_user(self, value: Value) -> Call | None:
        """The step that alone reads a value; None if there are several, or if it is a result or written to."""
        users = self.users.get(value, [])
        if len(users) != 1 or value in self.written or value in self._results:
            return None
        return users[0]

    @property
    def _results(self) -> set[Value]:
        if not hasattr(self, "_result_set"):
            self._result_set = set(outputs_of(self.program.outputs))
        return self._result_set

    # ---- the walk

    def run(self) -> None:
        """Append the nodes of all steps."""
        for call in self.program.steps:
            if isinstance(call, Check):
                self._check(call)
            elif call.number not in self.done:
                self.graph.location, self.graph.path = call.location, self._path(call)
                self._translate(call)
        self.graph.location = self.graph.path = ""

    def _translate(self, call: Call) -> None:
        try:
            if is_empty(call):
                (value,) = call.results
                zero = self.graph.constant(0, self.dtype(value))
                self.names[value] = self.graph.expand(zero, (), self.shape(value))
            elif call.op.is_view and not call.in_place:
                self.views[call.results[0]] = call
                self.name(call.results[0])
            else:
                self._store(call, self._rule(call)(self, call))
        except Unsupported as reason:
            inputs = [self.names[value] for value in call.inputs if value in self.names]
            names = self.graph.refuse(f"{call.op.name}: {reason}", len(call.results), inputs)
            for value, name in zip(call.results, names):
                self.names[value] = self.names[self.root(value)] = name

    def _store(self, call: Call, names: Any) -> None:
        names = names if isinstance(names, tuple) else (names,)
        for value, name in zip(call.results, names):
            if name is not None and call.in_place:
                self.write(value, name)
            elif name is not None:
                self.names[value] = name

    def write(self, value: Value, name: str) -> None:
        """A value's new elements, and with them those of the tensor of which it is a view."""
        root = self.root(value)
        if root in self.program.held and self._shares_memory(root):
            raise Unsupported("it writes to memory that two tensors from outside share; give each its own")
        chain = [value]
        while chain[-1] in self.views:
            call = self.views[chain[-1]]
            base = call.inputs[0]
            self.names[base], part = views.put(self, call, self.name(base), name), name
            self.names[chain[-1]], name = part, self.names[base]
            chain.append(base)
        self.names[root] = name
        self.versions[root] = self.versions.get(root, 0) + 1
        self.seen.update(dict.fromkeys(chain, self.versions[root]))

    def _shares_memory(self, root: Value) -> bool:
        storage = self.program.held[root]._storage
        return any(
            tensor._storage is storage and value is not root and value in self.users
            for value, tensor in self.program.held.items()
        )

    def _rule(self, call: Call) -> Callable:
        op = call.op
        if any(isinstance(value, Draw) for value in call.inputs):
            return random.rule_of_draw(call)
        if isinstance(op, Update):
            raise Unsupported("an optimizer's step; export the forward pass, or the step by numod.export.aot_compile")
        if isinstance(op, Move):
            return lambda translation, call: translation.name(call.inputs[0])
        pattern_rule = patterns.match(self, call)
        if pattern_rule is not None:
            return pattern_rule
        if isinstance(op, Pointwise):
            return pointwise.apply_row
        if op.name in RULES:
            return RULES[op.name]
        if hasattr(op, "row") and isinstance(op.row, Pointwise):
            return reductions.total
        advice = ADVICE.get(op.name, "compute it outside of the exported function, and pass the result in")
        raise Unsupported(f"no ONNX operator does this; {advice}")

    def _check(self, check: Check) -> None:
        producer = self.producers.get(check.value)
        if isinstance(check.expected, bool) or (producer is not None and producer.op.name.startswith(_BOUNDS)):
            return  # it only says that an input has no error
        self.assumptions.append(
            (
                check.location,
                "the size of a result depends on the values of tensors (a mask, nonzero or unique); use where(mask, x, "
                "0), or do this step outside",
            )
        )

    def problems(self) -> list[str]:
        """A line for each thing that cannot be exported: where, what, and what to do instead."""
        lines = [f"{location or 'an unknown line'}: {reason}" for location, reason in self.assumptions]
        lines += [
            f"{node.location or 'an unknown line'}: {node.attributes['reason']}"
            for node in self.graph.nodes
            if node.op == UNSUPPORTED
        ]
        return list(dict.fromkeys(lines))

    def _path(self, call: Call) -> str:
        """The path of the module whose call recorded a step, else of the one whose parameters it reads."""
        path = "" if self.scopes is None else self.scopes.path_of(call.number)
        tensor_names = [self.program.names.get(value, "") for value in call.inputs if isinstance(value, Value)]
        return path or next((name.rpartition(".")[0] for name in tensor_names if "." in name), "")


def _ordinal(number: int) -> str:
    return ("the first", "the second", "the third")[number] if number < 3 else f"number {number + 1} of the"


def outputs_of(outputs: Any) -> list[Value | Tensor]:
    """The tensors among a program's results, in order."""
    if isinstance(outputs, (Value, Tensor)):
        return [outputs]
    if isinstance(outputs, dict):
        outputs = list(outputs.values())
    if isinstance(outputs, (tuple, list)):
        return [leaf for part in outputs for leaf in outputs_of(part)]
    return []
