"""The verifier accepts recorded programs and reports errors in invalid ones."""

from __future__ import annotations

import importlib
from dataclasses import replace

import pytest

import numod
from numod import nn
from numod.graph import trace
from numod.graph import verify
from numod.nn import functional as F


def program() -> object:
    return trace(lambda x: (x @ x).relu_().sum(), numod.ones(3, 3))


def test_a_training_step_is_well_formed() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.ReLU(), nn.Linear(4, 2))
    optimizer = numod.optim.Adam(model.parameters())

    def step(x: numod.Tensor, y: numod.Tensor) -> numod.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    batch = numod.ones(5, 3), numod.zeros(5, dtype=numod.int64)
    step(*batch)
    recorded = trace(step, *batch)
    assert verify(recorded) is recorded and len(recorded.gradients) == 4


BROKEN = {
    "uses %1, which is not defined yet": lambda p: p.steps.pop(0),
    "defines %1, which is already defined": lambda p: p.steps.insert(1, p.steps[0]),
    "overwrites %1, which is not defined": lambda p: p.steps.__setitem__(0, replace(p.steps[0], in_place=True)),
    "its op plans": lambda p: p.layouts.update({p.steps[0].results[0]: numod.ones(2)._layout}),
    "the result %2 is not defined": lambda p: p.steps.pop(),
}


def test_layouts_of_a_table_begun_anew_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = program()
    monkeypatch.setattr(importlib.import_module("numod.device.layout"), "_interned", {})
    assert verify(recorded) is recorded
    assert recorded(numod.ones(3, 3)).item() == 27.0


@pytest.mark.parametrize("message", BROKEN)
def test_invalid_programs_are_reported(message: str) -> None:
    recorded = program()
    BROKEN[message](recorded)
    with pytest.raises(ValueError, match=message):
        verify(recorded)
