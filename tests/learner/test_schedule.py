"""Schedulers of numod.optim.lr_scheduler in a fit."""

from __future__ import annotations

import pytest

from numod import optim
from numod.learner import OptimScheduler, Recorder
from numod.optim.lr_scheduler import OneCycleLR, StepLR
from small_training import batches, learner


def test_by_epoch() -> None:
    learn = learner(cbs=[Recorder, OptimScheduler(lambda opt: StepLR(opt, 1, gamma=0.5))])
    for _ in range(2):  # anew in each fit
        learn.fit(2, 0.1)
        assert learn.recorder.lrs == pytest.approx([0.1] * 3 + [0.05] * 3)


def test_by_batch_with_validation() -> None:
    scheduler = OptimScheduler(lambda opt: OneCycleLR(opt, 0.1, total_steps=6), by_batch=True)
    learn = learner(batches(), batches(), cbs=[Recorder, scheduler])
    learn.fit(2)
    optimizer = optim.SGD(learn.model.parameters(), lr=0.1)
    by_hand, rates = OneCycleLR(optimizer, 0.1, total_steps=6), []
    for _ in range(6):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        by_hand.step()
    assert learn.recorder.lrs == pytest.approx(rates)
