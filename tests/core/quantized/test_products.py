"""Products with a quantized weight: the bias that counts is the one of the call, whatever its size."""

import pytest

import numod as torch
from numod.ao.nn.quantized import functional as qF
from numod.core.quantized.products import parts_of

X = torch.quantize_per_tensor(torch.linspace(-1, 1, 8).reshape(2, 4), 0.0157, 64, torch.quint8)
IMAGE = torch.quantize_per_tensor(torch.linspace(-1, 1, 9).reshape(1, 1, 3, 3), 0.0157, 64, torch.quint8)
BIAS = torch.tensor([5.0, -1.0])


def quantized(weight):
    """A weight with a scale per channel, as observers choose it."""
    scales = (weight.abs().flatten(1).amax(1) / 127).clamp_min(torch.finfo(torch.float32).eps)
    return torch.quantize_per_channel(weight, scales.double(), torch.zeros(2, dtype=torch.int64), 0, torch.qint8)


def layer(kind, factor=1.0):
    """A function of the bias: a product whose first channel has weights times `factor`."""
    shape = (2, 4) if kind == "linear" else (2, 1, 2, 2)
    weight = torch.linspace(-0.4, 0.3, 8).reshape(shape)
    weight[0] *= factor
    weight = quantized(weight)
    if kind == "linear":
        return weight, lambda bias: qF.linear(X, weight, bias, 0.05, 60)
    return weight, lambda bias: qF.conv2d(IMAGE, weight, bias, scale=0.05, zero_point=60)


def expected(kind, weight, bias):
    values = weight.dequantize()
    if kind == "linear":
        return torch.nn.functional.linear(X.dequantize(), values, bias)
    return torch.nn.functional.conv2d(IMAGE.dequantize(), values, bias)


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_each_call_adds_its_bias(kind):
    weight, product = layer(kind)
    for k in range(20):
        bias = torch.tensor([k / 10, -k / 10])  # the next one may get the id of this one
        assert (product(bias).dequantize() - expected(kind, weight, bias)).abs().max() < 0.026
    assert len(parts_of(weight).requantizers) <= 8


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
def test_a_change_of_the_bias_counts(kind):
    weight, product = layer(kind)
    bias = torch.zeros(2)
    for _ in range(3):
        assert (product(bias).dequantize() - expected(kind, weight, bias)).abs().max() < 0.026
        bias += 1
    bias.data = torch.tensor([0.5, 0.25])
    assert (product(bias).dequantize() - expected(kind, weight, bias)).abs().max() < 0.026
    before = product(bias)
    assert len(parts_of(weight).requantizers) == 1 and product(bias).int_repr().equal(before.int_repr())


def test_a_program_adds_its_bias():
    weight, product = layer("linear")
    bias = torch.ones(2)
    product(bias)
    compiled = torch.compile(lambda: product(bias).dequantize(), fullgraph=True)
    for _ in range(3):
        assert (compiled() - expected("linear", weight, bias)).abs().max() < 0.026
        bias += 1


@pytest.mark.parametrize("kind", ["linear", "conv2d"])
@pytest.mark.parametrize("factor", [0.0, 1e-30, 1e-5])
def test_a_channel_of_small_weights_keeps_its_bias(kind, factor):
    weight, product = layer(kind, factor)
    assert (product(BIAS).dequantize() - expected(kind, weight, BIAS)).abs().max() < 0.026


def test_a_program_keeps_the_bias_of_a_channel_of_zeros():
    weight, product = layer("linear", 0.0)
    compiled = torch.compile(lambda bias: product(bias).dequantize(), fullgraph=True)
    assert (compiled(BIAS) - expected("linear", weight, BIAS)).abs().max() < 0.026
