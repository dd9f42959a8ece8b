"""PyTorch's surface: programs such as its profiler tutorials run with numod in torch's place."""

from __future__ import annotations

import gzip
import importlib
import os
import subprocess
import sys
import threading
import json
from pathlib import Path
from types import ModuleType

import pytest

import numod
from numod.profiler import DeviceType, kineto_available, profile, record_function


@pytest.fixture
def torch() -> ModuleType:
    """What the programs below know as torch."""
    return numod


def network(torch: ModuleType) -> object:
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(4 * 36, 5)
    )


def test_the_recipe(torch: ModuleType, tmp_path: Path) -> None:
    from_profiler = torch.profiler
    model, inputs = network(torch), torch.randn(5, 3, 8, 8)
    with from_profiler.profile(
        activities=[from_profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True
    ) as prof:
        with from_profiler.record_function("model_inference"):
            model(inputs)
    assert "model_inference" in prof.key_averages().table(sort_by="cpu_time_total", row_limit=10)
    assert "[5, 3, 8, 8]" in prof.key_averages(group_by_input_shape=True).table(
        sort_by="cpu_time_total", max_name_column_width=20
    )
    assert prof.key_averages().table(sort_by="self_cpu_memory_usage", row_limit=3, time_unit="ms").count("\n") >= 7
    (inference,) = [key_average for key_average in prof.key_averages() if key_average.key == "model_inference"]
    assert (
        inference.count == 1
        and inference.cpu_time_total >= inference.self_cpu_time_total > 0
        and inference.cpu_time_total_str.endswith("s")
    )
    (event,) = [event for event in prof.events() if event.name == "model_inference"]
    assert (
        event.time_range.start <= event.time_range.end
        and event.cpu_children
        and event.is_user_annotation
        and not event.is_async
    )
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    names = {
        trace_event.get("name") for trace_event in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    }
    assert "model_inference" in names


def test_a_schedule_with_a_handler(torch: ModuleType, tmp_path: Path) -> None:
    model, inputs, seen = network(torch), torch.randn(5, 3, 8, 8), []

    def trace_handler(p: object) -> None:
        seen.append(p.step_num)
        assert p.key_averages().table(sort_by="self_cpu_time_total", row_limit=10)
        p.export_chrome_trace(str(tmp_path / f"trace_{p.step_num}.json"))

    plan = torch.profiler.schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], schedule=plan, on_trace_ready=trace_handler
    ) as p:
        for _ in range(10):
            model(inputs)
            p.step()
    assert seen == [5, 9] and sorted(path.name for path in tmp_path.iterdir()) == ["trace_5.json", "trace_9.json"]


def test_the_older_module(torch: ModuleType) -> None:
    profiler = importlib.import_module(f"{torch.__name__}.autograd.profiler")

    class Masked(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(6, 4)

        def forward(self, x: object, mask: object) -> tuple:
            with profiler.record_function("LINEAR PASS"):
                out = self.linear(x)
            with profiler.record_function("MASK INDICES"):
                where = (mask > out.sum(dim=1).mean().item()).nonzero()
            return out, where

    model = Masked()
    with profiler.profile(with_stack=True, profile_memory=True) as prof:
        model(torch.rand(8, 6), torch.rand(8, 8, 8))
    text = prof.key_averages(group_by_stack_n=5).table(sort_by="self_cpu_time_total", row_limit=50)
    assert "LINEAR PASS" in text and "MASK INDICES" in text


def test_the_handler_for_tensorboard(torch: ModuleType, tmp_path: Path) -> None:
    optimizer = torch.optim.SGD((model := network(torch)).parameters(), lr=0.01)
    handler = torch.profiler.tensorboard_trace_handler(str(tmp_path / "log"))
    with torch.profiler.profile(
        schedule=torch.profiler.schedule(wait=1, warmup=1, active=1, repeat=1),
        on_trace_ready=handler,
        record_shapes=True,
        with_stack=True,
    ) as prof:
        for _ in range(4):
            prof.step()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(torch.randn(2, 3, 8, 8)), torch.tensor([0, 1])).backward()
            optimizer.step()
    (path,) = (tmp_path / "log").iterdir()
    names = [event.get("name", "") for event in json.loads(path.read_text())["traceEvents"]]
    assert any(name.startswith("Optimizer.step#SGD.step") for name in names) and any(
        name.startswith("ProfilerStep#") for name in names
    )


