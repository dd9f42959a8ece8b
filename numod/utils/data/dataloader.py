"""The DataLoader: dataset, sampler and collate function as one iterable of batches. Not a pool of workers: it loads in this process."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from ...core.random import Generator
from .collate import default_collate, default_convert, stacks_rows
from .dataset import Dataset, IterableDataset, fetch_batch, fetch_samples
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler

Sample = TypeVar("Sample", covariant=True)
_FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})


def get_worker_info() -> None:
    """None: there are no worker processes, and PyTorch gives None in the main process."""


class DataLoader(Generic[Sample]):
    """Batches of `dataset`, a fresh pass over it each time it is iterated. Arguments are PyTorch's.

    `batch_size=None` turns batching off and yields converted samples. `sampler` (indices) excludes `shuffle`; `batch_sampler` (lists of
    indices) excludes `batch_size`, `shuffle`, `sampler` and `drop_last`; an IterableDataset takes none of them. `generator` decides the
    order of `shuffle=True`. With the default `collate_fn`, a dataset's `__getbatch__` is used where it has one (see `dataset`).

    Batches are loaded in this process: `num_workers` other than 0 is a ValueError. `worker_init_fn`, `pin_memory` and `in_order` are
    accepted, for programs that pass them, and have nothing to do. Raises ValueError for options that contradict each other.
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
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context)
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
        self.num_workers, self.timeout, self.worker_init_fn, self.prefetch_factor = num_workers, timeout, worker_init_fn, prefetch_factor
        self.pin_memory, self.pin_memory_device, self.in_order = pin_memory, pin_memory_device, in_order
        self.multiprocessing_context, self.persistent_workers = multiprocessing_context, persistent_workers
        self._reported_length: int | None = None
        self._complete = True

    def __setattr__(self, name: str, value: object) -> None:
        if self._complete and name in _FIXED:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized; make a new one")
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator:
        return _Pass(self)

    def __len__(self) -> int:
        """Batches in a pass. For a stream this trusts `len(dataset)`, and raises TypeError where it has none."""
        if not isinstance(self.dataset, IterableDataset):
            return len(self._index_sampler)
        self._reported_length = samples = len(self.dataset)
        if self.batch_size is None:
            return samples
        return samples // self.batch_size if self.drop_last else -(-samples // self.batch_size)

    @property
    def _index_sampler(self) -> Iterable:
        """What a pass draws from: lists of indices, or single indices where batching is off."""
        return self.sampler if self.batch_sampler is None else self.batch_sampler


class _Endless(Sampler[None]):
    """The sampler of a stream: it asks for one sample more until the stream ends."""

    def __iter__(self) -> Iterator[None]:
        while True:
            yield None


class _Pass:
    """One pass over a DataLoader."""

    def __init__(self, loader: DataLoader) -> None:
        self._loader = loader
        self._indices = iter(loader._index_sampler)
        if isinstance(loader.dataset, IterableDataset):
            self._fetch, self._stream, self._yielded = self._from_stream, iter(loader.dataset), 0
        elif loader.batch_sampler is None:
            self._fetch = self._one_sample
        else:
            self._fetch = self._one_batch
            self._may_fetch_batch = stacks_rows(loader.collate_fn)

    def __iter__(self) -> _Pass:
        return self

    def __len__(self) -> int:
        return len(self._loader._index_sampler)

    def __next__(self) -> object:
        return self._fetch(next(self._indices))

    def _one_sample(self, index: object) -> object:
        return self._loader.collate_fn(self._loader.dataset[index])

    def _one_batch(self, indices: list) -> object:
        loader = self._loader
        batch = fetch_batch(loader.dataset, indices) if self._may_fetch_batch else NotImplemented
        return loader.collate_fn(fetch_samples(loader.dataset, indices)) if batch is NotImplemented else batch

    def _from_stream(self, slots: list[None] | None) -> object:
        samples = self._next_samples(1 if slots is None else len(slots))
        self._yielded += len(samples)
        self._warn_if_longer_than_reported()
        return self._loader.collate_fn(samples[0] if slots is None else samples)

    def _next_samples(self, count: int) -> list:
        """Up to `count` samples. Raises StopIteration at the end of the stream; a short last batch counts unless `drop_last`."""
        samples = [sample for _, sample in zip(range(count), self._stream, strict=False)]
        if not samples or (self._loader.drop_last and len(samples) < count):
            raise StopIteration
        return samples

    def _warn_if_longer_than_reported(self) -> None:
        reported = self._loader._reported_length
        if reported is not None and self._yielded > reported:
            warnings.warn(
                f"Length of IterableDataset {self._loader.dataset} was reported to be {reported} (when accessing len(dataloader)), "
                f"but {self._yielded} samples have been fetched.",
                stacklevel=4,
            )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: object, persistent_workers: bool, context: object) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if num_workers > 0:
        raise ValueError(
            f"DataLoader: num_workers={num_workers}, but numod has single-process loading only; pass num_workers=0. "
            "A TensorDataset, or any dataset with __getitems__ or __getbatch__, fetches a whole batch in one call and needs no workers"
        )
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if prefetch_factor is not None:
        raise ValueError("prefetch_factor option could only be specified in multiprocessing; leave it None")
    if persistent_workers:
        raise ValueError("persistent_workers option needs num_workers > 0; leave it False")
    if context is not None:
        raise ValueError("multiprocessing_context can only be used with multi-process loading (num_workers > 0); leave it None")


def _check_stream(shuffle: object, sampler: object, batch_sampler: object) -> None:
    options = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}")


def _check_sampling(batch_size: int | None, shuffle: object, sampler: object, batch_sampler: object, drop_last: bool) -> None:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
