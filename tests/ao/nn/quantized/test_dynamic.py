"""Dynamic recurrent layers are made by their constructors, too, and load states of converted ones."""

import pytest

import numod as torch
from numod import nn
from numod.ao.quantization import quantize_dynamic

LAYERS = {"LSTM": (3, 4, 2), "GRU": (3, 4), "LSTMCell": (3, 4), "GRUCell": (3, 4, False), "RNNCell": (3, 4)}


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
@pytest.mark.parametrize("name", LAYERS)
def test_constructed_layers_load_states_of_converted_ones(name, dtype):
    torch.manual_seed(0)
    model = nn.Sequential(getattr(nn, name)(*LAYERS[name]))
    converted = quantize_dynamic(model, dtype=dtype)[0]
    layer = getattr(nn.quantized.dynamic, name)(*LAYERS[name], dtype=dtype)
    assert repr(layer) == repr(converted)
    layer.load_state_dict(converted.state_dict())
    x = torch.randn(2, 3) if "Cell" in name else torch.randn(5, 2, 3)
    result, expected = layer(x), converted(x)
    assert torch.equal(*(value if isinstance(value, torch.Tensor) else value[0] for value in (result, expected)))
    if dtype is torch.qint8:
        with pytest.raises(RuntimeError, match="quantize that"):
            layer.load_state_dict(model[0].state_dict())


def test_other_dtypes_are_refused():
    with pytest.raises(RuntimeError, match="Unsupported dtype"):
        nn.quantized.dynamic.LSTM(3, 4, dtype=torch.quint8)


@pytest.mark.filterwarnings("ignore:The current implementation")
@pytest.mark.parametrize("name", ["Conv1d", "Conv2d", "ConvTranspose1d"])
def test_dynamic_convolutions_are_traced_and_exported(name):
    layer = getattr(nn.quantized.dynamic, name)(2, 3, 2)
    size = (2, 2, *[5] * int(name[-2]))
    weight = torch.randn(*layer.weight().shape)
    layer.set_weight_bias(torch.quantize_per_tensor(weight, 0.05, 0, torch.qint8), torch.randn(3))
    for program in (
        torch.jit.trace(layer, (torch.randn(size),)),
        torch.export.export(layer, (torch.ones(size),)).module(),
    ):
        x = 3 * torch.randn(size)  # another range
        assert torch.allclose(program(x), layer(x))
        rounded = torch.quantize_per_tensor_dynamic(x, torch.quint8, True).dequantize()
        assert torch.allclose(
            layer(x), layer._float_product(rounded, layer.weight().dequantize(), layer.bias()), atol=1e-4
        )
    assert layer(torch.zeros(0, *size[1:])).shape[0] == 0
