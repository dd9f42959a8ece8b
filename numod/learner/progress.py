"""Progress of training: a table of epochs, and a bar with the loss and its curve.

In a notebook both are one table that updates in place. The bar is `numod.utils.progress`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from ..utils.progress import progress
from .events import Callback

_LEVELS = "▁▂▃▄▅▆▇█"
_INTERVAL = 0.25  # seconds between updates of a notebook


class ProgressCallback(Callback):
    """Print a row per epoch, and meanwhile show the batches done, the smoothed loss and its curve."""

    order, only_fit, needs_pred, only_rank_0 = 60, True, False, True

    def before_fit(self) -> None:
        """Show the headings."""
        self._rows: list[list[str]] = []
        self._display = notebook_display()
        self._logger, self.learn.logger = self.learn.logger, self._log
        self._heading = list(self.learn.recorder.metric_names) if hasattr(self.learn, "recorder") else []
        if self._display is None and self._heading and self._is_logging():
            self._logger(table_row(self._heading, self._heading))

    def _is_logging(self) -> bool:
        return self._logger.__name__ != "no_logger" if hasattr(self._logger, "__name__") else True

    def before_train(self) -> None:
        """Start a bar."""
        self._start_bar("train")

    def before_validate(self) -> None:
        """Start a bar."""
        self._start_bar("valid")

    def _start_bar(self, part: str) -> None:
        learn = self.learn
        title = f"epoch {learn.epoch + 1}/{learn.n_epoch} {part}"
        first = getattr(learn.dl, "first", 0)
        if self._display is None:
            bar = progress(learn.dl, title, leave=False)
            bar.note(self._note)
        else:
            bar = _NotebookBar(learn.dl, title, self)
        bar.first = first
        learn.dl = bar

    def _note(self) -> str:
        recorder = getattr(self.learn, "recorder", None)
        losses = recorder.losses if recorder is not None else []
        return f"loss={losses[-1]:.4g} {sparkline(losses)}" if losses else ""

    def _log(self, row: Sequence[Any]) -> None:
        self._rows.append([text_of(value) for value in row])
        if self._display is None:
            self._logger(table_row(self._rows[-1], self._heading))
        else:
            self._display.update(self)

    def cleanup_fit(self) -> None:
        """Restore the logger."""
        if "_logger" in self.__dict__:
            self.learn.logger = self.__dict__.pop("_logger")

    def _repr_html_(self) -> str:
        bar = getattr(self.learn, "dl", None) if self.learn is not None else None
        state = bar.html() if isinstance(bar, _NotebookBar) and not bar.is_done else ""
        return html_table(self._heading, self._rows) + state


class _NotebookBar:
    """A loader whose progress is shown in a notebook."""

    def __init__(self, loader: Iterable, title: str, shown: ProgressCallback) -> None:
        self.loader, self.title, self.shown, self.count, self.is_done = loader, title, shown, 0, False

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Any:
        due = 0.0
        for batch in self.loader:
            yield batch
            self.count += 1
            if time.monotonic() >= due:
                self.shown._display.update(self.shown)
                due = time.monotonic() + _INTERVAL
        self.is_done = True

    def html(self) -> str:
        total = f' max="{len(self)}"' if hasattr(self.loader, "__len__") else ""
        note = escape(self.shown._note())
        return f'<div>{escape(self.title)} <progress value="{self.count}"{total}></progress> {self.count} {note}</div>'


def notebook_display() -> Any:
    """In a Jupyter notebook, a display that updates in place; else None."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    return sys.modules["IPython"].display.display("", display_id=True)


def text_of(value: Any) -> str:
    """A cell of the table."""
    return "" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)


def table_row(cells: Sequence[str], heading: Sequence[str]) -> str:
    """A line of the table, in columns."""
    widths = [max(len(name), 5 if name in ("epoch", "time") else 10) for name in heading]
    widths += [10] * (len(cells) - len(widths))
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths)).rstrip()


def html_table(heading: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The table as HTML."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in heading)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


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
