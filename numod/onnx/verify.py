"""Runs an exported model by ONNX Runtime, or by numod where that is not installed, and compares the results."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core.create.generator import get_rng_state, set_rng_state
from ..core.create.values import tensor
from ..core.tensor import Tensor
from ..export.program import ExportedProgram
from .writer.proto import MAX_MESSAGE_BYTES, Model
from .writer.random import RANDOM
from .writer.translate import outputs_of

RTOL, ATOL = 1e-3, 1e-4
_STEPS = 2  # maximum difference of quantized results, in quantization steps
_HALF = {"float16": (1e-2, 1e-3), "bfloat16": (5e-2, 1e-2)}  # minimum tolerances (rtol, atol)


class VerificationError(AssertionError):
    """The results of the exported model differ from those of the module."""


def verify(
    onnx: Any, model: Model, exported: ExportedProgram, rtol: float = RTOL, atol: float = ATOL
) -> dict[str, float]:
    """Compare the model's results for the example inputs with the program's; the largest difference by output.

    Of results that depend on random numbers only the shapes are compared; their difference is NaN. Raises
    VerificationError with the output's name and its largest difference.
    """
    atol = max(atol, _STEPS * _coarsest_step(model))
    program = exported.frozen().program  # a run may write to buffers
    drawn, state = _drawn(model), get_rng_state()
    expected = outputs_of(program(*[example.clone() for example in exported.examples]))
    set_rng_state(state)
    results = run(onnx, model, [*exported.examples, *_separate_weights(model, exported)])
    differences, wrong = {}, []
    for variable, ours, theirs in zip(model.outputs, expected, results, strict=True):
        if variable.name in drawn:
            differences[variable.name], is_close = float("nan"), tuple(ours.shape) == theirs.shape
        else:
            differences[variable.name], is_close = _compared(ours, theirs, rtol, atol)
        if not is_close:
            shapes = "" if tuple(ours.shape) == theirs.shape else f", shape {theirs.shape} for {tuple(ours.shape)}"
            wrong.append(f"{variable.name}: largest difference {differences[variable.name]:.3g}{shapes}")
    if wrong:
        raise VerificationError(
            "verify: the results of the ONNX model differ from those of the module (rtol "
            f"{rtol:g}, atol {atol:g}):\n  " + "\n  ".join(wrong)
        )
    return differences


def _drawn(model: Model) -> set[str]:
    """The names of the values that depend on random numbers."""
    names: set[str] = set()
    for node in model.graph.nodes:
        if node.op in RANDOM or names.intersection(node.inputs):
            names.update(node.outputs)
    return names


def _separate_weights(model: Model, exported: ExportedProgram) -> list[Tensor]:
    """The weights that the model has as inputs without values, in the order of the inputs."""
    names = {written: name for name, written in model.weights.items()}
    return [
        exported.state_dict[names[variable.name]]
        for variable in model.inputs[len(exported.examples) :]
        if variable.name not in model.graph.initializers
    ]


def _coarsest_step(model: Model) -> float:
    """The largest scale of a quantized tensor: runtimes may round to the next integer."""
    scales = [node.inputs[1] for node in model.graph.nodes if node.op == "QuantizeLinear"]
    known = [model.graph.initializers[name].data for name in scales if name in model.graph.initializers]
    return max((float(np.frombuffer(data, np.float32).max()) for data in known), default=0.0)


def _compared(ours: Tensor, theirs: np.ndarray, rtol: float, atol: float) -> tuple[float, bool]:
    """(the largest difference, whether all are within the tolerances)."""
    least = _HALF.get(ours.dtype.name, (0.0, 0.0))
    array = as_array(ours)
    if array.shape != theirs.shape:
        return float("inf"), False
    a, b = array.astype(np.float64), theirs.astype(np.float64)
    difference = np.abs(a - b)[~((a == b) | (np.isnan(a) & np.isnan(b)))]
    largest = float(difference.max(initial=0.0)) if not np.isnan(difference).any() else float("inf")
    return largest, bool(np.allclose(b, a, max(rtol, least[0]), max(atol, least[1]), equal_nan=True))


def as_array(value: Tensor) -> np.ndarray:
    """A tensor as an array; bfloat16 becomes float32."""
    dense = value.detach()
    return (dense.float() if dense.dtype.name == "bfloat16" else dense).numpy()


def run(onnx: Any, model: Model, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    """The model's results, by ONNX Runtime, or by numod where that is not installed."""
    try:
        import onnxruntime
    except ImportError:
        return _run_here(onnx, model, inputs)
    names = [value.name for value in model.inputs]
    if model.nbytes < MAX_MESSAGE_BYTES:
        return _run_by_onnxruntime(onnxruntime, model.proto(onnx).SerializeToString(), names, inputs)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.onnx")
        model.save(onnx, path, external=True)
        return _run_by_onnxruntime(onnxruntime, path, names, inputs)


def _run_by_onnxruntime(
    library: Any, source: str | bytes, names: list[str], inputs: Sequence[Tensor]
) -> list[np.ndarray]:
    options = library.SessionOptions()
    options.log_severity_level = 4  # errors are raised
    try:
        session = library.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        used = {value.name for value in session.get_inputs()}
        values = {name: _for_runtime(library, value) for name, value in zip(names, inputs) if name in used}
        results = session.run_with_ort_values([value.name for value in session.get_outputs()], values)
    except Exception as error:  # its classes of errors are not public
        raise VerificationError(f"verify: ONNX Runtime cannot run the model: {error}") from error
    return [_from_runtime(value) for value in results]


def _for_runtime(library: Any, value: Tensor) -> Any:
    """A tensor as an input of ONNX Runtime. NumPy has no bfloat16, so its bits are passed."""
    if value.dtype.name != "bfloat16":
        return library.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value.detach().numpy()), "cpu")
    bits = np.ascontiguousarray(value.detach().float().numpy()).view(np.uint32) >> 16
    return library.OrtValue.ortvalue_from_numpy_with_onnx_type(bits.astype(np.uint16), 16)


def _from_runtime(value: Any) -> np.ndarray:
    if value.element_type() != 16:
        return value.numpy()
    return (value.numpy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)


def _run_here(onnx: Any, model: Model, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    """The model's results, by `numod.onnx.load`."""
    from ..autograd import no_grad
    from .load import load

    with no_grad():
        results = load(model.proto(onnx))(*inputs)
    return [as_array(value if isinstance(value, Tensor) else tensor(value)) for value in outputs_of(results)]
