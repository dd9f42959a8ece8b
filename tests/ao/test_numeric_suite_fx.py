"""The numeric suite of graph mode: weights and results of a prepared model beside those of the converted one."""

import copy
import importlib
import pickle

import pytest

import numod
from numod.ao.ns import _numeric_suite_fx as ns
from numod.ao.ns.fx.utils import compute_sqnr
from numod.ao.quantization import (
    QConfigMapping,
    get_default_qat_qconfig_mapping,
    get_default_qconfig_mapping,
    quantize_fx,
)
from numod.ao.quantization.fx._equalize import default_equalization_qconfig


def network(lib):
    class Network(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = lib.nn.Conv2d(1, 2, 3), lib.nn.BatchNorm2d(2), lib.nn.ReLU()
            self.fc = lib.nn.Linear(72, 4)
            self.weight, self.bias = (lib.nn.Parameter(lib.ones(*size)) for size in ((4, 4), (4,)))

        def forward(self, x):
            x = self.relu(self.bn(self.conv(x)))
            x = lib.nn.functional.relu(self.fc(x.flatten(1)))
            return (lib.relu(x + x) + lib.nn.functional.linear(x, self.weight, self.bias)).sigmoid()

    return Network()


def models(lib, x, state=None):
    fx, q = (importlib.import_module(f"{lib.__name__}.ao.quantization{name}") for name in (".quantize_fx", ""))
    model = network(lib)
    if state is not None:
        model.load_state_dict(state)
    prepared = fx.prepare_fx(model.eval(), q.get_default_qconfig_mapping("onednn"), (x,))
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


def test_inputs_of_calls():
    x = numod.randn(8, 1, 8, 8)
    pair = models(numod, x)
    noting = ns.add_loggers("float", pair[0], "int8", pair[1], should_log_inputs=True)
    for model, original in zip(noting, pair):
        assert numod.equal(model(x), original(x)) and not original._input_loggers
    results = ns.extract_logger_info(*noting, ns.OutputLogger, "int8")
    first = results["conv"]["node_input"]
    assert numod.equal(first["float"][0]["values"][0], x) and first["int8"][0]["values"][0].is_quantized
    sums = results["add_1"]["node_input"]["float"]
    assert [entry["index_of_arg"] for entry in sums] == [0, 1]
    assert [entry["prev_node_name"] for entry in sums] == ["relu_2", "linear"]


def shadowed(x, inputs=False, reverse=False):
    pair = models(numod, x)
    names = ["float", "int8"]
    order = (1, 0) if reverse else (0, 1)
    arguments = [argument for k in order for argument in (names[k], pair[k])]
    model = ns.add_shadow_loggers(*arguments, should_log_inputs=inputs)
    assert numod.equal(model(x), pair[order[1]](x))
    return pair, ns.extract_shadow_logger_info(model, ns.OutputLogger, names[order[1]])


def test_a_shadow_has_the_inputs_of_the_call_beside_it():
    x = numod.randn(8, 1, 8, 8)
    (prepared, _), results = shadowed(x, inputs=True)
    assert list(results) == ["conv", "fc", "add", "linear", "add_1", "sigmoid"]
    for name, layer in (("conv", prepared.conv), ("fc", prepared.fc)):
        float_entry, int_entry = (results[name]["node_input"][kind][0]["values"][0] for kind in ("float", "int8"))
        assert numod.equal(float_entry, int_entry.dequantize())
        assert numod.equal(results[name]["node_output"]["float"][0]["values"][0], layer(float_entry))
    for by_type in results.values():
        result, shadow = (by_type["node_output"][kind][0]["values"][0] for kind in ("int8", "float"))
        assert result.is_quantized and not shadow.is_quantized
        assert (result.dequantize() - shadow).abs().max() < 3 * result.q_scale()
    product = results["linear"]["node_input"]["float"][0]["values"][0]
    weighted = numod.nn.functional.linear(product, prepared.weight, prepared.bias)  # the weight of the float model
    assert numod.equal(results["linear"]["node_output"]["float"][0]["values"][0], weighted)


def test_copies_of_shadows():
    layers, x = [numod.nn.Linear(4, 4) for _ in range(300)], numod.randn(2, 4)  # a chain, too long for recursion
    float_model = numod.nn.Sequential(*layers).eval()
    mapping = numod.ao.quantization.QConfigMapping().set_global(numod.ao.quantization.default_qconfig)
    prepared = quantize_fx.prepare_fx(float_model, mapping, (x,))
    prepared(x)
    quantized = quantize_fx.convert_fx(prepared)
    model = ns.add_shadow_loggers("float", prepared, "int8", quantized)
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert numod.equal(copied(x), quantized(x))
        results = ns.extract_shadow_logger_info(copied, ns.OutputLogger, "int8")
        assert len(results["_7"]["node_output"]["float"][0]["values"]) == 1
    assert not ns.extract_shadow_logger_info(model, ns.OutputLogger, "int8")["_7"]["node_output"]["float"][0]["values"]


def test_integers_as_the_shadow_of_floats():
    x = numod.randn(8, 1, 8, 8)
    (prepared, quantized), results = shadowed(x, reverse=True)
    entry = results["fc"]["node_output"]
    assert entry["int8"][0]["values"][0].is_quantized and not entry["float"][0]["values"][0].is_quantized
    ns.extend_logger_results_with_comparison(results, "int8", "float", compute_sqnr, "sqnr")
    assert all(by_type["node_output"]["float"][0]["sqnr"][0] > 20 for by_type in results.values())


def test_a_reference_model_as_the_shadow():
    x = numod.randn(8, 1, 8, 8)
    prepared, quantized = models(numod, x)
    noting = ns.add_shadow_loggers("reference", quantize_fx.convert_to_reference_fx(prepared), "int8", quantized)
    assert numod.equal(noting(x), quantized(x))
    results = ns.extract_shadow_logger_info(noting, ns.OutputLogger, "int8")
    ns.extend_logger_results_with_comparison(results, "reference", "int8", compute_sqnr, "sqnr")
    assert all(by_type["node_output"]["int8"][0]["sqnr"][0] > 30 for by_type in results.values())


def test_loggers_leave_the_observers_of_equalization():
    x, model = numod.randn(16, 8) * numod.logspace(-2, 1, 8), numod.nn.Sequential(numod.nn.Linear(8, 4)).eval()
    mapping, config = get_default_qconfig_mapping("onednn"), {"": default_equalization_qconfig}
    prepared = quantize_fx.prepare_fx(model, mapping, (x,), _equalization_config=config)
    recorded = quantize_fx.prepare_fx(model, QConfigMapping(), (x,))
    for noting in ns.add_loggers("a", *ns.add_loggers("a", prepared, "b", recorded)[:1], "b", recorded):
        noting(x)
        assert [len(child.stats) for child in noting.modules() if isinstance(child, ns.OutputLogger)] == [1]
        prepared = noting if noting._equalized else prepared
    equalized = quantize_fx.convert_fx(prepared)
    assert "0_equalization_scale_0" in equalized.state_dict()
    with pytest.raises(ValueError, match="equalized model"):
        ns.add_shadow_loggers("float", recorded, "int8", equalized)


def test_a_float_model_beside_the_quantized_one():
    """Without a QConfig it is recorded, and not observed."""
    x = numod.randn(8, 1, 8, 8)
    model = network(numod).eval()
    recorded = quantize_fx.prepare_fx(model, QConfigMapping(), (x,))
    assert not any(name.startswith("activation_post_process") for name, _ in recorded.named_modules())
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    prepared(x)
    quantized = quantize_fx.convert_fx(prepared)
    assert list(ns.extract_weights("float", recorded, "int8", quantized)) == ["conv", "fc", "linear"]
    noting = ns.add_shadow_loggers("float", recorded, "int8", quantized)
    assert numod.equal(noting(x), quantized(x))
    results = ns.extract_shadow_logger_info(noting, ns.OutputLogger, "int8")
    ns.extend_logger_results_with_comparison(results, "float", "int8", compute_sqnr, "sqnr")
    assert all(by_type["node_output"]["int8"][0]["sqnr"][0] > 15 for by_type in results.values())


def test_a_shadow_of_recurrent_layers_and_copies():
    model, x = numod.nn.Sequential(numod.nn.LSTM(4, 3)), numod.randn(5, 2, 4)
    mapping = get_default_qconfig_mapping("onednn").set_object_type(
        numod.nn.LSTM, numod.ao.quantization.default_dynamic_qconfig
    )
    prepared = quantize_fx.prepare_fx(model.eval(), mapping, (x,))
    noting = ns.add_loggers("a", prepared, "b", quantize_fx.convert_fx(prepared))
    for copied in noting:
        ns.loggers_set_save_activations(copied, False)
        copied(x)
        ns.loggers_set_save_activations(copied, True)
        copied(x)
    results = ns.extract_logger_info(*noting, ns.OutputLogger, "a")
    assert all(len(logger.stats) == 1 for model in noting for logger in model.modules() if hasattr(logger, "stats"))
    assert not results or len(results["_0"]["node_output"]["a"][0]["values"][0]) == 2


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
    with pytest.raises(TypeError, match="_numeric_suite"):
        ns.add_shadow_loggers("a", prepared, "b", numod.nn.Linear(2, 2))
    with pytest.raises(AssertionError, match="not found"):
        results = ns.extract_weights("a", prepared, "b", quantized)
        ns.extend_logger_results_with_comparison(results, "a", "c", compute_sqnr, "sqnr")


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_values_of_shadows_beside_pytorch(capsys):
    torch = pytest.importorskip("torch")
    model = network(torch)
    state, x = {key: value.numpy() for key, value in model.state_dict().items()}, torch.randn(4, 1, 8, 8).numpy()
    results = []
    for lib in (torch, numod):
        suite = importlib.import_module(f"{lib.__name__}.ao.ns._numeric_suite_fx")
        pair = models(lib, lib.tensor(x), {key: lib.tensor(value) for key, value in state.items()})
        noting = suite.add_shadow_loggers("a", pair[0], "b", pair[1], suite.OutputLogger, should_log_inputs=True)
        noting(lib.tensor(x))
        results.append(suite.extract_shadow_logger_info(noting, suite.OutputLogger, "b"))
    for layer in ("conv", "fc"):
        for kind in ("node_input", "node_output"):
            for name in ("a", "b"):
                (theirs,), (ours,) = (result[layer][kind][name] for result in results)
                values = [numod.tensor(_floats(theirs["values"][0]).numpy()), _floats(ours["values"][0])]
                scale = 0.0 if name == "a" else ours["values"][0].q_scale()
                assert numod.allclose(*values, atol=1e-5 + scale)
                assert all(ours[key] == theirs[key] for key in ("fqn", "index_of_arg", "index_within_arg", "type"))


def _floats(value):
    return value.dequantize() if value.is_quantized else value


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
