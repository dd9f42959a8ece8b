"""The graph of a module's forward pass as named nodes, by module: what TensorBoard's page of graphs shows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..autograd import no_grad
from ..graph.capture.trace import trace
from ..graph.ir.program import Program
from ..graph.ir.step import Step, Value
from ..graph.values.pytree import replace
from ..nn import Module
from .scopes import Scopes


class Node(NamedTuple):
    """An input, a parameter, an op or an output. `inputs` are names of nodes, `shapes` those of its results."""

    name: str
    op: str
    inputs: tuple[str, ...] = ()
    shapes: tuple[tuple[int, ...], ...] = ()


def nodes_of(model: Module, inputs: Any) -> list[Node]:
    """The nodes of `model(*inputs)` in evaluation mode, in the order in which they run.

    A name is the path of the module's class and submodules and the op, as in `Network/conv1/conv2d`.
    """
    arguments = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
    scopes, modes = Scopes(model), {module: module.training for module in model.modules()}
    model.eval()
    try:
        with scopes.listening(), no_grad():
            program = trace(model, *arguments)
    finally:
        for module, training in modes.items():
            module.training = training
    return _Graph(model, program, scopes).nodes


class _Graph:
    """Collects the nodes. `sources` has the node that makes each value."""

    def __init__(self, model: Module, program: Program, scopes: Scopes) -> None:
        self.root, self.program, self.scopes = type(model).__name__, program, scopes
        self.nodes: list[Node] = []
        self.counts: dict[str, int] = {}
        self.sources: dict[Value, str] = {}
        tensors = (*model.named_parameters(remove_duplicate=False), *model.named_buffers(remove_duplicate=False))
        paths = {id(tensor): path for path, tensor in tensors}
        for number, value in enumerate(program.inputs):
            self._add(f"input/{number}", "Placeholder", (), [value])
        for value, tensor in program.existing_tensors().items():
            path = paths.get(id(tensor))
            self._add(self._path(path or "constant"), "Parameter" if path else "Constant", (), [value])
        for number, step in enumerate(program.steps):
            if isinstance(step, Step):
                path = f"{scopes.path_of(number)}.{step.op.name}".lstrip(".")
                self._add(self._path(path), step.op.name, step.inputs, step.results)
        results: list[Value] = []
        replace(program.outputs, lambda part: results.append(part) if issubclass(type(part), Value) else None)
        for number, value in enumerate(results):
            self._add(f"output/{number}", "Output", [value], [])

    def _path(self, path: str) -> str:
        return f"{self.root}/{path.replace('.', '/')}"

    def _add(self, name: str, op: str, inputs: Iterable[object], results: Iterable[Value]) -> None:
        """Add a node; a name that exists already gets a number."""
        count = self.counts[name] = self.counts.get(name, -1) + 1
        name = f"{name}_{count}" if count else name
        sources = [self.sources[value] for value in inputs if isinstance(value, Value)]
        shapes = tuple([tuple(self.program.layouts[value].shape) for value in results])
        self.nodes.append(Node(name, op, tuple(dict.fromkeys(sources)), shapes))
        self.sources.update(dict.fromkeys(results, name))
