"""Schedules beside PyTorch's, over 200 steps: rates, momenta, saved and resumed."""

from __future__ import annotations

import copy
import warnings

import pytest
from parity import same_error, torch

import numod

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("ignore:.*epoch parameter"),
    pytest.mark.filterwarnings("ignore:.*lr_scheduler.step"),
]

CASES = {
    "lambda": lambda s, o: s.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]), "multiplicative": lambda s,
    o: s.MultiplicativeLR(o, lambda e: 0.97), "step": lambda s, o: s.StepLR(o, 30, 0.3),
    "multistep": lambda s, o: s.MultiStepLR(o, [20, 50, 50, 120], 0.5), "constant": lambda s,
    o: s.ConstantLR(o, 0.25, 15), "linear": lambda s, o: s.LinearLR(o, 0.2, 0.8, 40), "exponential": lambda s,
    o: s.ExponentialLR(o, 0.98),
    "polynomial": lambda s, o: s.PolynomialLR(o, 120, 1.7), "cosine": lambda s, o: s.CosineAnnealingLR(o, 30, 0.001),
    "restarts": lambda s, o: s.CosineAnnealingWarmRestarts(o, 10, 2, 0.001), "restarts1": lambda s,
    o: s.CosineAnnealingWarmRestarts(o, 15),
    "cyclic": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 13, 21), "cyclic2": lambda s,
    o: s.CyclicLR(o, [0.01, 0.02], [0.2, 0.3], 10, mode="triangular2"), "cyclic3": lambda s,
    o: s.CyclicLR(o, 0.01, 0.2, 7, mode="exp_range", gamma=0.99, cycle_momentum=False),
    "cyclic4": lambda s, o: s.CyclicLR(o, 0.01, 0.2, 7, scale_fn=lambda x: 0.9**x, scale_mode="iterations"),
    "onecycle": lambda s, o: s.OneCycleLR(o, 0.3, total_steps=201), "onecycle3": lambda s,
    o: s.OneCycleLR(o, [0.3, 0.1], epochs=21, steps_per_epoch=10, three_phase=True, anneal_strategy="linear"),
    "sequential": lambda s,
    o: s.SequentialLR(o, [s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.95), s.CosineAnnealingLR(o, 25)], [20, 90]),
    "chained": lambda s, o: s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.95)]),
    "nested": lambda s,
    o: s.SequentialLR(o,
        [s.ChainedScheduler([s.ConstantLR(o, 0.1, 20), s.ExponentialLR(o, 0.99)]),
        s.CosineAnnealingWarmRestarts(o, 25)], [60]),
    "warmup": lambda s, o: s.SequentialLR(o, [s.LinearLR(o, 0.01, 1.0, 10), s.CosineAnnealingLR(o, 150)], [10]),
}  # fmt: skip


def optimizer(t, kind: str = "SGD"):
    groups = [{"params": [t.nn.Parameter(t.zeros(2))], "lr": 0.1}, {"params": [t.nn.Parameter(t.zeros(3))], "lr": 0.05}]
    return t.optim.SGD(groups, lr=0.1, momentum=0.9) if kind == "SGD" else t.optim.Adam(groups, lr=0.1)


