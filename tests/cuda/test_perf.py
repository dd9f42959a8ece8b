"""`perf/cuda.py`: every row runs, at a few elements, in the simulator; and where there is no GPU it says what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import numod

perf = pytest.importorskip("perf.cuda", reason="perf/ is in the repository only")


@pytest.mark.skipif(numod.cuda.is_available(), reason="there is a device, or the simulator")
def test_without_a_gpu_it_says_what_to_do(capsys: pytest.CaptureFixture) -> None:
    assert perf.main([]) == 2
    printed = capsys.readouterr().out
    assert "pip install '.[cuda]'" in printed and "NUMBA_ENABLE_CUDASIM=1" in printed


@pytest.mark.cudasim
@pytest.mark.skipif(not numod.cuda.is_available(), reason="needs NUMBA_ENABLE_CUDASIM=1")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_rows_are_right_and_stable(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    assert perf.main(["--tiny", "--runs", "2", "--json", str(tmp_path / "report.json")]) == 0
    printed = capsys.readouterr().out
    assert "WRONG" not in printed and "UNSTABLE" not in printed and "measured: copy" in printed and "bars: " in printed
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert set(rows) == {row.name for row in perf.ROWS} and all(
        {"error", "unstable runs", "numod"} <= set(row) for row in rows.values()
    )


@pytest.mark.cudasim
@pytest.mark.skipif(not numod.cuda.is_available(), reason="needs NUMBA_ENABLE_CUDASIM=1")
def test_a_wrong_or_unstable_row_is_reported(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    runs = iter(range(100))
    wrong = perf.Row("wrong", lambda tiny: [perf.normal(3)], lambda torch, x: x + next(runs))
    monkeypatch.setattr(perf, "ROWS", [wrong])
    assert perf.main(["check", "races", "--tiny", "--runs", "3"]) == 1
    printed = capsys.readouterr().out
    assert "WRONG" in printed and "1 of 3 runs agree" in printed


@pytest.mark.cudasim
@pytest.mark.skipif(not numod.cuda.is_available(), reason="needs NUMBA_ENABLE_CUDASIM=1")
def test_a_row_that_fails_does_not_end_the_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    def fail(torch: object, x: numod.Tensor) -> None:
        raise ValueError("broken")

    monkeypatch.setattr(
        perf,
        "ROWS",
        [
            perf.Row("bad", lambda tiny: [perf.normal(3)], fail),
            perf.Row("good", lambda tiny: [perf.normal(3)], lambda torch, x: x + 1),
        ],
    )
    assert perf.main(["check", "races", "--tiny", "--runs", "3", "--json", str(tmp_path / "report.json")]) == 1
    assert "FAILED in check: ValueError: broken" in capsys.readouterr().out
    rows = json.loads((tmp_path / "report.json").read_text())["rows"]
    assert (
        rows["bad"] == {"check failed": "ValueError: broken", "races failed": "ValueError: broken"}
        and rows["good"]["unstable runs"] == 0
    )
    assert (
        perf.main(["check", "--tiny", "--seconds", "-1"]) == 0
        and "left out after -1 seconds: check: bad; check: good" in capsys.readouterr().out
    )


@pytest.mark.cudasim
@pytest.mark.skipif(not numod.cuda.is_available(), reason="needs NUMBA_ENABLE_CUDASIM=1")
def test_the_rest_is_measured_in_a_new_process_where_a_kernel_broke_the_gpu(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture, tmp_path: Path
) -> None:
    def add(torch: object, x: numod.Tensor) -> numod.Tensor:
        return x + 1

    def fail(torch: object, x: numod.Tensor) -> None:
        monkeypatch.setattr(numod.cuda, "synchronize", add)  # fails, as called without arguments
        raise RuntimeError("CUDA error")

    def call(command: list[str]) -> int:
        assert command[1:3] == ["-m", "perf.cuda"]
        monkeypatch.setattr(numod.cuda, "synchronize", synchronize)
        return perf.main(command[3:])

    synchronize = numod.cuda.synchronize
    monkeypatch.setattr(perf.subprocess, "call", call)
    monkeypatch.setattr(
        perf,
        "ROWS",
        [
            perf.Row(name, lambda tiny: [perf.normal(3)], run)
            for name, run in (("before", add), ("bad", fail), ("behind", add))
        ],
    )
    assert perf.main(["check", "--tiny", "--json", str(tmp_path / "report.json")]) == 1
    printed = capsys.readouterr().out
    assert (
        printed.count("before") == printed.count("FAILED") == 1
        and "behind" in printed
        and "a new one measures the rest" in printed
    )
    report = json.loads((tmp_path / "report.json").read_text())
    assert (
        report["ended"] == [["check", "before", True], ["check", "bad", False], ["check", "behind", True]]
        and report["rows"]["behind"]["error"] < 1e-6
    )
    with pytest.raises(SystemExit):
        perf.main(["--resume"])


def test_a_second_result_that_is_nan_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "moved", lambda library, arrays, device, double=False: [device])
    row = perf.Row(
        "x",
        lambda tiny: [],
        lambda torch, device: (numod.ones(2), numod.full((2,), 1.0 if device == "cpu" else float("nan"))),
    )
    assert np.isnan(perf.error_of(row, True))


def test_bars() -> None:
    row = perf.Row("x", lambda tiny: [], lambda torch: None, bar=(0.6, "cuBLAS"))
    assert (
        row.bar_text({"numod": 1.0, "ratio": 1.6}).endswith(": met")
        and row.bar_text({"numod": 1.0, "ratio": 1.7}).endswith(": MISSED")
        and row.bar_text({"numod": 1.0}).endswith(": not known")
    )
    assert (
        perf.Row("x", row.inputs, row.run, bar=(8, "us")).bar_text({"numod": 9e-6}) == "   bar 8 us: MISSED"
        and perf.Row("x", row.inputs, row.run).bar_text({}) == ""
    )
    copied = perf.Row("x", row.inputs, row.run, bar=(0.85, "copy"))
    assert copied.bar_text({"numod": 1.0, "of limit": 0.85}) == "   bar 85% of copy: met"
