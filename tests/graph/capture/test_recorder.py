"""Recorded programs against their functions, and the inputs that they refuse."""

from __future__ import annotations

import copy
import re
from pathlib import Path

import pytest

import numod
from numod import nn
from numod.graph import trace
from numod.graph.capture.recorder import Recorder
from numod.nn import functional as F

OPTIMIZERS = {
    "sgd": lambda parameters: numod.optim.SGD(parameters, lr=0.1),
    "momentum": lambda parameters: numod.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adam": lambda parameters: numod.optim.Adam(parameters, lr=0.05),
}


def training_step(model: nn.Module, optimizer: numod.optim.Optimizer) -> object:
    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.fixture
def batches() -> list[tuple[numod.Tensor, numod.Tensor]]:
    numod.manual_seed(0)
    return [(numod.randn(6, 5), numod.randint(0, 3, (6,))) for _ in range(5)]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_training_step_replays_exactly(name: str, batches: list) -> None:
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    twin = copy.deepcopy(model)
    eager = training_step(twin, OPTIMIZERS[name](twin.parameters()))
    numod.manual_seed(1)
    expected = [eager(*batch).item() for batch in batches]
    step = training_step(model, OPTIMIZERS[name](model.parameters()))
    numod.manual_seed(1)
    results = [step(*batches[0]).item()]
    program = trace(step, *batches[1])
    results += [program(*batch).item() for batch in batches[2:]]
    assert results == [expected[0], *expected[2:]]
    for mine, theirs in zip(model.parameters(), twin.parameters()):
        assert numod.equal(mine, theirs) and numod.equal(mine.grad, theirs.grad)


def test_a_schedule_may_change_hyper_parameters_between_runs(batches: list) -> None:
    model = nn.Linear(5, 3)
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)
    program = trace(training_step(model, optimizer), *batches[0])
    before = model.weight.detach().clone()
    optimizer.param_groups[0]["lr"] = 0.0
    program(*batches[1])
    assert numod.equal(model.weight, before)


def test_views_in_place_writes_and_several_results() -> None:
    def function(x: numod.Tensor) -> dict[str, numod.Tensor]:
        y = x.t().clone()
        y[0].mul_(2)
        return {"y": y, "parts": (y.sum(), x[1:, ::2] + 1)}

    program = trace(function, numod.ones(3, 4))
    x = numod.arange(12.0).reshape(3, 4)
    actual, expected = program(x), function(x)
    assert numod.equal(actual["y"], expected["y"])
    assert all(numod.equal(a, b) for a, b in zip(actual["parts"], expected["parts"]))


def test_reading_a_value_is_refused_while_recording() -> None:
    for read in (lambda x: x.sum().item(), lambda x: bool(x.sum() > 0), lambda x: x.numpy(), lambda x: x.tolist()):
        with pytest.raises(RuntimeError, match="reads a tensor's value in Python"):
            trace(read, numod.ones(2))


def test_unrecorded_shapes_and_dtypes_are_refused() -> None:
    program = trace(lambda x: x * 2, numod.ones(3))
    with pytest.raises(RuntimeError, match=r"recorded as \(3,\).*got \(4,\)"):
        program(numod.ones(4))
    with pytest.raises(RuntimeError, match="trace again"):
        program(numod.ones(3, dtype=numod.float64))
    with pytest.raises(RuntimeError, match="1 inputs, got 2"):
        program(numod.ones(3), numod.ones(3))


def test_a_check_with_another_outcome_is_refused() -> None:
    program = trace(lambda x, index: x[index], numod.arange(4.0), numod.tensor([0, 3]))
    assert program(numod.arange(4.0), numod.tensor([1, 2])).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="trace again"):
        program(numod.arange(4.0), numod.tensor([1, 9]))


def test_state_made_in_the_recorded_step_is_refused(batches: list) -> None:
    model = nn.Linear(5, 3)
    with pytest.raises(RuntimeError, match="run one step before tracing"):
        trace(training_step(model, numod.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)), *batches[0])


def test_the_text_names_every_step() -> None:
    text = str(trace(lambda x: (x @ x).relu().sum(), numod.ones(3, 3)))
    assert [line.split(" = ")[1].split("(")[0] for line in text.splitlines() if " = " in line] == [
        "matmul",
        "relu",
        "sum",
    ]


def test_recording_stops_after_an_error() -> None:
    from numod.core.listeners import listeners

    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 // 0, numod.ones(1))
    assert not listeners


def test_the_recorder_handles_every_event_of_the_dispatch() -> None:
    """Events are looked up by name, so that a misspelled one would be ignored."""
    core = Path(numod.__file__).parent / "core"
    text = "".join(path.read_text() for path in core.rglob("*.py"))
    events = {*re.findall(r'\bnotify\("(\w+)"', text), *re.findall(r'(?:get|has)attr\(\w*listener, "(\w+)"', text)}
    assert {"created", "branched", "observe", "view_copied"} <= events
    assert events - {"thread"} <= vars(Recorder).keys()
