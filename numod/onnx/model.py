"""OnnxModule: the model of an ONNX file as an nn.Module."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from inspect import Parameter as Argument, Signature
from keyword import iskeyword

from ..core import Tensor
from ..nn.module import Module
from ..nn.parameter import Buffer, Parameter
from .program import TRAINING, Program
from .tensors import as_tensor


MAX_PARTS = 64  # parts of a tensor's name; all but the last are names of nested modules


class Scope(Module):
    """A part of a parameter's name: `layer1` in `layer1.weight`. It holds tensors and is not called."""


@dataclass(frozen=True)
class Value:
    """An input or output as the file declares it. `shape` has names for sizes that may vary; None if unknown."""

    name: str
    type: str
    shape: tuple[int | str, ...] | None

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.shape is None else f"[{', '.join(map(str, self.shape))}]")


class OnnxModule(Module):
    """The model of an ONNX file, as `numod.onnx.load` returns it.

    Call it with the graph's inputs, by position or by name. It returns the graph's output, or a tuple of several. In
    evaluation mode, the mode after loading, it computes what the file describes. In training mode, BatchNormalization
    uses and updates batch statistics and Dropout drops, in whatever form the file has them.
    """

    def __init__(self, name: str, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        super().__init__()
        self.name, self.inputs, self.outputs = name, tuple(inputs), tuple(outputs)
        self._program: Program | None = None
        self._places = {identifier(value.name): position for position, value in enumerate(self.inputs)}
        self._places |= {value.name: position for position, value in enumerate(self.inputs)}
        self.__signature__ = _signature(self.inputs)

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor | tuple:
        """The graph's outputs for its inputs. Raises TypeError for missing and unknown inputs."""
        arguments = self._arguments(args, kwargs) if kwargs or len(args) != len(self.inputs) else args
        results = tuple(map(as_tensor, self._program.run(arguments, {"": None, TRAINING: self.training})))
        return results[0] if len(results) == 1 else results

    def _arguments(self, args: tuple, kwargs: dict[str, Tensor]) -> list[Tensor]:
        names = [value.name for value in self.inputs]
        if len(args) > len(names):
            raise TypeError(f"the model takes {len(names)} inputs ({', '.join(names)}), got {len(args)}")
        arguments = dict(enumerate(args))
        for name, value in kwargs.items():
            if name not in self._places:
                raise TypeError(f"the model has no input '{name}'; its inputs are {', '.join(names)}")
            if self._places[name] in arguments:
                raise TypeError(f"got input '{name}' twice")
            arguments[self._places[name]] = value
        if missing := [name for position, name in enumerate(names) if position not in arguments]:
            raise TypeError(f"missing inputs: {', '.join(missing)}")
        return [arguments[position] for position in range(len(names))]

    def extra_repr(self) -> str:
        """Inputs and outputs."""
        return "\n".join([*(f"input {value}" for value in self.inputs), *(f"output {value}" for value in self.outputs)])


def _signature(inputs: Sequence[Value]) -> Signature:
    """The inputs as arguments, so that exports have their names."""
    names = [identifier(value.name) for value in inputs]
    if len({*names}) < len(names) or any(map(iskeyword, names)):
        names = [f"input_{k}" for k in range(len(names))]
    return Signature([Argument(name, Argument.POSITIONAL_OR_KEYWORD) for name in names])


def identifier(name: str) -> str:
    """`name` with underscores in place of characters that Python names cannot have."""
    name = re.sub(r"\W", "_", name)
    return name if name and not name[0].isdigit() else f"_{name}"


def add_tensor(root: Module, name: str, value: Tensor, trained: bool, persistent: bool = True) -> tuple[Module, str]:
    """Register `value` as a parameter or buffer below `root`, at the path that its name in the file describes.

    Returns the module that has it and its name there. Names that are taken get a number.
    """
    module, leaf = _parent(root, name)
    if trained:
        module.register_parameter(leaf, Parameter(value))
    else:
        module.register_buffer(leaf, Buffer(value), persistent=persistent)
    return module, leaf


def add_layer(root: Module, path: str, layer: Module) -> tuple[Module, str]:
    """Register `layer` below `root`. Returns its parent and its name there. Names that are taken get a number."""
    module, leaf = _parent(root, path)
    module.add_module(leaf, layer)
    return module, leaf


def _parent(root: Module, path: str) -> tuple[Module, str]:
    """(the module that will hold what is registered at `path`, a free name in it). Missing scopes are added."""
    *parents, leaf = _path_parts(path)
    module = root
    for part in parents:
        module = _scope(module, part)
    return module, _free_name(module, leaf)


def _path_parts(name: str) -> list[str]:
    """The parts of a dotted name, as Python identifiers: names of modules, and at the end that of the tensor."""
    parts = name.split(".")
    if len(parts) > MAX_PARTS:
        raise ValueError(f"the name '{name[:40]}...' has {len(parts)} parts, at most {MAX_PARTS} are allowed")
    return [re.sub(r"\W", "_", part) or "_" for part in parts]


def _scope(module: Module, part: str) -> Module:
    """The Scope of this name in a module; a new one, under a free name, if it has none."""
    if type(module._modules.get(part)) is not Scope:
        part = _free_name(module, part)
        module.add_module(part, Scope())
    return module._modules[part]


def _free_name(module: Module, name: str) -> str:
    """`name`, with a number if the module has such an attribute."""
    number, candidate = 0, name
    while hasattr(module, candidate):
        number += 1
        candidate = f"{name}_{number}"
    return candidate
