"""Calls that repeat are compiled once, as loops, and compute what they would one by one."""

from __future__ import annotations

import pytest

import numod
from numod import nn
from numod.graph.roll import Stretch, stretches


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
    calls = [_Fake(letter) for letter in "xabababababyccccccccz"]
    assert [each for each in stretches(calls) if each.turns > 1] == [Stretch(1, 2, 5), Stretch(12, 1, 8)]
    assert sum(each.period * each.turns for each in stretches(calls)) == len(calls)
    assert all(each.turns == 1 for each in stretches(calls[:5])) and stretches([]) == []


class _Fake:
    """A call as `stretches` sees it."""

    arguments = ()

    def __init__(self, letter: str) -> None:
        self.kernel = type("Kernel", (), {"source": letter, "signature": "", "real": None, "fastmath": frozenset()})
