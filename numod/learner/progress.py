"""Progress of training: a table of epochs, and a bar with the loss and its curve.

In a notebook all is one output that updates in place. The bar is `numod.utils.progress`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..notebook import curves, live_display, table
from ..utils.progress import progress
from .events import Callback

_LEVELS = "▁▂▃▄▅▆▇█"


class ProgressCallback(Callback):
    """Print a row per epoch, and meanwhile show the batches done, the smoothed loss and its curve."""

    order, only_fit, needs_pred, only_rank_0 = 60, True, False, True
    _heading: Sequence[str] = ()
    _rows: Sequence[Sequence[str]] = ()
    _show: Callable[[object], object] | None = None  # in a notebook
    _bar: progress | None = None
    graph = ""  # HTML between table and bar

    def before_fit(self) -> None:
        """Show the headings."""
        self._rows = []
        self._show, self._bar, self.graph = live_display(), None, ""
        self._logger, self.learn.logger = self.learn.logger, self._log
        has_table = hasattr(self.learn, "recorder") and is_logging(self._logger)
        self._heading = list(self.learn.recorder.metric_names) if has_table else []
        if self._show is None and self._heading:
            self._logger(table_row(self._heading, self._heading))

    def before_train(self) -> None:
        """Start a bar."""
        self._start_bar("train")

    def before_validate(self) -> None:
        """Start a bar."""
        self._start_bar("valid")

    def _start_bar(self, part: str) -> None:
        learn = self.learn
        bar = progress(learn.dl, f"epoch {learn.epoch + 1}/{learn.n_epoch} {part}", leave=False)
        bar.note(self._note)
        bar.first = getattr(learn.dl, "first", 0)
        if self._show is not None:
            bar._show = self._show_bar
        learn.dl = bar

    def _show_bar(self, bar: Any) -> None:
        """Show the notebook's output with the bar, or without one when it is done."""
        self._bar = bar if isinstance(bar, progress) else None
        self._show(self)

    def _note(self) -> str:
        recorder = getattr(self.learn, "recorder", None)
        losses = recorder.losses if recorder is not None else []
        return f"loss={losses[-1]:.4g} {sparkline(losses)}" if losses else ""

    def _log(self, row: Sequence[Any]) -> None:
        self._rows.append([text_of(value) for value in row])
        if self._show is None:
            self._logger(table_row(self._rows[-1], self._heading))
        else:
            self._show(self)

    def cleanup_fit(self) -> None:
        """Restore the logger."""
        if "_logger" in self.__dict__:
            self.learn.logger = self.__dict__.pop("_logger")

    def _repr_html_(self) -> str:
        bar = "" if self._bar is None else self._bar._repr_html_()
        return (table(self._heading, self._rows) if self._heading else "") + self.graph + bar


class ShowGraphCallback(Callback):
    """Draw the losses of training and validation after each epoch: in a notebook as curves under the table, else as a
    line of Unicode blocks.
    """

    order, only_fit, run_valid, needs_pred, only_rank_0 = 65, True, False, False, True

    def after_epoch(self) -> None:
        """Draw."""
        learn, recorder = self.learn, self.learn.recorder
        losses = {"training": list(enumerate(recorder.losses, 1))}
        if "valid_loss" in recorder.metric_names:
            pairs = zip(recorder.iters, recorder.column("valid_loss"))
            losses["validation"] = [(number, loss) for number, loss in pairs if loss is not None]
        bar = getattr(learn, "progress", None)
        if bar is not None and bar._show is not None:
            bar.graph = curves(losses, last=learn.n_epoch * recorder.iters[0], unit="batches")
            bar._show(bar)
        elif is_logging(learn.logger if bar is None else bar._logger):
            lines = [f"{name} {sparkline([loss for _, loss in points])}" for name, points in losses.items() if points]
            print("  ".join(lines))


def is_logging(logger: Callable) -> bool:
    """Whether epochs are printed (see `Learner.no_logging`)."""
    return getattr(logger, "__name__", "") != "no_logger"


def text_of(value: Any) -> str:
    """A cell of the table."""
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def table_row(cells: Sequence[str], heading: Sequence[str]) -> str:
    """A line of the table, in columns."""
    widths = [max(len(name), 5 if name in ("epoch", "time") else 10) for name in heading]
    widths += [10] * (len(cells) - len(widths))
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()


def sparkline(values: Sequence[float], width: int = 16) -> str:
    """Values as a small curve of Unicode blocks, each a mean of equally many values, without non-finite ones."""
    values = [value for value in values if value - value == 0.0]
    if not values:
        return ""
    count = min(width, len(values))
    edges = [k * len(values) // count for k in range(count + 1)]
    means = [sum(values[a:b]) / (b - a) for a, b in zip(edges, edges[1:])]
    low, span = min(means), max(means) - min(means)
    return "".join(_LEVELS[int((mean - low) / span * (len(_LEVELS) - 1) + 0.5) if span else 0] for mean in means)
