"""Typical mistakes in quantization beside PyTorch's: errors of the same type (or a subclass), and none where it has none."""

from importlib import import_module

import pytest

import numod

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
for _name in ("torch", "numod"):
    import_module(f"{_name}.ao.quantization.quantize_fx")


def q(lib, *shape):
    return lib.quantize_per_tensor(lib.ones(shape or (2, 3)), 0.1, 0, lib.quint8)


def weight(lib, *shape):
    return lib.quantize_per_tensor(lib.ones(shape), 0.1, 0, lib.qint8)


def channels(lib):
    zero_points = lib.zeros(2, dtype=lib.int32)
    return lib.quantize_per_channel(lib.ones(2, 3), lib.ones(2), zero_points, 0, lib.qint8)


MISTAKES = {
    "zp too high": lambda lib: lib.quantize_per_tensor(lib.randn(2), 0.1, 300, lib.quint8),
    "zp low": lambda lib: lib.quantize_per_tensor(lib.randn(2), 0.1, -1, lib.quint8),
    "float64": lambda lib: lib.quantize_per_tensor(lib.randn(2).double(), 0.1, 0, lib.quint8),
    "int": lambda lib: lib.quantize_per_tensor(lib.ones(2, dtype=lib.int32), 0.1, 0, lib.quint8),
    "dtype float": lambda lib: lib.quantize_per_tensor(lib.randn(2), 0.1, 0, lib.float32),
    "dtype int8": lambda lib: lib.quantize_per_tensor(lib.randn(2), 0.1, 0, lib.int8),
    "requantize": lambda lib: lib.quantize_per_tensor(
        lib.quantize_per_tensor(lib.randn(2), 0.1, 0, lib.quint8), 0.1, 0, lib.quint8
    ),
    "chan len": lambda lib: lib.quantize_per_channel(lib.randn(2, 3), lib.ones(3), lib.zeros(3), 0, lib.qint8),
    "chan axis": lambda lib: lib.quantize_per_channel(lib.randn(2, 3), lib.ones(2), lib.zeros(2), 2, lib.qint8),
    "chan zp len": lambda lib: lib.quantize_per_channel(lib.randn(2, 3), lib.ones(2), lib.zeros(3), 0, lib.qint8),
    "q + q": lambda lib: q(lib) + q(lib),
    "q * 2": lambda lib: q(lib) * 2,
    "q @ q": lambda lib: q(lib) @ q(lib).t(),
    "q.float": lambda lib: q(lib).float(),
    "q.to": lambda lib: q(lib).to(lib.float32),
    "q.numpy": lambda lib: q(lib).numpy(),
    "q.exp": lambda lib: q(lib).exp(),
    "q.sum": lambda lib: q(lib).sum(),
    "scale of float": lambda lib: lib.randn(2).q_scale(),
    "int_repr of float": lambda lib: lib.randn(2).int_repr(),
    "per channel scale": lambda lib: q(lib).q_per_channel_scales(),
    "scale of channel": lambda lib: channels(lib).q_scale(),
    "q requires grad": lambda lib: q(lib).requires_grad_(),
    "linear float in": lambda lib: lib.ao.nn.quantized.Linear(3, 4)(lib.randn(2, 3)),
    "conv float in": lambda lib: lib.ao.nn.quantized.Conv2d(3, 4, 3)(lib.randn(2, 3, 5, 5)),
    "conv rank": lambda lib: lib.ao.nn.quantized.Conv2d(3, 4, 3)(q(lib)),
    "linear q into float": lambda lib: lib.nn.Linear(3, 4)(q(lib)),
    "linear wrong width": lambda lib: lib.ao.nn.quantized.Linear(5, 4)(q(lib)),
    "dyn wrong width": lambda lib: lib.ao.nn.quantized.dynamic.Linear(5, 4)(lib.randn(2, 3)),
    "qconfig instance": lambda lib: lib.ao.quantization.QConfig(
        lib.ao.quantization.MinMaxObserver(), lib.ao.quantization.MinMaxObserver()
    ),
    "backend": lambda lib: lib.ao.quantization.get_default_qconfig("cuda"),
    "version": lambda lib: lib.ao.quantization.get_default_qconfig("x86", 3),
    "qat backend": lambda lib: lib.ao.quantization.get_default_qat_qconfig("tpu"),
    "qat eval": lambda lib: lib.ao.quantization.prepare_qat(lib.nn.Sequential(lib.nn.Linear(2, 2)).eval()),
    "fuse unknown": lambda lib: lib.ao.quantization.fuse_modules(
        lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.Sigmoid()).eval(), [["0", "1"]]
    ),
    "fuse missing": lambda lib: lib.ao.quantization.fuse_modules(
        lib.nn.Sequential(lib.nn.Linear(2, 2)).eval(), [["0", "relu"]]
    ),
    "fuse train": lambda lib: lib.ao.quantization.fuse_modules(
        lib.nn.Sequential(lib.nn.Conv2d(2, 2, 1), lib.nn.BatchNorm2d(2)).train(), [["0", "1"]]
    ),
    "fuse qat eval": lambda lib: lib.ao.quantization.fuse_modules_qat(
        lib.nn.Sequential(lib.nn.Conv2d(2, 2, 1), lib.nn.BatchNorm2d(2)).eval(), [["0", "1"]]
    ),
    "fuse mixed": lambda lib: lib.ao.quantization.fuse_modules(
        lib.nn.Sequential(lib.nn.Conv2d(2, 2, 1).train(), lib.nn.BatchNorm2d(2).eval()), [["0", "1"]]
    ),
    "dyn dtype": lambda lib: lib.ao.quantization.quantize_dynamic(
        lib.nn.Sequential(lib.nn.Linear(2, 2)), dtype=lib.float32
    ),
    "dyn spec dtype": lambda lib: lib.ao.quantization.quantize_dynamic(
        lib.nn.Sequential(lib.nn.Linear(2, 2)), {lib.nn.Linear}, dtype=lib.qint32
    ),
    "observer scheme": lambda lib: lib.ao.quantization.MinMaxObserver(qscheme=lib.per_channel_affine),
    "observer dtype": lambda lib: lib.ao.quantization.MinMaxObserver(dtype=lib.float32),
    "observer range": lambda lib: lib.ao.quantization.MinMaxObserver(quant_min=5, quant_max=10),
    "observer range2": lambda lib: lib.ao.quantization.MinMaxObserver(quant_min=0, quant_max=0),
    "observer quant range big": lambda lib: lib.ao.quantization.MinMaxObserver(quant_min=0, quant_max=1000)(
        lib.randn(2)
    ),
    "fq quant range": lambda lib: lib.ao.quantization.FakeQuantize(quant_min=-300, quant_max=255),
    "fq order": lambda lib: lib.ao.quantization.FakeQuantize(quant_min=5, quant_max=1),
    "calc of noop": lambda lib: lib.ao.quantization.NoopObserver().calculate_qparams(),
    "calc of placeholder": lambda lib: lib.ao.quantization.PlaceholderObserver().calculate_qparams(),
    "recording": lambda lib: lib.ao.quantization.RecordingObserver().calculate_qparams(),
    "convert fx of float": lambda lib: lib.ao.quantization.quantize_fx.convert_fx(lib.nn.Linear(2, 2)),
    "mapping type": lambda lib: lib.ao.quantization.quantize_fx.prepare_fx(
        lib.nn.Sequential(lib.nn.Linear(2, 2)).eval(), 3, (lib.randn(1, 2),)
    ),
    "fake quant zp": lambda lib: lib.fake_quantize_per_tensor_affine(lib.randn(2), 0.1, 300, 0, 255),
    "fake quant order": lambda lib: lib.fake_quantize_per_tensor_affine(lib.randn(2), 0.1, 0, 5, 1),
    "fake quant chan": lambda lib: lib.fake_quantize_per_channel_affine(
        lib.randn(2, 3), lib.ones(3), lib.zeros(3, dtype=lib.int32), 0, 0, 255
    ),
    "fake quant chan zp dtype": lambda lib: lib.fake_quantize_per_channel_affine(
        lib.randn(2, 3), lib.ones(2), lib.zeros(2, dtype=lib.int64), 0, 0, 255
    ),
    "float functional": lambda lib: lib.ao.nn.quantized.FloatFunctional()(lib.randn(2)),
    "qfunctional": lambda lib: lib.ao.nn.quantized.QFunctional()(lib.randn(2)),
    "qfunctional float": lambda lib: lib.ao.nn.quantized.QFunctional().add(lib.randn(2), lib.randn(2)),
    "qfunctional from": lambda lib: lib.ao.nn.quantized.QFunctional.from_float(lib.nn.ReLU()),
    "load q into float": lambda lib: lib.nn.Linear(2, 2).load_state_dict(lib.ao.nn.quantized.Linear(2, 2).state_dict()),
    "engine": lambda lib: setattr(lib.backends.quantized, "engine", "foo"),
    "padding mode": lambda lib: lib.ao.nn.quantized.functional.conv2d(
        q(lib, 1, 2, 5, 5), weight(lib, 2, 2, 1, 1), None, padding_mode="reflect"
    ),
    "conv unsupported pad": lambda lib: lib.ao.nn.quantized.Conv1d(2, 2, 1, padding_mode="foo"),
    "embedding dtype": lambda lib: lib.ao.nn.quantized.Embedding(3, 4, dtype=lib.qint8),
    "embedding _weight": lambda lib: lib.ao.nn.quantized.Embedding(3, 4, _weight=lib.randn(2, 2)),
    "qat no qconfig": lambda lib: lib.ao.nn.qat.Linear(2, 2),
    "qat from float": lambda lib: lib.ao.nn.qat.Linear.from_float(lib.nn.Linear(2, 2)),
    "from_float no qconfig": lambda lib: lib.ao.nn.quantized.Linear.from_float(lib.nn.Linear(2, 2)),
    "from_float wrong": lambda lib: lib.ao.nn.quantized.Linear.from_float(lib.nn.ReLU()),
    "dyn from_float wrong": lambda lib: lib.ao.nn.quantized.dynamic.Linear.from_float(lib.nn.ReLU()),
    "dyn from_float no qconfig": lambda lib: lib.ao.nn.quantized.dynamic.Linear.from_float(lib.nn.Linear(2, 2)),
    "cat mixed": lambda lib: lib.cat([q(lib), lib.randn(2, 3)]),
    "copy dtype": lambda lib: q(lib).copy_(lib.quantize_per_tensor(lib.randn(2, 3), 0.1, 0, lib.qint8)),
    "dynamic dtype": lambda lib: lib.quantize_per_tensor_dynamic(lib.randn(2), lib.qint32, False),
    "inplace add": lambda lib: q(lib).add_(1),
    "q mean dtype": lambda lib: q(lib).mean(dtype=lib.float32),
    "q relu inplace": lambda lib: lib.nn.functional.relu(channels(lib)),
    "nnqf float": lambda lib: lib.ao.nn.quantized.functional.max_pool2d(lib.randn(1, 1, 4, 4), 2),
    "nnqf linear float": lambda lib: lib.ao.nn.quantized.functional.linear(lib.randn(2, 3), weight(lib, 4, 3)),
    "get static class": lambda lib: lib.ao.quantization.get_static_quant_module_class(lib.nn.Tanh),
    "get dyn class": lambda lib: lib.ao.quantization.get_dynamic_quant_module_class(lib.nn.Tanh),
    "empty affine": lambda lib: lib._empty_affine_quantized([2], scale=0.1, zero_point=0, dtype=lib.float32),
}


def error_of(call, lib):
    try:
        call(lib)
    except Exception as error:
        return type(error)
    return None


@pytest.mark.parametrize("name", MISTAKES)
def test_errors_have_pytorchs_types(name):
    theirs, ours = error_of(MISTAKES[name], torch), error_of(MISTAKES[name], numod)
    assert ours is theirs or (theirs is not None and issubclass(ours, theirs))
