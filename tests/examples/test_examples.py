"""The example scripts run and reach what they promise."""

from __future__ import annotations

import importlib.util
import json
import statistics
import threading
import urllib.error
import urllib.request
from pathlib import Path
from types import ModuleType

import pytest

import numod

FOLDER = Path(numod.__file__).parent / "examples"
BARS = {
    "classify_digits": lambda accuracy: accuracy > 0.9,
    "regression_from_csv": lambda error: error < 0.05,
    "character_model": lambda loss: loss < 1.5,
    "sorting_transformer": lambda right: right > 0.9,
    "variational_autoencoder": lambda losses: losses[1] < 0.75 * losses[0],
    "policy_gradient": lambda lengths: lengths[1] > 3 * lengths[0],
    "differential_equation": lambda error: error < 0.05,
    "learner_digits": lambda accuracy: accuracy > 0.98,
    "quantize_digits": lambda results: _quantized_is_as_good(**results),
    "quantize_language_model": lambda results: _quantized_is_as_fluent(**results),
    "fine_tune": lambda result: result[0] > 0.9 and result[1] == 1.0,
}


def _quantized_is_as_good(float: tuple, dynamic: tuple, static: tuple, QAT: tuple) -> bool:
    """Accuracies are within 0.5 points, the trained one's within 0.2, and weights of 8 bits take about a quarter."""
    accurate = min(dynamic[0], static[0]) >= float[0] - 0.005 and QAT[0] >= float[0] - 0.002
    return accurate and max(static[1], QAT[1]) <= 0.27 * float[1]


def _quantized_is_as_fluent(float: tuple, dynamic: tuple) -> bool:
    """Perplexity is within 1 %."""
    return dynamic[0] <= 1.01 * float[0] < 20 and dynamic[1] <= 0.27 * float[1]


def example(name: str) -> ModuleType:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# several seconds each
LONG = {"learner_digits", "policy_gradient", "quantize_digits", "quantize_language_model", "sorting_transformer"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.learner if name in LONG else ()) for name in BARS]
)
def test_example_reaches_its_bar(name: str) -> None:
    result = example(name).main()
    assert BARS[name](result), result


def test_the_compiled_step_gives_the_eager_losses() -> None:
    eager, compiled = example("compiled_training_step").main(steps=20)
    assert eager == pytest.approx(compiled, rel=1e-4) and eager[-1] < eager[0]


@pytest.mark.learner
def test_the_quantized_block_of_mobilenet_is_as_good() -> None:
    script = example("quantize_digits")
    result = script.main(script.MobileNetwork)
    assert _quantized_is_as_good(**result), result


@pytest.mark.learner
@pytest.mark.parametrize("kind", ["Network", "MobileNetwork"])
def test_quantized_networks_are_as_good_with_any_seed(kind: str) -> None:
    """There are 360 test images: training goes on to another network, which may take one of them differently."""
    script = example("quantize_digits")
    results = [script.main(getattr(script, kind), seed) for seed in range(5)]
    changes = {name: [result[name][0] - result["float"][0] for result in results] for name in results[0]}
    assert min(*changes["dynamic"], *changes["static"]) >= -0.005, changes
    assert statistics.mean(changes["QAT"]) >= -0.002 and min(changes["QAT"]) > -1.5 / 360, changes


@pytest.mark.learner
def test_a_quantized_language_model_is_as_fluent_with_any_seed() -> None:
    assert all(_quantized_is_as_fluent(**example("quantize_language_model").main(seed=seed)) for seed in range(5))


@pytest.mark.learner
def test_the_learner_reaches_99_percent_of_held_out_digits() -> None:
    assert statistics.median(example("learner_digits").main(seed) for seed in range(5)) >= 0.99


@pytest.mark.export
def test_the_network_in_c_gives_the_right_values() -> None:
    assert [round(value) for value in example("export_to_c").main()] == [0, 1, 1, 0]


def test_the_server_answers() -> None:
    server = example("serve_over_http").make_server(port=0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}"
        for count in (1, 2, 5):
            rows = json.dumps([[0.1, 0.2, 0.3, 0.4]] * count).encode()
            with urllib.request.urlopen(address, rows) as answer:
                probabilities = json.load(answer)
            assert len(probabilities) == count and sum(probabilities[0]) == pytest.approx(1)
        with pytest.raises(urllib.error.HTTPError, match="400") as refused:
            urllib.request.urlopen(address, b"[[1, 2]]")
        assert "error" in json.load(refused.value)
        refused.value.close()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_each_example_is_tested() -> None:
    tested = {*BARS, "compiled_training_step", "export_to_c", "serve_over_http"}
    assert {path.stem for path in FOLDER.glob("*.py")} - {"__init__"} == tested


def test_examples_are_short() -> None:
    assert all(len(path.read_text(encoding="utf-8").splitlines()) <= 80 for path in FOLDER.glob("*.py"))
