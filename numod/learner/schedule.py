"""Schedules of hyper-parameters, and the search for a learning rate.

A schedule is a function of the share of training done, from 0 to 1. Names and defaults are fastai's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

from .events import Callback, CancelFitException, CancelValidException
from .randomness import keeping_random_state

Schedule = Callable[[float], Any]


class _Between:
    """From `start` to `end`, numbers or lists of one per parameter group, by a formula."""

    def __init__(self, formula: Callable[[float, float, float], float], start: Any, end: Any) -> None:
        self.formula, self.start, self.end = formula, start, end

    def __call__(self, pos: float) -> Any:
        if isinstance(self.start, (list, tuple)):
            return [self.formula(start, end, pos) for start, end in zip(self.start, self.end, strict=True)]
        return self.formula(self.start, self.end, pos)


def SchedLin(start: Any, end: Any) -> Schedule:
    """A straight line."""
    return _Between(lambda start, end, pos: start + pos * (end - start), start, end)


def SchedCos(start: Any, end: Any) -> Schedule:
    """Half a cosine wave."""
    return _Between(lambda start, end, pos: start + (1 + math.cos(math.pi * (1 - pos))) * (end - start) / 2, start, end)


def SchedNo(start: Any, end: Any) -> Schedule:
    """Always `start`."""
    return _Between(lambda start, end, pos: start, start, end)


def SchedExp(start: Any, end: Any) -> Schedule:
    """Exponential: equal factors in equal times."""
    return _Between(lambda start, end, pos: start * (end / start) ** pos, start, end)


def SchedPoly(start: Any, end: Any, power: float) -> Schedule:
    """A power of the time."""
    return _Between(lambda start, end, pos: start + (end - start) * pos**power, start, end)


def combine_scheds(pcts: Sequence[float], scheds: Sequence[Schedule]) -> Schedule:
    """Schedules one after another, each for a share of the time. Raises ValueError unless the shares sum to 1."""
    if abs(sum(pcts) - 1) > 1e-6 or min(pcts) < 0 or len(pcts) != len(scheds):
        raise ValueError(f"combine_scheds: expected a share for each schedule, which sum to 1, got {list(pcts)}")
    starts = [sum(pcts[:k]) for k in range(len(pcts))]

    def at(pos: float) -> Any:
        number = max((k for k, start in enumerate(starts) if pos >= start and pcts[k]), default=0)
        return scheds[number]((pos - starts[number]) / pcts[number])

    return at


def combined_cos(pct: float, start: Any, middle: Any, end: Any) -> Schedule:
    """Half a cosine wave from `start` to `middle` in the share `pct` of the time, another to `end` in the rest."""
    return combine_scheds([pct, 1 - pct], [SchedCos(start, middle), SchedCos(middle, end)])


# ---- hyper-parameters of an optimizer


def get_hyper(group: dict[str, Any], name: str) -> float:
    """A hyper-parameter of a parameter group. fastai's `mom`, `sqr_mom` and `wd` are known."""
    if name == "mom":
        return group["betas"][0] if "betas" in group else group["momentum"]
    if name == "sqr_mom":
        return group["betas"][1] if "betas" in group else group["alpha"]
    return group["weight_decay" if name == "wd" else name]


def has_hyper(opt: Any, name: str) -> bool:
    """Whether the optimizer has the hyper-parameter."""
    try:
        get_hyper(opt.param_groups[0], name)
    except KeyError:
        return False
    return True


def set_hyper(opt: Any, name: str, value: Any) -> None:
    """Set a hyper-parameter of all parameter groups, or one value for each."""
    groups = opt.param_groups
    values = list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)
    if len(values) != len(groups):
        raise ValueError(f"expected one {name} or {len(groups)}, one for each parameter group, got {len(values)}")
    for group, setting in zip(groups, values):
        if name in ("mom", "sqr_mom") and "betas" in group:
            first, second = group["betas"]
            group["betas"] = (setting, second) if name == "mom" else (first, setting)
        else:
            key = {"mom": "momentum", "sqr_mom": "alpha", "wd": "weight_decay"}.get(name, name)
            if key not in group:
                raise KeyError(f"{type(opt).__name__} has no hyper-parameter {name!r}")
            group[key] = setting


