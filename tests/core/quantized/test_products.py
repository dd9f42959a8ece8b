"""Products with a quantized weight: the bias that counts is the one of the call, whatever its size."""

import numpy as np
import pytest
from selection import every

import numod as torch
from numod import nn
from numod.ao import quantization
from numod.ao.nn import quantized as nnq
from numod.ao.nn.quantized import Conv2d, dynamic
from numod.ao.nn.quantized import functional as qF
from numod.core.quantized import dynamic_rows_linear
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
    assert len(parts_of(weight).sums._derived) <= 8


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
    assert len(parts_of(weight).sums._derived) == 1 and product(bias).int_repr().equal(before.int_repr())


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


def rows_product(x, weight, scale, bias):
    """The exact product of `dynamic_rows_linear`."""
    step = (x.abs().amax(1, keepdim=True) / 127).clamp_min(1e-12)
    return ((x / step).round().clamp(-127, 127) @ weight.float().t()) * (step * scale) + bias


def test_a_weight_is_packed_again_after_every_write():
    torch.manual_seed(0)
    x, weight = torch.randn(5, 9), torch.randint(-128, 128, (7, 9), dtype=torch.int8)
    scale, bias = torch.rand(7), torch.randn(7)
    writes = (
        lambda: None,
        lambda: weight[0].fill_(5),
        lambda: weight.data[1].fill_(7),
        lambda: weight.data.copy_(weight.flip(0)),
        lambda: weight.detach().zero_(),
    )
    for write in writes:
        write()
        result = dynamic_rows_linear(x, weight, scale, bias)
        torch.testing.assert_close(result, rows_product(x, weight, scale, bias), rtol=1e-3, atol=1e-2)


def test_memory_of_numpy_is_packed_at_each_call():
    array = np.ones((7, 9), np.int8)
    x, weight, ones, zeros = torch.ones(2, 9), torch.from_numpy(array), torch.ones(7), torch.zeros(7)
    assert dynamic_rows_linear(x, weight, ones, zeros)[0, 0] == pytest.approx(9)
    array[:] = 2
    assert dynamic_rows_linear(x, weight, ones, zeros)[0, 0] == pytest.approx(18)


def test_operands_that_are_not_contiguous():
    torch.manual_seed(0)
    integers = torch.randint(-128, 128, (18, 18), dtype=torch.int8)
    for weight in (integers[:9, :7].t(), integers[:7, ::2], integers[:1, :9].expand(7, 9), integers[3:10, :9]):
        x, scale, bias = torch.randn(9, 5).t(), torch.rand(14)[::2], torch.randn(1).expand(7)
        result = dynamic_rows_linear(x, weight, scale, bias)
        torch.testing.assert_close(result, rows_product(x, weight, scale, bias), rtol=1e-3, atol=1e-2)


def test_a_bias_that_changes_through_data():
    x = torch.quantize_per_tensor(torch.randn(5, 9), 0.03, 120, torch.quint8)
    weight = torch.quantize_per_tensor(torch.randn(7, 9), 0.02, 0, torch.qint8)
    bias = torch.zeros(7)
    before = qF.linear(x, weight, bias, 0.1, 100).dequantize()
    bias.data.add_(1.0)
    after = qF.linear(x, weight, bias, 0.1, 100).dequantize()
    torch.testing.assert_close(after, before + 1.0, rtol=0, atol=0.11)


@pytest.mark.parametrize("features", [1, 7, 9])
def test_inputs_that_do_not_fit_are_refused(features):
    weight = torch.quantize_per_tensor(torch.randn(5, 8), 0.02, 0, torch.qint8)
    layer = dynamic.Linear(8, 5)
    layer.set_weight_bias(weight, None)
    with pytest.raises(RuntimeError, match=f"expected 8 input features, got {features}"):
        layer(torch.randn(2, features))
    x = torch.quantize_per_tensor(torch.randn(2, features), 0.03, 120, torch.quint8)
    with pytest.raises(RuntimeError, match=f"expected 8 input features, got {features}"):
        qF.linear(x, weight, None, 0.1, 0)
    with pytest.raises(RuntimeError, match=f"expected 8 input features, got {features}"):
        dynamic_rows_linear(torch.randn(2, features), weight.int_repr(), torch.ones(5), None)


