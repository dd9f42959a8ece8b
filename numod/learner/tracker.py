"""Callbacks that watch a loss or a metric."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from .events import Callback, CancelFitException
from .schedule import get_hyper, set_hyper


class TrackerCallback(Callback):
    """Keep the best value of `monitor`, a name of the recorder's.

    `comp(value, best)` says what is better: smaller for losses and errors, else larger, by more than `min_delta`. An
    epoch without a value (no validation) changes nothing; NaN is never better.
    """

    order, only_fit, needs_pred = 60, True, False

    def __init__(
        self,
        monitor: str = "valid_loss",
        comp: Callable[[float, float], bool] | None = None,
        min_delta: float = 0.0,
        reset_on_fit: bool = True,
    ) -> None:
        if comp is None:
            comp = operator.lt if "loss" in monitor or "error" in monitor else operator.gt
        self.monitor, self.comp, self.reset_on_fit = monitor, comp, reset_on_fit
        self.less = bool(comp(0.0, 1.0))
        self.min_delta = -min_delta if self.less else min_delta
        self.best: float | None = None
        self.new_best = False

    def before_fit(self) -> None:
        """Forget the best value. Raises ValueError if the recorder has no metric of this name."""
        names = getattr(getattr(self.learn, "recorder", None), "metric_names", [])[1:]
        if self.monitor not in names:
            raise ValueError(
                f"{self!r}: monitor={self.monitor!r} is not recorded; there are {', '.join(names) or 'none'}"
            )
        if self.reset_on_fit or self.best is None:
            self.best = math.inf if self.less else -math.inf

    def after_epoch(self) -> None:
        """Compare the epoch's value to the best."""
        self.value = self.learn.recorder.column(self.monitor)[-1]
        self.new_best = self.value is not None and bool(self.comp(self.value - self.min_delta, self.best))
        if self.new_best:
            self.best = self.value

    def state_dict(self) -> dict[str, Any]:
        """The best value, and how long ago it was."""
        return {key: value for key, value in vars(self).items() if key in ("best", "wait")}


class _Patient(TrackerCallback):
    """Calls `give_up` after `patience` epochs without improvement."""

    def __init__(
        self,
        monitor: str = "valid_loss",
        comp: Callable[[float, float], bool] | None = None,
        min_delta: float = 0.0,
        patience: int = 1,
        reset_on_fit: bool = True,
    ) -> None:
        super().__init__(monitor, comp, min_delta, reset_on_fit)
        self.patience, self.wait = patience, 0

    def before_fit(self) -> None:
        """Reset the best value."""
        self.wait = 0
        super().before_fit()

    def after_epoch(self) -> None:
        """Count the epochs without improvement."""
        super().after_epoch()
        if self.value is None:
            return
        self.wait = 0 if self.new_best else self.wait + 1
        if self.wait >= self.patience:
            self.give_up()

    def give_up(self) -> None:
        """Called after `patience` epochs without improvement."""


class EarlyStoppingCallback(_Patient):
    """End training after `patience` epochs without improvement."""

    order = TrackerCallback.order + 3

    def give_up(self) -> None:
        """End training."""
        if not self.learn.rank:
            print(f"No improvement since epoch {self.learn.epoch - self.wait}: early stopping")
        raise CancelFitException


class ReduceLROnPlateau(_Patient):
    """Divide the learning rate by `factor` after `patience` epochs without improvement, down to `min_lr`."""

    order = TrackerCallback.order + 2

    def __init__(
        self,
        monitor: str = "valid_loss",
        comp: Callable[[float, float], bool] | None = None,
        min_delta: float = 0.0,
        patience: int = 1,
        factor: float = 10.0,
        min_lr: float = 0.0,
        reset_on_fit: bool = True,
    ) -> None:
        super().__init__(monitor, comp, min_delta, patience, reset_on_fit)
        self.factor, self.min_lr = factor, min_lr

    def give_up(self) -> None:
        """Reduce the learning rate."""
        self.wait = 0
        before = [get_hyper(group, "lr") for group in self.learn.opt.param_groups]
        after = [max(lr / self.factor, self.min_lr) for lr in before]
        set_hyper(self.learn.opt, "lr", after)
        if after[-1] < before[-1] and not self.learn.rank:
            print(f"Epoch {self.learn.epoch}: reducing lr to {after[-1]:g}")


class SaveModelCallback(TrackerCallback):
    """Save the model (`path/model_dir/fname.pth`) when it is better than before, and load the best at the end.

    `every_epoch=n` saves every n epochs as `fname_epoch` instead; `at_end` saves the last model, and loads none.
    """

    order = TrackerCallback.order + 1

    def __init__(
        self,
        monitor: str = "valid_loss",
        comp: Callable[[float, float], bool] | None = None,
        min_delta: float = 0.0,
        fname: str = "model",
        every_epoch: int | bool = False,
        at_end: bool = False,
        with_opt: bool = False,
        reset_on_fit: bool = True,
    ) -> None:
        super().__init__(monitor, comp, min_delta, reset_on_fit)
        if every_epoch and at_end:
            raise ValueError("SaveModelCallback: every_epoch and at_end cannot both be set")
        self.fname, self.every_epoch, self.at_end, self.with_opt = fname, every_epoch, at_end, with_opt
        self.last_saved_path: Any = None

    def before_fit(self) -> None:
        """Reset the best value."""
        self.last_saved_path = None
        super().before_fit()

    def _save(self, name: str) -> None:
        self.last_saved_path = self.learn.save(name, with_opt=self.with_opt)

    def after_epoch(self) -> None:
        """Save the model if it is time to."""
        if self.every_epoch:
            if self.learn.epoch % int(self.every_epoch) == 0:
                self._save(f"{self.fname}_{self.learn.epoch}")
            return
        super().after_epoch()
        if self.new_best:
            self._save(self.fname)

    def after_fit(self) -> None:
        """Load the best model."""
        if self.at_end:
            self._save(self.fname)
        elif not self.every_epoch and (self.last_saved_path is not None or math.isfinite(self.best)):
            self.learn.load(self.fname, with_opt=self.with_opt)


class TerminateOnNaNCallback(Callback):
    """End training when the loss is NaN or infinite. It reads the loss after every batch."""

    order, needs_pred = -9, False

    def after_batch(self) -> None:
        """Look at the loss."""
        loss = self.learn.loss
        if loss is not None and not math.isfinite(loss.sum().item()):
            raise CancelFitException
