"""LSTM and MultiheadAttention in parts: equal to the float layers, then observed and quantized."""

from __future__ import annotations

import numpy as np
import pytest
from selection import every

import numod
from numod import nn
from numod.ao import quantization
from numod.ao.nn import quantizable, quantized

pytestmark = [
    pytest.mark.filterwarnings("ignore:Please use quant_min:UserWarning"),
    pytest.mark.filterwarnings("ignore:must run observer:UserWarning"),  # a product with a number is not observed
]


class Wrapped(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.quant, self.layer, self.dequant = quantization.QuantStub(), layer, quantization.DeQuantStub()

    def forward(self, *inputs, **kwargs):
        output, others = self.layer(*map(self.quant, inputs), **kwargs)
        others = others if isinstance(others, tuple) else (others,)
        return tuple([self.dequant(part) for part in (output, *others)])


def stages(layer, *inputs, **kwargs):
    """Results of the float model, the observed one and the quantized one, and that model."""
    model = Wrapped(layer).eval()
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    results = [model(*inputs, **kwargs), prepared(*inputs, **kwargs)]
    converted = quantization.convert(prepared)
    return [*results, converted(*inputs, **kwargs)], converted


@pytest.mark.parametrize(
    "settings",
    every(
        2,
        [{}, {"bias": False, "batch_first": True}, {"num_layers": 2, "bidirectional": True}, {"num_layers": 3}],
        others=pytest.mark.fuzz,
    ),
    ids=["plain", "no bias", "bidirectional", "deep"],
)
def test_lstm(settings):
    numod.manual_seed(0)
    (expected, observed, result), model = stages(nn.LSTM(6, 8, **settings), numod.randn(5, 3, 6))
    assert isinstance(model.layer, quantized.LSTM)
    for value, same, near in zip(expected, observed, result):
        np.testing.assert_allclose(same.detach().numpy(), value.detach().numpy(), rtol=1e-5, atol=1e-6)
        assert near.shape == value.shape and (near - value).abs().max().item() < 0.1


@pytest.mark.parametrize("split_gates", [False, True])
def test_cells_and_split_gates(split_gates):
    cell, x = nn.LSTMCell(4, 6), numod.randn(3, 4)
    cell.qconfig = quantization.get_default_qconfig("onednn")
    parts = quantizable.LSTMCell.from_float(cell, split_gates=split_gates)
    for value, same in zip(cell(x), parts(x)):
        np.testing.assert_allclose(same.detach().numpy(), value.detach().numpy(), rtol=1e-5, atol=1e-6)
    layer = nn.LSTM(4, 6)
    layer.qconfig = cell.qconfig
    observed = quantizable.LSTM.from_float(layer.eval(), split_gates=split_gates)
    state = numod.randn(1, 3, 6), numod.randn(1, 3, 6)
    steps = numod.randn(2, 3, 4)
    np.testing.assert_allclose(
        observed(steps, state)[0].detach().numpy(), layer(steps, state)[0].detach().numpy(), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    "settings",
    [{}, {"add_bias_kv": True, "add_zero_attn": True}, {"bias": False, "batch_first": True}, {"kdim": 5, "vdim": 7}],
    ids=["plain", "constants", "no bias", "sizes"],
)
def test_attention(settings):
    numod.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, **settings)
    shapes = [(4, 3, 8), (6, 3, settings.get("kdim", 8)), (6, 3, settings.get("vdim", 8))]
    if settings.get("batch_first"):
        shapes = [(3, shape[0], shape[2]) for shape in shapes]
    padding, mask = numod.zeros(3, 6, dtype=numod.bool), numod.zeros(4, 6, dtype=numod.bool)
    padding[1, 4:], mask[0, 2] = True, True
    inputs = [numod.randn(*shape) for shape in shapes]
    (expected, observed, result), model = stages(layer, *inputs, key_padding_mask=padding, attn_mask=mask)
    assert isinstance(model.layer, quantized.MultiheadAttention)
    for value, same, near in zip(expected, observed, result):
        np.testing.assert_allclose(same.detach().numpy(), value.detach().numpy(), rtol=1e-4, atol=1e-5)
        assert (near - value).abs().max().item() < 0.15
    floats = model.layer.dequantize()
    again = floats(*inputs, key_padding_mask=padding, attn_mask=mask)[0]
    assert (again - expected[0]).abs().max().item() < 0.1


def test_the_state_loads_into_another_model():
    numod.manual_seed(0)
    x = numod.randn(5, 3, 6)
    (_, _, result), model = stages(nn.LSTM(6, 8), x)
    _, other = stages(nn.LSTM(6, 8), x)
    other.load_state_dict(model.state_dict())
    assert (other(x)[0] == result[0]).all()


def test_refusals():
    with pytest.raises(AssertionError, match="must have 'qconfig'"):
        quantizable.LSTM.from_float(nn.LSTM(2, 3))
    with pytest.raises(AssertionError, match="expected MultiheadAttention, got Linear"):
        quantizable.MultiheadAttention.from_float(nn.Linear(2, 3))
    for kind in (quantized.LSTM, quantized.MultiheadAttention):
        with pytest.raises(NotImplementedError, match="non-observed"):
            kind.from_float(nn.Linear(2, 3))
    with pytest.raises(AssertionError, match="causal mask not supported"):
        quantizable.MultiheadAttention(4, 2)(*[numod.zeros(2, 1, 4)] * 3, is_causal=True)
    with pytest.raises(ValueError, match="number in range"):
        quantizable.LSTM(2, 3, dropout=2)
    with pytest.warns(UserWarning, match="dropout option for quantizable LSTM is ignored"):
        quantizable.LSTM(2, 3, dropout=0.5)


@pytest.mark.parametrize(
    "name, mask, error, message",
    [
        ("attn_mask", numod.ones(4, 1) > 0, RuntimeError, r"2D attn_mask is not correct: expected \(4, 5\)"),
        ("attn_mask", numod.ones(1, 4, 5) > 0, RuntimeError, r"3D attn_mask is not correct: expected \(6, 4, 5\)"),
        ("attn_mask", numod.ones(5) > 0, RuntimeError, "dimension 1 is not supported"),
        ("attn_mask", numod.ones(4, 5, dtype=numod.int32), AssertionError, "Only float and bool types"),
        ("key_padding_mask", numod.ones(1, 5) > 0, AssertionError, r"expected shape \(3, 5\), got \(1, 5\)"),
        ("key_padding_mask", numod.ones(3, 1) > 0, AssertionError, r"expected shape \(3, 5\), got \(3, 1\)"),
    ],
)
def test_masks_are_not_broadcast(name, mask, error, message):
    key = numod.randn(5, 3, 8)
    with pytest.raises(error, match=message):
        quantizable.MultiheadAttention(8, 2)(numod.randn(4, 3, 8), key, key, **{name: mask})
