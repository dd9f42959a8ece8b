"""torchao's `quantize_`: results against float models, the choice of layers, and what is refused."""

import copy
import pickle
import subprocess
import sys

import pytest
from selection import diagonals

import numod as torch
from numod import nn
from numod.ao.quantization import (
    Int4WeightOnlyConfig,
    Int8DynamicActivationInt4WeightConfig,
    Int8DynamicActivationInt8WeightConfig,
    Int8WeightOnlyConfig,
    QuantWrapper,
    convert,
    default_qconfig,
    fastest,
    prepare,
    quantize_dynamic,
    quantize_,
    report,
)
from numod.ao.quantization.granularity import MappingType, TorchAODType
from numod.ao.quantization.qat import FakeQuantizedLinear, IntxFakeQuantizeConfig, QATConfig
from numod.ao.quantization.torchao import FqnToConfig, get_model_size_in_bytes

CONFIGS = {
    "int8": (Int8WeightOnlyConfig(), 0.02, 0.28),
    "int8 groups": (Int8WeightOnlyConfig(group_size=16), 0.02, 0.45),
    "dynamic": (Int8DynamicActivationInt8WeightConfig(), 0.05, 0.27),
    "int4": (Int4WeightOnlyConfig(group_size=32), 0.3, 0.25),
    "dynamic int4": (Int8DynamicActivationInt4WeightConfig(), 0.3, 0.25),
    "dynamic int4, with zero points": (
        Int8DynamicActivationInt4WeightConfig(16, MappingType.ASYMMETRIC, MappingType.SYMMETRIC),
        0.3,
        0.35,
    ),
}


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Sequential(nn.Linear(96, 32, bias=False)))


def bytes_of_weights(model):
    state = model.state_dict()
    return sum(value.nbytes for name, value in state.items() if not name.endswith("bias"))


@pytest.mark.parametrize("name", CONFIGS)
def test_layers_are_replaced_in_place(name):
    config, tolerance, share = CONFIGS[name]
    reference, model = network(), network()
    assert torch.ao.quantize_(model, config) is None
    for rows in (1, 9):
        x = torch.randn(rows, 64)
        assert (model(x) - reference(x)).abs().max() < tolerance
    assert bytes_of_weights(model) <= share * bytes_of_weights(reference)
    fresh = network()
    quantize_(fresh, config)
    with torch.no_grad():
        fresh[0].packed.zero_()
    fresh.load_state_dict(model.state_dict())
    assert fresh(x).equal(model(x))


@pytest.mark.parametrize("name", ["int8", "dynamic", "int4"])
def test_they_compile(name):
    model, x = network(), torch.randn(1, 64)
    quantize_(model, CONFIGS[name][0])
    assert torch.allclose(torch.compile(model, fullgraph=True)(x), model(x), atol=1e-5)


def test_inputs_of_packed_weights_have_gradients():
    model, x = network(), torch.randn(1, 64, requires_grad=True)
    quantize_(model, Int8WeightOnlyConfig())
    model(x).sum().backward()
    assert x.grad.abs().sum() > 0


def test_a_filter_chooses_by_path():
    model = network()
    quantize_(model, Int8WeightOnlyConfig(), lambda module, path: path == "2.0")
    assert type(model[0]) is nn.Linear and "bits=8" in repr(model[2][0])


