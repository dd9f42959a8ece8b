"""ExportedProgram: a captured program with its parameters and the form of its arguments; saved to and loaded from one
file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from threading import Lock
from typing import Any

from ..core.tensor import Tensor
from ..graph.ir.program import Program, Value
from ..graph.backend.executable import Executable
from ..nn import Module, Parameter
from ..serialization.program import read_program, save_program
from . import state_file

VERSION = 1  # of what a file says about a program
_EXAMPLE = "example"  # name of an example input's tensor in a file


class ExportedProgram:
    """What a module or function does, without its Python code. `export` makes one.

    `state_dict` holds the parameters and buffers by their names in the module, `graph` is the program (print it),
    `example_inputs` the arguments that it was captured with, as (args, kwargs), `module()` a Module that runs it.
    """

    def __init__(
        self,
        program: Program,
        spec: Any,
        input_names: Sequence[str],
        names: dict[Value, str],
        parameters: Sequence[str],
        examples: tuple[Tensor, ...],
        title: str,
        state: dict[str, Any] | None = None,
    ) -> None:
        self.program, self.spec, self.input_names, self.names = program, spec, tuple(input_names), names
        self.parameter_names, self.examples, self.title = tuple(parameters), examples, title
        self.state = state or {}  # what `state_file` says of modules and optimizers

    @property
    def graph(self) -> Program:
        """The program: steps over numbered values."""
        return self.program

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by name."""
        return {name: self.program.held[value] for value, name in self.names.items()}

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return [self.state_dict[name] for name in self.parameter_names]

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """The parameters with their names."""
        return [(name, self.state_dict[name]) for name in self.parameter_names]

    @property
    def example_inputs(self) -> tuple[tuple, dict[str, Any]]:
        """(args, kwargs) that it was captured with."""
        from .capture import filled

        args, kwargs = filled(self.spec, self.examples)
        return tuple(args), kwargs

    def module(self, check_guards: bool = True) -> Module:
        """A Module that runs the program, with the same parameters and state_dict. It runs without gradients."""
        return ExportedModule(self)

    def __reduce__(self) -> tuple:
        """An exported program is pickled as the bytes of its file."""
        with tempfile.TemporaryDirectory() as folder:
            save(self, path := os.path.join(folder, "program"))
            with open(path, "rb") as file:
                return _from_bytes, (file.read(),)

    def __str__(self) -> str:
        return f"ExportedProgram {self.title}({', '.join(self.input_names)}):\n{self.program}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )


