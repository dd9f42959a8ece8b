"""Repeated calls are compiled once, as loops, with unchanged results."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.graph.ir.repetition import RepeatedRun, repeated_runs


def section_of(compiled: object) -> object:
    (versions,) = compiled.versions.values()
    return versions[0].executable.section


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_steps_of_a_cell_are_a_loop(dynamic: bool) -> None:
    cell = nn.GRUCell(3, 4).eval()

    def unrolled(x: numod.Tensor) -> numod.Tensor:
        state = numod.zeros(2, 4)
        for item in x:
            state = cell(item, state)
        return state

    compiled = numod.compile(unrolled, dynamic=dynamic)
    with numod.no_grad():
        for _ in range(3):
            x = numod.randn(12, 2, 3)
            assert numod.allclose(compiled(x), unrolled(x), atol=1e-6)
    source = section_of(compiled).kernel.source
    assert "for turn in range(12):" in source and source.count("    gru_cell_") == 1


def test_groups_end_with_the_iterations() -> None:
    """Full groups would end at another step in each iteration, so no two iterations would have equal loops."""
    decay, x = numod.rand(4), numod.randn(40, 2, 4)

    def scan(x: numod.Tensor) -> numod.Tensor:
        top = total = weight = numod.zeros(2, 4)
        outputs = []
        for item in x:
            peak = numod.maximum(top, item)
            old, new = numod.exp(top - peak), numod.exp(item - peak)
            total, weight, top = old * total + new * item, old * weight + new, peak - decay
            outputs.append(total / weight)
        return numod.stack(outputs)

    compiled = numod.compile(scan)
    assert numod.allclose(compiled(x), scan(x), rtol=1e-6)
    section = section_of(compiled)
    assert len({call.kernel.source for call in section.calls}) < 12 and "for turn in range(3" in section.kernel.source


def test_layers_with_weights_of_their_own_are_turns_too() -> None:
    model = nn.Sequential(*[nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(9)])
    optimizer = numod.optim.SGD(model.parameters(), lr=0.1)
    losses = []

    def step(x: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x, state = numod.randn(2, 5), {name: value.clone() for name, value in model.state_dict().items()}
    for function in (step, numod.compile(step)):
        model.load_state_dict(state)
        losses.append([function(x).item() for _ in range(4)])
    assert numod.allclose(numod.tensor(losses[0]), numod.tensor(losses[1]), rtol=1e-5)


def test_repeated_steps_become_a_run() -> None:
    keys = "xabababababyccccccccz"
    assert [run for run in repeated_runs(keys) if run.trip_count > 1] == [
        RepeatedRun(1, 2, 5),
        RepeatedRun(12, 1, 8),
    ]
    assert sum(run.period * run.trip_count for run in repeated_runs(keys)) == len(keys)
    assert all(run.trip_count == 1 for run in repeated_runs(keys[:5])) and repeated_runs("") == []
    assert repeated_runs("abcabcabcabc", limit=2) == [RepeatedRun(k, 1, 1) for k in range(12)]
