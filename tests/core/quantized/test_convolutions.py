"""Convolutions of integers of all ranks, plain and transposed: PyTorch's, and the formula in float64."""

from __future__ import annotations

import numpy as np
import pytest
from selection import pairwise

import numod
from numod import nn

SETTINGS = {  # kernel, stride, padding, dilation, output padding, groups
    "plain": (3, 1, 0, 1, 0, 1), "stride": (3, 2, 1, 1, 1, 1), "groups": (2, 2, 0, 1, 0, 2),
    "wide": (4, 3, 1, 1, 0, 1), "dilated": (3, 2, 2, 2, 1, 2), "taps apart": (1, 2, 0, 1, 1, 1),
    "dilated like the stride": (3, 3, 1, 3, 2, 4),
}  # fmt: skip
SIZES = (7, 6, 9)


def layer_of(lib, rank, setting, transposed, per_channel):
    """(a quantized layer of a library, its input), the same numbers for each library."""
    random = np.random.default_rng(0)
    kernel, stride, padding, dilation, more, groups = SETTINGS[setting]
    settings = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    shape = (4, 8 // groups) if transposed else (8, 4 // groups)
    weight = random.normal(size=shape + (kernel,) * rank).astype("float32")
    x, bias = (random.normal(size=size).astype("float32") for size in ((2, 4, *SIZES[:rank]), 8))
    name = f"ConvTranspose{rank}d" if transposed else f"Conv{rank}d"
    settings |= {"output_padding": more} if transposed else {}
    layer, axis = getattr(lib.ao.nn.quantized, name)(4, 8, kernel, **settings), int(transposed)
    if per_channel:
        count = weight.shape[axis]
        scales, zeros = lib.linspace(0.02, 0.04, count).double(), lib.zeros(count, dtype=lib.int64)
        quantized = lib.quantize_per_channel(lib.from_numpy(weight), scales, zeros, axis, lib.qint8)
    else:
        quantized = lib.quantize_per_tensor(lib.from_numpy(weight), 0.03, 0, lib.qint8)
    layer.set_weight_bias(quantized, lib.from_numpy(bias))
    layer.scale, layer.zero_point = 0.05, 110
    return layer, lib.quantize_per_tensor(lib.from_numpy(x), 0.03, 120, lib.quint8)


def of_floats(layer, x):
    """The layer's result by a float layer."""
    rank, transposed = x.dim() - 2, "Transpose" in type(layer).__name__
    function = getattr(nn.functional, f"conv_transpose{rank}d" if transposed else f"conv{rank}d")
    settings = {"stride": layer.stride, "padding": layer.padding, "dilation": layer.dilation, "groups": layer.groups}
    settings |= {"output_padding": layer.output_padding} if transposed else {}
    values = function(x.dequantize().double(), layer.weight().dequantize().double(), layer.bias().double(), **settings)
    return (values / 0.05).round().add(110).clamp(0, 255)


@pytest.mark.parametrize(
    "rank, setting, transposed, per_channel",
    pairwise([1, 2, 3], list(SETTINGS), [False, True], [False, True], others=pytest.mark.fuzz),
)
def test_all_ranks(rank, setting, transposed, per_channel, monkeypatch):
    layer, x = layer_of(numod, rank, setting, transposed, per_channel)
    expected = of_floats(layer, x)
    if not (transposed and per_channel and layer.groups > 1):  # scales of channels in groups need floats
        monkeypatch.setattr(type(layer), "_float_product", None)
    result = layer(x).int_repr()
    assert result.shape == expected.shape and (result.double() - expected).abs().max() <= 1


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("rank", [1, 3])
def test_compiled_layers(rank, transposed):
    layer, x = layer_of(numod, rank, "stride", transposed, False)
    quantized = numod.compile(
        lambda x: layer(numod.quantize_per_tensor(x, 0.03, 120, numod.quint8)).int_repr(), fullgraph=True
    )
    for _ in range(2):
        assert numod.equal(quantized(x.dequantize()), layer(x).int_repr())


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore:torch.quantize_per_tensor")
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_integers_are_those_of_pytorch(rank, setting, transposed):
    """By FBGEMM: oneDNN's transposed convolutions ignore the zero point at the borders."""
    torch = pytest.importorskip("torch")
    torch.backends.quantized.engine, before = "fbgemm", torch.backends.quantized.engine
    try:
        layer, x = layer_of(torch, rank, setting, transposed, False)
        expected = layer(x).int_repr().numpy().astype(int)
    finally:
        torch.backends.quantized.engine = before
    layer, x = layer_of(numod, rank, setting, transposed, False)
    assert abs(layer(x).int_repr().numpy().astype(int) - expected).max() <= 1


def test_reflected_borders():
    layer = nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
    layer.qconfig = numod.ao.quantization.get_default_qconfig("onednn")
    stub = numod.ao.quantization.QuantWrapper(layer)
    stub.qconfig = layer.qconfig
    prepared = numod.ao.quantization.prepare(stub.eval())
    x = numod.rand(2, 3, 6, 6)
    expected = prepared(x)
    result = numod.ao.quantization.convert(prepared)(x)
    assert (result - expected).abs().max() < 0.03 * expected.abs().max()


def test_a_write_to_the_weight_counts():
    layer, x = layer_of(numod, 2, "stride", True, False)
    layer(x)
    layer.weight()._integers.zero_()
    assert (layer(x).int_repr().double() - of_floats(layer, x)).abs().max() <= 1


@pytest.mark.parametrize("transposed", [False, True])
def test_kernels_that_do_not_fit(transposed):
    layer = getattr(nn.quantized, "ConvTranspose3d" if transposed else "Conv3d")(1, 1, 3, padding=2 * transposed)
    x = numod.quantize_per_tensor(numod.zeros(1, 1, 1, 1, 1), 1.0, 0, numod.quint8)
    with pytest.raises(RuntimeError, match="quantized convolution: "):
        layer(x)
