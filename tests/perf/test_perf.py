"""The instrument that measures: bars, ratios, the table, and that every row runs.

No test looks at how long anything took.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import numod

ROOT = Path(__file__).parents[2]
pytest.importorskip("perf", reason="perf/ is in the repository only")
from perf import limit, measure, peers, rows, table  # noqa: E402
from perf.row import Bar, FreshRow, Pace, Row, SharedRow, Timed  # noqa: E402

Result = measure.Result
RESULT = Result({"numod": [3.0, 2.0, 9.0], "A": [5.0, 4.0], "B": [1.0, 8.0]})
ROWS = [row for row in rows.ROWS if type(row) is Row]
# minutes to compile, or seconds to run: with the suite `parity`
SLOW = "ResNet|GPT|GRU|LSTM(|16 M|LeNet|2048|conv2d|pool2d|784-256"


def test_a_result_has_best_median_and_ratio_to_the_best_peer():
    assert RESULT.best("numod") == 2.0 and RESULT.median("numod") == 3.0
    assert RESULT.best_peer() == "B" and RESULT.ratio("B") == 2.0 and RESULT.ratio("A") == 0.5
    assert Result({"numod": [1.0]}).best_peer() is None and RESULT.of_limit() is None
    assert Result({"numod": [2.0]}, limit=1.0).of_limit() == 0.5


@pytest.mark.parametrize(("bar", "met", "text"), [
    (Bar(2.0), True, "≤ 2 × best"), (Bar(1.9), False, "≤ 1.9 × best"), (Bar(0.5, peer="A"), True, "≤ 0.5 × A"), (Bar(0.4, peer="A"), False, "≤ 0.4 × A"),
    (Bar(9.0, peer="C"), None, "≤ 9 × C"), (Bar(seconds=2.0), True, "≤ 2 s"), (Bar(seconds=1.0), False, "≤ 1 s"), (Bar(0.1, seconds=3.0), True, "≤ 3 s or 0.1 × best"),
    (Bar(9.0, seconds=1e-6, peer="C"), None, "≤ 1 µs or 9 × C"), (Bar(2.0, seconds=1e-6), True, "≤ 1 µs or 2 × best"),
])  # fmt: skip
def test_a_bar_is_met_by_its_ratio_or_its_seconds_and_not_judged_without_its_peer(bar, met, text):
    assert bar.met(RESULT) is met and str(bar) == text


def test_a_bar_for_the_best_peer_is_not_judged_where_numod_is_alone():
    assert Bar(1.0).met(Result({"numod": [1.0]})) is None


def test_contenders_take_turns_and_who_begins_changes():
    order = []
    result = measure.take_turns({name: lambda name=name: order.append(name) or 1.0 for name in "abc"}, 3)
    assert "".join(order) == "abcbcacab"
    assert [
        len(round_) for round_ in measure.take_turns({"a": lambda: 1.0}, 9, budget=0.0, least=3).rounds.values()
    ] == [3]
    assert all(rounds == [1.0] * 3 for rounds in result.rounds.values())


def test_a_statement_is_timed_per_run():
    calls = []
    measured = measure.statement_timer("call()", {"call": lambda: calls.append(1)}, 1e-5)()
    assert measured > 0 and len(calls) > 4


def test_the_foot_counts_judged_bars_only():
    entries = [
        {"met": True, "bar": "≤ 1"},
        {"met": None, "bar": "≤ 1"},
        {"met": False, "bar": "≤ 1"},
        {"met": None, "bar": None},
    ]
    foot = table.foot({"rows": entries, "quick": True})
    assert "Bars met: 1 of 2, 1 more had no peer to be judged by." in foot and "quick" in foot
    assert "Bars met: 0 of 0." in table.foot({"rows": [], "quick": False})


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1.234, "1.23 s"), (0.0999, "99.9 ms"), (12e-6, "12.0 µs"), (123e-6, "123 µs"), (5e-8, "0.05 µs")],
)
def test_times_are_shown_with_a_unit(seconds, text):
    assert table.seconds(seconds) == text


def test_a_line_tells_the_named_peer_beside_the_best_and_what_has_no_peer():
    row = Row("row", {}, Bar(0.5, peer="A"))
    assert table.cells(row, RESULT)[3:] == ("B", "1.00 s", "4.50 s", "2.00", "", "≤ 0.5 × A (0.50)", "yes")
    assert table.cells(row, Result({"numod": [1.0]}, limit=0.25))[3:] == (
        "none",
        "",
        "",
        "",
        "25 %",
        "≤ 0.5 × A",
        "no peer",
    )


def test_a_row_leaves_out_peers_that_are_not_there():
    row = Row("row", {name: lambda: Timed("pass", {}) for name in ("numod", "A", "B")})
    result = row.measure(["B"], Pace(1e-6, 2), None)
    assert (
        list(result.rounds) == ["numod", "B"]
        and [len(round_) for round_ in result.rounds.values()] == [2, 2]
        and result.limit is None
    )
    json.dumps(table.entry(row, result))


def test_two_threads_are_compared_with_one_by_the_middle_rounds_beside_busy_processes(monkeypatch):
    started, before = [], numod.get_num_threads()

    class Other:
        kill = wait = lambda self: started.append("ended")

    monkeypatch.setattr(measure.subprocess, "Popen", lambda arguments: started.append(arguments[-1]) or Other())
    names = {"set_num_threads": numod.set_num_threads}
    contenders = {
        name: lambda count=count: Timed(f"set_num_threads({count})", names)
        for name, count in (("numod", 2), ("one thread", 1))
    }
    result = SharedRow("row", contenders, busy=2).measure([], Pace(1e-6, 3, budget=0.0), None)
    assert list(result.rounds) == ["numod", "one thread"] and result.ratio("one thread") == result.median(
        "numod"
    ) / result.median("one thread")
    assert started == ["while True: pass"] * 2 + ["ended"] * 4 and numod.get_num_threads() == before


def test_folders_are_empty_for_a_cold_start_and_filled_once_for_warm_ones():
    filled = []
    with measure.folders() as folders:
        cold = folders.empty("a")
        assert list(Path(cold).iterdir()) == [] and folders.filled("a", filled.append) == cold
        assert folders.empty("a") != cold and not Path(cold).exists()
        assert folders.filled("b", filled.append) == folders.filled("b", filled.append) and len(filled) == 1
    assert not Path(folders.base).exists()


def test_row_names_differ():
    names = [row.name for row in rows.ROWS]
    assert len(set(names)) == len(names)


def test_starts_name_rows_that_are_there():
    scripts = [
        contender.args[-1]
        for row in rows.ROWS
        if isinstance(row, FreshRow)
        for contender in row.contenders.values()
        if hasattr(contender, "args")
    ]
    measured = [text.split("first_call('")[1].split("',")[0] for text in scripts if "first_call('" in text]
    assert measured and set(measured) <= {row.name for row in ROWS}


def values_of(row: Row, name: str) -> list[np.ndarray]:
    timed = row.contenders[name]()
    exec(timed.statement, dict(timed.names))
    return [np.asarray(value, np.float64).ravel() for value in row.contenders[name]().values()]


QUICK = [row for row in ROWS if not any(word in row.name for word in SLOW.split("|"))]


# rows of one kind are neighbours
@pytest.mark.parametrize(
    "row", [pytest.param(row, marks=pytest.mark.fuzz if k % 3 else (), id=row.name) for k, row in enumerate(QUICK)]
)
def test_numod_runs_and_numpy_agrees(row):
    values = values_of(row, "numod")
    assert all(np.isfinite(value).all() for value in values)
    if "NumPy" in row.contenders:
        np.testing.assert_allclose(values[0], values_of(row, "NumPy")[0], rtol=1e-4, atol=1e-4)


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_all_contenders_compute_the_same(row):
    expected = values_of(row, "numod")
    for name in row.contenders:
        if name in peers.installed() and name not in ("numod", "torch.compile"):  # that takes minutes, and is PyTorch
            for mine, other in zip(expected, values_of(row, name), strict=True):
                np.testing.assert_allclose(mine, other, rtol=0, atol=1e-4 * (1e-6 + np.abs(other).max()), err_msg=name)


QUANTIZED_NETWORKS = [row for row in rows.ROWS if "numod float32" in row.contenders]


@pytest.mark.parity
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", QUANTIZED_NETWORKS, ids=lambda row: row.name)
def test_quantized_networks_are_near_those_of_floats(row):
    (expected,) = values_of(row, "numod float32")
    for name in ("numod", "ONNX Runtime"):
        if name == "numod" or name in peers.installed():
            (values,) = values_of(row, name)
            np.testing.assert_allclose(values, expected, rtol=0, atol=0.05 * np.abs(expected).max(), err_msg=name)


def test_the_limit_is_of_what_was_counted():
    product = next(row for row in ROWS if row.name == "product 256×256×256")
    x = product.contenders["numod"]()
    least = limit.least_seconds(x.counted)
    assert least == pytest.approx(2 * 256**3 / limit.limits().gflops / 1e9, rel=1e-6)
    assert limit.least_seconds(lambda: None) is None


def test_the_command_prints_a_table_and_writes_every_round(tmp_path):
    file = tmp_path / "times.json"
    finished = subprocess.run(
        [sys.executable, "-m", "perf", "--quick", "--rows", "^add, (32|1 k)", "--peers", "NumPy", "--json", str(file)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert (
        "Absolute times mean little" in finished.stdout
        and "add, 32 floats" in finished.stdout
        and "Bars met:" in finished.stdout
    )
    report = json.loads(file.read_text())
    assert (
        report["threads"] == 1
        and report["peers"] == ["NumPy"]
        and report["limits"]["gflops"] > 0
        and {"numod", "NumPy"} == set(report["versions"])
    )
    for row in report["rows"]:
        assert set(row) == {"row", "best_peer", "ratios", "of_limit", "bar", "met", "seconds"}
        assert row["best_peer"] == "NumPy" and set(row["ratios"]) == {"NumPy"} and 0 < row["of_limit"]
        numod_count, peers = map(len, row["seconds"].values())
        assert 5 <= numod_count == peers <= 25  # fewer where the machine is busy and the time for a row is spent


@pytest.mark.parametrize("arguments", [["--rows", "no such row"], ["--rows", "("], ["--threads", "0"]])
def test_bad_arguments_are_refused(arguments):
    assert subprocess.run([sys.executable, "-m", "perf", *arguments], cwd=ROOT, capture_output=True).returncode == 2


def test_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    entry = {"row": "a", "best_peer": "B", "ratios": {"B": 0.5}}
    table.plot({"rows": [entry, {"row": "b", "best_peer": None, "ratios": {}}]}, str(tmp_path / "ratios.png"))
    assert (tmp_path / "ratios.png").stat().st_size > 1000
