"""`numod.onnx.export`: a captured program as an ONNX model, with the arguments of PyTorch's exporter."""

from __future__ import annotations

import enum
import inspect
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..core.create.values import tensor
from ..core.tensor import Tensor
from ..errors import suggestion
from ..export.ahead_of_time import ExportError
from ..export.capture import input_names_of
from ..export.capture import export as capture
from ..export.sizes import Violation
from ..export.program import ExportedModule, ExportedProgram
from ..graph.ir.program import Value
from ..nn import BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d, Module
from .axes import Naming, warn_of_axes
from .library import onnx as onnx_package
from ..utils.scopes import Scopes
from .symbolic_helper import exporting
from .symbols import SymbolicProgram
from .verify import ATOL, RTOL, run, verify as verify_model
from .writer.graph import Graph, Unsupported, element_type
from .writer.proto import IR_VERSIONS, MAX_MESSAGE_BYTES, Model, Variable
from .writer.translate import Translation, outputs_of

DEFAULT_OPSET = 18
# options of PyTorch's exporter that change nothing here
_WITHOUT_EFFECT = (
    "artifacts_dir", "autograd_inlining", "custom_opsets", "custom_translation_table", "dump_exported_program",
    "export_modules_as_functions", "fallback", "operator_export_type", "optimize", "profile",
)  # fmt: skip
_WITH_STATISTICS = (BatchNorm1d, BatchNorm2d, BatchNorm3d, InstanceNorm1d, InstanceNorm2d, InstanceNorm3d)


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
        return [variable.name for variable in self._model.inputs]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return [variable.name for variable in self._model.outputs]

    def save(
        self,
        destination: str | os.PathLike,
        *,
        include_initializers: bool = True,
        keep_initializers_as_inputs: bool = False,
        external_data: bool | None = None,
    ) -> None:
        """Write the model to a file. `external_data`: the weights to a second file, `<destination>.data`; by default
        as at the export, and always above 2 GB. What becomes of the weights otherwise is chosen at the export.
        """
        if not include_initializers or keep_initializers_as_inputs:
            raise ValueError(
                "save() writes the weights as exported; pass export_params=False or keep_initializers_as_inputs=True "
                "to numod.onnx.export"
            )
        external = self._external if external_data is None else bool(external_data)
        self._model.save(onnx_package(), destination, external)

    def verify(self, rtol: float = RTOL, atol: float = ATOL) -> dict[str, float]:
        """Run the model with the example inputs; the largest difference of each output. Raises VerificationError."""
        return verify_model(onnx_package(), self._model, self.exported_program, rtol, atol)

    def __call__(self, *inputs: Tensor) -> list[Tensor]:
        """The results for other inputs, by ONNX Runtime, or by numod where that is not installed."""
        names = self.input_names
        required = [name for name in names if name not in self._model.graph.initializers]
        if not len(required) <= len(inputs) <= len(names):
            raise TypeError(f"the model takes {len(required)} inputs ({', '.join(required)}), got {len(inputs)}")
        return [tensor(array) for array in run(onnx_package(), self._model, inputs)]

    def __str__(self) -> str:
        counts = Counter(node.op for node in self._model.graph.nodes)
        operators = ", ".join(f"{count} {op}" for op, count in counts.most_common())
        model = self._model
        variables = [f"  input {variable.name}: {_shape_text(variable, model)}" for variable in model.inputs]
        variables += [f"  output {variable.name}: {_shape_text(variable, model)}" for variable in model.outputs]
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
    - other options of PyTorch's exporter are accepted and change nothing; unknown ones raise TypeError.

    Raises ImportError without the onnx package, ExportError with all steps that ONNX cannot express (each with its
    line, and what to do instead), VerificationError if results differ.
    """
    _check_options(options)
    onnx = onnx_package()
    opset = _opset(opset_version)
    _check_destination(f)
    scopes = Scopes(model)
    with scopes.listening():
        exported, labels = _captured(
            model, args, kwargs, input_names, output_names, dynamic_axes, dynamic_shapes, training
        )
    written = translated(exported, opset, input_names, output_names, labels, scopes)
    if not export_params or keep_initializers_as_inputs:
        _add_weights_to_inputs(written, exported.state_dict, not export_params)
    program = ONNXProgram(written, exported, external_data)
    if written.nbytes < MAX_MESSAGE_BYTES and export_params:
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
    scopes: Scopes | None = None,
) -> Model:
    """The ONNX model of a captured program. Raises ExportError with all that cannot be exported.

    `labels`: the names of dynamic dimensions where they differ from the symbols'. `scopes`: the modules of the steps.
    """
    program = SymbolicProgram(exported)
    names = _complete_names(input_names, program.input_names, "input_names")
    dynamic = exported.dynamic
    sources = [] if dynamic is None else [dynamic.source(k) for k in range(len(dynamic.symbols))]
    graph = Graph(opset, [(names[number], *rest) for number, *rest in sources])
    leaves = outputs_of(program.outputs)
    defaults = ["output"] if len(leaves) == 1 else [f"output_{k}" for k in range(len(leaves))]
    results = _complete_names(output_names, defaults, "output_names")
    if len({*names, *results}) < len(names) + len(results):
        raise ValueError(f"inputs and outputs must have different names, got {[*names, *results]}")
    for name in (*names, *results):
        graph.unique(name)
    translation = Translation(program, graph, scopes)
    translation.names.update(zip(program.inputs, names))
    problems = _unsupported_types(program, names)
    translation.run()
    outputs = [translation.name(leaf) if isinstance(leaf, Value) else graph.tensor(leaf, "constant") for leaf in leaves]
    graph.prune(outputs)
    problems += translation.problems()
    if problems:
        raise ExportError(problems, "onnx.export")
    _name_outputs(graph, outputs, results)
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
        translation.weights,
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


def _name_outputs(graph: Graph, outputs: list[str], names: Sequence[str]) -> None:
    """Set the names of the outputs: rename the outputs of nodes, and copy other values."""
    node_outputs = {name for node in graph.nodes for name in node.outputs}
    renamed: dict[str, str] = {}
    copies = []
    for old, new in zip(outputs, names):
        if old in node_outputs and old not in renamed:
            renamed[old] = new
        else:
            copies.append((old, new))
    for node in graph.nodes:
        node.inputs = tuple([renamed.get(name, name) for name in node.inputs])
        node.outputs = tuple([renamed.get(name, name) for name in node.outputs])
    for old, new in copies:
        graph.node("Identity", renamed.get(old, old))
        graph.nodes[-1].outputs = (new,)


def _add_weights_to_inputs(model: Model, state_names: Iterable[str], without_values: bool) -> None:
    """Make the tensors of the state dict inputs of the model."""
    initializers = model.graph.initializers
    for state_name in state_names:
        name = model.weights.get(state_name)
        if name in initializers:
            model.inputs.append(Variable(name, initializers[name].element_type, initializers[name].shape))
            if without_values:
                del initializers[name]


def _complete_names(names: Sequence[str] | None, defaults: Sequence[str], what: str) -> list[str]:
    """The names of inputs or outputs."""
    if isinstance(names, str):
        raise TypeError(f"{what} must be a list of texts, got {names!r}")
    names = list(names or [])
    if len(names) > len(defaults):
        raise ValueError(f"{what} has {len(names)} names, but there are {len(defaults)}: {list(defaults)}")
    return [*names, *defaults[len(names) :]]


def _check_options(options: Mapping[str, Any]) -> None:
    for name in options:
        if name not in _WITHOUT_EFFECT:
            known = [*inspect.signature(export).parameters, *_WITHOUT_EFFECT]
            raise TypeError(f"export() got an unexpected keyword argument '{name}'{suggestion(name, known)}")


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
            naming = Naming()
            shapes = None if dynamic_shapes is None else naming.shapes(dynamic_shapes)
            return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels
        names = _complete_names(input_names, input_names_of(model, [arguments, keywords]), "input_names")
        warn_of_axes(dynamic_axes, names, output_names)
        try:
            naming = Naming()
            shapes = naming.of_axes(dynamic_axes, model, arguments, keywords, names)
            return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels
        except Violation:
            pass
        # sizes below the example's may be too small, for a kernel or for indices among the examples
        naming = Naming(from_example=True)
        shapes = naming.of_axes(dynamic_axes, model, arguments, keywords, names)
        return capture(model, arguments, keywords, dynamic_shapes=shapes), naming.labels


@contextmanager
def _mode(model: Any, training: int) -> Iterator[None]:
    """Context in which the module is in the mode `training`.

    Running statistics are not updated: they are no part of an ONNX model, and the update depends on the batch size in
    a way that a program for all sizes cannot express.
    """
    modules = [*model.modules()] if isinstance(model, Module) else []
    modes = [(module, module.training) for module in modules]
    momenta = [(module, module.momentum) for module in modules if isinstance(module, _WITH_STATISTICS)]
    if modules and training != TrainingMode.PRESERVE:
        model.train(training == TrainingMode.TRAINING)
    for module, _ in momenta:
        module.momentum = 0.0
    try:
        yield
    finally:
        for module, mode in modes:
            module.training = mode
        for module, momentum in momenta:
            module.momentum = momentum


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
    if program._model.nbytes > MAX_MESSAGE_BYTES or program._external:
        raise ValueError("a model with its weights in a second file needs a path, not a file object")
    f.write(program.model_proto.SerializeToString())


__all__ = ["ONNXProgram", "OperatorExportTypes", "TrainingMode", "export", "translated"]
