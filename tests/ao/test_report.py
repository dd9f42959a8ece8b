"""The report of a quantized model: what its rows say."""

import copy
import math
import pickle

import pytest

import numod as torch
from ao_models import GROUPS, every_layer
from numod import nn
from numod.ao import quantization
from numod.ao.ns import _numeric_suite

pytestmark = pytest.mark.filterwarnings("ignore:Please use quant_min", "ignore:must run observer")


def test_each_layer_has_a_row(capsys):
    torch.manual_seed(0)
    model, x = every_layer(torch).eval(), torch.randn(8, 1, 8, 8)
    model.qconfig = quantization.get_default_qconfig("onednn")
    fused = quantization.fuse_modules(model, GROUPS)
    prepared = quantization.prepare(fused)
    prepared(x)
    rows = {row.path: row for row in quantization.report(quantization.convert(prepared), x, fused)}
    assert rows["conv"].kind == "QuantizedConvReLU2d" and rows["conv"].dtype == "qint8"
    assert rows["conv"].sqnr > 20 and rows["conv"].seconds > 0
    assert rows["fc"].nbytes == 4 * 3 + 3 * 4 + 4 + 8  # weight, bias, scale, zero point
    assert rows["hardswish"].note == "not called" and rows["hardswish"].seconds is None
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].split()[:3] == ["layer", "kind", "weights"] and len(printed) == len(rows) + 1


def test_observers_without_data_are_named(capsys):
    model = every_layer(torch).eval()
    model.qconfig = quantization.default_qconfig
    prepared = quantization.prepare(model)
    prepared(torch.randn(2, 1, 8, 8))
    rows = {row.path: row for row in quantization.report(prepared, torch.randn(2, 1, 8, 8))}
    assert "observer has seen no data" in rows["elu"].note and rows["conv"].note == ""
    assert math.isclose(rows["conv"].nbytes, 4 * 40, abs_tol=40)


def test_layers_left_in_float_state_the_reason(capsys, monkeypatch):
    monkeypatch.setattr(quantization.quant_api, "seconds", lambda layer, x: 1.0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 4))
    quantization.quantize_(model, "auto", torch.ones(1, 4))
    assert quantization.report(model, torch.ones(1, 4))[0].note == "float: int8 is not faster"


def _small():
    model = torch.nn.Sequential(
        quantization.QuantStub(), torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.AdaptiveAvgPool2d(1),
        torch.nn.Flatten(), torch.nn.Linear(4, 3), quantization.DeQuantStub(),
    ).eval()  # fmt: skip
    model.qconfig = quantization.get_default_qconfig("onednn")
    return model


@pytest.mark.filterwarnings("ignore:must run observer")
def test_convert_keeps_floats_where_they_are_faster(capsys, monkeypatch):
    def seconds(layer, x):
        assert x.shape in ((8, 1, 8, 8), (8, 4)) and x.is_quantized
        return 2.0 if isinstance(layer, torch.nn.quantized.Conv2d) else 1.0 if hasattr(layer, "layer") else 0.5

    torch.manual_seed(0)
    monkeypatch.setattr(quantization.measure, "seconds", seconds)
    x = torch.randn(8, 1, 8, 8)
    prepared = quantization.prepare(_small())
    prepared(x)
    models = []

    def is_faster(one, other):  # the mixed model is faster than floats, and all integers are slower
        models.append([one.func, other.func])
        return len(models) == 1

    monkeypatch.setattr(quantization.measure, "is_faster", is_faster)
    quantized = quantization.convert(prepared, measure=True)
    assert quantized.quantization_decisions == {"1": "float: int8 is not faster", "4": "int8", "": "int8"}
    (mixed, floats), (full, fastest) = models
    assert fastest is mixed and type(full[1]) is torch.nn.quantized.Conv2d and type(floats[1]) is torch.nn.Conv2d
    assert not any("observer" in type(layer).__name__.lower() for layer in floats.modules())
    assert type(quantized[1].layer) is torch.nn.Conv2d and not quantized[1].layer._forward_hooks
    assert (quantized(x) - quantization.convert(prepared)(x)).abs().max() < 0.1
    notes = {row.path: row.note for row in quantization.report(quantized, x)}
    assert notes["1.layer"] == "float: int8 is not faster"
    fresh = quantization.convert(quantization.prepare(_small()), measure=quantized.quantization_decisions)
    fresh.load_state_dict(quantized.state_dict())
    assert fresh(x).equal(quantized(x))


