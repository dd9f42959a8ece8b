"""The ladders: every version computes what it should, and the command shows them.

No test looks at how long anything took.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

ladders = pytest.importorskip("perf.ladders", reason="perf/ is in the repository only")
Pace = importlib.import_module("perf.row").Pace
modules = {name: importlib.import_module(f"perf.ladders.{name}") for name in ladders.NAMES}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.parity) if name == "conv" else name for name in ladders.NAMES]
)
def test_every_version_is_right(name):
    ladder = modules[name].ladder()
    assert max(ladder.check()) <= ladder.tolerance and len({version.name for version in ladder.versions}) == len(
        ladder.versions
    )


def test_a_wrong_version_is_refused():
    ladder = ladders.Ladder("of one", np.ones(2), 1e-6, [ladders.Version("wrong", "", lambda: np.array([1.0, 1.1]))])
    with pytest.raises(ValueError, match="ladder of one: wrong is wrong by 1.0e-01"):
        ladder.check()
    with pytest.raises(ValueError, match="wrong by nan"):
        ladders.Ladder("of one", np.ones(1), 1e-6, [ladders.Version("none", "", lambda: np.array([np.nan]))]).check()


def test_climbing_prints_a_line_for_each_version(capsys):
    versions = [ladders.Version(name, f"why {name}", lambda: np.ones(1)) for name in "ab"]
    ladders.climb(ladders.Ladder("title", np.ones(1), 0.0, versions, 10, 10), Pace(1e-6, 2))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "title" and lines[3].endswith("why a") and lines[4].endswith("why b")


def test_an_unknown_ladder_is_refused(capsys):
    with pytest.raises(SystemExit):
        ladders.main(["no such"])
    assert "no ladder no such; there are: gemm" in capsys.readouterr().err