def per_group(lr: Any, groups: int) -> list[float]:
    """Learning rates of parameter groups.

    `slice(low, high)` are equal factors from `low` for the first group to `high` for the last, `slice(high)` is a tenth
    of `high` for all but the last.
    """
    if isinstance(lr, slice):
        if lr.stop is None:
            raise ValueError(f"expected slice(high) or slice(low, high), got {lr}")
        if lr.start is None:
            return [lr.stop / 10] * (groups - 1) + [lr.stop]
        if groups == 1:
            return [lr.stop]
        return [lr.start * (lr.stop / lr.start) ** (k / (groups - 1)) for k in range(groups)]
    return list(lr) if isinstance(lr, (list, tuple)) else [lr] * groups


class ParamScheduler(Callback):
    """Set hyper-parameters before each batch: `ParamScheduler({"lr": combined_cos(0.25, 1e-4, 1e-2, 1e-6)})`.

    `lr`, `mom`, `wd`, or a name that the optimizer has. What was set is in `recorder.hps`.
    """

    order, run_valid, needs_pred = 60, False, False

    def __init__(self, scheds: dict[str, Schedule]) -> None:
        self.scheds = scheds
        self.hps: dict[str, list[float]] = {}

    def before_fit(self) -> None:
        """Clear the record of values."""
        self.hps = {name: [] for name in self.scheds}

    def before_batch(self) -> None:
        """Set the hyper-parameters."""
        self._set(self.learn.pct_train)

    def _set(self, pct: float) -> None:
        for name, sched in self.scheds.items():
            value = sched(pct)
            set_hyper(self.learn.opt, name, value)
            self.hps[name].append(value[-1] if isinstance(value, list) else value)

    def cleanup_fit(self) -> None:
        """Store the record in `recorder.hps`."""
        if hasattr(self.learn, "recorder"):
            self.learn.recorder.hps.update(self.hps)

    def state_dict(self) -> dict[str, Any]:
        """The record of values."""
        return {"hps": self.hps}