def test_auto_keeps_floats_where_they_are_faster(monkeypatch):
    from numod.ao.quantization import measure, quant_api

    names = iter(["a", "b", "c"] * 2)
    seconds = {"a": 1.0, "b": 2.0, "c": 3.0}
    monkeypatch.setattr(quant_api, "seconds", lambda layer, x: seconds[next(names)])
    model = network()
    model.unused = nn.Linear(2, 2)
    model.forward = lambda x: model[2](model[1](model[0](x)))
    decisions = quantize_(model, "auto", torch.randn(4, 64))
    assert decisions["0"] == decisions["2.0"] == "float: int8 is not faster"
    assert "not called" in decisions["unused"] and type(model[0]) is nn.Linear
    assert copy.deepcopy(model.quantization_decisions) == decisions
    monkeypatch.setattr(quant_api, "seconds", lambda layer, x: 1.0 if type(layer) is nn.Linear else 0.5)
    monkeypatch.setattr(measure, "is_faster", lambda one, other: True)  # the whole model
    first, second = network(), network()
    decisions = quantize_(first, "auto", torch.randn(4, 64))
    assert decisions["0"] == "Int8DynamicActivationInt8WeightConfig"
    assert quantize_(second, "auto", decisions) == decisions and repr(second) == repr(first)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: quantize_(network(), "int8"), TypeError, "expected a config"),
        (lambda: quantize_(network(), Int8WeightOnlyConfig), TypeError, "expected a config"),
        (lambda: Int4WeightOnlyConfig(group_size=0), ValueError, "group_size must be positive and even, got 0"),
        (lambda: Int4WeightOnlyConfig(group_size=7), ValueError, "group_size must be positive and even, got 7"),
        (lambda: Int8WeightOnlyConfig(group_size=-4), ValueError, "group_size must be positive, got -4"),
        (lambda: Int8WeightOnlyConfig(group_size="32"), TypeError, "group_size must be int, not str"),
        (lambda: Int8WeightOnlyConfig(group_size=True), TypeError, "group_size must be int, not bool"),
        (lambda: Int8DynamicActivationInt4WeightConfig(mapping_type=None), ValueError, "mapping_type must be Mapping"),
        (lambda: quantize_(nn.Linear(4, 4), Int8WeightOnlyConfig()), ValueError, "wrap it in nn.Sequential"),
        (lambda: quantize_(network(), "auto"), TypeError, "data is an input"),
        (lambda: quantize_(network(), Int8WeightOnlyConfig(), lambda *_: True), TypeError, "got Sequential"),
        (
            lambda: quantize_(network(), FqnToConfig({"1": Int8WeightOnlyConfig()})),
            TypeError,
            "Linear layer .* got ReLU",
        ),
        (lambda: quantize_(network(), FqnToConfig({}), lambda *_: True), ValueError, "leave filter_fn out"),
        (lambda: quantize_(network(), Int8WeightOnlyConfig(), "0"), TypeError, "a function of .module, path., got str"),
        (lambda: quantize_(Int8WeightOnlyConfig(), network()), TypeError, "'auto', got Sequential$"),
        (lambda: quantize_dynamic(network(), nn.Linear), TypeError, "must be a set of layer classes or names"),
        (lambda: quantize_dynamic(network(), "0"), TypeError, "must be a set of layer classes or names"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", CONFIGS)
def test_training_rounds_as_the_converted_layers(name):
    config = CONFIGS[name][0]
    model, x = network(), torch.randn(9, 64)
    quantize_(model, QATConfig(config, step="prepare"))
    prepared = model(x)
    prepared.square().sum().backward()
    assert model[0].weight.grad.abs().max() > 0
    assert [type(layer).__name__ for layer in model.modules()].count("FakeQuantizedLinear") == 2
    quantize_(model, QATConfig(config, step="convert"))
    torch.testing.assert_close(model(x), prepared.detach(), rtol=1e-4, atol=1e-4)
    assert not any(isinstance(layer, FakeQuantizedLinear) for layer in model.modules())


def test_roundings_of_few_bits():
    x = torch.tensor([[-1.0, 0.25, 0.5, 1.0], [-2.0, 0.0, 1.0, 4.0]])
    four = IntxFakeQuantizeConfig(torch.int4, "per_token")
    scale = torch.tensor([[2 / 15], [8 / 15]])
    torch.testing.assert_close(four.round(x), (x / scale).round().clamp(-8, 7) * scale)
    two = IntxFakeQuantizeConfig(TorchAODType.INT2, group_size=2, is_symmetric=False)
    assert len(two.round(x).reshape(-1, 2)[0].unique()) == 2
    assert two.round(x).shape == x.shape
    table = nn.Sequential(nn.Embedding(10, 8))
    quantize_(table, QATConfig(weight_config=four), lambda module, path: isinstance(module, nn.Embedding))
    assert torch.equal(table(torch.tensor([3])), four.round(table[0].weight)[3:4])
    quantize_(table, QATConfig(step="convert"))
    assert type(table[0]) is nn.Embedding


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: QATConfig(), "Must specify"),
        (lambda: QATConfig(Int8WeightOnlyConfig(), step="train"), "must be one of"),
        (
            lambda: QATConfig(Int8WeightOnlyConfig(), weight_config=IntxFakeQuantizeConfig(torch.int8, "per_token")),
            "both",
        ),
        (
            lambda: QATConfig(weight_config=IntxFakeQuantizeConfig(torch.int8, "per_token"), step="convert"),
            "convert step",
        ),
        (lambda: QATConfig(IntxFakeQuantizeConfig(torch.int8, "per_token")), "was passed as"),
        (lambda: IntxFakeQuantizeConfig(torch.float32, "per_token"), "Unsupported dtype"),
        (lambda: IntxFakeQuantizeConfig(torch.int8), "granularity"),
        (lambda: IntxFakeQuantizeConfig(torch.int8, "per_token", group_size=3), "conflicts"),
        (lambda: IntxFakeQuantizeConfig(torch.int8, group_size=3).round(torch.ones(2, 4)), "must divide"),
    ],
)
def test_mistakes_in_training_configs(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("config", [Int8DynamicActivationInt4WeightConfig(8), QATConfig(Int4WeightOnlyConfig(8))])
def test_layers_that_groups_do_not_divide_stay_floats(config):
    model = nn.Sequential(nn.Linear(16, 12), nn.ReLU(), nn.Linear(12, 4))
    with pytest.warns(UserWarning, match="2 stays a float layer: group_size 8 does not divide its 12 input features"):
        quantize_(model, config)
    assert type(model[0]) is not nn.Linear and type(model[2]) is nn.Linear
    model(torch.randn(2, 16))


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_layers_without_weights_stay_floats():
    model = nn.Sequential(nn.Linear(0, 4), nn.Linear(4, 0))
    quantize_(model, Int8WeightOnlyConfig())
    assert [type(layer) for layer in model] == [nn.Linear] * 2
    with pytest.raises(ValueError, match="0: the layer has no weights to quantize"):
        quantize_(model, Int8WeightOnlyConfig(), lambda module, path: path == "0")


def test_rows_of_8_bits_times_weights_of_4():
    """By torchao's formulas: scales of weights are the largest value / 7.5, rows of activations have a zero point."""
    layer, x = nn.Linear(16, 3), torch.randn(5, 16)
    model = nn.Sequential(copy.deepcopy(layer))
    quantize_(model, Int8DynamicActivationInt4WeightConfig(group_size=8))
    groups = layer.weight.detach().reshape(3, 2, 8)
    scale = groups.abs().amax(2, keepdim=True) / 7.5
    weight = ((groups / scale).round().clamp(-8, 7) * scale).reshape(3, 16)
    low, high = x.amin(1, keepdim=True).clamp(max=0), x.amax(1, keepdim=True).clamp(min=0)
    step = (high - low) / 255
    zero = (-128 - low / step).round()
    rows = (((x / step).round() + zero).clamp(-128, 127) - zero) * step
    expected = rows @ weight.T + layer.bias
    for call in (model, torch.compile(model)):
        torch.testing.assert_close(call(x), expected)
        assert call(x[:0]).shape == (0, 3)
    assert (rows - x).abs().max() > 0
    x.requires_grad_()
    model(x).sum().backward()  # past the rounding
    torch.testing.assert_close(x.grad, weight.sum(0).expand(5, 16))
    torch.testing.assert_close(pickle.loads(pickle.dumps(model))(x), model(x), rtol=0, atol=0)


def test_bytes_of_a_model():
    tied = nn.Linear(8, 4)
    model = nn.Sequential(nn.Embedding(4, 8), tied, nn.Linear(4, 8, bias=False), tied)
    assert get_model_size_in_bytes(model) == 4 * (32 + 36 + 32)
    assert get_model_size_in_bytes(model, ignore_embeddings=True) == 4 * (36 + 32)
    quantize_(model, Int4WeightOnlyConfig(group_size=4))
    assert get_model_size_in_bytes(model, ignore_embeddings=True) == 16 * (1 + 1) + 4 * 4 + 2 * 8 * (4 + 4)


def test_a_config_for_each_path():
    model = network()
    quantize_(
        model, FqnToConfig({"0": Int8WeightOnlyConfig(), r"re:2\..*": None, "_default": Int4WeightOnlyConfig(32)})
    )
    assert [type(model[0]).__name__, type(model[2][0]).__name__] == ["WeightOnlyLinear", "Linear"]


def test_torchao_is_replaced_together_with_torch():
    code = """
import sys, numod
sys.modules["torch"] = numod
import torchao
from torchao.quantization import Int8WeightOnlyConfig, autoquant, int8_weight_only, quantize_
from torchao.quantization.qat import QATConfig
from torchao.quantization.granularity import PerRow
from torchao.quantization.utils import compute_error
from torchao.utils import get_model_size_in_bytes
from torchao.sparsity import apply_fake_sparsity, sparsify_
assert torchao.quantization.quantize_ is numod.ao.quantize_ and quantize_ is numod.ao.quantize_
assert torchao.quantization.qat.QATConfig is QATConfig
assert int8_weight_only() == Int8WeightOnlyConfig()
x = numod.ones(3)
assert round(compute_error(x, x * 1.1).item()) == 20
model = numod.nn.Sequential(numod.nn.Linear(8, 4), numod.nn.ReLU(), numod.nn.Linear(4, 4))
apply_fake_sparsity(model)
for layer in model[0], model[2]:
    assert ((layer.weight.reshape(-1, 4) == 0).sum(1) == 2).all()
assert get_model_size_in_bytes(model) == 4 * (32 + 4 + 16 + 4)
try:
    sparsify_(model, None)
except NotImplementedError as error:
    assert '"sparsity": True' in str(error)
try:
    autoquant(None)
except NotImplementedError as error:
    assert '"auto"' in str(error)
"""
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    "dtype, compiled",
    diagonals([torch.float64, torch.float16, torch.bfloat16], [False, True], 2, others=pytest.mark.fuzz),
)
def test_rows_of_activations_in_another_dtype(dtype, compiled):
    torch.manual_seed(0)
    model, x = network(), torch.randn(3, 64)
    quantize_(model, Int8DynamicActivationInt8WeightConfig())
    with torch.no_grad():
        expected = model(x)
        other = copy.deepcopy(model).to(dtype)
        result = (torch.compile(other) if compiled else other)(x.to(dtype))
    assert result.dtype is dtype
    torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("config", [config for config, *_ in CONFIGS.values()])