@pytest.mark.filterwarnings("ignore:must run observer")
@pytest.mark.parametrize("answers", [[False, False], [True, True]])
def test_the_whole_model_decides(answers, monkeypatch):
    """Floats win, or all integers; compiled, with the first input of calibration."""
    seconds = {torch.nn.quantized.Conv2d: 2.0, torch.nn.quantized.Linear: 0.5}
    monkeypatch.setattr(quantization.measure, "seconds", lambda layer, x: seconds.get(type(layer), 1.0))
    x, made, left = torch.randn(8, 1, 8, 8), [], list(answers)

    def run(model):
        assert not model._forward_pre_hooks and not any(hasattr(layer, "qconfig") for layer in model.modules())
        made.append(model)
        return lambda *inputs: model(*inputs) if inputs[0].equal(x) else pytest.fail("another input")

    def is_faster(one, other):
        one(), other()
        return left.pop(0)

    monkeypatch.setattr(quantization.measure, "is_faster", is_faster)
    model = _small()
    prepared = quantization.prepare(model)
    prepared(x), prepared(x + 1)
    quantized = quantization.convert(prepared, measure=run)
    decisions, slower = quantized.quantization_decisions, "float: the whole model is not faster as int8"
    assert len(made) == 3 and "_calibration_call" not in vars(quantized) and not quantized._forward_pre_hooks
    if answers[0]:
        assert decisions == {"1": "int8", "4": "int8", "": "int8"}
        assert quantized(x).equal(quantization.convert(prepared)(x))
    else:
        assert decisions == {"1": slower, "4": slower, "": slower}
        assert quantized(x).equal(model(x)) and not hasattr(quantized[1], "activation_post_process")
        assert [row.note for row in quantization.report(quantized, x)].count(slower) == 2
    monkeypatch.setattr(quantization.measure, "seconds", None)
    fresh = quantization.convert(quantization.prepare(_small()), measure=decisions)
    fresh.load_state_dict(quantized.state_dict())
    assert fresh(x).equal(quantized(x)) and fresh.quantization_decisions == decisions


def test_the_first_call_of_calibration_is_in_no_copy_and_no_file():
    x, prepared = torch.randn(64, 1, 8, 8), quantization.prepare(_small())
    size = len(pickle.dumps(prepared))
    prepared(x)
    prepared._calibration_call.args = (x, (number for number in range(3)))  # what cannot be copied
    assert len(pickle.dumps(prepared)) < size + x.nbytes / 8
    assert "_calibration_call" not in pickle.loads(pickle.dumps(prepared)).state_dict()
    assert copy.deepcopy(prepared)._calibration_call is prepared._calibration_call
    for removes in (True, False):
        quantized = quantization.convert(prepared, remove_qconfig=removes)
        assert not quantized._forward_pre_hooks and "_calibration_call" not in vars(quantized)
        assert hasattr(prepared, "_calibration_call")  # for another `convert`


def test_models_that_are_compared_keep_no_input():
    model, x = _small(), torch.randn(8, 1, 8, 8)
    prepared = quantization.prepare(model)
    prepared(x)
    quantized = quantization.convert(prepared)
    _numeric_suite.compare_model_outputs(model, quantized, x)
    assert not any("_calibration_call" in vars(part) or part._forward_pre_hooks for part in (model, quantized))


