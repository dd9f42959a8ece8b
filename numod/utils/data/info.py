"""Information for datasets about the current worker process."""

from __future__ import annotations

from typing import NamedTuple

from .dataset import Dataset


class WorkerInfo(NamedTuple):
    """A worker's number, the number of workers, its seed, and its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Dataset


_worker_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """The WorkerInfo in a worker process of a DataLoader, None in other processes.

    An IterableDataset uses it to read its own part.
    """
    return _worker_info


def set_worker_info(info: WorkerInfo) -> None:
    """Mark this process as the worker described by `info`."""
    global _worker_info
    _worker_info = info