@pytest.mark.parametrize("strict", [True, False])
def test_a_float_checkpoint_says_what_to_do(config, strict):
    model = network()
    state = model.state_dict()
    quantize_(model, config)
    with pytest.raises(RuntimeError, match="0.weight is a float weight.*into the float model, then quantize that"):
        model.load_state_dict(state, strict=strict)


@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_a_float_checkpoint_of_linear_layers_says_what_to_do(dtype):
    model = nn.Sequential(nn.ReLU(), nn.Linear(4, 3))
    quantized = quantize_dynamic(model, {nn.Linear}, dtype=dtype)
    with pytest.raises(RuntimeError, match="1.weight is a float weight.*into the float model, then quantize that"):
        quantized.load_state_dict(model.state_dict())


def test_auto_leaves_running_statistics_and_modes_as_they_are(monkeypatch):
    from numod.ao.quantization import measure, quant_api

    monkeypatch.setattr(quant_api, "seconds", lambda layer, x: 1.0 if type(layer) is nn.Linear else 0.5)
    monkeypatch.setattr(measure, "is_faster", lambda one, other: bool(one().ndim and other().ndim))
    model = nn.Sequential(nn.Linear(64, 32), nn.BatchNorm1d(32), nn.Dropout(), nn.Linear(32, 4).eval())
    modes = [module.training for module in model.modules()]
    before, state = copy.deepcopy(model.state_dict()), torch.get_rng_state()
    x = torch.ones(2, 64)
    quantize_(model, "auto", x)
    assert type(model[0]) is not nn.Linear and [module.training for module in model.modules()] == modes
    assert all(before[name].equal(value) for name, value in model[1].state_dict(prefix="1.").items())
    assert torch.get_rng_state().equal(state)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"measure": "compile"}, TypeError, "expected a bool, a function"),
        ({"measure": None}, TypeError, "expected a bool, a function"),
        ({"measure": True, "is_reference": True}, ValueError, "compute in floats"),
    ],
)
def test_refused_measurements(parameters, error, message):
    with pytest.raises(error, match=message):
        convert(network(), **parameters)


