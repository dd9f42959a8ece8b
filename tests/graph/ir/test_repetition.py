"""Calls that repeat are compiled once, as loops, and compute what they would one by one."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.graph.ir.repetition import RepeatedRun, stretches


def section_of(compiled: object) -> object:
    (versions,) = compiled.versions.values()
    return versions[0].executable.section


@pytest.mark.parametrize("dynamic", [False, True])
def test_the_steps_of_a_cell_are_a_loop(dynamic: bool) -> None:
    cell = nn.GRUCell(3, 4).eval()

    def unrolled(x: numod.Tensor) -> numod.Tensor:
        state = numod.zeros(2, 4)
        for each in x:
            state = cell(each, state)
        return state

    compiled = numod.compile(unrolled, dynamic=dynamic)
    with numod.no_grad():
        for _ in range(3):
            x = numod.randn(12, 2, 3)
            assert numod.allclose(compiled(x), unrolled(x), atol=1e-6)
    source = section_of(compiled).kernel.source
    assert "for turn in range(12):" in source and source.count("    gru_cell_") == 1


def test_groups_end_with_the_iterations() -> None:
    """A group that is full would end at another step of each iteration, so that every one would have loops of its
    own.
    """
    decay, x = numod.rand(4), numod.randn(40, 2, 4)

    def scan(x: numod.Tensor) -> numod.Tensor:
        top = total = weight = numod.zeros(2, 4)
        found = []
        for each in x:
            peak = numod.maximum(top, each)
            old, new = numod.exp(top - peak), numod.exp(each - peak)
            total, weight, top = old * total + new * each, old * weight + new, peak - decay
            found.append(total / weight)
        return numod.stack(found)

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

    x, state = numod.randn(2, 5), {name: each.clone() for name, each in model.state_dict().items()}
    for function in (step, numod.compile(step)):
        model.load_state_dict(state)
        losses.append([function(x).item() for _ in range(4)])
    assert numod.allclose(numod.tensor(losses[0]), numod.tensor(losses[1]), rtol=1e-5)


def test_what_is_found() -> None:
    keys = "xabababababyccccccccz"
    assert [stretch for stretch in stretches(keys) if stretch.turns > 1] == [
        RepeatedRun(1, 2, 5),
        RepeatedRun(12, 1, 8),
    ]
    assert sum(stretch.period * stretch.turns for stretch in stretches(keys)) == len(keys)
    assert all(stretch.turns == 1 for stretch in stretches(keys[:5])) and stretches("") == []
    assert stretches("abcabcabcabc", limit=2) == [RepeatedRun(k, 1, 1) for k in range(12)]
