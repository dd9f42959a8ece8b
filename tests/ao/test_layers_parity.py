"""Every kind of quantized layer beside PyTorch's: the text, the keys of its state, and states in both directions."""

import copy
import io
import pickle
import re

import numpy as np
import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
LAYERS = {
    "quantized.Linear": (3, 4),
    "quantized.Conv1d": (2, 4, 3),
    "quantized.Conv2d": (2, 4, 3, 1, 1, 1, 2),
    "quantized.Conv3d": (2, 4, 2),
    "quantized.ConvTranspose1d": (2, 4, 3),
    "quantized.ConvTranspose2d": (2, 4, 3, 2, 1, 1),
    "quantized.ConvTranspose3d": (2, 4, 2),
    "quantized.BatchNorm2d": (4,),
    "quantized.BatchNorm3d": (4,),
    "quantized.Embedding": (10, 4),
    "quantized.EmbeddingBag": (10, 4),
    "quantized.ELU": (0.1, 3),
    "quantized.Hardswish": (0.1, 3),
    "quantized.LeakyReLU": (0.1, 3, 0.2),
    "quantized.ReLU6": (),
    "quantized.Sigmoid": (0.1, 3),
    "quantized.Softmax": (1, 0.1, 3),
    "quantized.PReLU": (0.1, 3),
    "quantized.Dropout": (0.3,),
    "quantized.FloatFunctional": (),
    "quantized.QFunctional": (),
    "quantized.FXFloatFunctional": (),
    "quantized.DeQuantize": (),
    "quantized.MaxPool2d": (2,),
    "quantized.dynamic.Linear": (3, 4),
    "quantized.dynamic.LSTM": (3, 4),
    "quantized.dynamic.GRU": (3, 4, 2),
    "quantized.dynamic.LSTMCell": (3, 4),
    "quantized.dynamic.GRUCell": (3, 4),
    "quantized.dynamic.RNNCell": (3, 4),
    "quantized.dynamic.Conv1d": (2, 4, 3),
    "quantized.dynamic.Conv2d": (2, 4, 3),
    "quantized.dynamic.ConvTranspose2d": (2, 4, 3),
    "intrinsic.quantized.LinearReLU": (3, 4),
    "intrinsic.quantized.LinearTanh": (3, 4),
    "intrinsic.quantized.LinearLeakyReLU": (3, 4, 0.1),
    "intrinsic.quantized.ConvReLU1d": (2, 4, 3),
    "intrinsic.quantized.ConvReLU2d": (2, 4, 3),
    "intrinsic.quantized.ConvReLU3d": (2, 4, 3),
    "intrinsic.quantized.BNReLU2d": (4,),
    "intrinsic.quantized.BNReLU3d": (4,),
    "intrinsic.quantized.ConvAdd2d": (2, 4, 3),
    "intrinsic.quantized.ConvAddReLU2d": (2, 4, 3),
    "intrinsic.quantized.dynamic.LinearReLU": (3, 4),
    "quantized.reference.Linear": (3, 4),
    "quantized.reference.Conv2d": (2, 4, 3),
    "quantized.reference.LSTM": (3, 4),
    "quantized.reference.LSTMCell": (3, 4),
    "quantized.reference.Embedding": (10, 4),
    "quantizable.LSTM": (3, 4),
    "quantizable.MultiheadAttention": (8, 2),
    "quantizable.LSTMCell": (3, 4),
}
TRAINED = {
    "qat.Linear": (3, 4),
    "qat.Conv1d": (2, 4, 3),
    "qat.Conv2d": (2, 4, 3),
    "qat.Conv3d": (2, 4, 3),
    "intrinsic.qat.LinearReLU": (3, 4),
    "intrinsic.qat.LinearBn1d": (3, 4),
    "intrinsic.qat.ConvReLU1d": (2, 4, 3),
    "intrinsic.qat.ConvBn1d": (2, 4, 3),
    "intrinsic.qat.ConvBnReLU1d": (2, 4, 3),
    "intrinsic.qat.ConvReLU2d": (2, 4, 3),
    "intrinsic.qat.ConvBn2d": (2, 4, 3),
    "intrinsic.qat.ConvBnReLU2d": (2, 4, 3),
    "intrinsic.qat.ConvReLU3d": (2, 4, 3),
    "intrinsic.qat.ConvBn3d": (2, 4, 3),
    "intrinsic.qat.ConvBnReLU3d": (2, 4, 3),
}
# whose states have more entries: recurrent layers keep the float layers' names, others have a scale
OTHER_STATES = [
    "quantized.dynamic.LSTM",
    "quantized.dynamic.GRU",
    "quantized.dynamic.LSTMCell",
    "quantized.dynamic.GRUCell",
    "quantized.dynamic.RNNCell",
    "quantized.reference.LSTM",
    "quantized.reference.LSTMCell",
    "quantized.Sigmoid",
    "quantized.Softmax",
    "quantized.PReLU",
]


