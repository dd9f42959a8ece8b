"""ExportedProgram: a captured program with its parameters and the structure of its arguments; saved to one file."""

from __future__ import annotations

import copy
import json
import math
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from threading import Lock
from typing import Any, BinaryIO, NamedTuple

from ..core.listeners import active_listeners, listeners
from ..core.tensor import Tensor, wrap
from ..device.layout import layout
from ..graph.ir.alias_analysis import Effects, copied
from ..graph.ir.program import Program, Value
from ..graph.backend.executable import Executable
from ..graph.backend.section import Form
from ..graph.passes.freezing import (
    multiplies_bytes,
    with_computed_constants,
    with_constants,
    with_transformed_weights,
)
from ..nn import Module, Parameter
from ..serialization import records
from ..serialization.program import read_program, save_program
from . import state_file
from .dimensions import Symbol
from .nodes import Graph, GraphModule
from .quantized_ports import integers_of
from .signature import CallSpec, ExportGraphSignature, ModuleCallEntry, ModuleCallSignature, call_spec_of, signature_of
from .sizes import Dynamic, GuardFailed, terms_of

VERSION = 3  # of the file format
_KNOWN = (1, 2, VERSION)  # 1 has no dynamic dimensions, 2 no non-persistent buffers
_EXECUTABLES = 64  # cached, for the most recent sizes
_EXAMPLE = "example"  # name of an example input's tensor in a file


class ValueRanges(NamedTuple):
    """The sizes of a dynamic dimension; `upper` is None if there is no limit."""

    lower: int
    upper: int | None


