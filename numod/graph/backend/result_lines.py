"""Lines of a fast path that allocate memory, create the results, and set gradients."""

from __future__ import annotations

from typing import Any

from ...core import apply as dispatch
from ...core.tensor import Tensor
from ..values import objects
from ..values.lazy_scalar import ScalarExpression, function_of
from .lower import Buffer
from ..ir.program import Value
from .executable import Executable
from ..values.pytree import ArgumentContainer, is_structure, parts, rebuilt


class ResultLines:
    """A base class of fast paths: the lines for results and gradients."""

    executable: Executable
    space: dict[str, Any]  # the function's globals
    tensor_names: list[str]  # names of the tensor arguments
    containers: list[str]  # names of the lists, dicts and dataclass instances among the arguments
    results: dict[Buffer, str]  # names of the memory of results
    gradients: dict[Buffer, str]  # names of gradients that reuse memory

    def _name(self, value: Any, prefix: str) -> str:
        """Add an object to the function's globals. Returns its name."""
        name = f"{prefix}{len(self.space)}"
        self.space[name] = value
        return name

    def _allocation(self, buffer: Buffer, name: str) -> list[str]:
        """Lines that allocate memory for a buffer. The second attempt frees cached memory first."""
        allocate, again, dtype = (
            self._name(function, "new")
            for function in (buffer.device.allocator(buffer.nbytes), buffer.device.empty, buffer.storage)
        )
        first, second = (
            f"    {name} = Storage({allocator}({buffer.size}, {dtype}))" for allocator in (allocate, again)
        )
        return ["try:", first, "except MemoryError:", second]

    def _owner(self, owner: Tensor | Value) -> str:
        """The expression of a leaf that gets a gradient."""
        return (
            self.tensor_names[self.executable.program.inputs.index(owner)]
            if isinstance(owner, Value)
            else self._name(owner, "parameter")
        )

    def _set_gradients(self) -> list[str]:
        """Lines that set gradients, except those that reuse memory of earlier calls, which are already set."""
        lines = []
        for owner, value in self.executable.gradients:
            target = self._owner(owner)
            if value is None:
                lines.append(f"{target}._grad = None")
            elif self.executable.lowered.places[value].buffer not in self.gradients:
                *creation, tensor = self._tensor(value)
                lines += [*creation, f"{target}._grad = {tensor}"]
        return lines

    def _tensor(self, value: Value) -> list[str]:
        """Lines that create a value's tensor; the last one is its expression."""
        span, layout = self.executable.lowered.places[value], self.executable.lowered.layouts[value]
        buffer, program = span.buffer, self.executable.program
        if buffer.kind == "input" and value in program.inputs:
            return [self.tensor_names[buffer.number]]
        if buffer.kind == "held" and value in program.held:
            return [self._name(program.held[value], "held")]
        name = f"t{value.number}"
        lines = [f"{name} = new(Tensor)", f"{name}._layout = {self._name(layout, 'layout')}"]
        if buffer.kind == "input":
            x = self.tensor_names[buffer.number]
            return [*lines, f"{name}._storage = {x}._storage", f"{name}._offset = {x}._offset + {span.offset}", name]
        if buffer.kind == "held":
            storage = self._name(buffer.tensor._storage, "storage")
        elif buffer in self.results:
            storage = self.results[buffer]
        elif buffer in self.gradients:
            storage = f"{self.gradients[buffer]}._storage"
        else:
            storage = f"{name}_memory"
            lines += self._allocation(buffer, storage)
        if dispatch.state.inference and buffer.kind != "held":
            lines.append(f"{name}._inference = True")
        return [
            *lines,
            f"{name}._storage = {storage}",
            *([f"{name}._offset = {span.offset}"] if span.offset else []),
            name,
        ]

    def _results(self) -> list[str]:
        """Lines that create the results and return them."""
        lines: list[str] = []
        expressions = {
            value: f"{self._owner(owner)}._grad" for owner, value in self.executable.gradients if value is not None
        }

        def expression(output: Any) -> str:
            """The Python source that creates an output."""
            if issubclass(type(output), Value):
                if output not in expressions:
                    *before, expressions[output] = self._tensor(output)
                    lines.extend(before)
                return expressions[output]
            if type(output) is ArgumentContainer:
                return self.containers[output.number]
            if type(output) is ScalarExpression:
                operands = ", ".join(map(expression, output.operands))
                return f"{self._name(function_of(output.operation), 'compute')}({operands})"
            if type(output) in (tuple, list):
                items = "".join(f"{expression(part)}, " for part in output)
                return f"({items})" if type(output) is tuple else f"[{items}]"
            if type(output) is dict:
                return (
                    "{"
                    + ", ".join(f"{self._name(key, 'key')}: {expression(part)}" for key, part in output.items())
                    + "}"
                )
            if is_structure(output):
                items = "".join(f"{expression(part)}, " for part in parts(output))
                plain = issubclass(type(output), tuple) and not objects.has_attributes(type(output))
                make, template = (tuple.__new__, type(output)) if plain else (rebuilt, output)
                return f"{self._name(make, 'make')}({self._name(template, 'constant')}, [{items}])"
            return self._name(output, "constant")

        result = expression(self.executable.program.outputs)
        return [*lines, f"return {result}"]