# ---- numod's own reading of the rest


def test_times_in_a_unit() -> None:
    with profile() as prof:
        numod.ones(3).exp()
    for unit in ("s", "ms", "us"):
        row = next(
            line for line in prof.key_averages().table(time_unit=unit).splitlines() if line.startswith("numod::exp")
        )
        assert row.split()[1].endswith(unit) and row.split()[1][-len(unit) - 1].isdigit()
    with pytest.raises(ValueError, match="time_unit"):
        prof.key_averages().table(time_unit="ns")


def test_constant_attributes_exist() -> None:
    with profile(record_shapes=True) as prof:
        numod.ones(2, 3).add(1)
    event = next(event for event in prof.events() if event.name == "numod::add")
    assert event.input_dtypes == ["float32", "int"] and event.input_shapes == [[2, 3], []]
    assert event.device_type is DeviceType.CPU and not (event.is_remote or event.is_legacy)
    # The unit depends on how long the machine took.
    assert event.self_cpu_time_total_str.endswith(("us", "ms", "s"))
    assert prof.key_averages()[0].cpu_parent is None and not kineto_available()


def test_memory_over_time(tmp_path: Path) -> None:
    with profile(profile_memory=True) as prof:
        x = numod.zeros(1000)
        del x
    prof.export_memory_timeline(str(tmp_path / "memory.json.gz"))
    times, sizes = json.loads(gzip.open(tmp_path / "memory.json.gz").read())
    assert (
        times == sorted(times)
        and len(times) == len(sizes)
        and all(len(row) == 9 for row in sizes)
        and sizes[-1][-1] == 0
    )
    prof.export_memory_timeline(str(tmp_path / "memory.html"))
    assert "Memory timeline" in (tmp_path / "memory.html").read_text()
    with pytest.raises(ValueError, match="profile_memory"):
        profile().export_memory_timeline("nowhere")


def test_lists_of_events_write_files(tmp_path: Path) -> None:
    with profile(with_stack=True) as prof:
        numod.ones(1000).exp()
    prof.events().export_chrome_trace(str(tmp_path / "trace.json"))
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    prof.events().export_stacks(str(tmp_path / "stacks"), "self_cpu_time_total")
    assert "test_profiler_surface.py" in (tmp_path / "stacks").read_text()
    with pytest.raises(ValueError, match="metric"):
        prof.events().export_stacks(str(tmp_path / "stacks"), "bogus")


def test_metadata_and_names_of_traces(tmp_path: Path) -> None:
    with profile(custom_trace_id_callback=lambda: "mine") as prof:
        numod.ones(2).exp()
    prof.add_metadata("run", "test")
    prof.add_metadata_json("sizes", "[1, 2]")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    document = json.loads((tmp_path / "trace.json").read_text())
    assert (document["run"], document["sizes"], prof.get_trace_id()) == ("test", [1, 2], "mine")
    with pytest.raises(NotImplementedError, match="execution traces"):
        profile(execution_trace_observer=object())


# ---- mistakes