class ExportedProgram:
    """A captured module or function, without its Python code; made by `export`.

    `state_dict` holds the parameters and persistent buffers by their names in the module, `graph` is the program,
    `example_inputs` are the arguments of the capture, as (args, kwargs), `module()` returns a Module that runs it.
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
        dynamic: Dynamic | None = None,
        non_persistent: Sequence[str] = (),
        scales: Mapping[str, Sequence] | None = None,
    ) -> None:
        # (scale, zero point) of quantized tensors, by "input0", "output0" and so on: value = scale * (integer - zero)
        self.scales = {port: tuple(pair) for port, pair in (scales or {}).items()}
        self.non_persistent = tuple(non_persistent)  # names of buffers that are not in `state_dict`
        self._graph: Graph | None = None  # of the current program
        self.dynamic = dynamic  # the program for all sizes; `program` is for the example's sizes
        self.program, self.spec, self.input_names, self.names = program, spec, tuple(input_names), names
        self.parameter_names, self.examples, self.title = tuple(parameters), examples, title
        self.state = state or {}  # the description of modules and optimizers (see `state_file`)

    @property
    def graph(self) -> Graph:
        """The program as nodes. (`program` has steps over numbered values.)"""
        if self._graph is None or self._graph.program is not self.program:
            self._graph = Graph(self)
        return self._graph

    @property
    def graph_module(self) -> GraphModule:
        """The graph and its text as a function. `module()` runs it."""
        return GraphModule(self.graph)

    @property
    def call_spec(self) -> CallSpec:
        """The structures of the arguments and of the result."""
        return call_spec_of(self)

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The entry of the module itself. Calls of submodules are not recorded."""
        return [ModuleCallEntry("", ModuleCallSignature([], [], *self.call_spec))]

    @property
    def dialect(self) -> str:
        """The set of ops: numod's own."""
        return "NUMOD"

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and persistent buffers by name."""
        return {name: tensor for name, tensor in self.named_tensors().items() if name not in self.non_persistent}

    @property
    def constants(self) -> dict[str, Tensor]:
        """Non-persistent buffers by name, and the tensors that are neither parameters nor buffers, by number."""
        unnamed = [tensor for value, tensor in self.program.held.items() if value not in self.names]
        buffers = {name: tensor for name, tensor in self.named_tensors().items() if name in self.non_persistent}
        return buffers | {f"constant{k}": tensor for k, tensor in enumerate(unnamed)}

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What the program's inputs and held tensors stand for."""
        return signature_of(self)

    def named_tensors(self) -> dict[str, Tensor]:
        """Parameters and all buffers by name."""
        return {name: self.program.held[value] for value, name in self.names.items()}

    def buffers(self) -> list[Tensor]:
        """The buffers, also those that are not persistent."""
        return [tensor for _, tensor in self.named_buffers()]

    def named_buffers(self) -> list[tuple[str, Tensor]]:
        """The buffers with their names."""
        return [(name, tensor) for name, tensor in self.named_tensors().items() if name not in self.parameter_names]

    def run_decompositions(self, decomp_table: Any = None) -> ExportedProgram:
        """The program itself: it is recorded in numod's own ops, which have no decompositions."""
        return self

    def parameters(self) -> list[Tensor]:
        """The parameters."""
        return [tensor for _, tensor in self.named_parameters()]

    def named_parameters(self) -> list[tuple[str, Tensor]]:
        """The parameters with their names."""
        tensors = self.named_tensors()
        return [(name, tensors[name]) for name in self.parameter_names]

    @property
    def example_inputs(self) -> tuple[tuple, dict[str, Any]]:
        """The (args, kwargs) of the capture."""
        from .capture import filled

        args, kwargs = filled(self.spec, self.examples)
        return tuple(args), kwargs

    @property
    def range_constraints(self) -> dict[str, ValueRanges]:
        """The ranges of dynamic dimensions, by name."""
        symbols = () if self.dynamic is None else self.dynamic.symbols
        return {symbol.name: ValueRanges(symbol.low, symbol.high) for symbol in symbols}

    def module(self, check_guards: bool = True) -> Module:
        """A Module that runs the program, with the same parameters and state_dict. It runs without gradients."""
        return ExportedModule(self)

    def frozen(self, preserved: Sequence[str] = (), copies: dict[int, Tensor] | None = None) -> ExportedProgram:
        """The program with copies of its parameters and buffers as constants, except for the `preserved` names.

        All that depends on constants only is computed, and batch norms are part of the layers before them. Programs
        that are frozen with one dict `copies` share the copies of tensors that they share.
        """
        copies = {} if copies is None else copies
        names = {value: name for value, name in self.names.items() if name in preserved}
        program = copied(self.program, self.program.steps)
        program.held = {
            value: tensor if value in names else _with_copied_memory(tensor, copies)
            for value, tensor in self.program.held.items()
        }
        parameters = [name for name in self.parameter_names if name in preserved]
        dynamic = self.dynamic
        if dynamic is None:
            program = with_constants(program, names)
        else:
            storages = {id(self.program.held[value]._storage) for value in names}
            tensors = {
                name: tensor if id(tensor._storage) in storages else _with_copied_memory(tensor, copies)
                for name, tensor in dynamic.tensors.items()
            }
            dynamic = Dynamic(dynamic.symbols, dynamic.shapes, dynamic.template, tensors, dynamic.recorded)
            dynamic = dynamic.mapped(
                partial(with_constants, variable={*names} | dynamic.values_by_size()), dynamic.general_points()
            )
            program = dynamic.program(tuple([symbol.size for symbol in dynamic.symbols]))
        return ExportedProgram(
            program, self.spec, self.input_names, names, parameters, self.examples, self.title, self.state, dynamic,
            [name for name in self.non_persistent if name in preserved], self.scales,
        )  # fmt: skip

    @property
    def changes_state(self) -> bool:
        """Whether the program writes to its parameters, buffers or constants."""
        effects = Effects(self.program)
        return not all(map(effects.fixed, self.program.held))

    def with_byte_constants(self) -> ExportedProgram:
        """The program with what depends on constants only computed, if it multiplies by weights of bytes.

        This is about the offsets and multipliers of quantized layers, for which a run would read all weights again. It
        is for weights that are part of the code, since computed values have no names.
        """
        if not multiplies_bytes(self.program):
            return self
        result, dynamic = copy.copy(self), self.dynamic
        if dynamic is None:
            result.program = with_computed_constants(self.program)
            return result
        result.dynamic = dynamic = dynamic.mapped(
            partial(with_computed_constants, variable=dynamic.values_by_size()), dynamic.general_points()
        )
        result.program = dynamic.program(tuple([symbol.size for symbol in dynamic.symbols]))
        return result

    def with_transformed_weights(self) -> ExportedProgram:
        """The program with weights in the form that kernels read; itself if it has dynamic dimensions."""
        if self.dynamic is not None:
            return self
        result = copy.copy(self)
        result.program = with_transformed_weights(self.program)
        return result

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


