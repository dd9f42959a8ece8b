"""The numeric suite of graph mode: weights and results of a prepared model beside those of the converted one."""

import copy
import importlib

import pytest

import numod
from numod.ao.ns import _numeric_suite_fx as ns
from numod.ao.ns.fx.utils import compute_sqnr
from numod.ao.quantization import get_default_qat_qconfig_mapping, get_default_qconfig_mapping, quantize_fx


def network(lib):
    class Network(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2), lib.nn.ReLU()
            self.fc = lib.nn.Linear(72, 4)
            self.weight = lib.nn.Parameter(lib.ones(4, 4))

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            x = lib.nn.functional.relu(self.fc(x.flatten(1)))
            return (lib.relu(x + x) + lib.nn.functional.linear(x, self.weight)).sigmoid()

    return Network()


def models(lib, x):
    fx, q = (importlib.import_module(f"{lib.__name__}.ao.quantization{name}") for name in (".quantize_fx", ""))
    prepared = fx.prepare_fx(network(lib).eval(), q.get_default_qconfig_mapping("onednn"), (x,))
    prepared(x)
    return prepared, fx.convert_fx(copy.deepcopy(prepared))


def logged(x):
    pair = models(numod, x)
    noting = ns.add_loggers("float", pair[0], "int8", pair[1])
    return pair, noting


def test_results_of_calls():
    x = numod.randn(8, 1, 8, 8)
    pair, noting = logged(x)
    for model, original in zip(noting, pair):
        assert numod.equal(model(x), original(x)) and not original._loggers
    results = ns.extract_logger_info(*noting, ns.OutputLogger, "int8")
    assert list(results) == ["conv", "fc", "add", "linear", "add_1", "sigmoid"]
    ns.extend_logger_results_with_comparison(results, "float", "int8", compute_sqnr, "sqnr")
    for by_type in results.values():
        (first,), (second,) = by_type["node_output"]["float"], by_type["node_output"]["int8"]
        assert second["values"][0].is_quantized and not first["values"][0].is_quantized
        assert second["sqnr"][0] > 15
    assert results["add"]["node_output"]["float"][0]["values"][0].min() >= 0  # with the ReLU that is part of it
    assert results["fc"]["node_output"]["int8"][0]["fqn"] == "fc"


def test_loggers_note_each_run_while_enabled():
    x = numod.randn(2, 1, 8, 8)
    _, noting = logged(x)
    for model in noting:
        model(x)
        ns.loggers_set_enabled(model, False)
        model(x)
        ns.loggers_set_enabled(model, True)
        copy.deepcopy(model)(x)
        model(x)
    results = ns.extract_logger_info(*noting, ns.OutputLogger, "float")
    assert all(len(entry[0]["values"]) == 2 for layer in results.values() for entry in layer["node_output"].values())


def test_weights():
    prepared, quantized = models(numod, numod.randn(4, 1, 8, 8))
    results = ns.extract_weights("float", prepared, "int8", quantized)
    assert list(results) == ["conv", "fc", "linear"]
    for by_type in results.values():
        first, second = (by_type["weight"][name][0]["values"][0] for name in ("float", "int8"))
        assert second.is_quantized and compute_sqnr(first, second) > 20


def test_a_model_in_training_and_a_sequential():
    model, x = numod.nn.Sequential(numod.nn.Linear(4, 4), numod.nn.ReLU(), numod.nn.LSTM(4, 3)), numod.randn(5, 4)
    prepared = quantize_fx.prepare_qat_fx(model.train(), get_default_qat_qconfig_mapping("onednn"), (x,))
    prepared(x)
    quantized = quantize_fx.convert_fx(copy.deepcopy(prepared).eval())
    assert "_0" in ns.extract_weights("float", prepared, "int8", quantized)
    noting = ns.add_loggers("float", prepared.eval(), "int8", quantized)
    for copied in noting:
        copied(x)
    assert "_0" in ns.extract_logger_info(*noting, ns.OutputLogger, "int8")


def test_a_computed_weight_has_none():
    class Computed(numod.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight, self.layer = numod.nn.Parameter(numod.ones(4, 8)), numod.nn.Linear(4, 4)

        def forward(self, x, other):
            x = numod.nn.functional.linear(x, self.weight * 2)
            return self.layer(numod.nn.functional.linear(x, other))

    inputs = numod.ones(2, 8), numod.ones(4, 4)
    mapping = get_default_qconfig_mapping("onednn")
    prepared = quantize_fx.prepare_fx(Computed().eval(), mapping, inputs)
    prepared(*inputs)
    assert list(ns.extract_weights("a", prepared, "b", quantize_fx.convert_fx(prepared))) == ["layer"]


def test_mistakes():
    prepared, quantized = models(numod, numod.randn(4, 1, 8, 8))
    with pytest.raises(TypeError, match="_numeric_suite"):
        ns.add_loggers("a", numod.nn.Linear(2, 2), "b", quantized)
    with pytest.raises(NotImplementedError, match="extract_logger_info"):
        ns.add_shadow_loggers("a", prepared, "b", quantized)
    with pytest.raises(AssertionError, match="not found"):
        results = ns.extract_weights("a", prepared, "b", quantized)
        ns.extend_logger_results_with_comparison(results, "a", "c", compute_sqnr, "sqnr")


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_layers_and_entries_beside_pytorch():
    torch = pytest.importorskip("torch")
    results = []
    for lib in (torch, numod):
        suite = importlib.import_module(f"{lib.__name__}.ao.ns._numeric_suite_fx")
        x = lib.ones(2, 1, 8, 8)
        pair = models(lib, x)
        noting = suite.add_loggers("a", pair[0], "b", pair[1], suite.OutputLogger)
        for model in noting:
            model(x)
        outputs = suite.extract_logger_info(*noting, suite.OutputLogger, "b")
        results.append((suite.extract_weights("a", pair[0], "b", pair[1]), outputs))
    for theirs, ours in zip(*results):
        assert list(theirs)[:2] == list(ours)[:2] == ["conv", "fc"] and len(theirs) == len(ours)
        for others, by_type in zip(theirs.values(), ours.values()):  # PyTorch takes some names from its operators
            for kind, by_model in by_type.items():
                for model, (entry,) in by_model.items():
                    (other,) = others[kind][model]
                    assert set(entry) <= set(other)
                    assert [tuple(value.shape) for value in entry["values"]] == [
                        tuple(value.shape) for value in other["values"]
                    ]