def text(layer):
    return re.sub(r"\d+\.\d+(e-\d+)?", "#", repr(layer).replace("numod.", "torch."))


def pair(name):
    """The layer of both libraries."""
    layers = []
    for lib in (torch, numod):
        kind = lib.ao.nn
        for part in name.split("."):
            kind = getattr(kind, part)
        keywords = {"qconfig": lib.ao.quantization.get_default_qat_qconfig("fbgemm")} if name in TRAINED else {}
        layers.append(kind(*{**LAYERS, **TRAINED}[name], **keywords))
    return layers


@pytest.mark.parametrize("name", [*LAYERS, *TRAINED])
def test_texts_and_states(name):
    theirs, ours = pair(name)
    assert text(ours) == text(theirs)
    for same in (copy.deepcopy(ours), pickle.loads(pickle.dumps(ours))):
        assert repr(same) == repr(ours)
        assert list(same.state_dict()) == list(ours.state_dict())
    if name in OTHER_STATES:
        return
    assert list(ours.state_dict()) == list(theirs.state_dict())
    for source, target, layers in ((torch, numod, (theirs, ours)), (numod, torch, (ours, theirs))):
        file = io.BytesIO()
        source.save(layers[0].state_dict(), file)
        file.seek(0)
        layers[1].load_state_dict(target.load(file, weights_only=True))


@pytest.mark.parametrize("name", ["quantized.Sigmoid", "quantized.Softmax", "quantized.PReLU"])
def test_states_without_a_scale_load(name):
    theirs, ours = pair(name)
    ours.load_state_dict(theirs.state_dict())


@pytest.mark.parametrize("name", TRAINED)
def test_float_layers_of_trained_ones(name):
    _, layer = pair(name)
    layer.eval()
    layer.apply(numod.ao.quantization.disable_fake_quant)
    x = numod.randn(2, 3) if "Linear" in name else numod.randn(2, 2, *[6] * int(name[-2]))
    result = layer.to_float()
    assert not any("fake_quant" in path or path.endswith("bn") for path, _ in result.named_modules())
    numod.testing.assert_close(result(x), layer(x), rtol=1e-4, atol=1e-5)


def test_quantized_prelu():
    """The weight is PyTorch's. Its results are not right where the scales of input and result differ."""
    x, weights = np.random.default_rng(0).standard_normal((2, 4, 5, 6)).astype(np.float32), []
    for lib in (torch, numod):
        layer, values = lib.nn.PReLU(4), lib.from_numpy(x)
        layer.weight.data.copy_(lib.tensor([0.1, 0.3, -0.2, 0.5]))
        layer.qconfig = lib.ao.quantization.default_quint8_weight_qconfig
        layer.activation_post_process = layer.qconfig.activation()
        layer.activation_post_process(layer(values))
        quantized = lib.ao.nn.quantized.PReLU.from_float(layer)
        weights.append((quantized.weight.int_repr().tolist(), quantized.scale, quantized.zero_point))
    assert weights[0] == weights[1]
    integers = numod.quantize_per_tensor(values, 0.05, 128, numod.quint8)
    expected = numod.nn.functional.prelu(integers.dequantize(), quantized.weight.dequantize())
    expected = numod.quantize_per_tensor(expected, quantized.scale, quantized.zero_point, numod.quint8)
    assert numod.equal(quantized(integers), expected)
