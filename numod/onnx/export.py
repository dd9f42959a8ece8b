"""`numod.onnx.export`: a captured program as an ONNX model, with the arguments of PyTorch's exporter."""

from __future__ import annotations

import enum
import os
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.tensor import Tensor
from ..export.ahead_of_time import ExportError
from ..export.capture import argument_names, input_names_of
from ..export.capture import export as capture
from ..export.dimensions import Dim
from ..export.sizes import Violation
from ..export.program import ExportedModule, ExportedProgram
from ..graph.ir.program import Value
from ..nn import Module
from .library import onnx as onnx_package
from .symbolic_helper import exporting
from .symbols import SymbolicProgram
from .verify import ATOL, RTOL, run, verify as verify_model
from .writer.graph import Graph, Unsupported, element_type
from .writer.proto import IR_VERSIONS, LARGEST, Model, Variable
from .writer.translate import Translation, outputs_of

DEFAULT_OPSET = 18


class TrainingMode(enum.IntEnum):
    """How a module is exported: in evaluation, as it is, or in training."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators may be written. numod writes ONNX's own only."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class ONNXProgram:
    """An exported model: `save` writes it, `model_proto` is the onnx package's object, and a call runs it."""

    def __init__(self, model: Model, exported: ExportedProgram, external_data: bool) -> None:
        self._model, self._external = model, external_data
        self.exported_program = exported

    @property
    def model_proto(self) -> Any:
        """The model as `onnx.ModelProto`."""
        return self._model.proto(onnx_package())

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [entry.name for entry in self._model.inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return [output.name for output in self._model.outputs]

    def save(self, destination: str | os.PathLike, *, external_data: bool | None = None, **ignored: Any) -> None:
        """Write the model to a file. `external_data`: the weights to a second file, `<destination>.data`; by default
        as at the export, and always above 2 GB.
        """
        external = self._external if external_data is None else bool(external_data)
        self._model.save(onnx_package(), destination, external)

    def verify(self, rtol: float = RTOL, atol: float = ATOL) -> dict[str, float]:
        """Run the model with the example inputs; the largest difference of each output. Raises VerificationError."""
        return verify_model(onnx_package(), self._model, self.exported_program, rtol, atol)

    def __call__(self, *inputs: Tensor) -> list[Any]:
        """The results for other inputs, as NumPy arrays."""
        return run(onnx_package(), self._model, inputs)

    def __str__(self) -> str:
        counts = Counter(node.op for node in self._model.graph.nodes)
        operators = ", ".join(f"{count} {op}" for op, count in counts.most_common())
        model = self._model
        variables = [f"  input {entry.name}: {_shape_text(entry, model)}" for entry in model.inputs]
        variables += [f"  output {output.name}: {_shape_text(output, model)}" for output in model.outputs]
        return "\n".join([f"ONNX model {model.title}, opset {model.graph.opset}", *variables, f"  {operators}"])


def _shape_text(variable: Variable, model: Model) -> str:
    return f"[{', '.join(map(str, variable.sizes(model.labels)))}]"


def export(
    model: Any,
    args: Any = (),
    f: Any = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Any] | None = None,
    dynamic_shapes: Any = None,
    external_data: bool = False,
    verify: bool = False,
    rtol: float = RTOL,
    atol: float = ATOL,
    export_params: bool = True,
    keep_initializers_as_inputs: bool = False,
    training: int = TrainingMode.EVAL,
    do_constant_folding: bool = True,
    dynamo: bool = True,
    report: bool = False,
    verbose: bool | None = None,
    **options: Any,
) -> ONNXProgram:
    """Write a module, a function or an ExportedProgram as an ONNX model, for the example inputs `args`.

    - `f`: a path or a file; None only returns the ONNXProgram, whose `save` writes it.
    - `input_names`, `output_names`: in order; others keep their argument's name, or are "output" with a number.
    - `dynamic_axes`: `{"input": {0: "batch"}}` or `{"input": [0]}`. Dimensions of equal names are equal.
      `dynamic_shapes`: as `numod.export.export` takes them; texts are names.
    - `opset_version`: 17 to 23, by default 18. Older runtimes refuse newer versions.
    - `external_data`: the weights go to a file beside, `<f>.data`; models of more than 2 GB always do.
    - `verify`: run the model by onnxruntime if it is installed, else by numod, and compare within `rtol` and `atol`.
    - `training`: in evaluation by default; `TrainingMode.PRESERVE` leaves the module's mode.
    - `export_params=False`: the weights become inputs. `keep_initializers_as_inputs`: they are inputs too.
    - `report`, `verbose`: print what was written.
    - other options of PyTorch's exporter are accepted and change nothing.

    Raises ImportError without the onnx package, ExportError with all steps that ONNX cannot express (each with its
    line, and what to do instead), VerificationError if results differ.
    """
    onnx = onnx_package()
    opset = _opset(opset_version)
    _check_destination(f)
    exported, labels = _captured(model, args, kwargs, input_names, output_names, dynamic_axes, dynamic_shapes, training)
    written = translated(exported, opset, input_names, output_names, labels)
    if not export_params or keep_initializers_as_inputs:
        _add_weights_to_inputs(written, exported, not export_params)
    program = ONNXProgram(written, exported, external_data)
    if written.nbytes < LARGEST and export_params:
        onnx.checker.check_model(written.proto(onnx))
    if verify:
        program.verify(rtol, atol)
    _write(program, f)
    if report or verbose:
        print(program)
    return program


