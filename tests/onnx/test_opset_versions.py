"""Operators of old versions mean what they meant: as ONNX Runtime computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx_models import floats

import numod

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx

X, SMALL, IMAGE = floats(2, 3, 4), floats(3, 4), floats(1, 2, 4, 5)
SEQUENCE, CHANNELS = floats(5, 2, 3), [floats(3), floats(3), floats(3), np.abs(floats(3)) + 0.5]
PLACES = [np.abs(floats(3, 4, 4)) + 0.5] * 4
ROI = np.array([0, 0, 0.1, 0.2, 1, 1, 0.9, 0.8], np.float32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def scales(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def recurrent(kind: str, gates: int, directions: int) -> list[Any]:
    """Weights, biases, lengths and an initial state."""
    shapes = (directions, gates * 4, 3), (directions, gates * 4, 4), (directions, 2 * gates * 4)
    weights = [floats(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    states = [floats(directions, 2, 4)] * (2 if kind == "LSTM" else 1)
    peephole = [floats(directions, 12)] if kind == "LSTM" else []
    return [SEQUENCE, *weights, np.array([5, 3], np.int32), *states, *peephole]


RESIZE_MODES = ["half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners"]
Case = tuple[str, range | tuple[int, ...], list[Any], dict[str, Any], int]
CASES: list[Case] = [  # operator, versions, inputs of which the first varies, attributes, number of outputs
    *[(kind, (7, 11, 12, 13), [X], {"axis": axis}, 1) for kind in ("Softmax", "LogSoftmax", "Hardmax") for axis in range(3)],
    *[(kind, (7, 12, 13), [X], {}, 1) for kind in ("Softmax", "LogSoftmax", "Hardmax")],
    *[("Upsample", (7, 8), [IMAGE], {"mode": mode, "scales": [1.0, 1, 2, 3]}, 1) for mode in ("nearest", "linear")],
    *[("Upsample", (9,), [IMAGE, scales(1, 1, 1.5, 1.2)], {"mode": mode}, 1) for mode in ("nearest", "linear")],
    *[("Resize", (10,), [IMAGE, scales(1, 1, *by)], {"mode": mode}, 1)
      for mode in ("nearest", "linear") for by in ((2, 2), (0.5, 0.6), (1.5, 0.7))],
    *[("Resize", (11, 13, 18), [IMAGE, ROI, scales(1, 1, *by)],
       {"mode": mode, "coordinate_transformation_mode": places, "nearest_mode": nearest}, 1)
      for mode, nearest in (("nearest", "floor"), ("nearest", "round_prefer_floor"), ("nearest", "ceil"), ("linear", "floor"))
      for places in RESIZE_MODES for by in ((2, 2), (0.5, 0.6))],
    *[("Resize", (11, 12), [IMAGE, ROI, scales(1, 1, *by)],
       {"coordinate_transformation_mode": "tf_half_pixel_for_nn", "nearest_mode": "floor"}, 1)
      for by in ((2, 2), (0.5, 0.6))],
    ("BatchNormalization", (7, 8), [floats(2, 3, 4, 4), *CHANNELS], {"spatial": 1, "momentum": 0.5}, 1),
    ("BatchNormalization", (7, 8), [floats(2, 3, 4, 4), *PLACES], {"spatial": 0}, 1),
    ("BatchNormalization", (9, 14, 15), [floats(2, 3, 4, 4), *CHANNELS], {"epsilon": 1e-3}, 1),
    ("BatchNormalization", (14, 15), [floats(2, 3, 4, 4), *CHANNELS], {"training_mode": 1, "momentum": 0.8}, 3),
    ("Dropout", (7, 10, 11), [SMALL], {"ratio": 0.3}, 1),
    ("Dropout", (12, 13), [SMALL, np.array(0.3, np.float32)], {}, 2),
    ("Clip", (7, 10), [SMALL], {"min": -0.5, "max": 0.3}, 1), ("Clip", (7,), [SMALL], {"max": 0.3}, 1),
    ("Clip", (11, 13), [SMALL, np.array(-0.5, np.float32), np.array(0.3, np.float32)], {}, 1),
    ("Clip", (11, 13), [SMALL, None, np.array(0.3, np.float32)], {}, 1),
    ("Slice", (7, 9), [floats(4, 6, 5)], {"starts": [1, -3], "ends": [3, 100], "axes": [0, 2]}, 1),
    ("Slice", (7, 9), [floats(4, 6, 5)], {"starts": [1, 0], "ends": [-1, 2]}, 1),
    ("Slice", (10, 13), [floats(4, 6, 5), ints(1, -1), ints(3, -100), ints(0, 2), ints(1, -2)], {}, 1),
    *[("Pad", (7, 10), [IMAGE], {"pads": [0, 0, 1, 2, 0, 0, 2, 1], "mode": mode, "value": 0.7}, 1)
      for mode in ("constant", "reflect", "edge")],
    ("Pad", (7, 10), [SMALL], {"pads": [-1, 0, 1, -1]}, 1),
    ("Pad", (11, 13, 18), [SMALL, ints(-1, 0, 1, -1), np.array(0.7, np.float32)], {}, 1),
    ("TopK", (7, 9), [SMALL], {"k": 2, "axis": 0}, 2), ("TopK", (10, 11), [SMALL, ints(3)], {"axis": 1}, 2),
    ("TopK", (11,), [SMALL, ints(2)], {"axis": 0, "largest": 0}, 2),
    ("Squeeze", (7, 11), [floats(1, 3, 1, 4)], {"axes": [0, 2]}, 1), ("Squeeze", (7, 11), [floats(1, 3, 1, 4)], {}, 1),
    ("Unsqueeze", (7, 11), [SMALL], {"axes": [3, 1]}, 1), ("Unsqueeze", (13,), [SMALL, ints(0, -1)], {}, 1),
    *[(f"Reduce{kind}", (7, 11, 12), [np.abs(X) + 0.1], {"axes": [0, 2], "keepdims": 0}, 1)
      for kind in ("Sum", "Mean", "Max", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")],
    ("ReduceSum", (13,), [X, np.zeros(0, np.int64)], {"noop_with_empty_axes": 1}, 1),
    *[(kind, (7, 14), recurrent(kind, gates, 2), {"hidden_size": 4, "direction": "bidirectional", "clip": 0.8},
       3 if kind == "LSTM" else 2) for kind, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1))],
    *[("GRU", (7, 14), recurrent("GRU", 3, 1)[:4], {"hidden_size": 4, "linear_before_reset": linear}, 2) for linear in (0, 1)],
    *[("Cast", (7, 9, 13), [values], {"to": to}, 1)
      for values, to in ((SMALL * 3, 7), (SMALL, 9), (SMALL, 10), (ints(0, 1, -3), 1), (ints(300, -1), 2))],
    ("Reshape", (7, 13, 14), [X, ints(0, -1)], {}, 1),
    *[("BitShift", (11,), [np.array([16, 4, 1, 255], kind), np.array([1, 2, 3, 7], kind)], {"direction": direction}, 1)
      for kind in (np.uint8, np.uint16, np.uint32, np.uint64) for direction in ("LEFT", "RIGHT")],
    *[("Gemm", (7, 9, 11), [floats(2, 3), floats(3, 4), added], {"alpha": 0.5, "beta": 2.0}, 1)
      for added in (floats(4), floats(1), floats(2, 1), floats(2, 4), np.array(2, np.float32))],
    ("Split", (7, 11), [floats(6, 4)], {"axis": 0}, 3), ("Split", (7, 11), [floats(6, 4)], {"split": [2, 4]}, 2),
    ("Split", (13,), [floats(6, 4), ints(2, 4)], {}, 2), ("Split", (18,), [floats(7, 4)], {"num_outputs": 3}, 3),
    ("MaxPool", (8, 10, 12), [floats(1, 2, 7, 8)], {"kernel_shape": [3, 2], "strides": [2, 2]}, 2),
    ("AveragePool", (7, 10, 11), [floats(1, 2, 7, 8)], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 0, 1, 1]}, 1),
    ("OneHot", (9, 11), [ints(0, 2, -1, 5), np.array(3), scales(0.5, 2)], {"axis": 0}, 1),
    ("Scatter", (9, 10), [floats(3, 3), np.array([[1, 0, 2]]), floats(1, 3)], {"axis": 0}, 1),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} {case[3]}")
def test_an_operator_of_a_version(case: Case) -> None:
    kind, versions, values, attributes, count = case
    helper = onnx.helper
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(values)]
    outputs = [f"o{k}" for k in range(count)]
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, **attributes)],
        "graph",
        [helper.make_tensor_value_info("i0", helper.np_dtype_to_tensor_dtype(values[0].dtype), values[0].shape)],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(value, name) for name, value in [*zip(names, values)][1:] if name],
    )
    for version in versions:
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=8)
        session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        results = numod.onnx.load(made)(numod.from_numpy(values[0].copy()))
        for result, expected in zip(results if count > 1 else [results], session.run(None, {"i0": values[0]})):
            result = result.detach().numpy()
            assert result.dtype == expected.dtype and result.shape == expected.shape, version
            assert np.allclose(result.astype(float), expected.astype(float), 1e-5, 1e-5), version
