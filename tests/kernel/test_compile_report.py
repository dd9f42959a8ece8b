"""The report on a cold start: every kernel with its phases and the reason why it was compiled."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import numod
from numod.device import cpu
from numod.device.phases import PHASES
from numod.kernel import build
from numod.kernel.compile_report import CompileReport, KernelTime

SCRIPT = """
import json
import numod
numod.ones(3).exp()
print(json.dumps(numod.compile_report().as_dict()))
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


def run(folder: Path, *options: str) -> str:
    """What the script prints, with a kernel cache in `folder`."""
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    environment = {**os.environ, "NUMOD_CACHE_DIR": str(folder / "cache")}
    command = [sys.executable, *options, "script.py"]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=folder, check=True).stdout


def test_a_cold_and_a_warm_start_are_accounted_for_by_kernel_and_phase(tmp_path: Path) -> None:
    printed = run(tmp_path, "-m", "numod", "profile", "--compile")
    report = json.loads(next(line for line in printed.splitlines() if line.startswith("{")))
    kernels = {re.sub("_[0-9a-f]{16}$", "", kernel["name"]): kernel for kernel in report["kernels"]}
    assert {kernel["reason"] for kernel in kernels.values()} == {"no entry"} and "exp" in kernels
    assert all(kernel["compiled"] for kernel in kernels.values())
    for phase in ("source", "typing", "lowering", "optimise", "emit", "link", "load"):
        assert kernels["exp"]["phases"][phase] > 0, phase
    assert set(report["phases"]) <= set(PHASES)
    table = printed.split("\n", 1)[1]
    assert re.search(r"^exp_[0-9a-f]+ .* no entry$", table, re.MULTILINE) and "the whole run took" in table
    page = (tmp_path / "script_profile.html").read_text(encoding="utf-8")
    assert '"building":{"names":["import","source"' in page and "builds" in page

    warm = json.loads(run(tmp_path))
    assert {kernel["reason"] for kernel in warm["kernels"]} == {"found on the disk"}
    assert "typing" not in warm["phases"] and warm["phases"]["load"] > 0


def test_nearly_all_of_a_cold_start_is_in_a_phase(tmp_path: Path) -> None:
    """In one of five starts: another process may take the core between two phases."""
    for number in range(5):
        (tmp_path / str(number)).mkdir()
        if json.loads(run(tmp_path / str(number)))["accounted"] > 0.95:
            return
    pytest.fail("more than 5 % of five cold starts were in no phase")


def test_the_report_of_this_process_adds_up() -> None:
    numod.ones(3).exp()
    report = numod.compile_report()
    assert len(report.kernels) == len(build.kernels()) and report.kernels[0].seconds > 0
    assert report.seconds >= sum(kernel.seconds for kernel in report.kernels) - 1e-9  # added in another order
    for kernel in report.kernels:
        assert sum(kernel.phases.values()) <= kernel.seconds + 0.05
    shown = str(numod.compile_report(rows=1))
    assert shown.startswith("kernel ")
    assert f"... and {len(report.kernels) - 1} more" in shown or len(report.kernels) == 1


def test_a_notebook_shows_the_table_and_negative_rows_are_all() -> None:
    kernels = [KernelTime(f"k{number}", True, "no entry", 1.0, {}, 0.0) for number in range(40)]
    report = CompileReport(kernels, {}, 40.0)
    assert repr(report) == str(report) and "... and 10 more" in repr(report)
    shown = str(CompileReport(kernels, {}, 40.0, rows=-1))
    assert "k39 " in shown and "more" not in shown
    with pytest.raises(TypeError, match="rows must be an integer, got str"):
        numod.compile_report(rows="3")


def test_the_table_fits_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = {phase: 12.3456 for phase in PHASES}
    kernel = KernelTime("k" * 60, True, "no entry, not used so far", 99.9, seconds, 1.0)
    report = CompileReport([kernel], seconds, 99.9, wall=123.4, waited=2.0)
    for columns, longest in (("80", 80), ("40", 80), ("200", 170)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = str(report).splitlines()
        assert max(map(len, lines)) <= longest and not any(line.endswith(" ") for line in lines)
    monkeypatch.setenv("COLUMNS", "80")
    assert str(report).splitlines()[2:4] == [
        "k" * 23 + "..." + "k" * 14 + " no entry, not used so far",
        " 99900  12346  12346  12346    12346    12346 12346 12346 12346 12346   1000",
    ]


def test_threads_that_wait_for_another_are_not_compared_with_the_whole_run() -> None:
    report = CompileReport([], {"wait": 3.0, "load": 1.0}, seconds=4.0, wall=1.5, waited=3.0)
    assert "took 1.50 s: 1.00 s for kernels, while other threads waited 3.00 s for them, 0.50 s for the program" in str(
        report
    )


def test_a_report_does_not_wait_for_kernels_that_nothing_has_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would count time after the run that it reports on."""
    monkeypatch.setenv("NUMOD_CACHE_DIR", "")
    with build.ahead():
        kernel = build.build(cpu, "unused", "def kernel(x):\n    x[0] = 5\n", "int64[]")
    time = next(time for time in numod.compile_report().kernels if time.name == kernel.name)
    assert kernel in build.unfinished() and time.reason.endswith(", not used so far")
    build.complete(kernel)
    time = next(time for time in numod.compile_report().kernels if time.name == kernel.name)
    assert time.reason == kernel.why