@pytest.mark.parametrize(
    "name, dtype", diagonals(list(CONFIGS), [torch.bfloat16, torch.float16], 2, others=pytest.mark.fuzz)
)
def test_training_in_16_bits(name, dtype):
    config, x = CONFIGS[name][0], torch.randn(4, 64).to(dtype)
    model = network().to(dtype)
    quantize_(model, QATConfig(config, step="prepare"))
    prepared = model(x)
    prepared.float().square().mean().backward()
    assert prepared.dtype is dtype and model[0].weight.grad.dtype is dtype
    quantize_(model, QATConfig(config, step="convert"))
    assert (model(x) - prepared).abs().max() < 0.05


class ByName(nn.Module):
    """A layer called by name in a model called by name."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(8, 4)

    def forward(self, ids, *, mask):
        return {"logits": self.out(input=ids * mask)}


def quicker_integers(monkeypatch):
    """Integers are faster, layer by layer and together."""
    from numod.ao.quantization import measure, quant_api

    monkeypatch.setattr(quant_api, "seconds", lambda layer, x: 1.0 if type(layer) is nn.Linear else 0.5)
    monkeypatch.setattr(measure, "is_faster", lambda one, other: one() is not None)


def test_inputs_by_name(monkeypatch, capsys):
    quicker_integers(monkeypatch)
    model, ids, mask = ByName(), torch.randn(2, 8), torch.ones(8)
    before = model(ids, mask=mask)["logits"]
    decisions = quantize_(model, "auto", ids, kwargs={"mask": mask})
    assert decisions == {"out": "Int8DynamicActivationInt8WeightConfig"}
    assert (model(ids, mask=mask)["logits"] - before).abs().max() < 0.1
    assert fastest(ByName(), model, data=(), kwargs={"ids": ids, "mask": mask}) is model
    assert report(model, ids, kwargs={"mask": mask})[0].seconds > 0
    with pytest.raises(TypeError, match="got a dict of inputs; pass them as kwargs="):
        quantize_(ByName(), "auto", {"ids": ids, "mask": mask})


@pytest.mark.parametrize(
    ("decisions", "message"),
    [
        ({"9": "Int8WeightOnlyConfig"}, "for another model: this one has no module '9'"),
        ({"0": "Int7Config"}, "expected the decisions that an earlier call has kept .*, got 'Int7Config' for '0'"),
    ],
)
def test_decisions_that_do_not_fit(decisions, message):
    model = network()
    with pytest.raises(ValueError, match=message):
        quantize_(model, "auto", decisions)
    assert not hasattr(model, "quantization_decisions") and type(model[0]) is nn.Linear
    wrapped = QuantWrapper(network().eval())
    wrapped.qconfig = default_qconfig
    for wrong in ({"9": "int8"}, {"module.0": "Int8WeightOnlyConfig"}, {"module.0": None}):
        with pytest.raises(ValueError, match="another model|expected the decisions"):
            convert(prepare(wrapped), measure=wrong)


def test_a_shared_layer_stays_shared(monkeypatch):
    layer = nn.Linear(64, 64)
    for config in (Int8WeightOnlyConfig(), FqnToConfig({"0": Int8WeightOnlyConfig()})):
        model = nn.Sequential(layer, nn.ReLU(), nn.Sequential(layer))
        quantize_(model, config)
        assert type(model[0]).__name__ == "WeightOnlyLinear" and model[2][0] is model[0]
    quicker_integers(monkeypatch)
    model = nn.Sequential(layer, nn.ReLU(), layer)
    assert list(quantize_(model, "auto", torch.randn(2, 64))) == ["0"]
    assert type(model[0]).__name__ == "DynamicActivationLinear" and model[2] is model[0]


def test_a_shared_layer_may_be_named_by_any_of_its_paths():
    layer, config = nn.Linear(8, 8), Int8WeightOnlyConfig()
    for entries in ({"2": config}, {"2": config, "re:.*": None}, {"2": None, "_default": config}):
        model = nn.Sequential(layer, nn.ReLU(), layer)
        quantize_(model, FqnToConfig(entries))
        assert (type(model[2]) is nn.Linear) is (entries["2"] is None) and model[0] is model[2]


def test_a_failure_leaves_the_model_as_it_was(monkeypatch):
    model = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 50), nn.Linear(50, 4))
    with pytest.raises(TypeError, match="1: expected a float Linear layer to quantize, got ReLU"):
        quantize_(nn.Sequential(model[0], nn.ReLU()), Int8WeightOnlyConfig(), lambda module, path: path in ("0", "1"))
    assert type(model[0]) is nn.Linear
    quicker_integers(monkeypatch)

    def broken(model):
        raise OSError("no compiler")

    layers = list(model)
    with pytest.raises(OSError, match="no compiler"):
        quantize_(model, "auto", torch.randn(1, 64), run=broken)
    assert list(model) == layers and not hasattr(model, "quantization_decisions")


def test_floats_that_are_faster_keep_the_modules(monkeypatch):
    from numod.ao.quantization import measure

    quicker_integers(monkeypatch)
    monkeypatch.setattr(measure, "is_faster", lambda one, other: False)
    model = nn.Sequential(nn.Sequential(nn.Linear(4, 4)), nn.ReLU())
    inner, layer = model[0], model[0][0]
    quantize_(model, "auto", torch.randn(1, 4))
    assert model[0] is inner and inner[0] is layer


@pytest.mark.parametrize(
    ("make_input", "error", "message"),
    [
        (
            lambda: torch.ones(2, 64, dtype=torch.int64),
            RuntimeError,
            "expected scalar type Float but found Long; convert",
        ),
        (lambda: torch.ones(2, 64, dtype=torch.complex64), RuntimeError, "but found ComplexFloat"),
        (lambda: torch.ones(100, 63), RuntimeError, "expected 64 input features, got 63"),
        (lambda: torch.ones(()), RuntimeError, "expected 64 input features, got a scalar"),
        (lambda: None, TypeError, "argument 'input' must be Tensor, not NoneType"),
        (
            lambda: torch.quantize_per_tensor(torch.ones(2, 64), 0.1, 0, torch.quint8),
            NotImplementedError,
            "takes floats and quantizes them itself; call dequantize",
        ),
    ],
)
def test_inputs_that_layers_refuse(make_input, error, message):
    for config, *_ in CONFIGS.values():
        model = network()
        quantize_(model, config)
        with pytest.raises(error, match=message):
            model(make_input())
    for dtype in (torch.qint8, torch.float16):
        with pytest.raises(error, match=message):
            quantize_dynamic(network(), {nn.Linear}, dtype=dtype)(make_input())


def test_float16_weights_take_all_floats():
    model, x = network(), torch.randn(2, 64)
    half = quantize_dynamic(model, {nn.Linear}, dtype=torch.float16)
    for dtype in (torch.float64, torch.float16):
        result = half(x.to(dtype))
        assert result.dtype is dtype and (result.float() - model(x)).abs().max() < 0.01


def test_a_static_weight_must_be_quantized():
    with pytest.raises(NotImplementedError, match="the weight must be quantized, got numod.float32"):
        nn.quantized.Linear(4, 3).set_weight_bias(torch.ones(3, 4), None)