def translated(
    exported: ExportedProgram,
    opset: int = DEFAULT_OPSET,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
) -> Model:
    """The ONNX model of a captured program. Raises ExportError with all that cannot be exported."""
    program = SymbolicProgram(exported)
    names = _checked_names(input_names, program.input_names, "input_names")
    dynamic = exported.dynamic
    sources = [] if dynamic is None else [dynamic.source(k) for k in range(len(dynamic.symbols))]
    graph = Graph(opset, [(names[number], *rest) for number, *rest in sources])
    leaves = outputs_of(program.outputs)
    defaults = ["output"] if len(leaves) == 1 else [f"output_{k}" for k in range(len(leaves))]
    results = _checked_names(output_names, defaults, "output_names")
    if len({*names, *results}) < len(names) + len(results):
        raise ValueError(f"inputs and outputs must have different names, got {[*names, *results]}")
    for name in (*names, *results):
        graph.unique(name)
    translation = Translation(program, graph)
    translation.names.update(zip(program.inputs, names))
    problems = _unsupported_types(program, names)
    translation.run()
    outputs = [translation.name(leaf) if isinstance(leaf, Value) else graph.tensor(leaf, "constant") for leaf in leaves]
    graph.prune(outputs)
    problems += translation.problems()
    if problems:
        raise ExportError(problems, "onnx.export")
    _name_outputs(graph, outputs, results, set(names))
    labels = labels or {}
    return Model(
        graph,
        exported.title or "model",
        [
            Variable(name, element_type(program.dtypes[value]), program.shapes[value])
            for name, value in zip(names, program.inputs)
        ],
        [
            Variable(
                name,
                element_type(program.dtypes[leaf] if isinstance(leaf, Value) else leaf.dtype),
                program.shapes[leaf] if isinstance(leaf, Value) else tuple(leaf.shape),
            )
            for name, leaf in zip(results, leaves)
        ],
        [labels.get(symbol, symbol) for symbol in program.symbols],
    )


def _unsupported_types(program: SymbolicProgram, names: Sequence[str]) -> list[str]:
    """A line for each input or output whose dtype ONNX's operators do not take."""
    lines = []
    values = [*zip(names, program.inputs)]
    values += [("an output", leaf) for leaf in outputs_of(program.outputs) if isinstance(leaf, Value)]
    for name, value in values:
        try:
            element_type(program.dtypes[value])
        except Unsupported as reason:
            lines.append(f"{name}: {reason}")
    return lines


def _name_outputs(graph: Graph, outputs: list[str], names: Sequence[str], inputs: set[str]) -> None:
    """Give the outputs their names: by renaming what a node makes, else by a copy."""
    made = {name for node in graph.nodes for name in node.outputs}
    renamed: dict[str, str] = {}
    copies = []
    for old, new in zip(outputs, names):
        if old in made and old not in renamed:
            renamed[old] = new
        else:
            copies.append((old, new))
    for node in graph.nodes:
        node.inputs = tuple([renamed.get(name, name) for name in node.inputs])
        node.outputs = tuple([renamed.get(name, name) for name in node.outputs])
    for old, new in copies:
        graph.node("Identity", renamed.get(old, old))
        graph.nodes[-1].outputs = (new,)


def _add_weights_to_inputs(model: Model, exported: ExportedProgram, without_values: bool) -> None:
    """Make the tensors of the state dict inputs of the model."""
    initializers = model.graph.initializers
    for name in exported.state_dict:
        if name in initializers:
            model.inputs.append(Variable(name, initializers[name].element_type, initializers[name].shape))
            if without_values:
                del initializers[name]


def _checked_names(names: Sequence[str] | None, defaults: Sequence[str], what: str) -> list[str]:
    """The names of inputs or outputs."""
    if isinstance(names, str):
        raise TypeError(f"{what} must be a list of texts, got {names!r}")
    names = list(names or [])
    if len(names) > len(defaults):
        raise ValueError(f"{what} has {len(names)} names, but there are {len(defaults)}: {list(defaults)}")
    return [*names, *defaults[len(names) :]]


def _opset(version: int | None) -> int:
    if version is None:
        return DEFAULT_OPSET
    if version not in IR_VERSIONS:
        raise ValueError(f"opset_version must be from {min(IR_VERSIONS)} to {max(IR_VERSIONS)}, got {version}")
    return int(version)


# ---- capture


