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
