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


@pytest.mark.parametrize(
    "make",
    [
        lambda s, o: s.LambdaLR(o, lambda k: 0.9**k),
        lambda s, o: s.MultiplicativeLR(o, lambda k: 0.9),
        lambda s, o: s.CosineAnnealingLR(o, 1),
        lambda s, o: s.CosineAnnealingWarmRestarts(o, 3),
        lambda s, o: s.CyclicLR(o, 0.1, 0.2, cycle_momentum=False),
    ],
)
def test_a_group_that_a_schedule_has_no_rate_for(make):
    sgd = optim.SGD([nn.Parameter(numod.ones(1))], lr=0.1)
    schedule = make(optim.lr_scheduler, sgd)
    sgd.step(), schedule.step()
    sgd.add_param_group({"params": [nn.Parameter(numod.ones(1))], "lr": 0.5, "initial_lr": 0.5})
    with pytest.raises(ValueError, match="made for 1 parameter groups, but the optimizer has 2"):
        for _ in range(3):  # one of Cosine's steps uses the first rates
            sgd.step(), schedule.step()


def test_a_function_that_scales_a_cycle_is_not_in_the_state():
    class Scale:
        def __init__(self) -> None:
            self.k = 2.0

        def __call__(self, cycle: float) -> float:
            return self.k / cycle

    sgd = optim.SGD([nn.Parameter(numod.ones(1))], lr=0.1, momentum=0.9)
    for scale, state in ((lambda cycle: 0.5, None), (Scale(), {"k": 2.0})):
        schedule = optim.lr_scheduler.CyclicLR(sgd, 0.1, 0.2, scale_fn=scale)
        assert schedule.state_dict()["_scale_fn_custom"] == state