class OptimScheduler(Callback):
    """Run a scheduler of `numod.optim.lr_scheduler` in a fit: `OptimScheduler(lambda opt: StepLR(opt, 2))`. It steps
    after each epoch's training, or with `by_batch` after each of its batches. It starts anew in each fit.
    """

    order, only_fit, run_valid, needs_pred = 60, True, False, False

    def __init__(self, make: Callable[[Any], Any], by_batch: bool = False) -> None:
        self.make, self.by_batch = make, by_batch

    def before_fit(self) -> None:
        """Make the scheduler for the optimizer."""
        self.scheduler = self.make(self.learn.opt)

    def after_batch(self) -> None:
        """Step, with `by_batch`."""
        if self.by_batch:
            self.scheduler.step()

    def after_train(self) -> None:
        """Step, without it."""
        if not self.by_batch:
            self.scheduler.step()

    def state_dict(self) -> dict[str, Any]:
        """The scheduler's state."""
        return {"scheduler": self.scheduler.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore it."""
        self.scheduler.load_state_dict(state["scheduler"])


# ---- the search for a learning rate


class LRFinder(ParamScheduler):
    """Train with a growing learning rate until the loss diverges. `Learner.lr_find` runs it on a copy."""

    def __init__(self, start_lr: float = 1e-7, end_lr: float = 10, num_it: int = 100, stop_div: bool = True) -> None:
        super().__init__({"lr": SchedExp(start_lr, end_lr)})
        self.num_it, self.stop_div, self.best_loss = max(num_it, 6), stop_div, math.inf

    def before_batch(self) -> None:
        """Set the learning rate by the number of batches."""
        self._set(self.learn.train_iter / self.num_it)

    def after_batch(self) -> None:
        """Stop where the loss has grown to four times the best."""
        smooth = self.learn.recorder.smooth_loss
        self.best_loss = min(smooth, self.best_loss)
        if self.learn.train_iter >= self.num_it or (self.stop_div and not smooth <= 4 * self.best_loss):
            raise CancelFitException

    def before_validate(self) -> None:
        """Skip validation."""
        raise CancelValidException


def valley(lrs: Sequence[float], losses: Sequence[float], num_it: int) -> tuple[float, tuple[float, float]]:
    """A third into the longest falling subsequence of the losses, as (suggestion, (rate, loss) to mark)."""
    length = [1] * len(losses)
    for i in range(len(losses)):
        length[i] += max((length[j] for j in range(i) if losses[i] < losses[j]), default=0)
    end = max(range(len(losses)), key=length.__getitem__)
    third = length[end] / 3
    index = max(end - length[end] + int(third) + int(third / 2), 0)
    return lrs[index], (lrs[index], losses[index])


def slide(
    lrs: Sequence[float],
    losses: Sequence[float],
    num_it: int,
    lr_diff: int = 15,
    thresh: float = 0.005,
    adjust_value: float = 1.0,
) -> tuple[float, tuple[float, float]]:
    """The interval slide rule: the last window, from the end, whose ends have slopes that differ by `thresh`."""
    slopes = [
        (losses[min(k + 1, len(losses) - 1)] - losses[max(k - 1, 0)]) / (min(k + 1, len(losses) - 1) - max(k - 1, 0))
        for k in range(len(losses))
    ]
    right, left = len(losses) - 1, max(len(losses) - 1 - lr_diff, 0)
    index = left
    while left >= 0 and abs(slopes[right] - slopes[left]) > thresh:
        index, right, left = left, right - 1, left - 1
    return lrs[index] * adjust_value, (lrs[index] * adjust_value, losses[index])


def minimum(lrs: Sequence[float], losses: Sequence[float], num_it: int) -> tuple[float, tuple[float, float]]:
    """A tenth of the rate with the smallest loss."""
    index = min(range(len(losses)), key=losses.__getitem__)
    return lrs[index] / 10, (lrs[index], losses[index])


def steep(lrs: Sequence[float], losses: Sequence[float], num_it: int) -> tuple[float, tuple[float, float]]:
    """The rate where the loss falls fastest."""
    slopes = [(b - a) / (math.log(s) - math.log(r)) for a, b, r, s in zip(losses, losses[1:], lrs, lrs[1:])]
    index = min(range(len(slopes)), key=slopes.__getitem__)
    return lrs[index], (lrs[index], losses[index])


def usable(lrs: Sequence[float], losses: Sequence[float], num_it: int) -> tuple[list[float], list[float]]:
    """The usable part of a search: without the first tenth, the last five, and everything after a NaN."""
    start, end = (num_it // 10, -5) if len(lrs) > num_it // 10 + 8 else (0, None)
    lrs, losses = list(lrs[start:end]), list(losses[start:end])
    bad = next((k for k, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
    return lrs[:bad], losses[:bad]


def with_names(functions: Callable | Iterable[Callable]) -> list[tuple[str, Callable]]:
    """Suggestion functions with their names."""
    functions = [functions] if callable(functions) else list(functions)
    return [(getattr(function, "func", function).__name__, function) for function in functions]


def find_rates(learn: Any, recorder: Any, finder: LRFinder, suggest_funcs: Any) -> dict[str, tuple]:
    """Train a copy of the model with the finder and return the suggestions by name."""
    model, opt = learn.model, learn.opt
    trained = [parameter.requires_grad for parameter in model.parameters()]
    with learn.added_cbs(finder), keeping_random_state(*learn.dls.loaders):
        try:
            learn.model, learn.opt, learn.compile = deepcopy(model), None, False
            learn.create_opt()
            for parameter, wanted in zip(learn.model.parameters(), trained):
                parameter.requires_grad_(wanted)
            learn.n_epoch, learn.start_epoch, learn.resume = finder.num_it, 0, False
            learn._run_fit(learn._fit)
        finally:
            learn.model, learn.opt = model, opt
    lrs, losses = usable(recorder.lrs, recorder.losses, finder.num_it)
    if not losses:
        raise RuntimeError("lr_find: the loss was not finite from the start; try a smaller start_lr")
    return {name: function(lrs, losses, finder.num_it) for name, function in with_names(suggest_funcs)}
