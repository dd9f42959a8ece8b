"""Small ONNX models, written by the `onnx` package's helpers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def model(
    nodes: Sequence[object],
    inputs: dict[str, Sequence[object]],
    outputs: Sequence[str],
    initializers: dict[str, np.ndarray] | None = None,
    opset: int = 18,
    functions: Sequence[object] = (),
    **domains: int,
) -> object:
    """A ModelProto of float32 inputs, given as shapes, with outputs of unknown shape."""
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        list(nodes),
        "graph",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in (initializers or {}).items()],
    )
    opsets = [helper.make_opsetid("", opset), *[helper.make_opsetid(name.replace("_", "."), 1) for name in domains]]
    return helper.make_model(graph, opset_imports=opsets, functions=list(functions))


def node(kind: str, inputs: str, outputs: str, **attributes: object) -> object:
    """A NodeProto; names are separated by spaces, and `-` stands for an absent one."""
    from onnx import helper

    names = [["" if name == "-" else name for name in text.split()] for text in (inputs, outputs)]
    return helper.make_node(kind, *names, **attributes)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
