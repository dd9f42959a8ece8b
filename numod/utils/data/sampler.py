"""Samplers: the order in which a dataset's samples are visited. `collate` forms batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Generic, TypeVar

import numpy as np

from ...core.create.random import Generator, rand, randint, randperm
from ...core.tensor import Tensor
from ...core.create.values import as_tensor
from ...dtypes import float64

Index = TypeVar("Index", covariant=True)
_CHUNK = 1024  # draws at a time with replacement, so that many samples take little memory


class Sampler(Generic[Index]):
    """Base class of samplers: `__iter__` yields indices, or lists of them.

    `__len__` is optional and has no default, so that `list()` stays cheap.
    """

    def __iter__(self) -> Iterator[Index]:
        raise NotImplementedError(
            f"{type(self).__name__} should implement __iter__, yielding indices or lists of indices"
        )


class SequentialSampler(Sampler[int]):
    """0, 1, 2, … in order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, each index once; with `replacement`, `num_samples` independent draws.

    Without replacement `num_samples` may exceed the size: whole permutations follow one another. Without a `generator`,
    each pass seeds one from the default generator, so other draws during the pass do not change the order. Raises
    TypeError if `replacement` is not a bool, ValueError unless `num_samples` is a positive int.
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.data_source, self.replacement, self.generator = data_source, replacement, generator
        self._num_samples = num_samples
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_positive("num_samples", self.num_samples)

    @property
    def num_samples(self) -> int:
        """Indices per pass. Computed on each access, since a dataset may grow."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        size, count = len(self.data_source), self.num_samples
        generator = _seeded_from_default() if self.generator is None else self.generator
        if self.replacement:
            for start in range(0, count, _CHUNK):
                yield from randint(0, size, (min(_CHUNK, count - start),), generator=generator).tolist()
            return
        for start in range(0, count, size):
            yield from randperm(size, generator=generator).tolist()[: count - start]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given indices in random order, each once."""

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices, self.generator = indices, generator

    def __iter__(self) -> Iterator[int]:
        for position in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[position]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """`num_samples` indices of `range(len(weights))`, drawn with the given weights, which need not sum to one.

    With `replacement` the draws are independent. Without it no index is drawn twice, and there must be enough positive
    weights. Raises ValueError for invalid arguments; drawing raises RuntimeError for weights that are negative,
    infinite, NaN or all zero.
    """

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        _check_positive("num_samples", num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        weights = as_tensor(weights, dtype=float64)
        if weights.dim() != 1:
            raise ValueError(f"weights should be a 1d sequence but given weights have shape {tuple(weights.shape)}")
        self.weights, self.num_samples, self.replacement, self.generator = weights, num_samples, replacement, generator

    def __iter__(self) -> Iterator[int]:
        weights = _checked_weights(self.weights, self.num_samples, self.replacement)
        draw = _draw_with_replacement if self.replacement else _draw_without_replacement
        yield from draw(weights, self.num_samples, self.generator).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of `batch_size` consecutive indices of `sampler`; a shorter last list is kept unless `drop_last`."""

    def __init__(self, sampler: Sampler[int] | Iterable[int], batch_size: int, drop_last: bool) -> None:
        _check_positive("batch_size", batch_size)
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler, self.batch_size, self.drop_last = sampler, batch_size, drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)


def _check_positive(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0:
        raise ValueError(f"{name} should be a positive integer value, but got {name}={value}")


def _seeded_from_default() -> Generator:
    generator = Generator()
    generator.manual_seed(int(randint(0, 2**63 - 1, (1,))))
    return generator


def _checked_weights(weights: Tensor, count: int, replacement: bool) -> np.ndarray:
    """The weights as a float64 array (N,), after the checks of PyTorch's `multinomial`."""
    weights = weights.detach().cpu().numpy()
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    positive = np.count_nonzero(weights)
    if positive == 0:
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if not replacement and count > positive:
        raise RuntimeError(
            f"cannot sample {count} indices without replacement from {positive} positive weights; pass "
            "replacement=True or a smaller num_samples"
        )
    return weights


def _draw_with_replacement(weights: np.ndarray, count: int, generator: Generator | None) -> np.ndarray:
    """Inverse of the cumulative weights at uniform points.

    The weights are scaled first, so that the sum of huge weights does not overflow.
    """
    edges = np.cumsum(weights / weights.max())
    points = rand(count, dtype=float64, generator=generator).numpy() * edges[-1]
    last = np.flatnonzero(weights)[-1]  # a product rounded up to the total must not exceed the last weight
    return np.minimum(np.searchsorted(edges, points, side="right"), last)


def _draw_without_replacement(weights: np.ndarray, count: int, generator: Generator | None) -> np.ndarray:
    """The first arrivals of an exponential race with rate weights[i] at index i (Efraimidis and Spirakis, 2006)."""
    uniform = rand(len(weights), dtype=float64, generator=generator).numpy()
    # logarithms, since the ratio of weights may exceed the range of float64
    with np.errstate(divide="ignore", invalid="ignore"):
        arrival = np.log(-np.log1p(-uniform)) - np.log(weights)
    arrival[weights == 0] = np.inf
    return np.argsort(arrival, kind="stable")[:count]
