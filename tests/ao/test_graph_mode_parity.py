"""Graph mode side by side with PyTorch's: scales and zero points of all observers, names, and outputs."""

import importlib

import numpy as np
import pytest

import numod
from ao_models import functional, load_from

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
DATA = np.random.default_rng(0).standard_normal((3, 8, 1, 8, 8)).astype(np.float32)


def mlp(lib):
    nn = lib.nn
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))


def run(lib, model, mapping, is_qat):
    """(observed scales and zero points, the converted model, its first output)."""
    fx = importlib.import_module(f"{lib.__name__}.ao.quantization.quantize_fx")
    prepare = fx.prepare_qat_fx if is_qat else fx.prepare_fx
    prepared = prepare(model, mapping, (lib.from_numpy(DATA[0]),))
    for batch in DATA:
        prepared(lib.from_numpy(batch))
    observers = {
        name: [tensor.numpy().ravel() for tensor in observer.calculate_qparams()]
        for name, observer in prepared.named_modules(remove_duplicate=False)
        if name.startswith("activation_post_process") and "." not in name
    }
    converted = fx.convert_fx(prepared.eval())
    result = converted(lib.from_numpy(DATA[0]))
    return observers, converted, (result[0] if isinstance(result, tuple) else result).detach().numpy()


def mappings(kind):
    result = []
    for lib in (torch, numod):
        module = importlib.import_module(f"{lib.__name__}.ao.quantization.qconfig_mapping")
        if kind == "qat":
            result.append(module.get_default_qat_qconfig_mapping("x86"))
        else:
            result.append(module.get_default_qconfig_mapping(kind))
    return result


@pytest.mark.parametrize(
    ("build", "kind"),
    [(functional, "x86"), (functional, "qnnpack"), (functional, "qat"), (mlp, "x86")],
)
def test_scales_names_and_outputs(build, kind):
    models = [build(lib).train(kind == "qat") for lib in (torch, numod)]
    load_from(torch, models[0], numod, models[1])
    theirs, ours = (run(*arguments, kind == "qat") for arguments in zip((torch, numod), models, mappings(kind)))
    assert theirs[0].keys() == ours[0].keys()
    for name, (scale, zero_point) in theirs[0].items():
        assert np.allclose(scale, ours[0][name][0], rtol=1e-5) and np.array_equal(zero_point, ours[0][name][1]), name
    names = [{name for name in model.state_dict() if "scale" in name} for _, model, _ in (theirs, ours)]
    assert names[0] == names[1]
    steps = abs(theirs[2]).max() / 127
    assert abs(theirs[2] - ours[2]).max() <= 1.01 * steps
