"""Dynamic convolutions: the rounding of weights and inputs is PyTorch's. Results are not: PyTorch's are clipped to the
range of the input.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import numod
from numod.ao.nn.quantized import dynamic
from numod.ao.quantization import default_dynamic_qconfig, per_channel_dynamic_qconfig

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.filterwarnings("ignore")

CASES = {
    "Conv1d": ((2, 4, 11), (4, 6, 3), {"stride": 2, "padding": 1}),
    "Conv2d": ((2, 4, 9, 8), (4, 6, (3, 2)), {"dilation": (2, 1), "groups": 2}),
    "Conv3d": ((1, 2, 5, 5, 5), (2, 3, 3), {"bias": False}),
    "ConvTranspose1d": ((2, 4, 7), (4, 6, 3), {"stride": 2}),
    "ConvTranspose2d": ((2, 4, 5, 6), (4, 6, 3), {"padding": 1}),
}


def layers(name):
    shape, sizes, options = CASES[name]
    random = np.random.default_rng(0)
    float_layer, peer = getattr(numod.nn, name)(*sizes, **options), getattr(torch.nn, name)(*sizes, **options)
    for key, value in peer.state_dict().items():
        array = random.standard_normal(tuple(value.shape)).astype("float32")
        peer.get_parameter(key).data = torch.tensor(array)
        float_layer.get_parameter(key).data = numod.tensor(array)
    float_layer.qconfig = default_dynamic_qconfig
    peer.qconfig = torch.ao.quantization.default_dynamic_qconfig
    return float_layer, peer, random.standard_normal(shape).astype("float32")


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_rounded_weights_and_inputs(name):
    float_layer, peer, x = layers(name)
    layer = getattr(dynamic, name).from_float(float_layer)
    peer_layer = getattr(torch.ao.nn.quantized.dynamic, name).from_float(peer)
    assert repr(layer) == repr(peer_layer)
    np.testing.assert_array_equal(layer.weight().int_repr().numpy(), peer_layer.weight().int_repr().numpy())
    rounded = torch.quantize_per_tensor_dynamic(torch.tensor(x), torch.quint8, True).dequantize()
    peer.weight.data = peer_layer.weight().dequantize()
    expected = peer(rounded).detach().numpy()
    np.testing.assert_allclose(layer(numod.tensor(x)).numpy(), expected, rtol=1e-3, atol=1e-3 * np.abs(expected).max())


def test_channels_have_scales_of_their_own():
    float_layer, _, x = layers("Conv2d")
    float_layer.qconfig = per_channel_dynamic_qconfig
    layer = dynamic.Conv2d.from_float(float_layer)
    assert layer.weight().qscheme() is numod.per_channel_symmetric or layer.weight().q_per_channel_scales().numel() == 6
    x = numod.tensor(x)
    assert (layer(x) - float_layer(x)).abs().max() < 0.05 * float_layer(x).abs().max()


def test_a_new_layer_warns_and_checks_its_input():
    with pytest.warns(UserWarning, match="DynamicQuantizedConv2d module has poor numerical accuracy"):
        layer = dynamic.Conv2d(1, 2, 3)
    assert layer(numod.zeros(1, 1, 4, 4)).shape == (1, 2, 2, 2)
    with pytest.raises(ValueError, match=r"Input shape must be `\(N, C, H, W\)`"):
        layer(numod.zeros(1, 4, 4))
    with pytest.raises(ValueError, match=r"Input shape must be `\(N, C, L\)`! Got \(1, 4\)"):
        dynamic.Conv1d(4, 2, 3)(numod.zeros(1, 4))


def test_states_load_into_a_new_layer():
    float_layer, _, x = layers("Conv1d")
    layer, x = dynamic.Conv1d.from_float(float_layer), numod.tensor(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        other = dynamic.Conv1d(4, 6, 3, stride=2, padding=1)
    other.load_state_dict(layer.state_dict())
    assert (other(x) == layer(x)).all()


def test_training_for_dynamic_quantization_needs_an_observer_without_memory():
    quantization, qat = numod.ao.quantization, numod.ao.nn.qat.dynamic
    layer = qat.Linear(4, 3, qconfig=quantization.default_dynamic_qat_qconfig)
    assert isinstance(quantization.convert(numod.nn.Sequential(layer).eval(), quantization.DEFAULT_DYNAMIC_QUANT_MODULE_MAPPINGS)[0], dynamic.Linear)  # fmt: skip
    with pytest.raises(ValueError, match="memoryless observer"):
        qat.Linear(4, 3, qconfig=quantization.get_default_qat_qconfig("onednn"))
