"""The table of exported networks: what it prints. Nothing is compiled, and no test looks at how long anything took."""

from __future__ import annotations

import importlib
import json
import re

import pytest

export = pytest.importorskip("perf.export", reason="perf/ is in the repository only")
main = importlib.import_module("perf.__main__").main


def test_rows_are_chosen_by_text(capsys):
    assert main(["export", "--rows", "no such row"]) == 0
    assert capsys.readouterr().out.split() == ["what", "measured", "bar", "met"]


def test_a_row_that_cannot_be_measured_says_why():
    def measure():
        raise FileNotFoundError("node is not installed\nmore")

    assert re.search(r"LeNet +not measured: FileNotFoundError: node is not installed +<= 3", export._line("LeNet", "<= 3", measure))  # fmt: skip
    assert export._line("LeNet", "<= 3", lambda: ("2.0", True)).endswith("yes")


@pytest.mark.parametrize("stateful", [False, True])
def test_the_timer_calls_with_all_that_the_network_takes(stateful):
    port = {"name": "x", "itemsize": 4}
    about = {"inputs": [port], "outputs": [port | {"name": "y"}], "stateful": stateful, "sizes": []}
    text = export._timer(json.loads(json.dumps(about)))
    block = "state" if stateful else "NULL"
    assert f"net_run({block}, arena, sizeof arena, (void *)data0, (void *)data1)" in text
    assert ("net_state_init(state);" in text) == stateful and "data1[4 * NET_Y_COUNT + 1]" in text
