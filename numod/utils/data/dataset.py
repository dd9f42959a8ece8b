"""Datasets: indexing, concatenation, subsets and splits. `sampler` defines the order of samples.

In addition to `__getitem__` a dataset may define two faster methods for batches. `__getitems__(indices)` returns the
list of samples, as in PyTorch. `__getbatch__(indices)` returns the batch itself, equal to `default_collate` of those
samples, or NotImplemented, after which the batch is built from samples. TensorDataset and Subset define both, so a
batch costs one index call per tensor.
"""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from ...errors import warn_caller
from ...core.create.random import Generator, randperm
from ...core.tensor import Tensor
from ...core.create.values import from_numpy

Sample = TypeVar("Sample", covariant=True)


class Dataset(Generic[Sample]):
    """A map from index to sample. Subclasses define `__getitem__` and, if the size is known, `__len__`."""

    def __getitem__(self, index: int) -> Sample:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Dataset) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[Sample]):
    """A stream of samples. Subclasses define `__iter__` and, if the length is known, `__len__`."""

    def __iter__(self) -> Iterator[Sample]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Dataset) -> ChainDataset:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Samples are rows of tensors: sample `i` is `(tensors[0][i], tensors[1][i], ...)`.

    Raises AssertionError if the tensors' first sizes differ.
    """

    def __init__(self, *tensors: Tensor) -> None:
        if not tensors:
            raise IndexError("TensorDataset: expected at least one tensor, got none")
        sizes = [tensor.size(0) for tensor in tensors]
        if len(set(sizes)) > 1:
            raise AssertionError(f"Size mismatch between tensors: the first dimensions are {sizes}, and must be equal")
        self.tensors = tensors

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __getitems__(self, indices: Sequence[int]) -> list[tuple[Tensor, ...]]:
        columns = NotImplemented if rewrites(self, TensorDataset, "__getitem__") else gather(self.tensors, indices)
        return [self[index] for index in indices] if columns is NotImplemented else list(zip(*columns, strict=True))

    def __getbatch__(self, indices: Sequence[int]) -> list[Tensor]:
        """One tensor (len(indices), ...) per column, or NotImplemented if a subclass overrides fetching."""
        if rewrites(self, TensorDataset, "__getitem__", "__getitems__"):
            return NotImplemented
        return gather(self.tensors, indices)

    def __len__(self) -> int:
        return self.tensors[0].size(0)


class ConcatDataset(Dataset[Sample]):
    """Datasets one after another.

    Raises AssertionError for an empty list, and for an IterableDataset, which has no indices.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; chain streams with ChainDataset")
        self.cumulative_sizes = list(itertools.accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Sample:
        if index < 0:
            if -index > len(self):
                raise ValueError(
                    f"absolute value of index should not exceed dataset length, got {index} for length {len(self)}"
                )
            index += len(self)
        if index >= len(self):
            raise IndexError(f"ConcatDataset: index {index} is out of range for length {len(self)}")
        number = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[number][index - (self.cumulative_sizes[number - 1] if number else 0)]


class ChainDataset(IterableDataset[Sample]):
    """Streams one after another. Raises AssertionError on reaching a dataset that is not an IterableDataset."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Sample]:
        for stream in self._streams():
            yield from stream

    def __len__(self) -> int:
        return sum(len(stream) for stream in self._streams())

    def _streams(self) -> Iterator[IterableDataset]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError(
                    f"ChainDataset only supports IterableDataset, got {type(dataset).__name__}; use ConcatDataset"
                )
            yield dataset


class StackDataset(Dataset):
    """Datasets side by side: sample `i` is the tuple, or for keyword arguments the dict, of their samples `i`.

    Raises ValueError if sizes differ, if there is no dataset, or if positional and keyword arguments are mixed.
    """

    def __init__(self, *args: Dataset, **kwargs: Dataset) -> None:
        if args and kwargs:
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or ``dict``- (via ``kwargs``) like input/output, but both "
                "types are given."
            )
        if not args and not kwargs:
            raise ValueError("At least one dataset should be passed")
        self.datasets = kwargs or args
        sizes = [len(column) for column in self._columns()]
        if len(set(sizes)) > 1:
            raise ValueError(f"Size mismatch between datasets: {sizes}")
        self._length = sizes[0]

    def _columns(self) -> list[Dataset]:
        return list(self.datasets.values() if isinstance(self.datasets, dict) else self.datasets)

    def _sample(self, parts: Iterable) -> tuple | dict:
        return dict(zip(self.datasets, parts)) if isinstance(self.datasets, dict) else tuple(parts)

    def __getitem__(self, index: int) -> tuple | dict:
        return self._sample(column[index] for column in self._columns())

    def __getitems__(self, indices: Sequence[int]) -> list:
        columns = [fetch_samples(column, indices) for column in self._columns()]
        for column in columns:
            if len(column) != len(indices):
                raise ValueError(f"Nested dataset's output size mismatch. Expected {len(indices)}, got {len(column)}")
        return [self._sample(parts) for parts in zip(*columns)]

    def __len__(self) -> int:
        return self._length


class Subset(Dataset[Sample]):
    """The samples of `dataset` at `indices`, numbered from 0."""

    def __init__(self, dataset: Dataset[Sample], indices: Sequence[int]) -> None:
        self.dataset, self.indices = dataset, indices

    def __getitem__(self, index: Any) -> Sample:
        if isinstance(index, list):
            return self.dataset[[self.indices[position] for position in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: Sequence[int]) -> list[Sample]:
        if rewrites(self, Subset, "__getitem__"):
            return [self[index] for index in indices]
        return fetch_samples(self.dataset, self._chosen(indices))

    def __getbatch__(self, indices: Sequence[int]) -> object:
        """The batch of the inner dataset, or NotImplemented if that has none or a subclass overrides fetching."""
        if rewrites(self, Subset, "__getitem__", "__getitems__"):
            return NotImplemented
        return fetch_batch(self.dataset, self._chosen(indices))

    def _chosen(self, indices: Sequence[int]) -> list[int]:
        return [self.indices[index] for index in indices]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Dataset[Sample], lengths: Sequence[int | float], generator: Generator | None = None
) -> list[Subset[Sample]]:
    """Split `dataset` into random subsets of the given lengths or, if these sum to 1, fractions.

    Lengths from fractions are rounded down, and the remaining samples go one by one to the first subsets. Raises
    ValueError if the lengths do not sum to the size of the dataset. Warns if a subset is empty. `generator=None` uses
    the default generator.
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _lengths_of_fractions(lengths, len(dataset))
    if sum(lengths) != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"{list(lengths)} sums to {sum(lengths)}, the dataset has {len(dataset)}; fractions must sum to 1"
        )
    order = randperm(len(dataset), generator=generator).tolist()
    ends = list(itertools.accumulate(lengths))
    return [Subset(dataset, order[end - length : end]) for length, end in zip(lengths, ends, strict=True)]


