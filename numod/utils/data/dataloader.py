"""The DataLoader: an iterable of batches from a dataset, a sampler and a collate function.

`fetch` has its passes in this process, `pool` those with workers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ...errors import warn_caller
from ...core.create.random import Generator, randint
from ...device.device import Device
from .collate import default_collate, default_convert, pinned
from .dataset import Dataset, IterableDataset
from .fetch import Pass, Source, _IterableDatasetFetcher, _MapDatasetFetcher
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

    from .pool import Workers, WorkerPass

Sample = TypeVar("Sample", covariant=True)
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


class DataLoader(Generic[Sample]):
    """An iterable of batches of `dataset`. Each iteration is a new pass. Arguments are PyTorch's.

    `batch_size=None` disables batching and yields converted samples. `sampler` (indices) excludes `shuffle`.
    `batch_sampler` (lists of indices) excludes `batch_size`, `shuffle`, `sampler` and `drop_last`. An IterableDataset
    supports none of them. `generator` determines the order of `shuffle=True`. With the default `collate_fn`, a
    dataset's `__getbatch__` is used if it has one (see `dataset`).

    With `num_workers`, that many processes load `prefetch_factor` (2) batches each in advance. The order of batches
    does not change. `multiprocessing_context` is the start method ("fork", "spawn", "forkserver") or a context; except
    with "fork", the dataset and functions must be picklable. A worker's seeds (of numod, `random` and NumPy) are a
    number drawn per pass plus the worker's number. `worker_init_fn(number)` runs first. Every worker reads an
    IterableDataset from the start unless the dataset uses `get_worker_info()` to choose its part. An exception in a
    worker is raised here with its traceback. A worker that dies, or a wait of more than `timeout` seconds, raises
    RuntimeError. Workers end with the pass, even if it is abandoned, or with the DataLoader if `persistent_workers`.

    `pin_memory` puts batches into pinned memory if there is a CUDA device. Raises ValueError for options that exclude
    each other.
    """

    _complete = False

    def __init__(
        self,
        dataset: Dataset[Sample],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Sampler | Iterable | None = None,
        batch_sampler: Sampler[list] | Iterable[list] | None = None,
        num_workers: int = 0,
        collate_fn: Callable | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable | None = None,
        multiprocessing_context: object = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        if isinstance(dataset, IterableDataset):
            _check_stream(shuffle, sampler, batch_sampler)
        _check_sampling(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None and not isinstance(dataset, IterableDataset):
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None:
            batch_sampler = BatchSampler(_Endless() if sampler is None else sampler, batch_size, drop_last)
        self.dataset, self.batch_size, self.drop_last, self.generator = dataset, batch_size, drop_last, generator
        self.sampler, self.batch_sampler = _Endless() if sampler is None else sampler, batch_sampler
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self.num_workers, self.timeout, self.worker_init_fn = num_workers, timeout, worker_init_fn
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.multiprocessing_context, self.persistent_workers = multiprocessing_context, persistent_workers
        self._reported_length: int | None = None
        self._workers: Workers | None = None  # persistent workers
        self._complete = True
        _warn_of_too_many(num_workers)

    def __setattr__(self, name: str, value: object) -> None:
        if self._complete and name in _FIXED:
            raise ValueError(
                f"{name} attribute should not be set after {type(self).__name__} is initialized; make a new one"
            )
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> BaseContext | None:
        """The context that starts workers, None for the default. Accepts a context or a start method's name."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, value: BaseContext | str | None) -> None:
        self._context = None if value is None else _context(value, self.num_workers)

    def __iter__(self) -> Iterator:
        source = Source(self.dataset, self._auto_collation, self.collate_fn, self.drop_last)
        note = _Counter(self)
        batches = (
            self._iterate_in_workers(source, note) if self.num_workers else Pass(source, self._index_sampler, note)
        )
        if not self.pin_memory:
            return batches
        if Device("cuda").backend.is_available():
            return map(pinned, batches)
        warn_caller(
            "'pin_memory' argument is set as true but no accelerator is found, then device pinned memory won't be used."
        )
        return batches

    def _iterate_in_workers(self, source: Source, note: _Counter) -> WorkerPass:
        """A pass over the data in worker processes, which are started if there are none."""
        from .pool import Workers, WorkerPass

        workers = self._workers
        if workers is None or not workers.close.alive:
            seed = int(randint(0, 2**63 - 1, (), generator=self.generator))
            workers = Workers(self._context, source, self.num_workers, seed, self.worker_init_fn)
        if self.persistent_workers:
            self._workers = workers
        return WorkerPass(
            workers,
            self._index_sampler,
            ahead=self.prefetch_factor,
            timeout=self.timeout,
            in_order=self.in_order,
            keep=self.persistent_workers,
            note=note,
        )

    def __len__(self) -> int:
        """The number of batches in a pass. For a stream it relies on `len(dataset)`; TypeError if that is undefined."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        self._reported_length = samples = len(self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    @property
    def _index_sampler(self) -> Iterable:
        """The indices of a pass: lists of indices, or single indices without batching."""
        return self.batch_sampler if self._auto_collation else self.sampler

    @property
    def _auto_collation(self) -> bool:
        """Whether samples are collated into batches; the name is PyTorch's."""
        return self.batch_sampler is not None


