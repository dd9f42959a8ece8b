"""The eager recipe side by side with PyTorch's: scales, zero points and texts are equal, outputs within one step."""

import numpy as np
import pytest

import numod
from ao_models import GROUPS, every_layer, load_from, recurrent

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]
torch = pytest.importorskip("torch")
BOTH = (torch, numod)


def stream(kind):
    random = np.random.default_rng(0)
    batches = {
        "normal": [random.standard_normal((4, 60)) * k for k in (1, 2, 0.5)],
        "zeros": [np.zeros((4, 8))],
        "one value": [np.full((4, 8), 3.7)],
        "zeros first": [np.zeros((4, 8)), random.standard_normal((4, 60))],
        "one value first": [np.full((4, 8), 3.7), random.standard_normal((4, 60))],
        "infinite": [np.array([[1, 2, np.inf, -3]] * 4)],
        "nan": [np.array([[1, 2, np.nan, -3]] * 4)],
        "denormal": [random.standard_normal((4, 8)) * 1e-41],
        "positive": [random.random((4, 500)) + 5, random.random((4, 500)) * 9],
        "heavy tails": [random.standard_cauchy((4, 2500))],
        "growing": [random.standard_normal((4, 600)) * (1 + k / 3) for k in range(6)],
    }
    return [batch.astype(np.float32) for batch in batches[kind]]


KINDS = [
    "normal", "zeros", "one value", "zeros first", "one value first", "infinite", "nan", "denormal", "positive",
    "heavy tails", "growing",
]  # fmt: skip
OBSERVERS = {
    "min max": lambda lib, o: o.MinMaxObserver(),
    "reduced": lambda lib, o: o.MinMaxObserver(reduce_range=True),
    "symmetric": lambda lib, o: o.MinMaxObserver(dtype=lib.qint8, qscheme=lib.per_tensor_symmetric),
    "symmetric unsigned": lambda lib, o: o.MinMaxObserver(qscheme=lib.per_tensor_symmetric),
    "symmetric of 100": lambda lib, o: o.MinMaxObserver(qscheme=lib.per_tensor_symmetric, quant_min=0, quant_max=100),
    "of 127": lambda lib, o: o.default_observer(),
    "32 bits": lambda lib, o: o.MinMaxObserver(dtype=lib.qint32),
    "moving": lambda lib, o: o.MovingAverageMinMaxObserver(),
    "channels": lambda lib, o: o.PerChannelMinMaxObserver(),
    "channels symmetric": lambda lib, o: o.default_per_channel_weight_observer(),
    "float zero points": lambda lib, o: o.default_float_qparams_observer(),
    "moving channels": lambda lib, o: o.MovingAveragePerChannelMinMaxObserver(),
    "histogram": lambda lib, o: o.HistogramObserver(),
    "histogram reduced": lambda lib, o: o.HistogramObserver(reduce_range=True),
    "histogram signed": lambda lib, o: o.HistogramObserver(dtype=lib.qint8, qscheme=lib.per_tensor_symmetric),
    "histogram of 127": lambda lib, o: o.default_histogram_observer(),
}


def parameters(lib, name, kind):
    observer = OBSERVERS[name](lib, lib.ao.quantization)
    try:
        for batch in stream(kind):
            observer(lib.from_numpy(batch.copy()))
        scale, zero_point = observer.calculate_qparams()
    except (RuntimeError, AssertionError) as error:
        return type(error)
    return str((scale.tolist(), zero_point.tolist(), scale.dtype, zero_point.dtype)).replace("numod.", "torch.")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OBSERVERS)
def test_observers(name, kind):
    assert parameters(torch, name, kind) == parameters(numod, name, kind)


ROUNDINGS = [
    "default_fake_quant", "default_weight_fake_quant", "default_dynamic_fake_quant", "default_histogram_fake_quant",
    "default_per_channel_weight_fake_quant", "default_fused_act_fake_quant", "default_fused_wt_fake_quant",
    "fused_wt_fake_quant_range_neg_127_to_127", "default_fixed_qparams_range_0to1_fake_quant",
    *[(backend, version, part) for backend in ("x86", "qnnpack", "onednn") for version in (0, 1) for part in (0, 1)],
]  # fmt: skip


