"""Recorder: losses, learning rates and metrics of a fit."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from ..core.tensor import Tensor
from ..utils.progress import clock
from .events import Callback
from .metrics import AvgLoss, Metric, read

_PENDING = 4096  # losses kept on the device before they are read


class Recorder(Callback):
    """Keeps, per batch of training, the smoothed loss (`losses`), the loss itself (`raw_losses`) and the learning rate
    (`lrs`); per epoch the losses and metrics (`values`, by `metric_names` without "epoch" and "time") and the number of
    batches so far (`iters`).

    Losses on a GPU stay there until they are asked for or an epoch ends. `beta` is the weight of the past in the
    smoothed loss.
    """

    order, only_fit = 50, True
    needs_pred = property(lambda self: self.train_metrics)

    def __init__(
        self, add_time: bool = True, train_metrics: bool = False, valid_metrics: bool = True, beta: float = 0.98
    ) -> None:
        self.add_time, self.train_metrics, self.valid_metrics, self.beta = add_time, train_metrics, valid_metrics, beta
        self.valid_loss = AvgLoss()
        self.hps: dict[str, list[float]] = {}  # values set by ParamScheduler, for plot_sched
        self.metric_names: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self._log = _Log(self.beta)
        self.iters: list[int] = []
        self.values: list[list[float | None]] = []

    @property
    def lrs(self) -> list[float]:
        """Learning rates of all batches of training, those of the last parameter group."""
        return self._log.lrs

    @property
    def losses(self) -> list[float]:
        """Smoothed losses of all batches of training."""
        return self._log.smoothed()

    @property
    def raw_losses(self) -> list[float]:
        """Losses of all batches of training."""
        return self._log.all_losses()

    @property
    def smooth_loss(self) -> float | None:
        """The last smoothed loss."""
        return self._log.last_smoothed()

    # ---- events

    def before_fit(self) -> None:
        """Clear the records."""
        self._clear()
        self.hps = {}
        names = [metric.name for metric in self.learn.metrics]
        train = ["train_loss", *(f"train_{name}" for name in names if self.train_metrics)]
        valid = [f"valid_{name}" if self.train_metrics else name for name in names] if self.valid_metrics else []
        self.metric_names = ["epoch", *train, *(["valid_loss"] if self.valid_metrics else []), *valid]
        self.metric_names += ["time"] * self.add_time

    def before_epoch(self) -> None:
        """Start the clock."""
        self._start = time.perf_counter()
        self._of_train: list[Any] | None = None
        self._is_validated = False

    def before_train(self) -> None:
        """Reset the metrics of training."""
        _reset(self.learn.metrics if self.train_metrics else ())

    def before_validate(self) -> None:
        """Reset the metrics of validation."""
        self._of_train, self._is_validated = self._training_values(), True
        _reset((self.valid_loss, *self.learn.metrics) if self.valid_metrics else ())

    def after_cancel_validate(self) -> None:
        """Discard metrics that cover only a part of the samples."""
        self._is_validated = False

    def after_batch(self) -> None:
        """Keep the loss and the learning rate, or add the batch to the metrics."""
        log = self._log
        learn = log.learn or self._start_log()
        loss = learn.loss
        if loss is None or not learn.yb:
            return
        if not learn.training:
            if self.valid_metrics:
                _accumulate((self.valid_loss, *learn.metrics), learn)
            return
        log.lrs.append(learn.opt.param_groups[-1]["lr"])
        if learn._device is None:
            try:
                log.losses.append(loss.item())
            except RuntimeError:  # one loss for each sample
                log.wait(loss)
        else:
            log.wait(loss)
        if log.with_metrics:
            _accumulate(learn.metrics, learn)

    def _start_log(self) -> Any:
        self._log.learn, self._log.with_metrics = self.learn, self.train_metrics
        return self.learn

    def after_epoch(self) -> None:
        """Read the metrics, keep and log them."""
        row = self._training_values() if self._of_train is None else self._of_train
        if self.valid_metrics:
            metrics = self.valid_loss, *self.learn.metrics
            row = row + [_value(metric) if self._is_validated else None for metric in metrics]
        values = read(row)
        self.values.append(values)
        self.iters.append(len(self.lrs))
        elapsed = [clock(time.perf_counter() - self._start)] * self.add_time
        self.learn.logger([self.learn.epoch, *values, *elapsed])

    def _training_values(self) -> list[Any]:
        return [self.smooth_loss, *(_value(metric) for metric in self.learn.metrics if self.train_metrics)]

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """The records, and the accumulators of the epoch's metrics."""
        metrics = [metric.state_dict() for metric in self.learn.metrics if self.train_metrics]
        return {
            "lrs": self.lrs, "losses": self.raw_losses, "iters": self.iters, "values": self.values, "metrics": metrics
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the records and accumulators."""
        self._clear()
        self._log.lrs, self._log.losses = list(state["lrs"]), list(state["losses"])
        self.iters, self.values = list(state["iters"]), list(state["values"])
        self._restored = state["metrics"]

    def restore_metrics(self) -> None:
        """Restore the accumulators of metrics when an epoch resumes in the middle."""
        for metric, state in zip(self.learn.metrics, self.__dict__.pop("_restored", ())):
            metric.load_state_dict(state)

    # ---- plots

    def plot_loss(self, skip_start: int = 5, with_valid: bool = True, log: bool = False, ax: Any = None) -> Any:
        """Draw the losses; needs matplotlib. Gives the axes."""
        from .plots import plot_loss

        return plot_loss(self, skip_start, with_valid, log, ax)

    def plot_sched(self, keys: Iterable[str] | None = None) -> Any:
        """Draw the scheduled hyper-parameters; needs matplotlib. Gives the axes."""
        from .plots import plot_sched

        return plot_sched(self, keys)

    def column(self, name: str) -> list[float | None]:
        """The values of a metric by epoch: `recorder.column("valid_loss")`."""
        names = [column for column in self.metric_names[1:] if column != "time"]
        if name not in names:
            raise KeyError(f"no metric is called {name!r}; there are {', '.join(names)}")
        return [row[names.index(name)] for row in self.values]


class _Log:
    """Learning rates and losses, batch by batch. No Callback, whose attributes take longer to read."""

    def __init__(self, beta: float) -> None:
        self.beta = beta
        self.learn: Any = None
        self.with_metrics = False
        self.lrs: list[float] = []
        self.losses: list[float] = []
        self._waiting: list[Tensor] = []
        self._smoothed: list[float] = []
        # the moving average of the first losses: of those that `_smoothed` has, and of those that were averaged last
        self._average_of_smoothed, self._average, self._averaged = 0.0, 0.0, 0

    def wait(self, loss: Tensor) -> None:
        """Keep a loss on its device, since reading it from a GPU would wait for the GPU."""
        self._waiting.append((loss if loss.dim() == 0 else loss.float().mean()).detach())
        if len(self._waiting) > _PENDING or loss.device.type == "cpu":
            self.all_losses()

    def all_losses(self) -> list[float]:
        """The losses; those that wait are read from the device at once."""
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            self.losses += read(waiting)
        return self.losses

    def smoothed(self) -> list[float]:
        """The smoothed losses."""
        beta, average, values = self.beta, self._average_of_smoothed, self._smoothed
        for loss in self.all_losses()[len(values) :]:
            average = loss + beta * (average - loss)
            values.append(average / (1 - beta ** (len(values) + 1)))
        self._average_of_smoothed = average
        return values

    def last_smoothed(self) -> float | None:
        """The last smoothed loss, without the others."""
        beta, average, losses = self.beta, self._average, self.all_losses()
        for loss in losses[self._averaged :]:
            average = loss + beta * (average - loss)
        self._average, self._averaged = average, len(losses)
        return average / (1 - beta ** len(losses)) if losses else None


def _reset(metrics: Iterable[Metric]) -> None:
    for metric in metrics:
        metric.reset()


def _accumulate(metrics: Iterable[Metric], learn: Any) -> None:
    for metric in metrics:
        try:
            metric.accumulate(learn)
        except Exception as error:
            error.add_note(f"in the metric {metric.name}")
            raise


def _value(metric: Metric) -> Any:
    try:
        return metric.value
    except Exception as error:
        error.add_note(f"in the metric {metric.name}")
        raise
