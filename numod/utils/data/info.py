"""Information about the worker that this process is, for datasets."""

from __future__ import annotations

from typing import NamedTuple

from .dataset import Dataset


class WorkerInfo(NamedTuple):
    """A worker's number, the number of workers, its seed, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Dataset


_own: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a DataLoader its WorkerInfo, None elsewhere.

    An IterableDataset uses it to read a part of its own.
    """
    return _own


def set_worker_info(info: WorkerInfo) -> None:
    """Make this process the worker that `info` says."""
    global _own
    _own = info