SHAPES = {
    "empty": lambda lib: lib.zeros(0, 6),
    "no columns": lambda lib: lib.zeros(4, 0),
    "one number": lambda lib: lib.tensor(3.5),
    "vector": lambda lib: lib.arange(6) / 7,
    "transposed": lambda lib: (lib.arange(24) / 7 - 2).reshape(4, 6).t(),
    "four dimensions": lambda lib: (lib.arange(120) / 7 - 5).reshape(2, 3, 4, 5),
    "float64": lambda lib: (lib.arange(24) / 7 - 2).reshape(4, 6).double(),
    "float16": lambda lib: (lib.arange(24) / 7 - 2).reshape(4, 6).half(),
    "huge": lambda lib: (lib.arange(24) / 7 - 2).reshape(4, 6) * 1e38,
    "tiny": lambda lib: (lib.arange(24) / 7 - 2).reshape(4, 6) * 1e-30,
    "all nan": lambda lib: lib.full((2, 3), float("nan")),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", ["min max", "moving", "channels", "moving channels", "histogram", "rounding", "fused"])
def test_shapes_and_dtypes(name, shape):
    results = []
    for lib in BOTH:
        quantization = lib.ao.quantization
        others = {"rounding": quantization.FakeQuantize, "fused": quantization.default_fused_per_channel_wt_fake_quant}
        observer = others[name]() if name in others else OBSERVERS[name](lib, quantization)
        try:
            y = observer(SHAPES[shape](lib))
            numbers = [vector.tolist() for vector in observer.calculate_qparams()]
            results.append((y.double().numpy(), str(y.dtype).partition(".")[2], str(numbers)))
        except (RuntimeError, AssertionError, IndexError, NotImplementedError) as error:
            results.append(type(error))
    if isinstance(results[0], type):  # numod takes more dtypes in the fused rounding
        return
    theirs, ours = results
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-6)
    assert ours[1:] == theirs[1:]


@pytest.mark.parametrize("name", ROUNDINGS, ids=str)
def test_fake_quantize(name):
    results = []
    for lib in BOTH:
        quantization = lib.ao.quantization
        if isinstance(name, str):
            module = getattr(quantization.fake_quantize, name)()
        else:
            module = quantization.get_default_qat_qconfig(*name[:2])[name[2]]()
        outputs = [module(lib.from_numpy(batch)).numpy() for batch in stream("normal")]
        results.append((outputs, [tensor.numpy() for tensor in (module.scale, module.zero_point)], repr(module)))
    for theirs, ours in zip(results[0][0] + results[0][1], results[1][0] + results[1][1]):
        assert np.array_equal(theirs, ours)
    assert results[0][2] == results[1][2].replace("numod.", "torch.")


def lines(module):
    """The text without digits of floats, whose last ones depend on the order of sums."""
    import re

    return re.sub(r"\d+\.\d+(e-\d+)?", "#", repr(module).replace("numod.", "torch."))


@pytest.mark.parametrize("backend", ["x86", "fbgemm", "qnnpack", "onednn"])
def test_static_quantization(backend):
    x = np.random.default_rng(0).standard_normal((8, 1, 8, 8)).astype(np.float32)
    models = [every_layer(lib).eval() for lib in BOTH]
    load_from(torch, models[0], numod, models[1])
    prepared, converted, outputs = [], [], []
    for lib, model in zip(BOTH, models):
        quantization = lib.ao.quantization
        model.qconfig = quantization.get_default_qconfig(backend)
        prepared.append(quantization.prepare(quantization.fuse_modules(model, GROUPS)))
        for k in range(3):
            prepared[-1](lib.from_numpy(x * (1 + k)))
        converted.append(quantization.convert(prepared[-1]))
        outputs.append(converted[-1](lib.from_numpy(x)).numpy())
    assert lines(prepared[0]) == lines(prepared[1])
    ours, theirs = (lines(model).replace(", bias=False", "") for model in converted)
    assert ours == theirs
    for first, second in (prepared, converted):
        assert list(first.state_dict()) == list(second.state_dict())
    assert abs(outputs[0] - outputs[1]).max() <= 1.01 * converted[1].ff.scale
    assert np.array_equal(converted[0].conv.weight().int_repr().numpy(), converted[1].conv.weight().int_repr().numpy())
    fresh = numod.ao.quantization.convert(prepared[1])
    load_from(torch, converted[0], numod, fresh)
    assert abs(fresh(numod.from_numpy(x)).numpy() - outputs[0]).max() <= 1.01 * converted[1].ff.scale


