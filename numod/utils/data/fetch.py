"""Fetching batches by indices, in the main process and in workers. `sampler` produces the indices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from .collate import stacks_rows
from .dataset import Dataset, IterableDataset, fetch_batch, fetch_samples


class Batch(NamedTuple):
    """The result of a fetch: the collated value and its number of samples."""

    value: object
    samples: int


class Source(NamedTuple):
    """A dataset and how its samples become batches. Without `batching`, samples are converted one by one."""

    dataset: Dataset
    batching: bool
    collate_fn: Callable
    drop_last: bool

    @property
    def is_stream(self) -> bool:
        """Whether the dataset is an IterableDataset."""
        return isinstance(self.dataset, IterableDataset)

    def start(self) -> Callable[[object], Batch]:
        """Begin a pass and return a function from indices to a Batch.

        For a stream the indices are None, or a list of None, and the function raises StopIteration at the end.
        """
        if self.is_stream:
            return _Stream(self)
        return self._batch if self.batching else self._sample

    def _sample(self, index: object) -> Batch:
        return Batch(self.collate_fn(self.dataset[index]), 1)

    def _batch(self, indices: list) -> Batch:
        value = fetch_batch(self.dataset, indices) if stacks_rows(self.collate_fn) else NotImplemented
        if value is NotImplemented:
            value = self.collate_fn(fetch_samples(self.dataset, indices))
        return Batch(value, len(indices))


class _Stream:
    """A pass over an IterableDataset."""

    def __init__(self, source: Source) -> None:
        self._source, self._samples = source, iter(source.dataset)

    def __call__(self, slots: list[None] | None) -> Batch:
        samples = self._next_samples(1 if slots is None else len(slots))
        return Batch(self._source.collate_fn(samples[0] if slots is None else samples), len(samples))

    def _next_samples(self, count: int) -> list:
        """Up to `count` samples.

        Raises StopIteration at the end of the stream. A shorter last batch is returned unless `drop_last`.
        """
        samples = list(itertools.islice(self._samples, count))
        if not samples or (self._source.drop_last and len(samples) < count):
            raise StopIteration
        return samples


class Pass:
    """One pass over a DataLoader in this process."""

    def __init__(self, source: Source, sampler: Iterable, note: Callable[[int], None]) -> None:
        """`note(samples)` is called for every batch."""
        self._fetch, self._sampler, self._indices, self._note = source.start(), sampler, iter(sampler), note

    def __iter__(self) -> Pass:
        return self

    def __next__(self) -> object:
        batch = self._fetch(next(self._indices))
        self._note(batch.samples)
        return batch.value

    def __len__(self) -> int:
        return len(self._sampler)


class _BaseDatasetFetcher:
    """PyTorch's form of a Source: `fetch(indices)` returns a collated batch, without batching a sample."""

    def __init__(self, dataset: Dataset, auto_collation: bool, collate_fn: Callable, drop_last: bool) -> None:
        self.dataset, self.auto_collation, self.collate_fn = dataset, auto_collation, collate_fn
        self.drop_last = drop_last
        self._read = self._source(dataset, auto_collation, collate_fn, drop_last)

    def fetch(self, possibly_batched_index: Any) -> Any:
        """The batch of a list of indices, or the sample of one. Raises StopIteration at the end of a stream."""
        return self._read(possibly_batched_index).value


class _MapDatasetFetcher(_BaseDatasetFetcher):
    """Fetches from a dataset with indices."""

    @staticmethod
    def _source(*settings: Any) -> Callable:
        source = Source(*settings)
        return source._batch if source.batching else source._sample


class _IterableDatasetFetcher(_BaseDatasetFetcher):
    """Fetches from a stream, whose indices are None."""

    @staticmethod
    def _source(*settings: Any) -> Callable:
        return _Stream(Source(*settings))