def _lengths_of_fractions(fractions: Sequence[float], size: int) -> list[int]:
    for position, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {position} is not between 0 and 1: {fraction}")
    lengths = [math.floor(size * fraction) for fraction in fractions]
    for position in range(size - sum(lengths)):
        lengths[position % len(lengths)] += 1
    for position, length in enumerate(lengths):
        if length == 0:
            warn_caller(f"Length of split at index {position} is 0. This might result in an empty dataset.")
    return lengths


def fetch_samples(dataset: Dataset[Sample], indices: Sequence[int]) -> list[Sample]:
    """The samples at `indices`, from `__getitems__` if the dataset's type has it.

    An instance attribute does not count: a wrapper may forward unknown attributes to an inner dataset.
    """
    if hasattr(type(dataset), "__getitems__"):
        return dataset.__getitems__(indices)
    return [dataset[index] for index in indices]


def fetch_batch(dataset: Dataset, indices: Sequence[int]) -> object:
    """The result of `__getbatch__`, or NotImplemented if the dataset's type has no such method."""
    return dataset.__getbatch__(indices) if hasattr(type(dataset), "__getbatch__") else NotImplemented


def rewrites(dataset: Dataset, base: type, *methods: str) -> bool:
    """Whether a subclass of `base` overrides one of `methods`, so that the base's shortcut would ignore it."""
    return any(getattr(type(dataset), method, None) is not getattr(base, method, None) for method in methods)


def gather(columns: Sequence[Tensor], indices: Sequence[int]) -> list[Tensor]:
    """`[column[indices] for column in columns]`, converting the indices once; NotImplemented unless all are ints."""
    if not all(type(index) is int for index in indices):
        return NotImplemented
    rows = from_numpy(np.array(indices, np.int64))
    if min(indices, default=0) < 0:
        return [column[rows.to(column.device)] for column in columns]
    # a faster op that does not support negative indices
    return [column.index_select(0, rows.to(column.device)) for column in columns]
