"""ModelReport: figures and recommendations of its detectors, its observers, tables and plots."""

import copy
import importlib
import itertools

import pytest

import numod
from numod import nn
from numod.ao.quantization import get_default_qat_qconfig, get_default_qconfig_mapping, prepare_qat, quantize_fx
from numod.ao.quantization.fx._model_report import detector as detectors
from numod.ao.quantization.fx._model_report.model_report import ModelReport
from numod.ao.quantization.fx._model_report.model_report_observer import ModelReportObserver
from numod.ao.quantization.fx._model_report.model_report_visualizer import ModelReportVisualizer


def network(lib):
    layers = lib.nn

    class Network(layers.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.bn, self.relu = layers.Conv2d(3, 4, 3), layers.BatchNorm2d(4), layers.ReLU()
            self.grouped, self.unused = layers.Conv2d(4, 4, 1, groups=2), layers.Linear(1, 1)
            self.head = layers.Sequential(layers.Dropout(0.1), layers.Linear(64, 6), layers.ReLU(), layers.Linear(6, 5))

        def forward(self, x):
            return self.head(self.grouped(self.relu(self.bn(self.conv(x)))).flatten(1))

    return Network()


def batches(lib):
    numbers = numod.randn(3, 2, 3, 6, 6, generator=numod.Generator().manual_seed(0))
    numbers[1, :, 1], numbers[2, 0, 0, 0, 0] = 0, 100
    return [lib.tensor(batch.numpy()) for batch in numbers]


def report_of(lib, *kinds, engine="onednn", state=None):
    fx, q = (importlib.import_module(f"{lib.__name__}.ao.quantization{name}") for name in (".quantize_fx", ""))
    detectors_of = importlib.import_module(f"{lib.__name__}.ao.quantization.fx._model_report.detector")
    path = f"{lib.__name__}.ao.quantization.fx._model_report.model_report"
    model = network(lib).eval()
    if state is not None:
        model.load_state_dict({key: lib.tensor(value) for key, value in state.items()})
    data = batches(lib)
    prepared = fx.prepare_fx(model, q.get_default_qconfig_mapping(engine), (data[0],))
    result = importlib.import_module(path).ModelReport(prepared, {make(detectors_of) for make in kinds})
    calibrated = result.prepare_detailed_calibration()
    for batch in data:
        calibrated(batch)
    return result, calibrated


DETECTORS = (
    lambda of: of.PerChannelDetector("fbgemm"),
    lambda of: of.DynamicStaticDetector(0.4),
    lambda of: of.InputWeightEqualizationDetector(0.5),
)


def _outliers(of):
    return of.OutlierDetector(reference_percentile=0.95)


def test_observers_leave_results_as_they_are_and_go():
    result, model = report_of(numod, *DETECTORS, _outliers)
    x = batches(numod)[0]
    plain = copy.deepcopy(model)
    count = sum(isinstance(layer, ModelReportObserver) for layer in model.modules())
    assert count == 11  # before seven layers, the dropout, and the three parts of fused ones; after four
    result.generate_model_report(remove_inserted_observers=True)
    assert not any(isinstance(layer, ModelReportObserver) for layer in model.modules())
    assert numod.equal(model(x), plain(x))
    quantized = quantize_fx.convert_fx(model)
    assert not any(hasattr(layer, "qconfig") for layer in quantized.modules())
    with pytest.raises(RuntimeError, match="removed"):
        result.generate_model_report(False)
    assert numod.equal(quantize_fx.convert_fx(plain)(x), quantized(x))  # its observers were not removed


def test_a_range_for_each_batch_needs_dynamic_quantization():
    model, x = nn.Sequential(nn.Linear(2, 2)).eval(), numod.tensor([[-1.0, 1.0], [0.0, 0.5]])
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    result = ModelReport(prepared, {detectors.DynamicStaticDetector(0.6)})
    result.prepare_detailed_calibration()
    for scale in (1, 1, 10):
        prepared(scale * x)
    text, figures = result.generate_model_report(False)["dynamic_vs_static_detector"]
    ratio = figures["0"]["input_activation_dynamic_static_comp_stat"]
    assert ratio.item() == pytest.approx((2 + 2 + 20) / 3 / 20) and figures["0"]["dynamic_recommended"]
    assert "suggested to use dynamic quantization" in text
    chosen = result.generate_qconfig_mapping().module_name_qconfigs["0"]
    assert chosen.activation().is_dynamic


def test_scales_of_channels_in_training():
    model = nn.Sequential(nn.Linear(2, 2))
    for engine, expected in (("onednn", True), ("qnnpack", False)):
        model.qconfig = get_default_qat_qconfig(engine)
        prepared = prepare_qat(copy.deepcopy(model).train())
        text, figures = detectors.PerChannelDetector(engine).generate_detector_report(prepared)
        assert figures["0"]["per_channel_quantization_used"] is expected
        assert ("can be configured" in text) is not expected


def test_channels_of_inputs_and_weights():
    model, x = nn.Sequential(nn.Linear(2, 2, bias=False)).eval(), numod.tensor([[0.0, 0.0], [1.0, 16.0]])
    model[0].weight.data.copy_(numod.tensor([[1.0, 0.0], [-1.0, 1.0]]))
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    result = ModelReport(prepared, {detectors.InputWeightEqualizationDetector(0.5)})
    result.prepare_detailed_calibration()(x)
    _, figures = result.generate_model_report(False)["input_weight_equalization_detector"]
    metrics = figures["0"]["input_weight_channel_comparison_metrics"]
    assert metrics.tolist() == pytest.approx([4.0, 0.5**0.5])
    assert figures["0"]["input_weight_equalization_recommended"] == [False, True]
    assert list(result.generate_equalization_mapping().module_name_qconfigs) == ["0"]


def test_outliers_of_a_channel():
    model, x = nn.Sequential(nn.ReLU()).eval(), numod.ones(100, 2)
    x[0, 0], x[:, 1] = 50.0, numod.linspace(1, 2, 100)
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    result = ModelReport(prepared, {detectors.OutlierDetector()})
    result.prepare_detailed_calibration()(x)
    text, figures = result.generate_model_report(False)["outlier_detector"]
    assert figures["0"]["outliers_detected"] == [True, False] and "channel 0, we found outliers" in text
    assert figures["0"]["outlier_detection_percentile_ratios"][0] == 50


def test_detectors_share_an_observer_that_suits_all():
    model, x = nn.Sequential(nn.ReLU(), nn.Linear(2, 2)).eval(), numod.linspace(0.1, 2, 40).reshape(20, 2)
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    outliers, ranges = detectors.OutlierDetector(1.5, 0.5), detectors.InputWeightEqualizationDetector(0.5)
    for order in itertools.permutations((outliers, detectors.DynamicStaticDetector(), ranges)):
        result = ModelReport(copy.deepcopy(prepared), dict.fromkeys(order))
        result.prepare_detailed_calibration()(x)
        figures = result.generate_model_report(True)["outlier_detector"][1]["1"]
        assert figures["outliers_detected"] == [True, True]  # of the median, not of a larger quantile
    result = ModelReport(prepared, {outliers, detectors.InputWeightEqualizationDetector(0.5, ch_axis=0)})
    with pytest.raises(ValueError, match="expected the same ch_axis"):
        result.prepare_detailed_calibration()


def test_inputs_without_channels():
    model, ids = nn.Sequential(nn.Embedding(4, 3), nn.Linear(3, 2)).eval(), numod.tensor([0, 3, 1])
    mapping = get_default_qconfig_mapping("onednn").set_object_type(nn.Embedding, None)
    prepared = quantize_fx.prepare_fx(model, mapping, (ids,))
    result = ModelReport(prepared, {detectors.OutlierDetector()})
    result.prepare_detailed_calibration()(ids)
    _, figures = result.generate_model_report(True)["outlier_detector"]
    assert figures["0"]["outliers_detected"] == [] and len(figures["1"]["outliers_detected"]) == 3


def test_tables():
    result, _ = report_of(numod, *DETECTORS)
    result.generate_model_report(False)
    visualizer = result.generate_visualizer()
    assert visualizer.get_all_unique_module_fqns() == {"conv.0", "grouped", "head.1.0", "head.3"}
    assert "weight_per_channel_max" in visualizer.get_all_unique_feature_names()
    assert "backend" not in visualizer.get_all_unique_feature_names()
    tables = visualizer.generate_filtered_tables("weight_per_channel_max", "head")
    headers, rows = tables["channel_level_info"]
    assert headers == ["idx", "layer_fqn", "channel", "weight_per_channel_max"] and len(rows) == 64 + 6
    assert tables["tensor_level_info"] == ([], [])


def test_layers_with_fewer_channels_and_text(capsys):
    features = {"a": {"x": numod.tensor([1.0, 2.0]), "y": 0.5}, "b": {"x": [3.0]}, "c": {"y": numod.tensor(0.25)}}
    visualizer = ModelReportVisualizer(features)
    _, rows = visualizer.generate_filtered_tables("x")["channel_level_info"]
    assert rows == [[0, "a", 0, 1.0], [1, "a", 1, 2.0], [2, "b", 0, 3.0]]
    visualizer.generate_table_visualization("y")
    assert "Not Applicable" in capsys.readouterr().out
    visualizer.generate_table_visualization("z")
    assert "No data" in capsys.readouterr().out


def test_plots(monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    pyplot = importlib.import_module("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda: None)
    visualizer = ModelReportVisualizer({"a": {"x": [1.0, 3.0], "y": 0.5}, "b": {"x": [5.0, 5.0], "y": 1.5}})
    for feature, expected in (("x", [2.0, 5.0]), ("y", [0.5, 1.5])):
        pyplot.figure()
        visualizer.generate_plot_visualization(feature)
        assert list(pyplot.gca().lines[0].get_ydata()) == expected
        visualizer.generate_histogram_visualization(feature)
        pyplot.close("all")
    with pytest.raises(ValueError, match="single feature"):
        visualizer.generate_plot_visualization("")


def test_mistakes():
    model, x = nn.Sequential(nn.Linear(2, 2)).eval(), numod.ones(1, 2)
    prepared = quantize_fx.prepare_fx(model, get_default_qconfig_mapping("onednn"), (x,))
    with pytest.raises(ValueError, match="at least 1"):
        ModelReport(prepared, set())
    result = ModelReport(prepared, {detectors.DynamicStaticDetector()})
    with pytest.raises(RuntimeError, match="without preparing"):
        result.generate_model_report(False)
    with pytest.raises(RuntimeError, match="without first generating"):
        result.generate_visualizer()
    result.prepare_detailed_calibration()
    with pytest.raises(ValueError, match="Already"):
        result.prepare_detailed_calibration()
    with pytest.raises(ValueError, match="No data"):
        result.generate_model_report(False)
    with pytest.raises(ValueError, match="Not configured"):
        detectors.PerChannelDetector("cuda")
    with pytest.raises(ValueError, match="> 0 and < 1"):
        detectors.InputWeightEqualizationDetector(1.0)
    with pytest.raises(TypeError, match="prepare_fx"):
        ModelReport(model, {detectors.DynamicStaticDetector()}).prepare_detailed_calibration()


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
def test_figures_and_texts_beside_pytorch():
    torch = pytest.importorskip("torch")
    state = {key: value.numpy() for key, value in network(torch).state_dict().items()}
    results = [report_of(lib, *DETECTORS, state=state)[0].generate_model_report(False) for lib in (torch, numod)]
    results += [report_of(lib, _outliers, state=state)[0].generate_model_report(False) for lib in (torch, numod)]
    for theirs, ours in (results[:2], results[2:]):
        for name, (text, figures) in theirs.items():
            assert name == "outlier_detector" or ours[name][0] == text  # it has many digits of figures
            assert list(ours[name][1]) == [path for path in figures if path != "unused"]
            for path, features in ours[name][1].items():
                assert list(features) == list(figures[path])
                for key, value in features.items():
                    other = figures[path][key]
                    if isinstance(value, numod.Tensor):
                        value, other = value.tolist(), other.tolist()
                    same = isinstance(value, (str, bool)) or value == []
                    assert value == other if same else value == pytest.approx(other, rel=1e-4, abs=1e-5), (path, key)
