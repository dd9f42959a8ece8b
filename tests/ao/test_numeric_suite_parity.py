"""The numeric suite beside PyTorch's: the same keys, and close results."""

import numpy as np
import pytest

import numod
from ao_models import every_layer, load_from

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
BOTH = (torch, numod)
X = np.random.default_rng(0).standard_normal((8, 1, 8, 8)).astype(np.float32)


def suite(lib):
    if lib is numod:
        return numod.ao.ns._numeric_suite
    import torch.ao.ns._numeric_suite as theirs

    return theirs


@pytest.fixture
def models():
    """Float and quantized model of both libraries."""
    floats = [every_layer(lib).eval() for lib in BOTH]
    load_from(torch, floats[0], numod, floats[1])
    quantized = []
    for lib, model in zip(BOTH, floats):
        model.qconfig = lib.ao.quantization.get_default_qconfig("fbgemm")
        prepared = lib.ao.quantization.prepare(model)
        prepared(lib.from_numpy(X))
        quantized.append(lib.ao.quantization.convert(prepared))
    return list(zip(BOTH, floats, quantized))


def close(theirs, ours):
    values = [value.dequantize() if value.is_quantized else value for value in (theirs, ours)]
    return np.abs(values[0].detach().numpy() - values[1].detach().numpy()).max() < 0.2


def test_weights(models):
    theirs, ours = (
        suite(lib).compare_weights(model.state_dict(), quantized.state_dict()) for lib, model, quantized in models
    )
    assert sorted(theirs) == sorted(ours)
    for key, pair in theirs.items():
        assert all(close(value, ours[key][name]) for name, value in pair.items())


def test_results_of_layers(models):
    theirs, ours = (
        suite(lib).compare_model_outputs(model, quantized, lib.from_numpy(X)) for lib, model, quantized in models
    )
    assert sorted(theirs) == sorted(ours)
    assert "conv.stats" in ours
    for key, pair in theirs.items():
        for name, values in pair.items():
            assert len(values) == len(ours[key][name])
            assert all(close(*both) for both in zip(values, ours[key][name]))


def test_layers_beside_their_float_layers(models):
    results = []
    for lib, model, quantized in models:
        kinds = [lib.nn.Linear, lib.nn.Conv2d, lib.ao.nn.quantized.FloatFunctional]
        results.append(suite(lib).compare_model_stub(model, quantized, kinds, lib.from_numpy(X)))
    theirs, ours = results
    assert sorted(theirs) == sorted(ours)
    for key, pair in theirs.items():
        assert pair.keys() == ours[key].keys()
        assert all(close(*both) for name, values in pair.items() for both in zip(values, ours[key][name]))


def test_recurrent_layers_keep_their_names():
    model = numod.nn.Sequential(numod.nn.LSTM(3, 4))
    quantized = numod.ao.quantization.quantize_dynamic(model)
    pairs = suite(numod).compare_weights(model.state_dict(), quantized.state_dict())
    assert sorted(pairs) == ["0.weight_hh_l0", "0.weight_ih_l0"]
