"""Models that ONNX Runtime's own quantizer writes: static by Q/DQ pairs or QLinear operators, dynamic, and by blocks."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from onnx_models import floats, model, node

import numod

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
pytestmark = [pytest.mark.onnx, pytest.mark.filterwarnings("ignore")]
QInt8, QUInt8 = quantization.QuantType.QInt8, quantization.QuantType.QUInt8


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    """The quantizer advises by the root logger."""
    caplog.set_level(logging.ERROR)


def convolutional() -> object:
    """Convolutions, pooling, an addition, a gate and a layer at the end."""
    nodes = [
        node("Conv", "x c1 b1", "a", pads=[1, 1, 1, 1]), node("Relu", "a", "r"), node("Conv", "r c2 b2", "d"),
        node("Sigmoid", "d", "s"), node("Mul", "d s", "m"), node("Add", "m r", "n"), node("MaxPool", "n", "p", kernel_shape=[2, 2]),
        node("GlobalAveragePool", "p", "g"), node("Flatten", "g", "f"), node("Gemm", "f w b", "y", transB=1),
    ]  # fmt: skip
    tensors = {
        "c1": floats(4, 2, 3, 3), "b1": floats(4), "c2": floats(4, 4, 1, 1, seed=1), "b2": floats(4, seed=1),
        "w": floats(3, 4), "b": floats(3),
    }  # fmt: skip
    return model(nodes, {"x": ["batch", 2, 8, 8]}, ["y"], tensors, opset=17)


def recurrent() -> object:
    nodes = [
        node("LSTM", "x w r b", "h", hidden_size=8, direction="bidirectional"),
        node("Transpose", "h", "t", perm=[0, 2, 1, 3]), node("Reshape", "t shape", "f"), node("MatMul", "f last", "y"),
    ]  # fmt: skip
    tensors = {
        "w": floats(2, 32, 16) * 0.3, "r": floats(2, 32, 8) * 0.3, "b": floats(2, 64) * 0.1, "last": floats(16, 4),
        "shape": np.array([0, 0, -1]),
    }  # fmt: skip
    return model(nodes, {"x": [6, "batch", 16]}, ["y"], tensors, opset=17)


def dense() -> object:
    nodes = [node("MatMul", "x w1", "a"), node("Relu", "a", "r"), node("MatMul", "r w2", "y")]
    return model(nodes, {"x": ["batch", 64]}, ["y"], {"w1": floats(64, 96) * 0.2, "w2": floats(96, 8)}, opset=21)


NETWORKS = {"convolutional": (convolutional, (2, 8, 8)), "recurrent": (recurrent, (6, 3, 16)), "dense": (dense, (64,))}


def example(name: str, seed: int = 0) -> np.ndarray:
    shape = NETWORKS[name][1]
    return floats(*(shape if name == "recurrent" else (3, *shape)), seed=seed)


class Calibration(quantization.CalibrationDataReader):
    def __init__(self, name: str) -> None:
        self.batches = iter([{"x": example(name, seed)} for seed in range(3)])

    def get_next(self) -> dict | None:
        return next(self.batches, None)


def agrees(file: object, name: str, tolerance: float) -> numod.onnx.OnnxModule:
    """Compare with ONNX Runtime without its optimizations, which round elsewhere."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    loaded, x = numod.onnx.load(file), example(name, 9)
    (expected,) = session.run(None, {"x": x})
    error = np.abs(loaded(numod.from_numpy(x)).detach().numpy() - expected).max() / np.abs(expected).max()
    assert error <= tolerance
    return loaded


@pytest.mark.parametrize("name", ["convolutional", "dense"])
@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize(
    "settings",
    [
        {"activation_type": QUInt8, "weight_type": QInt8},
        {"activation_type": QUInt8, "weight_type": QUInt8},
        {"activation_type": QInt8, "weight_type": QInt8, "per_channel": True},
    ],
    ids=["u8s8", "u8u8", "s8s8 per channel"],
)
def test_static(name: str, form: str, settings: dict, tmp_path) -> None:
    made, file = NETWORKS[name][0](), tmp_path / "quantized.onnx"
    quantization.quantize_static(made, file, Calibration(name), quant_format=quantization.QuantFormat[form], **settings)
    agrees(file, name, 1e-6)


@pytest.mark.parametrize("kind", ["QUInt16", "QInt16"])
def test_static_with_activations_of_16_bits(kind: str, tmp_path) -> None:
    file = tmp_path / "quantized.onnx"
    quantization.quantize_static(
        convolutional(), file, Calibration("convolutional"), activation_type=quantization.QuantType[kind]
    )
    agrees(file, "convolutional", 1e-4)


@pytest.mark.parametrize("name, tolerance", [("convolutional", 1e-6), ("dense", 1e-6), ("recurrent", 0.03)])
@pytest.mark.parametrize("weight_type", [QInt8, QUInt8], ids=["s8", "u8"])
def test_dynamic(name: str, tolerance: float, weight_type: object, tmp_path) -> None:
    """Of recurrent layers, ONNX Runtime rounds the inputs, too; numod only the weights."""
    file = tmp_path / "quantized.onnx"
    quantization.quantize_dynamic(NETWORKS[name][0](), file, weight_type=weight_type)
    agrees(file, name, tolerance)


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("form", ["QOperator", "QDQ"])
def test_weights_of_four_bits_by_blocks(symmetric: bool, form: str, tmp_path) -> None:
    pytest.importorskip("onnx_ir")  # the quantizer needs it
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(
        dense(), block_size=32, is_symmetric=symmetric, quant_format=quantization.QuantFormat[form]
    )
    quantizer.process()
    quantizer.model.save_model_to_file(str(tmp_path / "quantized.onnx"))
    agrees(tmp_path / "quantized.onnx", "dense", 1e-5)