def _captured(
    model: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Any] | None,
    dynamic_shapes: Any,
    training: int,
) -> tuple[ExportedProgram, dict[str, str]]:
    """(the captured program, labels of dynamic dimensions whose names are no identifiers)."""
    if isinstance(model, ExportedModule):
        model = model._exported
    if isinstance(model, ExportedProgram):
        if dynamic_axes or dynamic_shapes:
            raise ValueError("an ExportedProgram has its dynamic dimensions; give them to numod.export.export")
        return model, {}
    arguments = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    if arguments and isinstance(arguments[-1], dict) and kwargs is None:  # as PyTorch: the last dict has keywords
        arguments, kwargs = arguments[:-1], arguments[-1]
    keywords = dict(kwargs or {})
    with exporting(), _mode(model, training):
        if not dynamic_axes or dynamic_shapes is not None:
            naming = _Naming()
            shapes = None if dynamic_shapes is None else naming.shapes(dynamic_shapes)
            return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels
        names = _checked_names(input_names, input_names_of(model, [arguments, keywords]), "input_names")
        _warn_of_axes(dynamic_axes, names, output_names)
        try:
            naming = _Naming()
            shapes = naming.of_axes(dynamic_axes, model, arguments, keywords, names)
            return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels
        except Violation as violation:
            if not isinstance(violation.__cause__, IndexError):
                raise
        # indices among the examples are too large for smaller sizes than theirs: record it with larger ones
        naming = _Naming(from_example=True)
        shapes = naming.of_axes(dynamic_axes, model, arguments, keywords, names)
        return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels


def _warn_of_axes(axes: Mapping[str, Any], names: Sequence[str], output_names: Sequence[str] | None) -> None:
    unknown = [name for name in axes if name not in names and name not in (output_names or ())]
    if unknown and not all(name.startswith("output") for name in unknown):
        warnings.warn(
            f"dynamic_axes: {unknown} are no inputs or outputs; inputs are {names}, outputs {output_names}",
            stacklevel=5,
        )


@contextmanager
def _mode(model: Any, training: int) -> Iterator[None]:
    """The module in the wanted mode for a while."""
    modes = {}
    if isinstance(model, Module) and training != TrainingMode.PRESERVE:
        modes = {module: module.training for module in model.modules()}
        model.train(training == TrainingMode.TRAINING)
    try:
        yield
    finally:
        for module, mode in modes.items():
            module.training = mode


class _Naming:
    """Names of dynamic dimensions as `Dim`s. `labels` has the text of those that are no identifiers."""

    def __init__(self, from_example: bool = False) -> None:
        self.labels: dict[str, str] = {}
        self.from_example = from_example  # whether sizes begin at the example's

    def dim(self, label: str, size: int | None = None) -> Dim:
        """The dimension with this name; `size`: the example's."""
        identifier = "".join(letter if letter.isalnum() else "_" for letter in str(label)) or "size"
        identifier = identifier if identifier.isidentifier() else f"size_{identifier}"
        while self.labels.get(identifier, label) != label:
            identifier += "_"
        self.labels[identifier] = str(label)
        return Dim(identifier, min=size if self.from_example else None)

    def shapes(self, shapes: Any) -> Any:
        """`dynamic_shapes` with dimensions instead of texts."""
        if isinstance(shapes, str):
            return self.dim(shapes)
        if isinstance(shapes, Mapping):
            return {key: self.shapes(shape) for key, shape in shapes.items()}
        return type(shapes)(map(self.shapes, shapes)) if type(shapes) in (tuple, list) else shapes

    def of_axes(
        self, axes: Mapping[str, Any], model: Any, arguments: tuple, keywords: dict[str, Any], names: Sequence[str]
    ) -> Any:
        """`dynamic_axes`, which are by the names of inputs, as `dynamic_shapes`, which are like the arguments."""
        remaining = iter(names)

        def like(argument: Any) -> Any:
            if isinstance(argument, Tensor):
                name = next(remaining)
                return self._of_input(name, axes.get(name), argument)
            if isinstance(argument, (tuple, list)):
                return type(argument)([like(value) for value in argument])
            return {key: like(value) for key, value in argument.items()} if isinstance(argument, dict) else None

        positions = argument_names(model, arguments, keywords)
        return {name: like(value) for name, value in {**dict(zip(positions, arguments)), **keywords}.items()}

    def _of_input(self, name: str, axes: Any, example: Tensor) -> dict[int, Dim] | None:
        if axes is None:
            return None
        if not isinstance(axes, Mapping):
            axes = {axis: f"{name}_dynamic_axes_{k + 1}" for k, axis in enumerate(axes)}
        return {int(axis): self.dim(label, example.shape[int(axis)]) for axis, label in axes.items()}


# ---- files


def _check_destination(f: Any) -> None:
    if f is None or hasattr(f, "write"):
        return
    folder = os.path.dirname(os.path.abspath(os.fspath(f)))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"onnx.export: there is no folder {folder}")


def _write(program: ONNXProgram, f: Any) -> None:
    if f is None:
        return
    if not hasattr(f, "write"):
        program.save(f)
        return
    if program._model.nbytes > LARGEST or program._external:
        raise ValueError("a model with its weights in a second file needs a path, not a file object")
    f.write(program.model_proto.SerializeToString())


__all__ = ["ONNXProgram", "OperatorExportTypes", "TrainingMode", "export", "translated"]
