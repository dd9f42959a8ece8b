"""Reference layers: the float layer on rounded weights; quantized layers are made of them."""

import copy
import io

import pytest

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.nn import quantized as nnq
from numod.ao.nn.quantized import reference

PER_TENSOR = {"qscheme": torch.per_tensor_affine, "dtype": torch.qint8, "scale": 0.02, "zero_point": 3}
LAYERS = {
    "Linear": ((6, 4), lambda: (torch.randn(3, 6),)),
    "Conv1d": ((4, 6, 3), lambda: (torch.randn(2, 4, 9),)),
    "Conv2d": ((4, 6, 3, 2, 1), lambda: (torch.randn(2, 4, 9, 9),)),
    "Conv3d": ((4, 6, 2), lambda: (torch.randn(2, 4, 4, 4, 4),)),
    "ConvTranspose1d": ((4, 6, 3), lambda: (torch.randn(2, 4, 9),)),
    "ConvTranspose2d": ((4, 6, 3, 2), lambda: (torch.randn(2, 4, 5, 5),)),
    "Embedding": ((10, 4), lambda: (torch.tensor([1, 3, 3]),)),
    "EmbeddingBag": ((10, 4), lambda: (torch.tensor([[1, 3], [2, 0]]),)),
    "LSTM": ((4, 5, 2), lambda: (torch.randn(6, 2, 4),)),
    "GRU": ((4, 5, 1, True, False, 0.0, True), lambda: (torch.randn(6, 2, 4),)),
    "LSTMCell": ((4, 5), lambda: (torch.randn(3, 4),)),
    "GRUCell": ((4, 5), lambda: (torch.randn(3, 4),)),
    "RNNCell": ((4, 5), lambda: (torch.randn(4),)),
}


def numbers(layer):
    names = [name for name in layer._parameters if name.startswith("weight")]
    return PER_TENSOR if names == ["weight"] else {**dict.fromkeys(names, PER_TENSOR), "is_decomposed": False}


def leaves(result):
    return [leaf for part in result for leaf in leaves(part)] if isinstance(result, (tuple, list)) else [result]


@pytest.mark.parametrize("name", LAYERS)
def test_forward_is_that_of_rounded_weights(name):
    arguments, inputs = LAYERS[name]
    torch.manual_seed(0)
    layer, x = getattr(nn, name)(*arguments), inputs()
    result = getattr(reference, name).from_float(layer, numbers(layer))
    rounded = copy.deepcopy(layer)
    for parameter, weight in rounded._parameters.items():
        if parameter.startswith("weight"):
            weight.data = torch.quantize_per_tensor(weight.detach(), 0.02, 3, torch.qint8).dequantize()
    for ours, expected in zip(leaves(result(*x)), leaves(rounded(*x)), strict=True):
        torch.testing.assert_close(ours, expected)
    assert repr(result).startswith(f"Quantized{name}(Reference)(")
    assert set(layer.state_dict()) < set(result.state_dict())
    file = io.BytesIO()
    torch.save(result.state_dict(), file)
    file.seek(0)
    keyword = "weight_qparams" if "weight" in layer._parameters else "weight_qparams_dict"
    fresh = getattr(reference, name)(*arguments, **{keyword: None})
    fresh.load_state_dict(torch.load(file))
    for ours, expected in zip(leaves(fresh(*x)), leaves(result(*x)), strict=True):
        assert torch.equal(ours, expected)


def test_quantized_layers_are_made_of_reference_layers():
    layer = nn.Linear(6, 4)
    per_channel = {
        "qscheme": torch.per_channel_affine, "dtype": torch.qint8, "scale": torch.rand(4) + 0.01,
        "zero_point": torch.zeros(4, dtype=torch.int32), "axis": 0,
    }  # fmt: skip
    middle = reference.Linear.from_float(layer, per_channel)
    assert middle.get_quantized_weight().qscheme() is torch.per_channel_affine
    result = nnq.Linear.from_reference(middle, 0.1, 3)
    assert (result.scale, result.zero_point) == (0.1, 3)
    assert torch.equal(result.weight(), middle.get_quantized_weight())
    assert nnq.dynamic.Linear.from_reference(middle)(torch.ones(1, 6)).shape == (1, 4)
    conv = reference.Conv2d.from_float(nn.Conv2d(2, 3, 3, stride=2), PER_TENSOR)
    assert nnq.Conv2d.from_reference(conv, 0.1, 3).stride == (2, 2)
    table = reference.EmbeddingBag.from_float(
        nn.EmbeddingBag(10, 4, mode="mean"),
        {**per_channel, "qscheme": torch.per_channel_affine_float_qparams, "dtype": torch.quint8,
         "scale": torch.ones(10), "zero_point": torch.zeros(10)},
    )  # fmt: skip
    assert nnq.EmbeddingBag.from_reference(table).mode == "mean"


def test_convert_to_reference_layers():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Conv1d(4, 2, 1))
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model.eval())
    result = quantization.convert(prepared, is_reference=True)
    assert [type(layer) for layer in result] == [reference.Linear, nn.ReLU, reference.Conv1d]
    assert result[0].weight_qscheme is torch.per_channel_affine
    assert quantization.get_static_quant_module_class(nn.LSTM, is_reference=True) is reference.LSTM


def test_mistakes():
    with pytest.raises(AssertionError, match="expected the numbers of weight_ih, weight_hh"):
        reference.LSTMCell(2, 3, weight_qparams_dict={"is_decomposed": False})
    with pytest.raises(AssertionError, match="is not supported in reference"):
        reference.Linear(2, 3, weight_qparams={**PER_TENSOR, "qscheme": torch.per_tensor_symmetric})
    odd = reference.Linear(2, 3, weight_qparams={**PER_TENSOR, "qscheme": None, "dtype": torch.float32})
    assert torch.equal(odd.get_weight(), odd.weight)
    with pytest.raises(ValueError, match="Unsupported dtype and qscheme"):
        odd.get_quantized_weight()