def _with_copied_memory(tensor: Tensor, copies: dict[int, Tensor]) -> Tensor:
    """A tensor over a copy of its memory. `copies` caches the copies by storage, so that shared memory stays shared."""
    storage = tensor._storage
    if id(storage) not in copies:
        whole = layout((len(storage.data),), tensor.dtype, tensor.device)
        copies[id(storage)] = wrap(storage, whole, 0).clone()
    return wrap(copies[id(storage)]._storage, tensor._layout, tensor._offset)


def default_decompositions() -> dict[Any, Any]:
    """An empty table, for `run_decompositions`: numod's ops have no decompositions."""
    return {}


class ExportedModule(Module):
    """A Module whose forward runs a captured program as compiled code."""

    def __init__(self, exported: ExportedProgram) -> None:
        super().__init__()
        self._exported, self._lock = exported, Lock()
        self._executables: dict[tuple[int, ...], Executable] = {}  # by the sizes of dynamic dimensions
        for name, tensor in exported.named_tensors().items():
            _put(self, name, tensor, name in exported.parameter_names, name not in exported.non_persistent)

    @property
    def graph(self) -> Program:
        """The program."""
        return self._exported.program

    @property
    def code(self) -> str:
        """The program as text."""
        return str(self._exported.program)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program.

        Raises RuntimeError for arguments that differ in structure from those of the capture, and GuardFailed (also an
        AssertionError, as in PyTorch) for a size outside the range of a dynamic dimension.
        """
        tensors = self._tensors([tuple(args), dict(kwargs)])
        sizes = self._sizes(tensors)
        if listeners and active_listeners():  # such as a recorder, which sees ops, and nothing that compiled code does
            return self._program(sizes)(*tensors)
        return self._executable(sizes)(*tensors)

    def _sizes(self, tensors: list[Tensor]) -> tuple[int, ...]:
        """The sizes of dynamic dimensions. Raises GuardFailed."""
        dynamic, program = self._exported.dynamic, self._exported.program
        names = self._exported.input_names
        if dynamic is not None:
            return dynamic.sizes_of([tensor.shape for tensor in tensors], names)
        for tensor, value, name in zip(tensors, program.inputs, names):
            if tensor.shape != program.layouts[value].shape:
                raise GuardFailed(
                    f"Guard failed: {name} was recorded as {tuple(program.layouts[value].shape)}, got "
                    f"{tuple(tensor.shape)}; for other sizes, export with "
                    f"dynamic_shapes={{{name!r}: {{0: Dim('batch')}}}}"
                )
        return ()

    def _program(self, sizes: tuple[int, ...]) -> Program:
        dynamic = self._exported.dynamic
        return self._exported.program if dynamic is None else dynamic.program(sizes)

    def _executable(self, sizes: tuple[int, ...]) -> Executable:
        with self._lock:
            executable = self._executables.get(sizes)
            if executable is None:
                while len(self._executables) >= _EXECUTABLES:
                    self._executables.pop(next(iter(self._executables)))
                dynamic, program = self._exported.dynamic, self._program(sizes)
                # Unlinked kernels serve all sizes. The title is not used as a name: it may come from a file, and names
                # become source text.
                executable = Executable(program, "exported", Form(linked=None if dynamic is None else False))
                self._executables[sizes] = executable
        return executable

    def _tensors(self, arguments: list) -> list[Tensor]:
        tensors: list[Tensor] = []
        match_arguments(self._exported.spec, arguments, tensors, "args")
        tensors = integers_of(tensors, self._exported.scales, self._exported.input_names)
        return [tensor if tensor.is_contiguous() else tensor.contiguous() for tensor in tensors]

    def __reduce__(self) -> tuple:
        """It is pickled as its exported program."""
        return ExportedModule, (self._exported,)

    def __deepcopy__(self, memo: dict) -> ExportedModule:
        raise NotImplementedError("an exported module cannot be copied; save and load it")


def match_arguments(spec: Any, arguments: Any, tensors: list[Tensor], where: str) -> None:
    """Append to `tensors` the tensors of arguments that match `spec`."""
    if isinstance(spec, Value):
        if not isinstance(arguments, Tensor):
            raise RuntimeError(f"{where}: expected a Tensor, got {type(arguments).__name__}")
        tensors.append(arguments)
    elif records.is_record(spec):
        if type(arguments) is not type(spec):
            raise RuntimeError(
                f"{where}: expected a {type(spec).__name__}, as captured, got a {type(arguments).__name__}"
            )
        parts = records.fields(arguments)
        for key, part in records.fields(spec).items():
            match_arguments(part, parts[key], tensors, f"{where}.{key}")
    elif isinstance(spec, (tuple, list)):
        if not isinstance(arguments, (tuple, list)) or len(arguments) != len(spec):
            came = f"{len(arguments)} items" if isinstance(arguments, (tuple, list)) else type(arguments).__name__
            raise RuntimeError(f"{where}: expected {len(spec)} items, as captured, got {came}")
        for k, (part, argument) in enumerate(zip(spec, arguments)):
            match_arguments(part, argument, tensors, f"{where}[{k}]")
    elif isinstance(spec, dict):
        if not isinstance(arguments, dict) or arguments.keys() != spec.keys():
            raise RuntimeError(
                f"{where}: expected the keys {list(spec)}, as captured, got "
                f"{list(arguments) if isinstance(arguments, dict) else type(arguments).__name__}"
            )
        for key, part in spec.items():
            match_arguments(part, arguments[key], tensors, f"{where}[{key!r}]")
    elif spec != arguments and not (spec != spec and arguments != arguments):
        raise RuntimeError(f"{where}: expected {spec!r}, as captured, got {arguments!r}; export again")


def _put(module: Module, name: str, tensor: Tensor, is_parameter: bool, persistent: bool) -> None:
    """Register a tensor under a dotted name, creating submodules as needed."""
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
        module.register_buffer(last, tensor, persistent)


def save(
    ep: ExportedProgram,
    f: str | os.PathLike | BinaryIO,
    *,
    extra_files: Mapping[str, str | bytes] | None = None,
    opset_version: Any = None,
    pickle_protocol: int = 2,
) -> None:
    """Write an exported program to a file. Raises ValueError that lists all steps that cannot be saved.

    `extra_files`: texts by name, which `load` reads. PyTorch's other options have no effect.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    records.require_names(None if ep.dynamic is None else ep.dynamic.template)
    about = {
        "version": VERSION, "title": ep.title, "spec": ep.spec, "inputs": list(ep.input_names),
        "names": [[value, name] for value, name in ep.names.items()],
        "parameters": list(ep.parameter_names), "non_persistent": list(ep.non_persistent),
        "state": json.dumps(ep.state), "scales": json.dumps(ep.scales), "dynamic": json.dumps(_of(ep.dynamic)),
        "extra": json.dumps({name: _text_of(content) for name, content in (extra_files or {}).items()}),
    }  # fmt: skip
    save_program(ep.program, f, about, {f"{_EXAMPLE}{k}": example for k, example in enumerate(ep.examples)})