def works() -> bool:
    """Whether a profiler can be turned on, as ever."""
    with profile() as prof:
        numod.ones(2).exp()
    return any(event.name == "numod::exp" for event in prof.events())


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"activities": []}, AssertionError, "No valid profiler activities"), ({"activities": ["cpu"]}, TypeError, "ProfilerActivity, got .*cpu"),
        ({"schedule": 3}, TypeError, "schedule must be a function, got int"), ({"on_trace_ready": "out"}, TypeError, "on_trace_ready must be a function, got str"),
        ({"schedule": lambda step: step}, TypeError, r"schedule\(0\) must give a ProfilerAction, got 0"), ({"schedule": lambda step: 1 // step}, ZeroDivisionError, "zero"),
        ({"on_trace_ready": lambda prof: 1 // 0}, ZeroDivisionError, "zero"),
    ],
)  # fmt: skip
def test_a_mistaken_profiler_says_what_is_wrong_and_leaves_nothing_on(options: dict, error: type, text: str) -> None:
    with pytest.raises(error, match=text), profile(**options):
        numod.ones(2).exp()
    assert works()


def test_an_error_in_the_block_ends_the_profile(tmp_path: Path) -> None:
    with pytest.raises(KeyError), profile() as prof:
        numod.ones(2).exp()
        raise KeyError("mine")
    assert any(event.name == "numod::exp" for event in prof.events()) and works()
    with pytest.raises(FileNotFoundError):
        prof.export_chrome_trace(str(tmp_path / "nowhere" / "trace.json"))


def test_results_are_available_after_the_block(tmp_path: Path) -> None:
    with profile() as prof:
        numod.ones(2).exp()
        with pytest.raises(AssertionError, match="call stop"):
            prof.export_chrome_trace(str(tmp_path / "trace.json"))
    with pytest.raises(AttributeError, match="cannot sort by 'bogus'; choose from count, cpu_time_total"):
        prof.key_averages().table(sort_by="bogus")


def test_one_profiler_is_on_in_all_threads() -> None:
    errors: list[Exception] = []

    def work() -> None:
        try:
            profile().start()
        except RuntimeError as error:
            errors.append(error)

    with profile():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert "in this or another thread" in str(errors[0]) and works()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_is_not_profiled_and_may_be() -> None:
    program = "import os, numod\nfrom numod.profiler import profile\nwith profile(with_jit=True) as prof:\n    numod.ones(2)\n    child = os.fork()\n    if not child:\n" \
        "        with profile() as own: numod.ones(2)\n        os._exit(len(own.events()))\n    code = os.waitpid(child, 0)[1]\nprint(os.waitstatus_to_exitcode(code))"  # fmt: skip
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True, check=True
    )
    assert finished.stdout == "2\n"


def test_a_slice_that_began_before_the_profiler_is_cut() -> None:
    prof = profile()
    with record_function("outer"):
        numod.ones(2)
        prof.start()
        numod.ones(2)
    prof.stop()
    whole, outer = prof.events()[:2]
    assert (whole.name, outer.name) == ("profile", "outer") and outer.cpu_parent is whole and outer.start == whole.start
    assert sum(event.self_duration for event in prof.events()) == whole.duration


# ---- ranges and the older names


def test_ranges_are_slices(torch: ModuleType) -> None:
    nvtx, itt = torch.cuda.nvtx, torch.profiler.itt
    assert importlib.import_module(f"{torch.__name__}.cuda.nvtx") is nvtx and not itt.is_available()
    with (
        torch.profiler.profile() as prof,
        torch.autograd.profiler.emit_nvtx(),
        torch.autograd.profiler.emit_itt(record_shapes=True),
    ):
        assert (nvtx.range_push("outer"), nvtx.range_push("inner")) == (0, 1)
        torch.ones(2).exp()
        assert (nvtx.range_pop(), nvtx.range_pop()) == (1, 0)
        with itt.range("step {}", 3):
            itt.mark("here")
    with pytest.raises(RuntimeError, match="no range is open"):
        nvtx.range_pop()
    exp = next(event for event in prof.events() if event.name == "numod::exp")
    assert [exp.cpu_parent.name, exp.cpu_parent.cpu_parent.name] == ["inner", "outer"]
    assert next(event for event in prof.events() if event.name == "here").cpu_parent.name == "step 3"


def test_traces_are_begun_and_ended_by_hand(torch: ModuleType) -> None:
    prof = torch.profiler.profile()
    prof.set_custom_trace_id_callback(lambda: "mine")
    prof.start_trace()
    torch.ones(2).exp()
    prof.stop_trace()
    assert prof.get_trace_id() == "mine" and prof.events().key_averages(
        group_by_input_shapes=True, group_by_overload_name=False
    )
    assert isinstance(prof.events()[0], torch.autograd.profiler.FunctionEvent)


def test_pytorchs_paths_lead_here(torch: ModuleType) -> None:
    for path, name in (
        ("profiler.profiler", "schedule"),
        ("profiler.profiler", "profile"),
        ("autograd.profiler_util", "EventList"),
        ("autograd.profiler_util", "FunctionEvent"),
    ):
        assert callable(getattr(importlib.import_module(f"{torch.__name__}.{path}"), name))


def test_a_profiler_that_cannot_start_is_not_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("numod.profiler.launches.Launches.start", fail)
    with pytest.raises(MemoryError):
        profile(with_jit=True).start()
    monkeypatch.undo()
    assert works()
