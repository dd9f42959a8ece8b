"""Dynamic recurrent layers are made by their constructors, too, and load states of converted ones."""

import copy

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


RECURRENT = ["LSTM", "GRU", "LSTMCell", "GRUCell", "RNNCell"]


def converted(name, seed):
    torch.manual_seed(seed)
    return quantize_dynamic(nn.Sequential(getattr(nn, name)(3, 4)))[0]


def tensors_of(result):
    return [result] if isinstance(result, torch.Tensor) else [tensor for part in result for tensor in tensors_of(part)]


def same(first, second):
    return all(map(torch.equal, tensors_of(first), tensors_of(second)))


def zeros_for(name, batch):
    state = torch.zeros(*[1] * ("Cell" not in name), batch, 4)
    return (state, state.clone()) if "LSTM" in name else state


@pytest.mark.parametrize("name", RECURRENT)
def test_first_states_are_zeros_at_every_call(name):
    layer, x = converted(name, 0), torch.randn(5, 2, 3)
    for batch in (1, 2, *range(3, 15), 40, 2):  # more than are remembered
        inputs = torch.randn(batch, 3) if "Cell" in name else torch.randn(5, batch, 3)
        with torch.inference_mode(batch == 1):
            result = layer(inputs)
        assert same(result, layer(inputs, zeros_for(name, batch)))
        for tensor in tensors_of(result) if batch > 1 else ():
            tensor.fill_(7.0)  # none of them is what the next call starts from
        assert same(layer(inputs), layer(inputs, zeros_for(name, batch)))
    inputs = x[0] if "Cell" in name else x
    assert same(torch.compile(layer)(inputs), layer(inputs))
    layer(inputs.clone().requires_grad_())


@pytest.mark.parametrize("name", RECURRENT)
def test_new_weights_count_after_a_call(name):
    layer, other = converted(name, 0), converted(name, 1)
    x = torch.randn(2, 3) if "Cell" in name else torch.randn(5, 2, 3)
    before, after = layer(x), other(x)
    clone, written = copy.deepcopy(layer), copy.deepcopy(layer)
    layer.load_state_dict(other.state_dict())
    for key, value in other._buffers.items():
        if key.startswith("bias"):
            written._buffers[key].copy_(value)
        else:
            setattr(written, key, value)
    assert same(layer(x), after)
    assert same(written(x), after)
    assert same(clone(x), before)


def test_new_weights_of_linear_count_after_a_call():
    first, second = (quantize_dynamic(nn.Sequential(nn.Linear(3, 4)))[0] for _ in range(2))
    x = torch.randn(1, 3)
    before, after = first(x), second(x)
    assert not torch.equal(before, after)
    first.set_weight_bias(second.weight(), second.bias())
    assert torch.equal(first(x), after)
    first.bias().data.add_(1.0)
    assert torch.allclose(first(x), after + 1)
    first._packed_params.set_weight_bias(second.weight(), None)
    assert torch.allclose(first(x), after - second.bias() + 1, atol=1e-6)


def test_results_keep_no_history_of_its_input():
    layer = converted("LSTM", 0)
    result, (h, c) = layer(torch.randn(5, 1, 3).requires_grad_())
    assert not (result.requires_grad or h.requires_grad or c.requires_grad)
