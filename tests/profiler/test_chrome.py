"""Files for other programs: Chrome traces, stacks, TensorBoard."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from numod.profiler import profile, tensorboard_trace_handler


def test_a_chrome_trace_has_nested_slices_flows_and_memory(profiled: profile, tmp_path: Path) -> None:
    profiled.add_metadata("run", "test")
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    document = json.loads((tmp_path / "trace.json").read_text())
    assert document["run"] == "test"
    slices = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert len(slices) == len(profiled.events()) and all(slice_["dur"] >= 0 for slice_ in slices)
    begins = {event["id"]: event["ts"] for event in document["traceEvents"] if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in document["traceEvents"] if event["ph"] == "f"}
    nodes = [event for event in profiled.events() if event.category == "node"]
    assert begins.keys() == ends.keys() and len(begins) == len(nodes) and all(begins[k] < ends[k] for k in begins)
    counters = [
        event["args"]["bytes"] for event in document["traceEvents"] if event["ph"] == "C" and "bytes" in event["args"]
    ]
    assert counters and counters[-1] == sum(change.size for change in profiled.memory())
    convolution = next(slice_ for slice_ in slices if slice_["name"] == "numod::convolution")
    assert convolution["args"]["Module"] == "net.layer1.conv" and convolution["args"]["Input Dims"] == [
        [4, 1, 8, 8],
        [2, 1, 3, 3],
    ]


def test_a_traces_slices_nest_on_every_thread(profiled: profile, tmp_path: Path) -> None:
    profiled.export_chrome_trace(str(tmp_path / "trace.json"))
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    named_threads = {event["tid"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"}
    open_: dict[int, list[dict]] = {}
    for slice_ in sorted(
        (event for event in events if event["ph"] == "X"), key=lambda event: (event["ts"], -event["dur"])
    ):
        stack = open_.setdefault(slice_["tid"], [])
        while stack and stack[-1]["ts"] + stack[-1]["dur"] <= slice_["ts"]:
            stack.pop()
        assert not stack or slice_["ts"] + slice_["dur"] <= stack[-1]["ts"] + stack[-1]["dur"] + 2e-3, (
            stack[-1]["name"],
            slice_["name"],
        )
        stack.append(slice_)
    assert set(open_) == named_threads and [
        event["args"]["name"] for event in events if event["ph"] == "M" and event["name"] == "thread_name"
    ] == ["MainThread"]
    places = {(event["tid"], event["ts"]) for event in events if event["ph"] == "X"}
    # an arrow begins and ends where a slice does
    assert all((event["tid"], event["ts"]) in places for event in events if event["ph"] in "sf")
    for name in {event["name"] for event in events if event["ph"] == "C"}:
        moments = [event["ts"] for event in events if event["ph"] == "C" and event["name"] == name]
        assert moments == sorted(moments)


def test_traces_for_tensorboard_and_stacks(profiled: profile, tmp_path: Path) -> None:
    tensorboard_trace_handler(str(tmp_path / "log"), "worker", use_gzip=True)(profiled)
    (path,) = (tmp_path / "log").iterdir()
    assert path.name.startswith("worker.") and path.name.endswith(".pt.trace.json.gz")
    with gzip.open(path, "rt") as file:
        assert json.load(file)["traceEvents"]
    profiled.export_stacks(str(tmp_path / "stacks"))
    lines = (tmp_path / "stacks").read_text().splitlines()
    assert (
        lines
        and all(line.rsplit(" ", 1)[1].isdigit() for line in lines)
        and any("profiled.py" in line for line in lines)
    )
    with pytest.raises(ValueError, match="with_stack"):
        profile().export_stacks("nowhere")
    with pytest.raises(AssertionError, match="initialized"):
        profile().key_averages()
