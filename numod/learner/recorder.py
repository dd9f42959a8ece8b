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

    def __init__(
        self, add_time: bool = True, train_metrics: bool = False, valid_metrics: bool = True, beta: float = 0.98
    ) -> None:
        self.add_time, self.train_metrics, self.valid_metrics, self.beta = add_time, train_metrics, valid_metrics, beta
        self.valid_loss = AvgLoss()
        self.needs_pred = train_metrics
        self.hps: dict[str, list[float]] = {}  # values set by ParamScheduler, for plot_sched
        self.metric_names: list[str] = []
        self._clear()

    def _clear(self) -> None:
        self.lrs: list[float] = []
        self.iters: list[int] = []
        self.values: list[list[float | None]] = []
        self._losses: list[float] = []
        self._raw: list[float] = []
        self._waiting: list[Tensor] = []
        self._smooth = 0.0

    @property
    def losses(self) -> list[float]:
        """Smoothed losses of all batches of training."""
        self._read()
        return self._losses

    @property
    def raw_losses(self) -> list[float]:
        """Losses of all batches of training."""
        self._read()
        return self._raw

    @property
    def smooth_loss(self) -> float | None:
        """The last smoothed loss."""
        return self.losses[-1] if self.losses else None

    def _wait(self, loss: Tensor) -> None:
        """Keep a loss on its device, since reading it from a GPU would wait for the GPU."""
        self._waiting.append((loss if loss.dim() == 0 else loss.float().mean()).detach())
        if len(self._waiting) > _PENDING or loss.device.type == "cpu":
            self._read()

    def _read(self) -> None:
        """Read waiting losses from the device at once, and smooth the new ones."""
        waiting, self._waiting = self._waiting, []
        self._raw += read(waiting)
        for count in range(len(self._losses), len(self._raw)):
            loss = self._raw[count]
            self._smooth = loss + self.beta * (self._smooth - loss)
            self._losses.append(self._smooth / (1 - self.beta ** (count + 1)))

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
        learn = self.learn
        loss = learn.loss
        if loss is None or not learn.yb:
            return
        if learn.training:
            self.lrs.append(learn.opt.param_groups[-1]["lr"])
            if learn._device is None and loss.numel() == 1:
                self._raw.append(loss.item())
            else:
                self._wait(loss)
            if self.train_metrics:
                _accumulate(learn.metrics, learn)
        elif self.valid_metrics:
            _accumulate((self.valid_loss, *learn.metrics), learn)

    def after_epoch(self) -> None:
        """Read the metrics, keep and log them."""
        row = self._training_values() if self._of_train is None else self._of_train
        if self.valid_metrics:
            metrics = self.valid_loss, *self.learn.metrics
            row = row + [metric.value if self._is_validated else None for metric in metrics]
        values = read(row)
        self.values.append(values)
        self.iters.append(len(self.lrs))
        elapsed = [clock(time.perf_counter() - self._start)] * self.add_time
        self.learn.logger([self.learn.epoch, *values, *elapsed])

    def _training_values(self) -> list[Any]:
        return [self.smooth_loss, *(metric.value for metric in self.learn.metrics if self.train_metrics)]

    # ---- state

    def state_dict(self) -> dict[str, Any]:
        """The records, and the accumulators of the epoch's metrics."""
        return {
            "lrs": self.lrs, "iters": self.iters, "values": self.values, "losses": self.losses, "raw": self._raw,
            "smooth": self._smooth, "metrics": [m.state_dict() for m in self.learn.metrics if self.train_metrics],
        }  # fmt: skip

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the records and accumulators."""
        self.lrs, self.iters, self.values = list(state["lrs"]), list(state["iters"]), list(state["values"])
        self._losses, self._raw, self._smooth = list(state["losses"]), list(state["raw"]), state["smooth"]
        self._waiting = []
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


def _reset(metrics: Iterable[Metric]) -> None:
    for metric in metrics:
        metric.reset()


def _accumulate(metrics: Iterable[Metric], learn: Any) -> None:
    for metric in metrics:
        metric.accumulate(learn)
