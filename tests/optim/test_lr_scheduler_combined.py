"""Schedules inside schedules, rates given as tensors, groups that are added later."""

import numpy as np
import pytest

import numod
from numod import nn, optim


def test_a_plateau_with_a_group_more():
    sgd = optim.SGD([nn.Parameter(numod.ones(1))], lr=0.1)
    schedules = [optim.lr_scheduler.ReduceLROnPlateau(sgd, patience=0, min_lr=least) for least in ([1e-5], 1e-5)]
    sgd.add_param_group({"params": [nn.Parameter(numod.ones(1))]})
    for schedule in schedules:
        schedule.step(1.0)
    with pytest.raises(RuntimeError, match="number of param groups"):
        schedules[0].step(1.0)
    schedules[1].step(1.0)
    assert np.allclose([group["lr"] for group in sgd.param_groups], 0.01)


def test_schedules_inside_schedules():
    sgd = optim.SGD([nn.Parameter(numod.zeros(1))], lr=1.0)
    schedule = optim.lr_scheduler
    both = schedule.ChainedScheduler([schedule.ConstantLR(sgd, 0.5, 2), schedule.ExponentialLR(sgd, 0.1)])
    whole = schedule.SequentialLR(sgd, [schedule.ConstantLR(sgd, 0.25, 9), both], milestones=[2])
    rates = []
    for _ in range(5):
        rates.append(sgd.param_groups[0]["lr"])
        sgd.step(), whole.step()
    assert rates == pytest.approx([0.25, 0.25, 0.5, 0.05, 0.01])


def test_schedules_copy_the_rates_they_are_given():
    rate = numod.tensor(0.5)
    sgd = optim.SGD([nn.Parameter(numod.zeros(1))], lr=1.0)
    schedule = optim.swa_utils.SWALR(sgd, rate, anneal_epochs=1)
    rate.fill_(7)
    sgd.step(), schedule.step()
    assert sgd.param_groups[0]["swa_lr"].item() == 0.5 and schedule.get_last_lr() == [0.5]
