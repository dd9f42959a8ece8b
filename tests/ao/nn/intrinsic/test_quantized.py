"""Fused layers with a second input, and with activations that have no integer kernel."""

import operator

import pytest

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.nn import intrinsic as nni
from numod.ao.nn import quantized as nnq
from numod.ao.nn.intrinsic import quantized as nniq

MODELS = {
    "LinearTanh": lambda: nni.LinearTanh(nn.Linear(6, 4), nn.Tanh()),
    "LinearLeakyReLU": lambda: nni.LinearLeakyReLU(nn.Linear(6, 4, bias=False), nn.LeakyReLU(0.3)),
    "ConvAdd2d": lambda: nni.ConvAdd2d(nn.Conv2d(3, 4, 3, padding=1), operator.add),
    "ConvAddReLU2d": lambda: nni.ConvAddReLU2d(nn.Conv2d(3, 4, 3, padding=1), operator.add, nn.ReLU()),
}


class Around(nn.Module):
    def __init__(self, layer, inputs):
        super().__init__()
        self.quant, self.other, self.dequant = (
            quantization.QuantStub(), quantization.QuantStub() if inputs > 1 else None, quantization.DeQuantStub(),
        )  # fmt: skip
        self.layer = layer

    def forward(self, x, *others):
        return self.dequant(self.layer(self.quant(x), *map(self.other, others)))


@pytest.mark.parametrize("name", MODELS)
def test_converted_layers_are_close_to_float_ones(name):
    torch.manual_seed(0)
    inputs = (torch.randn(5, 6),) if "Linear" in name else (torch.randn(2, 3, 8, 8), torch.randn(2, 4, 8, 8))
    model = Around(MODELS[name](), len(inputs)).eval()
    expected = model(*inputs)
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    prepared(*inputs)
    result = quantization.convert(prepared)
    assert type(result.layer) is getattr(nniq, name)
    assert repr(result.layer).startswith(f"Quantized{name}(")
    assert (result(*inputs) - expected).abs().max() < 0.08


def test_slopes_are_taken_over():
    layer = nni.LinearLeakyReLU(nn.Linear(6, 4), nn.LeakyReLU(0.3))
    scale = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.02, "zero_point": 0}
    layer[0] = nnq.reference.Linear.from_float(layer[0], scale)
    result = nniq.LinearLeakyReLU.from_reference(layer, 0.1, 3)
    assert result.negative_slope == 0.3


def test_classes_are_checked():
    with pytest.raises(AssertionError, match="LinearTanh"):
        nni.LinearTanh(nn.Linear(2, 3), nn.ReLU())
