"""ONNX Runtime's operators (com.microsoft), and those of the standard without a case of their own, as it computes them."""

from __future__ import annotations

import numpy as np
import pytest
from onnx_models import floats

import numod

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx
RNG = np.random.default_rng(0)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)


def u8(*shape: int) -> np.ndarray:
    return RNG.integers(0, 255, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray:
    return RNG.integers(-127, 127, shape).astype(np.int8)


def ids(*shape: int, below: int) -> np.ndarray:
    return RNG.integers(0, below, shape).astype(np.int32)


def scale(value: float) -> np.ndarray:
    return np.array(value, np.float32)


def zero(value: int) -> np.ndarray:
    return np.array(value, np.uint8)


QUANTIZED = [u8(3, 4), scale(0.1), zero(100)]
NORMED = [floats(2, 3, 8), floats(2, 3, 8), floats(8), floats(8)]
SELF = [floats(2, 5, 8), floats(8, 24), floats(24)]
ORDER = (np.arange(64) * 5 % 7 % 2).astype(np.int32)  # the block of each row
CASES = {  # operator and what sets it apart: inputs, attributes, number of outputs
    "FusedMatMul": ([floats(2, 3, 4), floats(2, 5, 4)], {"alpha": 0.5, "transB": 1}, 1),
    "FusedGemm": ([floats(3, 4), floats(4, 5), floats(5)], {"activation": "Relu"}, 1),
    "FusedConv": ([floats(1, 2, 6, 6), floats(3, 2, 3, 3), floats(3)], {"activation": "Relu"}, 1),
    "Gelu": ([floats(3, 4)], {}, 1),
    "BiasGelu": ([floats(3, 4), floats(4)], {}, 1),
    "FastGelu": ([floats(3, 4), floats(4)], {}, 1),
    "QuickGelu": ([floats(3, 4)], {"alpha": 1.7}, 1),
    "SkipLayerNormalization": ([*NORMED, floats(8)], {"epsilon": 1e-5}, 1),
    "SkipLayerNormalization sum": (NORMED, {"epsilon": 1e-5}, 4),
    "SkipSimplifiedLayerNormalization": (NORMED[:3], {"epsilon": 1e-5}, 1),
    "EmbedLayerNormalization": (
        [ids(2, 5, below=9), ids(2, 5, below=2), floats(9, 8), floats(6, 8), floats(2, 8), floats(8), floats(8), MASK],
        {},
        2,
    ),
    "Attention": (SELF, {"num_heads": 2}, 1),
    "Attention mask": ([*SELF, MASK], {"num_heads": 2}, 1),
    "Attention lengths": ([*SELF, np.array([3, 5], np.int32)], {"num_heads": 2}, 1),
    "Attention causal": (SELF, {"num_heads": 2, "unidirectional": 1}, 1),
    "Attention past": ([*SELF, None, floats(2, 2, 2, 3, 4)], {"num_heads": 2}, 2),
    "MultiHeadAttention": ([floats(2, 5, 8), floats(2, 6, 8), floats(2, 6, 8), floats(24)], {"num_heads": 2}, 1),
    "MultiHeadAttention mask": ([floats(2, 5, 8, seed=k) for k in range(3)] + [None, MASK], {"num_heads": 2}, 1),
    "MatMulNBits": ([floats(3, 64), u8(6, 2, 16), floats(6, 2)], {"K": 64, "N": 6, "bits": 4, "block_size": 32}, 1),
    "MatMulNBits zeros": (
        [floats(3, 64), u8(6, 2, 16), floats(6, 2), u8(6, 1)],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
        1,
    ),
    "MatMulNBits 8": ([floats(3, 64), u8(6, 2, 32), floats(6, 2)], {"K": 64, "N": 6, "bits": 8, "block_size": 32}, 1),
    "DynamicQuantizeMatMul": ([floats(3, 4), i8(4, 5), scale(0.1), np.int8(0)], {}, 1),
    "MatMulIntegerToFloat": ([u8(3, 4), i8(4, 5), scale(0.1), scale(0.2), zero(3), np.array(2, np.int8)], {}, 1),
    "QGemm": ([u8(3, 4), scale(0.1), zero(3), i8(4, 5), scale(0.2), np.int8(2)], {}, 1),
    "QGemm bias": (
        [u8(3, 4), scale(0.1), zero(3), i8(5, 4), floats(5) ** 2, np.zeros(5, np.int8), np.arange(5, dtype=np.int32)],
        {"transB": 1, "alpha": 0.5},
        1,
    ),
    "DynamicQuantizeLSTM": (
        [floats(5, 2, 3), i8(1, 3, 16), i8(1, 4, 16), floats(1, 32)]
        + [None] * 4
        + [np.full(1, 0.01, np.float32), np.zeros(1, np.int8)] * 2,
        {"hidden_size": 4},
        3,
    ),
    "QLinearWhere": (
        [np.array([True, False, True, False]), *QUANTIZED, u8(3, 4), scale(0.2), zero(5), scale(0.3), zero(8)],
        {},
        1,
    ),
    "QLinearAdd": ([*QUANTIZED, u8(3, 4), scale(0.2), zero(5), scale(0.3), zero(8)], {}, 1),
    "QLinearMul": ([*QUANTIZED, u8(3, 4), scale(0.02), zero(5), scale(0.3), zero(8)], {}, 1),
    "QLinearSigmoid": ([*QUANTIZED, scale(1 / 256), zero(0)], {}, 1),
    "QLinearLeakyRelu": ([*QUANTIZED, scale(0.1), zero(50)], {"alpha": 0.1}, 1),
    "QLinearSoftmax": ([*QUANTIZED, scale(1 / 256), zero(0)], {"opset": 13, "axis": -1}, 1),
    "QLinearConcat": ([scale(0.2), zero(3), *QUANTIZED, u8(3, 4), scale(0.2), zero(5)], {"axis": 1}, 1),
    "QLinearGlobalAveragePool": ([u8(1, 2, 4, 4), scale(0.1), zero(10), scale(0.1), zero(9)], {}, 1),
    "QLinearAveragePool": ([u8(1, 2, 4, 4), scale(0.1), zero(10), scale(0.1), zero(9)], {"kernel_shape": [2, 2]}, 1),
    "MatMulNBits order": (
        [floats(3, 64), u8(6, 2, 16), floats(6, 2), None, ORDER],
        {"K": 64, "N": 6, "bits": 4, "block_size": 32},
        1,
    ),
    "MatMulNBits order, zeros": (
        [floats(3, 40), u8(6, 2, 16), floats(6, 2), floats(6, 2, seed=1), ORDER[:40]],
        {"K": 40, "N": 6, "bits": 4, "block_size": 32},
        1,
    ),
    "QLinearAveragePool last": (
        [u8(2, 5, 7, 3), scale(0.05), zero(3), scale(0.07), zero(5)],
        {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1], "channels_last": 1},
        1,
    ),
    "QLinearAveragePool last, padding counts": (
        [u8(2, 5, 7, 3), scale(0.05), zero(3), scale(0.07), zero(5)],
        {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1, "ceil_mode": 1, "channels_last": 1},
        1,
    ),
    "QLinearAveragePool last, 1-d": (
        [u8(2, 9, 3), scale(0.05), zero(3), scale(0.07), zero(5)],
        {"kernel_shape": [3], "channels_last": 1},
        1,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_an_operator_gives_what_onnx_runtime_gives(name: str) -> None:
    helper = onnx.helper
    values, attributes, count = CASES[name]
    inputs = {f"i{k}": np.asarray(value) for k, value in enumerate(values) if value is not None}
    names = [f"i{k}" if value is not None else "" for k, value in enumerate(values)]
    kind = name.split()[0]
    integers = kind.startswith("QLinear")
    outputs = [f"o{k}" for k in range(count)]
    types = [onnx.TensorProto.UINT8 if integers else onnx.TensorProto.FLOAT] * count
    if kind == "EmbedLayerNormalization":
        types[1] = onnx.TensorProto.INT32
    constants = [
        input_name
        for input_name in inputs
        if inputs[input_name].dtype.kind in "iu" or inputs[input_name].ndim == 0 or input_name == "i2"
    ]
    fed = {
        input_name: value for input_name, value in inputs.items() if input_name not in constants or input_name == "i0"
    }
    graph = helper.make_graph(
        [helper.make_node(kind, names, outputs, domain="com.microsoft", **attributes)],
        "graph",
        [
            helper.make_tensor_value_info(input_name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
            for input_name, value in fed.items()
        ],
        [helper.make_tensor_value_info(output, type_, None) for output, type_ in zip(outputs, types)],
        [
            onnx.numpy_helper.from_array(value, input_name)
            for input_name, value in inputs.items()
            if input_name not in fed
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=opsets, ir_version=9)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    results = numod.onnx.load(made)(*map(numod.tensor, fed.values()))
    for result, expected in zip(results if count > 1 else [results], session.run(None, fed)):
        if expected is not None and expected.size:
            assert result.detach().numpy().dtype == expected.dtype
            error = np.abs(result.detach().numpy().astype(np.float64) - expected.astype(np.float64)).max()
            assert error <= (1 if integers else 0.02 if kind == "DynamicQuantizeLSTM" else 1e-4)


@pytest.mark.parametrize(
    ("bits", "zeros", "what"),
    [(2, None, "weights of 2 bits"), (8, None, "weights of 8 bits"), (4, u8(6, 1), "zero points packed as uint8")],
)
def test_an_order_of_rows_that_onnx_runtime_does_not_define_is_refused(bits, zeros, what) -> None:
    sizes = {"K": 64, "N": 6, "bits": bits, "block_size": 32}
    values = [u8(6, 2, 4 * bits), floats(6, 2), *([] if zeros is None else [zeros]), ORDER]
    names = ["weight", "scales", *([] if zeros is None else ["zeros"]), "order"]
    inputs = ["x", "weight", "scales", "" if zeros is None else "zeros", "order"]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("MatMulNBits", inputs, ["out"], domain="com.microsoft", **sizes)],
        "graph",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, (3, 64))],
        [onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, None)],
        [onnx.numpy_helper.from_array(value, name) for value, name in zip(values, names)],
    )
    opsets = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("com.microsoft", 1)]
    with pytest.raises(NotImplementedError, match=f"g_idx.*got {what}.*symmetrically"):
        numod.onnx.load(onnx.helper.make_model(graph, opset_imports=opsets))(numod.zeros(3, 64))