def _text_of(content: str | bytes) -> str:
    """A character for each byte."""
    return (content.encode() if isinstance(content, str) else bytes(content)).decode("latin-1")


def _read_extra(about: Any, extra_files: dict[str, Any] | None) -> None:
    """Fill in the contents, as bytes, of those extra files that the dict names and the file has."""
    stored = json.loads(about.get("extra", "{}")) if extra_files else {}
    if type(stored) is not dict or any(type(text) is not str for text in stored.values()):
        raise ValueError("its extra files are invalid")
    for name in [name for name in extra_files or () if name in stored]:
        extra_files[name] = stored[name].encode("latin-1")


def _of(dynamic: Dynamic | None) -> Any:
    """The program for all sizes as JSON."""
    if dynamic is None:
        return None
    symbols = [[symbol.name, symbol.low, symbol.high, symbol.size] for symbol in dynamic.symbols]
    return {"symbols": symbols, "shapes": dynamic.shapes, "template": dynamic.template}


def _dynamic(text: Any, program: Program, tensors: dict[str, Tensor]) -> Dynamic | None:
    """The program for all sizes in a file. Raises ValueError if it differs from `program` at the example's sizes."""
    about = json.loads(text) if type(text) is str else {}
    if about is None:
        return None
    symbols = []
    for name, low, high, size in about["symbols"]:
        numbers = [low, size, *([] if high is None else [high])]
        if type(name) is not str or not name.isidentifier() or any(type(number) is not int for number in numbers):
            raise ValueError("its dynamic dimensions are invalid")
        symbols.append(Symbol(name, low, high, size))
    shapes = [[terms_of(terms, len(symbols)) for terms in shape] for shape in about["shapes"]]
    dynamic = Dynamic(symbols, shapes, about["template"], tensors, recorded=False)
    example_sizes = tuple([symbol.size for symbol in symbols])
    examples = [program.layouts[value].shape for value in program.inputs]
    if dynamic.sizes_of(examples, [*map(str, range(len(examples)))]) != example_sizes or str(
        dynamic.program(example_sizes)
    ) != str(program):
        raise ValueError("its dynamic dimensions do not match its program")
    return dynamic