def test_training():
    batches = np.random.default_rng(0).standard_normal((5, 8, 1, 8, 8)).astype(np.float32)
    models = [every_layer(lib).train() for lib in BOTH]
    load_from(torch, models[0], numod, models[1])
    losses, prepared, converted, outputs = [], [], [], []
    for lib, model in zip(BOTH, models):
        quantization = lib.ao.quantization
        model.qconfig = quantization.get_default_qat_qconfig("x86")
        model = quantization.prepare_qat(quantization.fuse_modules_qat(model, GROUPS))
        optimizer, seen = lib.optim.SGD(model.parameters(), lr=0.05), []
        for step, batch in enumerate(batches):
            if step == 3:
                model.apply(quantization.disable_observer)
                model.apply(lib.nn.intrinsic.qat.freeze_bn_stats)
            loss = model(lib.from_numpy(batch)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen.append(loss.item())
        losses.append(seen)
        prepared.append(model)
        converted.append(quantization.convert(model.eval()))
        outputs.append(converted[-1](lib.from_numpy(batches[0])).numpy())
    np.testing.assert_allclose(*losses, rtol=1e-5)
    assert lines(prepared[0]) == lines(prepared[1]) and list(prepared[0].state_dict()) == list(prepared[1].state_dict())
    assert lines(converted[0]) == lines(converted[1])
    assert abs(outputs[0] - outputs[1]).max() <= 1.01 * converted[1].ff.scale


@pytest.mark.parametrize("dtype", ["qint8", "float16"])
def test_dynamic_quantization(dtype):
    x = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
    models = [recurrent(lib) for lib in BOTH]
    load_from(torch, models[0], numod, models[1])
    quantized = [
        lib.ao.quantization.quantize_dynamic(model, dtype=getattr(lib, dtype)) for lib, model in zip(BOTH, models)
    ]
    assert lines(quantized[0]) == lines(quantized[1])
    results = [model.results(lib, lib.from_numpy(x)) for lib, model in zip(BOTH, quantized)]
    for theirs, ours in zip(*results):
        np.testing.assert_allclose(
            theirs.detach().numpy(), ours.detach().numpy(), atol=0.02 if dtype == "qint8" else 1e-3
        )
        assert np.median(abs(theirs.detach().numpy() - ours.detach().numpy())) < 1e-5


def test_embeddings():
    models = [recurrent(lib) for lib in BOTH]
    load_from(torch, models[0], numod, models[1])
    results = []
    for lib, model in zip(BOTH, models):
        kinds = {lib.nn.EmbeddingBag, lib.nn.Embedding}
        model = lib.ao.quantization.quantize_dynamic(model, kinds, dtype=lib.quint8)
        indices, offsets = lib.tensor([1, 2, 3, 4]), lib.tensor([0, 2])
        results.append((repr(model).replace("numod.", "torch."), model.table(indices), model.bag(indices, offsets)))
    assert results[0][0] == results[1][0]
    for theirs, ours in zip(results[0][1:], results[1][1:]):
        np.testing.assert_allclose(theirs.numpy(), ours.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("number", [0.3, -0.3, 5.0, -5.0, 0.0])
def test_arithmetic_with_numbers(number):
    x = np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32)
    results = []
    for lib in BOTH:
        q = lib.quantize_per_tensor(lib.from_numpy(x), 0.02, 100, lib.quint8)
        functional = lib.nn.quantized.QFunctional()
        sums = [functional.add_scalar(q, number)] + ([functional.mul_scalar(q, number)] if number else [])
        results.append(
            [(quantized.q_scale(), quantized.q_zero_point(), quantized.int_repr().tolist()) for quantized in sums]
        )
    for theirs, ours in zip(*results):
        assert theirs[0] == pytest.approx(ours[0], rel=1e-6) and theirs[1] == ours[1]
        assert np.abs(np.subtract(theirs[2], ours[2])).max() <= 1
