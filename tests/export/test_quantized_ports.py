"""Quantized inputs and results of exported, traced and loaded programs."""

import io

import pytest

import numod as torch
from numod.ao.nn import quantized as nnq

QUANTIZED = torch.quantize_per_tensor(torch.randn(2, 3, 5, 5), 0.05, 128, torch.quint8)


@pytest.fixture(scope="module")
def layer():
    result = nnq.Conv2d(3, 4, 3)
    result.set_weight_bias(torch.quantize_per_tensor(torch.randn(4, 3, 3, 3), 0.05, 0, torch.qint8), torch.randn(4))
    result.scale, result.zero_point = 0.1, 120
    return result


def loaded(module):
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file)


def test_a_loaded_layer_takes_and_returns_quantized_tensors(layer):
    traced = torch.jit.trace(layer, (QUANTIZED,))
    expected = layer(QUANTIZED)
    for module in (traced, loaded(traced)):
        result = module(QUANTIZED)
        assert torch.equal(result.int_repr(), expected.int_repr())
        assert (result.dtype, result.q_scale(), result.q_zero_point()) == (torch.quint8, 0.1, 120)
    integers = loaded(traced)(QUANTIZED.int_repr())
    assert torch.equal(integers, expected.int_repr())


def test_only_quantized_results_are_quantized():
    def function(x, y):
        return {"sum": y + 1, "relu": torch.relu(x), "signed": torch.quantize_per_tensor(y, 0.5, 1, torch.qint8)}

    traced = torch.jit.trace(function, (QUANTIZED, torch.ones(3)), strict=False)
    result = loaded(traced)(QUANTIZED, torch.ones(3))
    assert not result["sum"].is_quantized and result["relu"].is_quantized
    assert result["signed"].dtype is torch.qint8 and (result["signed"].dequantize() == 1).all()


def test_another_scale_is_not_taken_for_the_recorded_one(layer):
    traced = torch.jit.trace(layer, (QUANTIZED,))
    other = torch.quantize_per_tensor(QUANTIZED.dequantize(), 0.07, 128, torch.quint8)
    assert torch.equal(traced(other).int_repr(), layer(other).int_repr())  # the original runs
    for module in (loaded(traced), torch.export.export(layer, (QUANTIZED,)).module()):
        with pytest.raises(RuntimeError, match="recorded with scale 0.05 and zero point 128, got 0.07"):
            module(other)


def test_scales_of_channels_and_plain_inputs_are_not_taken_for_one_scale(layer):
    channels = torch.quantize_per_channel(QUANTIZED.dequantize(), torch.ones(3), torch.zeros(3).int(), 1, torch.quint8)
    with pytest.raises(RuntimeError, match="recorded with scale 0.05 and zero point 128, got scales of channels"):
        torch.export.export(layer, (QUANTIZED,)).module()(channels)
    for example in (channels, QUANTIZED.int_repr(), QUANTIZED.dequantize()):
        traced = torch.jit.trace(lambda x: x.dequantize() if x.is_quantized else x + 1, (example,))
        assert torch.equal(traced(QUANTIZED), QUANTIZED.dequantize())  # the original runs
        with pytest.raises(RuntimeError, match="recorded without a scale.*x.int_repr"):
            loaded(traced)(QUANTIZED)
    assert torch.equal(
        loaded(torch.jit.trace(torch.dequantize, (channels,)))(channels.int_repr()), channels.dequantize()
    )