class _Endless(Sampler[None]):
    """The sampler of a stream: it requests samples until the stream ends."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class _Counter:
    """Counts the samples of a pass, and warns if a stream is longer than its reported length."""

    def __init__(self, loader: DataLoader) -> None:
        self._dataset, self._reported, self._fetched = loader.dataset, loader._reported_length, 0
        self._workers = loader.num_workers

    def __call__(self, samples: int) -> None:
        self._fetched += samples
        if self._reported is not None and self._fetched > self._reported:
            warn_caller(
                f"Length of IterableDataset {self._dataset} was reported to be {self._reported} (when accessing "
                "len(dataloader)), "
                f"but {self._fetched} samples have been fetched." + (_EACH_READS_ALL if self._workers else "")
            )


_EACH_READS_ALL = (
    " For multiprocessing data-loading, this could be caused by not properly configuring the IterableDataset replica "
    "at each worker: "
    "every worker reads all of it unless __iter__ selects a part with numod.utils.data.get_worker_info()."
)


def _context(value: BaseContext | str, num_workers: int) -> BaseContext:
    """The multiprocessing context, given by itself or by the name of its start method."""
    if not num_workers:
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
            f"num_workers={num_workers}"
        )
    import multiprocessing
    from multiprocessing.context import BaseContext

    if isinstance(value, str):
        methods = multiprocessing.get_all_start_methods()
        if value not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods!r}, but got "
                f"multiprocessing_context={value!r}"
            )
        return multiprocessing.get_context(value)
    if not isinstance(value, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start "
            f"method, but got multiprocessing_context={value}"
        )
    return value


def _warn_of_too_many(num_workers: int) -> None:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if num_workers > cores:
        warn_caller(
            f"This DataLoader will create {num_workers} worker processes in total. Our suggested max number of worker "
            f"in current system is {cores}, "
            "which is smaller than what this DataLoader is going to create. Please be aware that excessive worker "
            "creation might get DataLoader "
            "running slow or even freeze, lower the worker number to avoid potential slowness/freeze if necessary."
        )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None and not num_workers:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. "
            "Let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 1:
        raise ValueError(f"prefetch_factor option should be positive, got {prefetch_factor}")
    if persistent_workers and not num_workers:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: object, sampler: object, batch_sampler: object) -> None:
    options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in options.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def _check_sampling(
    batch_size: int | None, shuffle: object, sampler: object, batch_sampler: object, drop_last: bool
) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def __getattr__(name: str) -> Any:
    """PyTorch's private names: of the passes over a loader, for `isinstance`, and what subclasses of them read."""
    from .. import data
    from .pool import WorkerPass

    names = {
        "_BaseDataLoaderIter": Pass | WorkerPass,
        "_SingleProcessDataLoaderIter": Pass,
        "_MultiProcessingDataLoaderIter": WorkerPass,
        "_utils": data,
    }
    if name not in names:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    return names[name]


class _DatasetKind:
    """The kinds of datasets, and their fetchers, for code that iterates like a DataLoader."""

    Map, Iterable = 0, 1

    @staticmethod
    def create_fetcher(
        kind: int, dataset: Dataset, auto_collation: bool, collate_fn: Callable, drop_last: bool
    ) -> _MapDatasetFetcher | _IterableDatasetFetcher:
        """The fetcher of a dataset."""
        make = _MapDatasetFetcher if kind == _DatasetKind.Map else _IterableDatasetFetcher
        return make(dataset, auto_collation, collate_fn, drop_last)


class _InfiniteConstantSampler(Sampler):
    """None without end: the indices of a stream."""

    def __iter__(self) -> Iterator[None]:
        return repeat(None)