def test_a_timed_call_that_fails_changes_nothing():
    def run(model):
        raise ValueError("cannot be compiled")

    x, prepared = torch.randn(8, 1, 8, 8), quantization.prepare(_small())
    expected = prepared(x)
    with pytest.raises(ValueError, match="cannot be compiled"):
        quantization.convert(prepared, inplace=True, measure=run)
    assert prepared(x).equal(expected) and hasattr(prepared[1], "activation_post_process")


def test_decisions_for_floats_need_the_float_model():
    model = _small().train()
    model.qconfig = quantization.get_default_qat_qconfig("onednn")
    trained = quantization.prepare_qat(model)
    trained(torch.randn(8, 1, 8, 8))
    assert not trained._forward_pre_hooks
    with pytest.raises(ValueError, match="training has replaced"):
        quantization.convert(trained.eval(), measure={"": "float: the whole model is not faster as int8"})


def test_one_call_keeps_the_float_model(monkeypatch):
    monkeypatch.setattr(quantization.quant_api, "seconds", lambda layer, x: float(isinstance(layer, torch.nn.Linear)))
    monkeypatch.setattr(quantization.measure, "is_faster", lambda one, other: False)
    model, x = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()), torch.ones(1, 4)
    layer, expected, made = model[0], model(x), []
    decisions = quantization.quantize_(model, "auto", x, run=lambda model: made.append(model) or model)
    assert model[0].weight is layer.weight and model(x).equal(expected) and len(made) == 2
    assert set(decisions.values()) == {"float: the whole model is not faster as int8"}
    again = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    assert quantization.quantize_(again, "auto", decisions) == decisions and type(again[0]) is torch.nn.Linear


class _Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.out = torch.nn.Linear(6, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.first(x))
        return self.out(torch.relu(self.second(x)) + x)


@pytest.mark.filterwarnings("ignore:must run observer")
def test_graph_mode_keeps_floats_where_they_are_faster(monkeypatch):
    from numod.ao.quantization.quantize_fx import convert_fx, prepare_fx

    def seconds(layer, x):
        assert x.shape in ((5, 6), (5, 8)) and x.is_quantized
        is_float = hasattr(layer, "layer")
        return 1.0 if is_float == (x.shape == (5, 6)) else 2.0

    monkeypatch.setattr(quantization.measure, "seconds", seconds)
    torch.manual_seed(0)
    model, x = _Branches().eval(), torch.randn(5, 6)
    prepared = prepare_fx(model, quantization.get_default_qconfig_mapping("onednn"), (x,))
    prepared(x)
    quantized = convert_fx(prepared, measure=True)
    expected = {"first": "float: int8 is not faster", "second": "int8", "out": "int8"}
    assert quantized.quantization_decisions == expected
    assert type(quantized.second) is torch.nn.quantized.Linear
    assert type(quantized.first.layer) is torch.nn.Linear
    assert (quantized(x) - model(x)).abs().max() < 0.1
    monkeypatch.setattr(quantization.measure, "seconds", None)
    fresh = prepare_fx(_Branches().eval(), quantization.get_default_qconfig_mapping("onednn"), (x,))
    fresh = convert_fx(fresh, measure=expected)
    fresh.load_state_dict(quantized.state_dict())
    assert fresh(x).equal(quantized(x))


@pytest.mark.parametrize("quickest", [0, 1, 2])
def test_the_fastest_model_as_it_will_be_run(quickest, capsys, monkeypatch):
    net, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), torch.randn(6, 8)
    models = [net, quantization.quantize_dynamic(net), quantization.quantize_dynamic(net, {"2"})]
    made = []

    def run(model):
        made.append(model)
        return lambda *inputs: (model, inputs)

    def is_faster(one, other):
        (first, inputs), (second, _) = one(), other()
        assert inputs == (x,) and not torch.is_grad_enabled()
        return models.index(first) == quickest and second is not first

    monkeypatch.setattr(quantization.measure, "is_faster", is_faster)
    best = quantization.fastest(*models, data=x, run=run)
    assert best is models[quickest] and made == models
    notes = [row.note for row in quantization.report(best, x)]
    slower = "float: the whole model is not faster as int8"
    assert notes.count(slower) == (2 if quickest == 0 else 0) and (slower in capsys.readouterr().out) == (quickest == 0)