class ExportedModule(Module):
    """A Module whose forward runs a captured program, as native code from the first call on."""

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self._exported, self._executable, self._lock = exported, None, Lock()
        for name, tensor in exported.state_dict.items():
            _put(self, name, tensor, name in exported.parameter_names)

    @property
    def graph(self) -> Program:
        """The program."""
        return self._exported.program

    @property
    def code(self) -> str:
        """The program as text."""
        return str(self._exported.program)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program. Raises RuntimeError for arguments of another form than those it was captured with."""
        tensors = self._tensors([tuple(args), dict(kwargs)])
        with self._lock:
            if self._executable is None:
                # the title may come from a file, and this name gets into source text
                self._executable = Executable(self._exported.program, "exported")
        return self._executable(*tensors)

    def _tensors(self, arguments: list) -> list[Tensor]:
        found: list[Tensor] = []
        _match(self._exported.spec, arguments, found, "args")
        program = self._exported.program
        for number, each in enumerate(found):
            expected = program.layouts[program.inputs[number]]
            if each._layout is not expected and each.shape == expected.shape and each.dtype is expected.dtype:
                found[number] = each.contiguous()
        return found

    def __reduce__(self) -> tuple:
        """It is pickled as its exported program."""
        return ExportedModule, (self._exported,)

    def __deepcopy__(self, memo: dict) -> ExportedModule:
        raise NotImplementedError("an exported module cannot be copied; save and load it")


def _match(spec: Any, given: Any, tensors: list[Tensor], where: str) -> None:
    """Append the tensors of arguments that have the form of `spec`."""
    if isinstance(spec, Value):
        if not isinstance(given, Tensor):
            raise RuntimeError(f"{where}: expected a Tensor, got {type(given).__name__}")
        tensors.append(given)
    elif isinstance(spec, (tuple, list)):
        if not isinstance(given, (tuple, list)) or len(given) != len(spec):
            came = f"{len(given)} items" if isinstance(given, (tuple, list)) else type(given).__name__
            raise RuntimeError(f"{where}: expected {len(spec)} items, as captured, got {came}")
        for k, (part, each) in enumerate(zip(spec, given)):
            _match(part, each, tensors, f"{where}[{k}]")
    elif isinstance(spec, dict):
        if not isinstance(given, dict) or given.keys() != spec.keys():
            raise RuntimeError(
                f"{where}: expected the keys {list(spec)}, as captured, got "
                f"{list(given) if isinstance(given, dict) else type(given).__name__}"
            )
        for key, part in spec.items():
            _match(part, given[key], tensors, f"{where}[{key!r}]")
    elif spec != given and not (spec != spec and given != given):
        raise RuntimeError(
            f"{where}: expected {spec!r}, with which the program was captured, got {given!r}; export again"
        )


def _put(module: Module, name: str, tensor: Tensor, is_parameter: bool) -> None:
    """Register a tensor under a dotted name, in modules that are made for it."""
    *path, last = name.split(".")
    for part in path:
        if part not in module._modules:
            module.add_module(part, Module())
        module = module._modules[part]
    if is_parameter:
        module.register_parameter(
            last, tensor if isinstance(tensor, Parameter) else Parameter(tensor, requires_grad=False)
        )
    else:
        module.register_buffer(last, tensor)


def save(ep: ExportedProgram, f: str | os.PathLike, **options: Any) -> None:
    """Write an exported program to a file. Raises ValueError with all steps that a file cannot hold."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    about = {
        "version": VERSION, "title": ep.title, "spec": ep.spec, "inputs": list(ep.input_names),
        "names": [[value, name] for value, name in ep.names.items()],
        "parameters": list(ep.parameter_names), "state": json.dumps(ep.state),
    }  # fmt: skip
    save_program(ep.program, f, about, {f"{_EXAMPLE}{k}": example for k, example in enumerate(ep.examples)})


def load(f: str | os.PathLike) -> ExportedProgram:
    """The exported program in a file.

    Nothing in a file is code, and all of it is checked. Raises ValueError for any other file.
    """
    program, about, tensors = read_program(f)
    try:
        return _loaded(program, about, tensors)
    except (AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError) as problem:
        raise ValueError(f"load: {f} is not an exported program, or damaged: {problem}") from problem


def _from_bytes(data: bytes) -> ExportedProgram:
    """The exported program in a file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        with open(path := os.path.join(folder, "program"), "wb") as file:
            file.write(data)
        return load(path)


def _loaded(program: Program, about: Any, tensors: dict[str, Tensor]) -> ExportedProgram:
    if type(about) is not dict or about.get("version") != VERSION:
        raise ValueError(
            f"its version is {about.get('version')!r}, this is {VERSION}"
            if type(about) is dict
            else "it holds a program without a description"
        )
    names = {value: name for value, name in about["names"]}
    inputs, parameters = about["inputs"], about["parameters"]
    texts = [about["title"], *inputs, *parameters, *names.values()]
    known = all(type(text) is str and text.isprintable() for text in texts) and all(
        isinstance(name, Value) and name in program.held for name in names
    )
    if not known or len(set(names.values())) != len(names) or not set(parameters) <= set(names.values()):
        raise ValueError("its names are not those of its tensors")
    found: list[Value] = []
    _leaves(about["spec"], found)
    examples = tuple([tensors[f"{_EXAMPLE}{k}"] for k in range(len(program.inputs))])
    fits = all(
        example.shape == program.layouts[value].shape and example.dtype is program.layouts[value].dtype
        for example, value in zip(examples, program.inputs)
    )
    if [each.number for each in found] != list(range(len(program.inputs))) or len(inputs) != len(found) or not fits:
        raise ValueError("its arguments are not those of its program")
    args, kwargs = about["spec"]
    if type(args) is not tuple or type(kwargs) is not dict:
        raise ValueError("its arguments have another form")
    state = state_file.checked(about.get("state", "{}"))
    return ExportedProgram(program, about["spec"], inputs, names, parameters, examples, about["title"], state)


def _leaves(spec: Any, found: list[Value]) -> None:
    if isinstance(spec, Value):
        found.append(spec)
    for each in spec if isinstance(spec, (tuple, list)) else spec.values() if isinstance(spec, dict) else ():
        _leaves(each, found)
