"""The cases that the `onnx` package brings, on numod: their models, inputs and expected outputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

import numod
from numod import Tensor

PAGE = Path(numod.__file__).parent / "guide" / "onnx-cases.md"
NAMES = "BOOL UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FLOAT16 FLOAT DOUBLE BFLOAT16 COMPLEX64 COMPLEX128"


class Case(NamedTuple):
    """A model with pairs of inputs and outputs."""

    name: str
    model: object
    data_sets: list
    rtol: float
    atol: float


@cache
def node_cases() -> list[Case]:
    """All cases for single operators; the package computes them, in about 10 s."""
    from onnx.backend.test.loader import load_model_tests

    return [Case(case.name, case.model, case.data_sets, case.rtol, case.atol) for case in load_model_tests(kind="node")]


def stored_cases(kind: str) -> Iterator[Case]:
    """The models that the package has as files."""
    import onnx
    from onnx.backend.test.loader import load_model_tests

    for case in load_model_tests(kind=kind):
        folder = Path(case.model_dir)
        model = onnx.load(folder / "model.onnx")
        initializers = {tensor.name for tensor in model.graph.initializer}
        inputs = [value for value in model.graph.input if value.name not in initializers]
        sets = [
            (_stored(data, "input", inputs), _stored(data, "output", model.graph.output))
            for data in sorted(folder.glob("test_data_set_*"))
        ]
        yield Case(case.name, model, sets, case.rtol, case.atol)


def _stored(folder: Path, kind: str, values: list) -> list:
    import onnx

    files = sorted(folder.glob(f"{kind}_*.pb"), key=lambda path: int(path.stem.split("_")[1]))
    results = []
    for path, value in zip(files, values):
        is_sequence = value.type.WhichOneof("value") == "sequence_type"
        proto = (onnx.SequenceProto if is_sequence else onnx.TensorProto).FromString(path.read_bytes())
        results.append((onnx.numpy_helper.to_list if is_sequence else onnx.numpy_helper.to_array)(proto))
    return results


def unsupported_types(model: object) -> set[str]:
    """The types of inputs and outputs that numod has not."""
    from onnx import TensorProto

    def types(proto: object) -> set[str]:
        kind = proto.WhichOneof("value")
        if kind == "tensor_type":
            return {TensorProto.DataType.Name(proto.tensor_type.elem_type)}
        return types(getattr(proto, kind).elem_type)

    values = [*model.graph.input, *model.graph.output]
    return set().union(*[types(value.type) for value in values]) - set(NAMES.split())


def check(case: Case, wrap: Callable = lambda module: module) -> None:
    """Load the model and compare its outputs. Raises what goes wrong."""
    function = wrap(numod.onnx.load(case.model))
    for inputs, outputs in case.data_sets:
        results = function(*map(_tensor, inputs))
        compare(list(results) if isinstance(results, tuple) else [results], list(outputs), case)


def _tensor(value: object) -> object:
    if value is None:
        return None
    if isinstance(value, list):
        return [_tensor(part) for part in value]
    array = _array(value)
    if array.dtype.name == "bfloat16":
        return numod.from_numpy(array.view(np.int16).copy()).view(numod.bfloat16)
    return numod.from_numpy(np.array(array))


def _array(value: object) -> np.ndarray:
    import onnx

    return np.asarray(onnx.numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else value)


def compare(result: object, expected: object, case: Case) -> None:
    """Equal dtypes and shapes, and numbers as near as the case asks; of 16-bit floats within 4 units."""
    if expected is None:
        assert result is None
    elif isinstance(expected, list):
        assert len(result) == len(expected)
        for part, expected_part in zip(result, expected):
            compare(part, expected_part, case)
    else:
        expected = _array(expected)
        assert result.dtype.name == expected.dtype.name and tuple(result.shape) == expected.shape
        unit = {"bfloat16": 2**-8, "float16": 2**-11}.get(expected.dtype.name, 0)
        rtol, atol = max(case.rtol, 4 * unit), max(case.atol, 4 * unit)
        np.testing.assert_allclose(_numbers(result), expected.astype(_wide(expected)), rtol, atol)


def _numbers(result: Tensor) -> np.ndarray:
    result = result.detach()
    return (result.float() if result.dtype in (numod.bfloat16, numod.float16) else result).numpy()


def _wide(expected: np.ndarray) -> np.dtype:
    return np.dtype(np.float32) if expected.dtype.name in ("bfloat16", "float16") else expected.dtype


def listed(heading: str) -> set[str]:
    """The cases that the guide's page lists under a heading."""
    section = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return set(re.findall(r"`(test_\w+)`", section))
