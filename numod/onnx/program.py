"""Programs: graphs of a file as lists of steps, which an OnnxModule runs.

Values are kept in a dict by name. They are tensors, arrays (constants, and numbers that Python reads, such as
shapes), lists of tensors (sequences), or None (optional values that are absent).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ..core import Tensor
from ..dtypes import dtype
from ..nn.module import Module
from .registry import HOST, Operator, internal
from .tensors import as_array, as_tensor

# keys of values that are no names of the file, in which `checks.check_text` refuses "\0"
TRAINING = "\0training"  # the module's mode
UNUSED = "\0unused"  # outputs without a name
_TENSOR = "\0tensor"  # ends the key of a constant's tensor


@dataclass(eq=False)
class Step:
    """A node: the operator, the names of inputs and outputs, and the arguments that do not change.

    `dropped` names the values that no later step reads.
    """

    operator: Operator
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, object]
    label: str
    captured: frozenset[str] = frozenset()  # what its subgraphs read
    dropped: tuple[str, ...] = ()
    scope: str = ""  # the path of the module that PyTorch's exporters say the node is from

    def run(self, values: dict[str, object]) -> None:
        """Compute the outputs from `values` and add them to it."""
        arguments = [values[name] for name in self.inputs]
        results = self.on_host(arguments)
        if results is NotImplemented:
            keywords = self.attributes
            if "scope" in self.operator.keywords:
                keywords = {**keywords, "scope": values}
            results = self.operator.function(*self._converted(arguments, values), **keywords)
        results = results if type(results) is tuple else (results,)
        if len(results) < len(self.outputs):
            self._check_outputs(len(results))
        values.update(zip(self.outputs, results))
        for name in self.dropped:
            values.pop(name, None)

    def _check_outputs(self, count: int) -> None:
        if any(name != UNUSED for name in self.outputs[count:]):
            raise ValueError(f"the node names {len(self.outputs)} outputs, but the operator returns {count}")

    def on_host(self, arguments: list[object]) -> object:
        """The results of the NumPy version; NotImplemented unless there is one and all arguments are arrays."""
        function = HOST.get(self.operator.name)
        if (
            function is None
            or not arguments
            or not all(type(value) is np.ndarray for value in arguments if value is not None)
        ):
            return NotImplemented
        return function(*arguments, **{name: self.attributes[name] for name in self.attributes if name != "outputs"})

    def _converted(self, arguments: list[object], values: dict[str, object]) -> list[object]:
        if self.operator.raw:
            return arguments
        return [
            as_array(value) if position in self.operator.host else _as_tensor(name, value, values)
            for position, (name, value) in enumerate(zip(self.inputs, arguments))
        ]


def _as_tensor(name: str, value: object, values: dict[str, object]) -> object:
    """An array as a tensor: of a constant, the parameter or buffer that stands for it. Other values as they are."""
    if type(value) is not np.ndarray:
        return value
    tensor = values.get(name + _TENSOR)
    return as_tensor(value) if tensor is None else tensor


@dataclass(eq=False)
class Program:
    """A graph. `constants` are arrays by name; `sources` are the parameters and buffers that it reads, each as the
    key among the values, the module that has it, and its name there.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...] = ()
    steps: list[Step] = field(default_factory=list)
    constants: dict[str, object] = field(default_factory=dict)
    sources: list[tuple[str, Module, str]] = field(default_factory=list)
    captured: frozenset[str] = frozenset()  # names from the graphs around it
    shadows: tuple[str, ...] = ()  # inputs that are called like a constant around it
    # dtypes and shapes of outputs of loops without trips
    empty_outputs: list[tuple[dtype, tuple[int, ...]]] = field(default_factory=list)
    differentiated: frozenset[str] = frozenset()  # values whose gradients a node computes

    def run(self, arguments: Sequence[object], around: dict[str, object]) -> tuple:
        """The outputs for `arguments`. `around` has the values of the graphs around this one."""
        if len(arguments) < len(self.inputs):
            raise ValueError(f"the graph has {len(self.inputs)} inputs, the node gives it {len(arguments)}")
        values = {**around, **self.constants, **dict(zip(self.inputs, arguments))}
        for name in self.shadows:
            values.pop(name + _TENSOR, None)
        for name in self.differentiated:
            values[name] = _with_gradient(values[name])
        for key, module, name in self.sources:
            values[key] = module._parameters[name] if name in module._parameters else module._buffers[name]
        for step in self.steps:
            try:
                step.run(values)
            except Exception as error:
                error.add_note(f"in {step.label}, inputs: {_described(step, values)}")
                raise
        return tuple(values[name] for name in self.outputs)

    def add_tensor(self, name: str, module: Module, attribute: str) -> None:
        """Let value `name` be a parameter or buffer of `module`; of a constant it is the form as a tensor."""
        key = name + _TENSOR if name in self.constants else name
        self.sources.append((key, module, attribute))

    def all_steps(self) -> list[Step]:
        """The steps of this graph and of those in it. Functions are not in it: their names are their own."""
        graphs = [program for step in self.steps if step.operator is not CALL for program in subprograms(step)]
        inner = [step for program in graphs for step in program.all_steps()]
        return self.steps + inner


def subprograms(step: Step) -> list[Program]:
    """The graphs among a step's attributes."""
    return [value for value in step.attributes.values() if isinstance(value, Program)]


def _with_gradient(value: object) -> Tensor:
    value = as_tensor(value)
    return value if value.requires_grad else value.detach().requires_grad_()


def call_program(*arguments: object, body: Program, scope: dict[str, object]) -> tuple:
    """The step of a call of a function that the file defines."""
    return body.run(arguments, {"": None, TRAINING: scope[TRAINING]})


CALL = internal("a function", call_program, raw=True)


def set_dropped(program: Program, keep: frozenset[str]) -> None:
    """Let each step drop the values that are read for the last time there, outputs and names in `keep` excepted."""
    defined = set(program.inputs).union(*[step.outputs for step in program.steps])
    needed = set(program.outputs) | keep | {""}
    for step in reversed(program.steps):
        names = {*step.inputs, *step.outputs, *step.captured} - needed
        step.dropped = tuple(sorted(names & defined))
        needed |= names


def _described(step: Step, values: dict[str, object]) -> str:
    return ", ".join(f"{name or 'absent'} {_form(values.get(name))}" for name in step.inputs)


def _form(value: object) -> str:
    if value is None:
        return ""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{getattr(dtype, 'name', dtype)}{list(value.shape)}"