def load(
    f: str | os.PathLike | BinaryIO, *, extra_files: dict[str, Any] | None = None, expected_opset_version: Any = None
) -> ExportedProgram:
    """The exported program in a file.

    Files contain no code, and their content is checked. Raises ValueError for any other file. `extra_files`: a dict by
    name, whose values become the texts that were saved under these names.
    """
    exported = load_with_extra(f, extra_files)
    for name, content in (extra_files or {}).items():
        extra_files[name] = content.decode() if isinstance(content, bytes) else content
    return exported


def load_with_extra(f: str | os.PathLike | BinaryIO, extra_files: dict[str, Any] | None) -> ExportedProgram:
    """As `load`, with the content of extra files as bytes."""
    program, about, tensors = read_program(f)
    try:
        exported = _loaded(program, about, tensors)
        _read_extra(about, extra_files)
        return exported
    except (ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as problem:
        raise ValueError(f"load: {f} is not an exported program, or damaged: {problem}") from problem


def _from_bytes(data: bytes) -> ExportedProgram:
    """The exported program in a file's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        with open(path := os.path.join(folder, "program"), "wb") as file:
            file.write(data)
        return load(path)


def _loaded(program: Program, about: Any, tensors: dict[str, Tensor]) -> ExportedProgram:
    """The exported program of a file. Raises ValueError for one that is not well-formed."""
    if type(about) is not dict or about.get("version") not in _KNOWN:
        raise ValueError(
            f"its version is {about.get('version')!r}, this numod reads up to {VERSION}"
            if type(about) is dict
            else "it contains a program without a description"
        )
    names = {value: name for value, name in about["names"]}
    inputs, parameters, non_persistent = about["inputs"], about["parameters"], about.get("non_persistent", [])
    texts = [about["title"], *inputs, *parameters, *non_persistent, *names.values()]
    known = all(type(text) is str and text.isprintable() for text in texts) and all(
        isinstance(name, Value) and name in program.held for name in names
    )
    buffers = set(names.values()) - set(parameters)
    if (
        not known
        or len(set(names.values())) != len(names)
        or not set(parameters) <= set(names.values())
        or not set(non_persistent) <= buffers
    ):
        raise ValueError("its names do not match its tensors")
    leaves: list[Value] = []
    _leaves(about["spec"], leaves)
    examples = tuple([tensors[f"{_EXAMPLE}{k}"] for k in range(len(program.inputs))])
    fits = all(
        example.shape == program.layouts[value].shape and example.dtype is program.layouts[value].dtype
        for example, value in zip(examples, program.inputs)
    )
    if [leaf.number for leaf in leaves] != list(range(len(program.inputs))) or len(inputs) != len(leaves) or not fits:
        raise ValueError("its arguments do not match its program")
    args, kwargs = about["spec"]
    if type(args) is not tuple or type(kwargs) is not dict:
        raise ValueError("its arguments are invalid")
    state = state_file.checked(about.get("state", "{}"))
    dynamic = _dynamic(about.get("dynamic", "null"), program, tensors)
    return ExportedProgram(
        program, about["spec"], inputs, names, parameters, examples, about["title"], state, dynamic, non_persistent,
        _scales(about.get("scales", "{}")),
    )  # fmt: skip


def _scales(text: Any) -> dict[str, tuple[float, int]]:
    """The scales and zero points in a file. Raises ValueError for others than finite and positive scales."""
    pairs = json.loads(text) if type(text) is str else None
    if type(pairs) is not dict or not all(
        re.fullmatch(r"(in|out)put\d+", port)
        and type(pair) is list
        and [*map(type, pair)] == [float, int]
        and 0 < pair[0] < math.inf
        and abs(pair[1]) < 1 << 31
        for port, pair in pairs.items()
    ):
        raise ValueError("its scales are invalid")
    return {port: tuple(pair) for port, pair in pairs.items()}


def _leaves(spec: Any, leaves: list[Value]) -> None:
    if isinstance(spec, Value):
        leaves.append(spec)
    spec = records.fields(spec) if records.is_record(spec) else spec
    for part in spec if isinstance(spec, (tuple, list)) else spec.values() if isinstance(spec, dict) else ():
        _leaves(part, leaves)
