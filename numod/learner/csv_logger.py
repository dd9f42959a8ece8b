"""CSVLogger: the recorder's rows in a file."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .events import Callback


class CSVLogger(Callback):
    """Write each epoch's row to `path/fname` when the epoch ends. `append` keeps the file's content."""

    order, only_fit, needs_pred, only_rank_0 = 60, True, False, True

    def __init__(self, fname: str | Path = "history.csv", append: bool = False) -> None:
        self.fname, self.append = Path(fname), append
        self.rows: list[list[Any]] = []
        self._file: Any = None

    def read_log(self) -> list[dict[str, str]]:
        """The rows of the file, as dicts by heading."""
        with open(self.learn.path / self.fname, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def before_fit(self) -> None:
        """Write the headings."""
        self.rows = []
        path = self.learn.path / self.fname
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "a" if self.append else "w", newline="", encoding="utf-8")
        self._start = self._file.tell()
        self._write(self.learn.recorder.metric_names)
        self._logger, self.learn.logger = self.learn.logger, self._log

    def _write(self, row: Sequence[Any]) -> None:
        csv.writer(self._file).writerow(["" if value is None else value for value in row])
        self._file.flush()
        os.fsync(self._file.fileno())

    def _log(self, row: Sequence[Any]) -> None:
        self.rows.append(list(row))
        self._write(row)
        self._logger(row)

    def cleanup_fit(self) -> None:
        """Close the file."""
        if self._file is not None:
            self.learn.logger = self._logger
            self._file.close()
            self._file = None

    def state_dict(self) -> dict[str, Any]:
        """The rows."""
        return {"rows": self.rows}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Write the rows of earlier epochs."""
        self.rows = [list(row) for row in state["rows"]]
        for row in self.rows:
            self._write(row)
