"""The short way into a linked program: one Python function, written for it, that tests the guards, launches, and wraps the results.

A small network's native step takes a tenth of a microsecond; without this the Python around it would take a hundred times that.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import apply as waist
from ..core import changes
from ..core.random import Draw
from ..core.tensor import Tensor
from ..device import Storage, blas
from .guards import Picture, conditions
from .link import STATUS
from .lower import Buffer
from .run import Executable
from .trace import Value


def caller(
    executable: Executable, picture: Picture, tensors: tuple[Tensor, ...], slow: Callable, without: Sequence[int], shared: dict[int, Storage]
) -> Callable:
    """A function of the same tensors as positional arguments. Where anything differs from how the program was recorded it calls `slow`.

    The inputs numbered `without` must have no gradient; those that are `shared` must be that memory.
    """
    return _Writer(executable, picture, tensors, slow, without, shared).function()


class _Writer:
    def __init__(
        self, executable: Executable, picture: Picture, tensors: tuple[Tensor, ...], slow: Callable, without: Sequence[int], shared: dict[int, Storage]
    ) -> None:
        self.shared = shared
        self.executable, self.picture, self.tensors, self.section = executable, picture, tensors, executable.section
        self.arguments, self.without = [f"x{k}" for k in range(len(tensors))], without
        self.space: dict[str, Any] = {
            "slow": slow, "state": waist.state, "listeners": waist.listeners, "changes": changes, "picture": picture, "equal": _equal, "new": object.__new__,
            "Tensor": Tensor, "Storage": Storage, "empty": np.empty, "launch": self.section.launch, "table": self.section.table, "section": self.section,
            "getrefcount": sys.getrefcount, "held": {id(each._storage) for each in executable.program.held.values()},
        }
        self.arrays: dict[Buffer, str] = {}
        self.gradients: dict[Buffer, str] = {}

    def _name(self, value: Any, letter: str) -> str:
        """A name for a thing the function refers to."""
        name = f"{letter}{len(self.space)}"
        self.space[name] = value
        return name

    def function(self) -> Callable:
        """Write the text and make it a function."""
        given = ", ".join(self.arguments)
        head = [f"def call({given}):", "    try:", f"        same = {self._same()}"]
        head += ["    except (AttributeError, LookupError):", f"        return slow({given})", "    if not same:", f"        return slow({given})"]
        text = "\n".join(head + [f"    {line}" for line in self._body()])
        self.text = text
        exec(compile(text, f"<numod call of {self.section.kernel.name}>", "exec"), self.space)  # noqa: S102  our own text
        function = self.space["call"]
        function.text = text
        return function

    def _same(self) -> str:
        """Everything the program was recorded under, as one expression."""
        tests = ["not listeners", "changes.count == picture.count"]
        tests += [f"state.grad_enabled is {waist.state.grad_enabled}", f"state.inference is {waist.state.inference}"]
        for number, (name, tensor) in enumerate(zip(self.arguments, self.tensors)):
            tests.append(f"{name}._layout is {self._name(tensor._layout, 'layout')}")
            tests.append(f"{name}._storage is {self._name(self.shared[number], 'storage')}" if number in self.shared else f"id({name}._storage) not in held")
            if waist.state.grad_enabled:
                without = f"not {name}._requires_grad and ({name}._base is None or not {name}.requires_grad)"
                tests.append(f"{name}.requires_grad" if tensor.requires_grad else without)
        tests += [f"{self.arguments[k]}._grad is None" for k in self.without]
        for k in range(len(self.arguments)):
            for j in range(k):
                tests += self._sharing(j, k)
        return " and ".join([*tests, conditions(self.picture.guards, self.space)])

    def _sharing(self, j: int, k: int) -> list[str]:
        """Whether two arguments share memory as they did."""
        first, second, a, b = self.arguments[j], self.arguments[k], self.tensors[j], self.tensors[k]
        if a._storage is not b._storage:
            return [f"{first}._storage is not {second}._storage"]
        same = "is" if a is b else "is not"
        return [f"{first} {same} {second}", f"{first}._storage is {second}._storage", f"{second}._offset - {first}._offset == {b._offset - a._offset}"]

    def _body(self) -> list[str]:
        lines = [line for each in self.section.arrays for line in self._memory(each)]
        numbers = []
        for k, source in enumerate(self.executable.lowered.sources):
            if isinstance(source, Draw):
                lines.append(f"n{k} = {self._name(source.generator, 'generator')}.draw({source.count})")
            else:
                lines.append(f"n{k} = {self._name(source, 'source')}()")
        numbers = [f"n{source}[{index}]" for source, index in self.section.numbers]
        if self.section.product:
            lines.append(f"{self._name(blas.prepare, 'prepare')}({self.section.product})")
        lines.append(f"launch({', '.join(['table', *(self.arrays[each] for each in self.section.arrays), *numbers])})")
        if self.section.tests:
            lines += [f"if table[{STATUS}]:", f"    table[{STATUS}] = 0"]
            lines += [f"    n{k}[1].generator._offset -= {each.count}" for k, each in enumerate(self.executable.lowered.sources) if isinstance(each, Draw)]
            lines.append(f"    return slow({', '.join(self.arguments)})")
        lines += [f"{self._name(each, 'storage')}.version += 1" for each in self.executable.storages]
        lines += [f"{self.arguments[number]}._storage.version += 1" for number in self.executable.inputs_written]
        return lines + self._set_gradients() + self._results()

    def _memory(self, buffer: Buffer) -> list[str]:
        """Lines that find memory for a buffer; its array's expression is kept."""
        if buffer.kind == "input":
            x = self.arguments[buffer.number]
            self.arrays[buffer] = f"{x}._storage.data[{x}._offset:] if {x}._offset else {x}._storage.data"
            return []
        name = f"m{len(self.arrays)}"
        self.arrays[buffer] = f"{name}.data"
        if buffer.kind == "gradient":
            return self._gradient_memory(buffer, name)
        return [f"{name} = Storage(empty({buffer.size}, {self._name(buffer.storage, 'dtype')}))"]

    def _gradient_memory(self, buffer: Buffer, name: str) -> list[str]:
        """The last call's memory, unless somebody beside the parameter holds it, or its tensor: references are ours, the name's and the question's."""
        owner = next(owner for owner, value in self.executable.gradients if value is not None and self.executable.lowered.places[value].buffer is buffer)
        target = self._owner(owner)
        new = f"Storage(empty({buffer.size}, {self._name(buffer.storage, 'dtype')}))"
        holder = self._name([Storage(buffer.device.empty(buffer.size, buffer.storage))], "holder")
        return [
            f"{name}, g = {holder}[0], {target}._grad",
            f"if getrefcount({name}) > (3 if g is None or g._storage is not {name} else 4 if getrefcount(g) == 3 else 0):",
            f"    {name} = {holder}[0] = {new}",
        ]

    def _owner(self, owner: Tensor | Value) -> str:
        """The expression of a leaf that has a gradient."""
        return self.arguments[self.executable.program.inputs.index(owner)] if isinstance(owner, Value) else self._name(owner, "parameter")

    def _set_gradients(self) -> list[str]:
        """A gradient whose memory is the last call's is still in its place."""
        lines = []
        for owner, value in self.executable.gradients:
            target = self._owner(owner)
            if value is None:
                lines.append(f"{target}._grad = None")
                continue
            buffer = self.executable.lowered.places[value].buffer
            made = self._tensor(value)
            if buffer.kind != "gradient":
                lines += [*made[:-1], f"{target}._grad = {made[-1]}"]
                continue
            lines += [f"g = {target}._grad", f"if g is None or g._storage is not {self.arrays[buffer][:-5]}:"]
            lines += [f"    {line}" for line in made[:-1]] + [f"    {target}._grad = {made[-1]}"]
        return lines

    def _tensor(self, value: Value) -> list[str]:
        """Lines that make a value's tensor; the last is the expression of it."""
        span, layout = self.executable.lowered.places[value], self.executable.lowered.layouts[value]
        buffer, program = span.buffer, self.executable.program
        if buffer.kind == "input" and value in program.inputs:
            return [self.arguments[buffer.number]]
        if buffer.kind == "held" and value in program.held:
            return [self._name(program.held[value], "held")]
        name = f"t{value.number}"
        lines = [f"{name} = new(Tensor)", f"{name}._layout = {self._name(layout, 'layout')}"]
        if buffer.kind == "input":
            x = self.arguments[buffer.number]
            return [*lines, f"{name}._storage = {x}._storage", f"{name}._offset = {x}._offset + {span.offset}", name]
        if buffer.kind == "held":
            storage = self._name(buffer.tensor._storage, "storage")
        elif buffer in self.arrays:
            storage = self.arrays[buffer][:-5]
        else:
            storage = f"Storage(empty({buffer.size}, {self._name(buffer.storage, 'dtype')}))"
        if waist.state.inference and buffer.kind != "held":
            lines.append(f"{name}._inference = True")
        return [*lines, f"{name}._storage = {storage}", *([f"{name}._offset = {span.offset}"] if span.offset else []), name]

    def _results(self) -> list[str]:
        lines: list[str] = []
        made = {value: f"{self._owner(owner)}._grad" for owner, value in self.executable.gradients if value is not None}

        def text(each: Any) -> str:
            if isinstance(each, Value):
                if each not in made:
                    *before, made[each] = self._tensor(each)
                    lines.extend(before)
                return made[each]
            if type(each) in (tuple, list):
                inner = "".join(f"{text(part)}, " for part in each)
                return f"({inner})" if type(each) is tuple else f"[{inner}]"
            if type(each) is dict:
                return "{" + ", ".join(f"{self._name(key, 'key')}: {text(part)}" for key, part in each.items()) + "}"
            if type(each) is OrderedDict:
                pairs = "".join(f"({self._name(key, 'key')}, {text(part)}), " for key, part in each.items())
                return f"{self._name(OrderedDict, 'kind')}([{pairs}])"
            if isinstance(each, tuple):
                inner = "".join(f"{text(part)}, " for part in each)
                return f"{self._name(type(each), 'kind')}({inner if hasattr(each, '_fields') else f'[{inner}]'})"
            return self._name(each, "constant")

        result = text(self.executable.program.outputs)
        return [*lines, f"return {result}"]


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and ((a == b and (a or repr(a) == repr(b))) or (a != a and b != b))
