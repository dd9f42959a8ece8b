"""Equalization in graph mode: weights, inputs and scales beside the formula and PyTorch."""

import copy
import importlib

import pytest

import numod
import numod.nn.functional as F
from numod.ao.ns.fx.utils import compute_sqnr
from numod.ao.quantization import quantize_fx
from numod.ao.quantization.fx import _equalize as equalization

EVERYTHING = {"": equalization.default_equalization_qconfig}
RANGES = [0.01, 1.0, 10.0]


def network(lib):
    F = lib.nn.functional

    class Network(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.relu = lib.nn.Conv2d(3, 4, 3), lib.nn.ReLU()
            self.pointwise, self.fc = lib.nn.Conv2d(4, 4, 1, bias=False), lib.nn.Linear(64, 6)
            self.register_buffer("weight", lib.linspace(-1, 1, 30).reshape(5, 6))
            self.second, self.bias = lib.nn.Parameter(lib.ones(3, 5)), lib.nn.Parameter(lib.ones(5))

        def forward(self, x):
            x = lib.sigmoid(self.pointwise(self.relu(self.conv(x)))).flatten(1)
            x = F.relu(F.linear(F.relu(self.fc(x)), self.weight, self.bias))
            return F.linear(x, self.second) if lib is numod else x  # PyTorch cannot scale a parameter

    return Network().eval()


def mapping_of(q):
    observer = q.MinMaxObserver.with_args(quant_min=0, quant_max=255)
    return q.QConfigMapping().set_global(q.QConfig(observer, q.default_weight_observer))


def pair(model, x, config):
    prepared = quantize_fx.prepare_fx(model, mapping_of(numod.ao.quantization), (x,), _equalization_config=config)
    for values in zip(*(r if isinstance(r, tuple) else (r,) for r in (prepared(x), model(x)))):
        assert numod.equal(*values)
    return prepared, quantize_fx.convert_fx(prepared)


def inputs(rows=16):
    x = numod.randn(rows, 3, 6, 6, generator=numod.Generator().manual_seed(0))
    return x * numod.tensor(RANGES).reshape(1, 3, 1, 1)


def test_the_network_computes_the_same():
    model, x = network(numod), inputs()
    with numod.no_grad():
        prepared, quantized = pair(model, x, EVERYTHING)
        assert compute_sqnr(model(x), quantized(x)) > 25
        assert compute_sqnr(model(x), quantize_fx.convert_to_reference_fx(prepared)(x)) > 25
    scaled = [name.partition("_equalization")[0] for name in quantized.state_dict() if "equalization" in name]
    assert scaled == ["conv", "fc"]  # the others' inputs are scaled by the weights before them
    assert not any("equal" in name for name, _ in quantized.named_modules())


def test_columns_have_the_range_of_the_channels():
    model, x = network(numod), inputs()
    _, quantized = pair(model, x, {"module_name": [("conv", equalization.default_equalization_qconfig)]})
    weight = model.conv.weight.detach().transpose(0, 1).flatten(1)
    channels = x.transpose(0, 1).flatten(1)
    scale = ((weight.amax(1) - weight.amin(1)) / (channels.amax(1) - channels.amin(1))).sqrt()
    assert numod.allclose(quantized.conv_equalization_scale_0.flatten(), scale)
    expected = model.conv.weight / scale.reshape(1, 3, 1, 1)
    assert (quantized.conv.weight().dequantize() - expected).abs().max() <= quantized.conv.weight().q_scale() / 2 + 1e-6
    low, high = (x * scale.reshape(1, 3, 1, 1)).aminmax()
    assert quantized.conv_input_scale_0.item() == pytest.approx(((high - low) / 255).item())


def test_small_channels_beside_large_ones():
    """Without equalization their weights matter and their integers are all equal."""
    model, x = numod.nn.Sequential(numod.nn.Linear(3, 3, bias=False)).eval(), numod.tensor(RANGES) * numod.randn(64, 3)
    with numod.no_grad():
        model[0].weight.copy_(numod.diag(1 / numod.tensor(RANGES)))
        plain, equalized = (compute_sqnr(model(x), pair(model, x, config)[1](x)) for config in (None, EVERYTHING))
    assert plain < 15 and equalized > 30


def test_what_is_not_equalized():
    class Network(numod.nn.Module):
        def __init__(self):
            super().__init__()
            self.grouped, self.twice = numod.nn.Conv2d(4, 4, 1, groups=2), numod.nn.Conv2d(4, 4, 1)
            self.left, self.right = numod.nn.Conv2d(4, 4, 1), numod.nn.Conv2d(4, 4, 1)

        def forward(self, x):
            x = self.twice(self.twice(self.grouped(x)))
            return self.left(x) + self.right(x)

    model, x = Network().eval(), numod.randn(2, 4, 3, 3)
    prepared, quantized = pair(model, x, EVERYTHING)
    assert not any(name.endswith("equalization_process_0") for name, _ in prepared.named_modules())
    with numod.no_grad():
        assert compute_sqnr(model(x), quantized(x)) > 20


class Code(numod.nn.Module):
    """Two layers, two parameters, and the code between them. Ranges of results of the first layer differ."""

    def __init__(self, code):
        super().__init__()
        numod.manual_seed(0)
        self.a, self.b, self.code = numod.nn.Linear(8, 8), numod.nn.Linear(8, 8), code
        self.relu, self.table = numod.nn.ReLU(), numod.nn.Embedding(8, 8)
        self.weight, self.bias = numod.nn.Parameter(numod.randn(8, 8)), numod.nn.Parameter(numod.randn(8))
        rows = numod.logspace(-2, 1, 8)[:, None]
        self.scaled = numod.nn.Parameter(numod.randn(8, 8) * rows)
        with numod.no_grad():
            self.a.weight.mul_(rows)

    def forward(self, x):
        return self.code(self, x)


CODES = {
    "a result that is returned": lambda m, x: (lambda y: (m.b(y), y))(m.a(x)),
    "a result of a fused ReLU that is used twice": lambda m, x: (lambda y: m.b(y) + y)(m.relu(m.a(x))),
    "the last dimension of three": lambda m, x: m.b(m.a(x.reshape(-1, 8, 8))),
    "three dimensions, another number of rows": lambda m, x: m.b(m.a(x.reshape(-1, 4, 8))),
    "one bias of two products": lambda m, x: F.linear(F.linear(x, m.scaled, m.bias), m.weight, m.bias),
    "the weight of a table": lambda m, x: F.linear(m.a(m.table(x.abs().argmax(1))), m.table.weight),
    "the weight of a layer": lambda m, x: F.linear(m.b(m.a(x)), m.a.weight.t()),
    "the dtype of a layer": lambda m, x: m.b(m.a(x.to(m.a.weight.dtype))),
}


@pytest.mark.parametrize("code", CODES.values(), ids=list(CODES))
@pytest.mark.parametrize("config", [None, EVERYTHING], ids=["as it is", "equalized"])
def test_values_that_several_calls_take(code, config):
    x = numod.randn(64, 8, generator=numod.Generator().manual_seed(1)) * numod.logspace(-2, 1, 8)
    model = Code(code).eval()
    with numod.no_grad():
        prepared, quantized = pair(model, x, config)
        expected, result = model(x), quantized(x)
        for pair_of in zip(expected, result) if isinstance(expected, tuple) else [(expected, result)]:
            assert compute_sqnr(*pair_of) > 22


def test_an_empty_config_equalizes_nothing():
    model, x = network(numod), inputs()
    prepared, quantized = pair(model, x, {"": equalization.EqualizationQConfig()})
    assert not prepared._equalized
    assert numod.equal(quantized(x), pair(model, x, None)[1](x))


def test_copies_and_compiled():
    model, x = network(numod), inputs()
    prepared, quantized = pair(model, x, EVERYTHING)
    again = quantize_fx.convert_fx(copy.deepcopy(prepared))
    assert numod.equal(again(x), quantized(x)) and numod.equal(numod.compile(quantized)(x), quantized(x))
    again.load_state_dict(quantized.state_dict())


def test_layers_with_the_largest_errors():
    model, x = network(numod), inputs()
    with numod.no_grad():
        prepared, quantized = pair(model, x, None)
        ratios = equalization.get_layer_sqnr_dict(prepared, quantized, x)
    chosen = equalization.get_equalization_qconfig_dict({"a": 30.0, "b": 10.0, "c": 20.0}, 2)
    assert set(ratios) >= {"conv", "pointwise", "fc"} and [name for name, _ in chosen["module_name"]] == ["b", "c"]


def test_mistakes():
    with pytest.raises(ValueError, match="observer instance"):
        equalization.EqualizationQConfig(numod.nn.Identity(), numod.nn.Identity)
    observers = [kind() for kind in equalization.default_equalization_qconfig]
    with pytest.warns(UserWarning, match="Must run observer"):
        assert equalization.calculate_equalization_scale(*observers) == 1
    for observer, columns in zip(observers, (2, 3)):
        observer(numod.ones(2, columns))
    with pytest.raises(ValueError, match="same column dimension"):
        equalization.calculate_equalization_scale(*observers)
    with pytest.raises(ValueError, match="Linear and Conv"):
        observers[0](numod.ones(2))


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_weights_beside_pytorch():
    torch = pytest.importorskip("torch")
    state, x, scales = {key: value.numpy() for key, value in network(torch).state_dict().items()}, inputs().numpy(), []
    for lib in (torch, numod):
        model = network(lib)
        model.load_state_dict({key: lib.tensor(value) for key, value in state.items()})
        fx, names = (
            importlib.import_module(f"{lib.__name__}.ao.quantization.{name}")
            for name in ("quantize_fx", "fx._equalize")
        )
        config = {"": names.default_equalization_qconfig}
        prepared = fx.prepare_fx(model, mapping_of(lib.ao.quantization), (lib.tensor(x),), _equalization_config=config)
        prepared(lib.tensor(x))
        quantized = fx.convert_fx(prepared)
        scales.append([quantized.get_submodule(name).weight().q_scale() for name in ("conv", "pointwise")])
    assert scales[1] == pytest.approx(scales[0], rel=1e-5)