def settings(o) -> list:
    return [(float(group["lr"]), group.get("momentum", group.get("betas"))) for group in o.param_groups]


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", CASES)
def test_rates(name: str, kind: str) -> None:
    mine, theirs = optimizer(numod, kind), optimizer(torch, kind)
    ours, other = CASES[name](numod.optim.lr_scheduler, mine), CASES[name](torch.optim.lr_scheduler, theirs)
    for step in range(200):
        assert str(settings(mine)) == str(settings(theirs)) or all(
            a[0] == pytest.approx(b[0], rel=1e-12) and a[1] == pytest.approx(b[1], rel=1e-12)
            for a, b in zip(settings(mine), settings(theirs))
        ), step
        assert ours.get_last_lr() == pytest.approx(other.get_last_lr(), rel=1e-12)
        mine.step(), theirs.step()
        ours.step(), other.step()


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("lambda", "multiplicative", "cyclic4")])
def test_saved_and_resumed(name: str) -> None:
    first = optimizer(numod)
    schedule = CASES[name](numod.optim.lr_scheduler, first)
    for _ in range(37):
        first.step(), schedule.step()
    second = optimizer(numod)
    resumed = CASES[name](numod.optim.lr_scheduler, second)
    resumed.load_state_dict(copy.deepcopy(schedule.state_dict()))
    second.load_state_dict(first.state_dict())
    for _ in range(60):
        first.step(), schedule.step(), second.step(), resumed.step()
        assert settings(first) == settings(second)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mode": "max"},
        {"patience": 2, "cooldown": 3},
        {"threshold_mode": "abs", "threshold": 0.05, "patience": 1},
        {"min_lr": [0.01, 0.02], "patience": 0, "factor": 0.5},
    ],
)
def test_plateau(options: dict) -> None:
    mine, theirs = optimizer(numod), optimizer(torch)
    ours = numod.optim.lr_scheduler.ReduceLROnPlateau(mine, **options)
    other = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for step in range(80):
        metric = 1 / (1 + step % 17) + 0.001 * step
        ours.step(metric), other.step(metric)
        assert settings(mine) == settings(theirs) and ours.num_bad_epochs == other.num_bad_epochs


@pytest.mark.parametrize("name", ["step", "multistep", "exponential", "cosine", "linear", "polynomial", "constant"])
def test_given_epochs(name: str) -> None:
    mine, theirs = optimizer(numod), optimizer(torch)
    ours, other = CASES[name](numod.optim.lr_scheduler, mine), CASES[name](torch.optim.lr_scheduler, theirs)
    for epoch in (3, 60, 2, 121):
        ours.step(epoch), other.step(epoch)
        assert ours.get_last_lr() == pytest.approx(other.get_last_lr(), rel=1e-12)


@pytest.mark.parametrize("name", ["step", "cyclic", "onecycle"])
def test_states_have_pytorchs_keys(name: str) -> None:
    ours, other = (CASES[name](t.optim.lr_scheduler, optimizer(t, "Adam")).state_dict() for t in (numod, torch))
    assert ours.keys() == other.keys() - {"_wrapped_by_lr_sched"} and ours.get("use_beta1") == other.get("use_beta1")


def test_restarts_resumed_after_several_cycles() -> None:
    def rates(t) -> list:
        o = t.optim.SGD([{"params": [t.nn.Parameter(t.zeros(2))], "initial_lr": 0.1}], lr=0.1)
        schedule = t.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 3, 2, 0.01, last_epoch=7)
        return [(o.step(), schedule.step(), schedule.get_last_lr()[0])[2] for _ in range(9)]

    assert rates(numod) == pytest.approx(rates(torch), rel=1e-12)


def test_the_wrong_order_warns() -> None:
    for t in (numod, torch):
        o = optimizer(t)
        schedule = t.optim.lr_scheduler.StepLR(o, 3)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(UserWarning, match="before `optimizer.step"):
                schedule.step()


@pytest.mark.parametrize("call", [
    lambda t, o: t.optim.lr_scheduler.StepLR(None, 3), lambda t, o: t.optim.lr_scheduler.StepLR(o, 3, last_epoch=4), lambda t, o: t.optim.lr_scheduler.LinearLR(o, 0), lambda t, o: t.optim.lr_scheduler.ConstantLR(o, 2),
    lambda t, o: t.optim.lr_scheduler.LambdaLR(o, [lambda e: 1]), lambda t, o: t.optim.lr_scheduler.OneCycleLR(o, 0.1), lambda t, o: t.optim.lr_scheduler.ReduceLROnPlateau(o, factor=1.0), lambda t, o: t.optim.lr_scheduler.ReduceLROnPlateau(o, "other"),
    lambda t, o: t.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 0), lambda t, o: t.optim.lr_scheduler.SequentialLR(o, [t.optim.lr_scheduler.StepLR(o, 3)], [1]), lambda t, o: t.optim.lr_scheduler.ChainedScheduler([]),
    lambda t, o: t.optim.lr_scheduler.CyclicLR(o, 0.1, 0.2, mode="other"),
])  # fmt: skip
def test_errors(call) -> None:
    same_error(lambda t: call(t, optimizer(t)))