def test_models_of_the_graph_mode(capsys):
    model, x = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval(), torch.randn(6, 8)
    prepared = quantization.prepare_fx(model, quantization.get_default_qconfig_mapping("onednn"), (x,))
    prepared(x)
    rows = quantization.report(quantization.convert_fx(prepared), x, model)
    assert [row.path for row in rows] == ["0", "2"]  # the ReLU is part of the first
    assert all(row.sqnr > 20 and row.seconds > 0 for row in rows) and "QuantizedLinearReLU" in capsys.readouterr().out


def test_a_model_in_training_mode_stays_as_it_is(capsys):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout().eval())
    before = copy.deepcopy(model.state_dict())
    quantization.report(model, torch.randn(5, 4), model)
    assert [module.training for module in model.modules()] == [True, True, True, False]
    assert all(value.equal(before[name]) for name, value in model.state_dict().items())


def test_a_model_that_is_a_layer(capsys):
    rows = quantization.report(nn.Linear(4, 3), torch.ones(1, 4))
    assert [(row.path, row.kind, row.nbytes) for row in rows] == [("", "Linear", 60)] and rows[0].seconds > 0


def test_float16_weights_are_quantized_ones(capsys):
    model = nn.Sequential(nn.Linear(4, 3), nn.LayerNorm(3)).eval()
    rows = quantization.report(quantization.quantize_dynamic(model, dtype=torch.float16), torch.ones(1, 4), model)
    assert [row.note for row in rows] == ["", "float: no quantized form was asked for"]


def test_ratios_of_very_large_results_and_of_infinite_noise(capsys):
    torch.manual_seed(0)
    model, x = nn.Sequential(nn.Linear(4, 4, bias=False)).eval(), torch.randn(3, 4)
    quantized = quantization.quantize_dynamic(model)
    ratios = [quantization.report(quantized, x * scale, model)[0].sqnr for scale in (1.0, 1e19)]
    assert 20 < ratios[0] < 60 and ratios[1] == pytest.approx(ratios[0], abs=0.1)
    infinite, finite = nn.Sequential(nn.Threshold(-9.0, math.inf)), nn.Sequential(nn.Hardtanh())
    assert quantization.report(infinite, torch.tensor([-10.0, 1.0]), finite)[0].sqnr == -math.inf


def test_a_quantize_layer_is_not_a_float_layer(capsys):
    model = quantization.QuantWrapper(nn.Sequential(nn.Linear(4, 3))).eval()
    model.qconfig = quantization.get_default_qconfig("onednn")
    prepared = quantization.prepare(model)
    prepared(torch.randn(8, 4))
    rows = {row.path: row.note for row in quantization.report(quantization.convert(prepared), torch.ones(1, 4))}
    assert rows["quant"] == rows["module.0"] == ""


def test_decisions_of_another_model_in_graph_mode():
    model, x = nn.Sequential(nn.Linear(4, 3)).eval(), torch.ones(1, 4)
    prepared = quantization.prepare_fx(model, quantization.get_default_qconfig_mapping("onednn"), (x,))
    prepared(x)
    with pytest.raises(ValueError, match="for another model: this one has no module '9'"):
        quantization.convert_fx(prepared, measure={"9": "int8"})


def test_a_compiled_model_is_reported_as_it_is(capsys):
    model, x = nn.Sequential(nn.Linear(4, 3), nn.ReLU()), torch.ones(2, 4)
    compiled, eager = torch.compile(model), []
    with torch.no_grad():
        compiled(x)
        compiled(x)
    model[0].forward = lambda x: eager.append(x) or nn.functional.linear(x, model[0].weight)
    rows = quantization.report(compiled, x, model)
    assert [row.sqnr for row in rows] == [math.inf] * 2 and len(eager) == 12
