"""Quantized networks as ONNX models: Q/DQ pairs where scales are fixed, products of integers where they are not."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest

import numod as torch
from numod import nn
from numod.ao import quantization

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.onnx


class Net(nn.Module):
    """Convolutions with and without groups, a ReLU that is fused and one that is not, and a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = quantization.QuantStub(), quantization.DeQuantStub()
        self.first, self.relu = nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.ReLU()
        self.second = nn.Conv2d(4, 4, 3, groups=2)
        self.head = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.relu(self.first(self.quant(x)))
        return self.dequant(self.head(self.second(x).relu().flatten(1)))


@pytest.fixture(scope="module")
def net() -> nn.Module:
    torch.manual_seed(0)
    model = Net().eval()
    model.qconfig = quantization.get_default_qconfig("x86")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the range of observers, as PyTorch's
        quantization.fuse_modules(model, [["first", "relu"]], inplace=True)
        quantization.prepare(model, inplace=True)
        model(torch.randn(8, 2, 8, 8))
        return quantization.convert(model, inplace=True)


def test_a_static_network_is_pairs_around_its_layers(net: nn.Module) -> None:
    program = torch.onnx.export(net, (torch.randn(3, 2, 8, 8),), dynamic_axes={"x": {0: "batch"}}, verify=True)
    proto = program.model_proto
    onnx.checker.check_model(proto, full_check=True)
    operators = [node.op_type for node in proto.graph.node]
    assert operators.count("QuantizeLinear") == 4 and operators.count("Conv") == 2 and operators.count("Gemm") == 1
    assert not {"MatMulInteger", "Gather", "Transpose"} & set(operators)
    x = torch.randn(20, 2, 8, 8)
    differences = np.abs(net(x).numpy() - program(x)[0].numpy())
    assert (differences > 1e-5).mean() < 0.02  # ties may round to another integer


@pytest.mark.parametrize(
    ("name", "settings", "operator"),
    [
        ("Conv1d", {"padding": 1}, "Conv"),
        ("Conv3d", {"padding": 1}, "Conv"),
        ("Conv2d", {"padding": 1, "padding_mode": "reflect"}, "Conv"),
        ("ConvTranspose2d", {"stride": 2}, "ConvTranspose"),
    ],
)
def test_every_convolution_is_a_layer_between_pairs(name: str, settings: dict, operator: str) -> None:
    model = quantization.QuantWrapper(nn.Sequential(getattr(nn, name)(2, 4, 3, **settings))).eval()
    model.qconfig, x = quantization.get_default_qconfig("qnnpack"), torch.randn(2, 2, *[6] * int(name[-2]))
    prepared = quantization.prepare(model)
    prepared(x)
    converted = quantization.convert(prepared)
    program = torch.onnx.export(converted, (x,), verify=True)
    operators = [node.op_type for node in program.model_proto.graph.node]
    assert set(operators) <= {"QuantizeLinear", "DequantizeLinear", "Pad", operator} and operators.count(operator) == 1
    step = float(converted.module[0].scale)
    differences = np.abs(converted(x).numpy() - program(x)[0].numpy())
    assert differences.max() < 1.01 * step and (differences > step / 2).mean() < 0.02  # ties


def test_a_network_that_was_called_before(net: nn.Module) -> None:
    """Then its scales are constants of the program."""
    called, x = copy.deepcopy(net), torch.randn(3, 2, 8, 8)
    called(x)
    program = torch.onnx.export(called, (x,), verify=True)
    onnx.checker.check_model(program.model_proto, full_check=True)


@pytest.mark.parametrize(
    "config",
    [
        "Int8WeightOnlyConfig",
        "Int4WeightOnlyConfig",
        "Int8DynamicActivationInt8WeightConfig",
        "Int8DynamicActivationInt4WeightConfig",
    ],
)
def test_one_call_configurations(config: str) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    options = {"group_size": 8} if "4" in config else {}
    quantization.quantize_(model, getattr(quantization, config)(**options))
    program = torch.onnx.export(model, (torch.randn(3, 8),), verify=True)
    onnx.checker.check_model(program.model_proto, full_check=True)
    integers = {
        initializer.name
        for initializer in program.model_proto.graph.initializer
        if initializer.data_type in (2, 3) and len(initializer.dims) == 2
    }
    assert integers == {"0.packed", "2.packed"}


def test_dynamic_quantization() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    model = quantization.quantize_dynamic(copy.deepcopy(model), {nn.Linear}, dtype=torch.qint8)
    program = torch.onnx.export(model, (torch.randn(3, 8),), verify=True)
    assert [node.op_type for node in program.model_proto.graph.node].count("MatMulInteger") == 2


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_dynamic_recurrent_layers(kind: type) -> None:
    class First(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = kind(4, 6, bidirectional=True)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0]

    model = quantization.quantize_dynamic(First(), {kind}, dtype=torch.qint8)
    program = torch.onnx.export(model, (torch.randn(3, 2, 4),), verify=True)
    assert [node.op_type for node in program.model_proto.graph.node].count("MatMulInteger") == 2 * (3 + 1)


def test_a_dynamic_layer_of_rows_without_a_calibrated_scale() -> None:
    """A product whose scale is computed in the program has no Q/DQ form."""
    from numod.core.apply import apply
    from numod.ops.matmul.int8_linear import byte_linear

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("weight", torch.randint(-128, 128, (4, 6), dtype=torch.int8))
            self.register_buffer("offset", torch.arange(4, dtype=torch.int32))

        def forward(self, x: torch.Tensor, multiplier: torch.Tensor) -> torch.Tensor:
            return apply(byte_linear, (x, self.weight, self.offset, multiplier.abs()), (-3, -128, 127)).float()

    x = torch.randint(-128, 128, (3, 6), dtype=torch.int8)
    torch.onnx.export(Layer(), (x, torch.rand(4) / 50), verify=True)
