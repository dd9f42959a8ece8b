"""`profile --compare`: what got slower between two traces, by module and kernel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from numod.__main__ import main
from numod.profiler import profile
from numod.profiler.compare import read_trace, report


def written(path: Path, slices: list[tuple]) -> str:
    """A trace of slices (category, name, start, duration, module)."""
    events = [
        {
            "ph": "X",
            "cat": category,
            "name": name,
            "ts": start,
            "dur": duration,
            "tid": 1,
            "args": {"Module": module} if module else {},
        }
        for category, name, start, duration, module in slices
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    return str(path)


def step(plan: float, kernel: float) -> list[tuple]:
    return [
        ("python_function", "nn.Module: net", 0, 20 + plan + kernel, "net"),
        ("python_function", "nn.Module: net.0", 5, 10 + plan + kernel, "net.0"),
        ("cpu_op", "numod::linear", 6, 2 + plan + kernel, "net.0"),
        ("plan", "plan", 6.5, plan, None),
        ("compile", "compile dots_1", 6.5, plan / 2, None),
        ("kernel", "dots_1", 7 + plan, kernel, None),
        ("cpu_op", "LinearBackward0", 1000, 4, "net.0"),
        ("cpu_op", "numod::linear_gradient", 1001, 2, "net.0"),
    ]


def test_times_are_summed_without_first_calls(tmp_path: Path) -> None:
    trace = read_trace(written(tmp_path / "a.json", step(plan=100, kernel=1)))
    assert trace.forward == {"net": [1, 21], "net.0": [1, 11]}
    assert trace.backward == {"net.0": [1, 4]} and trace.kernels == {"dots_1": [1, 1]}


def test_slower_rows_come_first(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    before = written(tmp_path / "a.json", step(plan=100, kernel=1))
    after = written(tmp_path / "b.json", [*step(plan=0, kernel=4), ("kernel", "new_kernel", 2000, 1, None)])
    assert main(["profile", "--compare", before, after]) == 0
    tables = capsys.readouterr().out.split("\n\n")
    assert [table.split("  ")[0] for table in tables[:3]] == ["module, forward", "module, backward", "kernel"]
    slower, new = tables[2].splitlines()[1:]
    assert slower.split() == ["dots_1", "1", "1.000us", "4.000us", "+3.000us", "+300", "%"] and new.split()[-1] == "new"
    assert tables[0].splitlines()[1].split()[-4:] == ["24.000us", "+3.000us", "+14", "%"]


def test_a_profile_of_numod_is_read(profiled: profile, tmp_path: Path) -> None:
    path = str(tmp_path / "trace.json.gz")
    profiled.export_chrome_trace(path)
    trace = read_trace(path)
    assert set(trace.forward) == set(trace.backward) | {"net", "net.layer1"} and trace.kernels
    assert len(list(report(trace, trace, rows=5))) == 3


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"traceEvents": 3}'])
def test_files_of_other_formats_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    assert main(["profile", "--compare", str(tmp_path / "a.json"), str(tmp_path / "a.json")]) == 2
    assert "is not a trace: expected a file NAME.trace.json" in capsys.readouterr().err
    assert main(["profile", "--compare", str(tmp_path / "b.json"), "c"]) == 2 and main(["profile"]) == 2