def test_biases_that_do_not_fit_are_refused():
    layer = dynamic.Linear(8, 5)
    layer.set_weight_bias(torch.quantize_per_tensor(torch.randn(5, 8), 0.02, 0, torch.qint8), torch.randn(4))
    with pytest.raises(RuntimeError, match="expanded size of the tensor"):
        layer(torch.randn(2, 8))


def test_images_without_a_batch_are_refused():
    x = torch.quantize_per_tensor(torch.randn(4, 6, 6), 0.03, 120, torch.quint8)
    with pytest.raises(ValueError, match=r"Input shape must be `\(N, C, H, W\)`! Got \(4, 6, 6\)"):
        Conv2d(4, 4, 3)(x)


@pytest.mark.parametrize("groups, channels", [(1, 3), (1, 8), (4, 3), (4, 8)])
def test_images_that_do_not_fit_are_refused(groups, channels):
    layer = Conv2d(4, 4, 3, groups=groups)
    x = torch.quantize_per_tensor(torch.randn(1, channels, 6, 6), 0.03, 120, torch.quint8)
    with pytest.raises(RuntimeError, match=f"do not fit an input with {channels} channels"):
        layer(x)


@pytest.mark.parametrize("kind", every(2, [nn.LSTM, nn.GRU], others=pytest.mark.fuzz))
def test_recurrent_layers_of_a_dynamic_batch(kind):
    """One program for batches that eager layers compute in different ways."""
    torch.manual_seed(0)
    layer = quantization.quantize_dynamic(nn.Sequential(kind(4, 5)), {kind}, dtype=torch.qint8).eval()
    batch = torch.export.Dim("batch", min=1, max=64)
    program = torch.export.export(layer, (torch.randn(3, 2, 4),), dynamic_shapes=({1: batch},)).module()
    for size in (1, 7, 33, 64):
        x = torch.randn(3, size, 4)
        torch.testing.assert_close(program(x)[0], layer(x)[0], rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors", "ignore:must run observer before")
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)])
@pytest.mark.parametrize("static", [False, True])
def test_layers_without_inputs_or_outputs(sizes, static):
    inputs, outputs = sizes
    model = nn.Sequential(nn.Linear(inputs, outputs))
    with torch.no_grad():
        model[0].bias.copy_(torch.ones(outputs)) if outputs else None
    weight = torch.quantize_per_tensor(model[0].weight.detach(), 0.5, 0, torch.qint8)
    if static:
        layer = nnq.Linear(inputs, outputs)
        layer.set_weight_bias(weight, model[0].bias.detach())
        quantized = nn.Sequential(nnq.Quantize(0.5, 0, torch.quint8), layer, nnq.DeQuantize())
    else:
        quantized = quantization.quantize_dynamic(model)
    for rows in (0, 2):
        assert torch.equal(quantized(torch.zeros(rows, inputs)), torch.ones(rows, outputs))


@pytest.mark.parametrize("kind", ["Linear", "Conv1d", "Conv2d", "ConvTranspose2d"])
def test_a_bias_counts_where_a_step_of_the_sums_is_many_of_the_result(kind):
    layer = getattr(nnq, kind)(4, 3) if kind == "Linear" else getattr(nnq, kind)(4, 3, 2)
    taps = () if kind == "Linear" else (2,) * int(kind[-2])
    weight = torch.quantize_per_tensor(
        torch.randn(*((4, 3) if "Transpose" in kind else (3, 4)), *taps), 0.5, 0, torch.qint8
    )
    bias = torch.tensor([0.3, -0.8, 1.4])
    layer.set_weight_bias(weight, bias)
    layer.scale, layer.zero_point = 0.02, 128
    x = torch.zeros(2, 4, *[3] * len(taps))
    model = nn.Sequential(nnq.Quantize(0.7, 3, torch.quint8), layer, nnq.DeQuantize())
    expected = bias.reshape(-1, *[1] * len(taps)).expand(model(x).shape)
    for call in (model, torch.compile(model)):  # a step of the sums is 0.35, of the result 0.02
        assert (call(x) - expected).abs().max() <= 0.011
