"""Small datasets of the tests of `utils.data`, and the labels of batches."""

from __future__ import annotations


import numod
from numod.utils.data import (
    Dataset,
    IterableDataset,
    TensorDataset,
)


def seeded(seed=0):
    generator = numod.Generator()
    generator.manual_seed(seed)
    return generator


def rows(count=10):
    """Sample i is (tensor [2i, 2i + 1], tensor i)."""
    return TensorDataset(numod.arange(2 * count).reshape(count, 2), numod.arange(count))


def labels(batches):
    return [batch[1].tolist() for batch in batches]


class Squares(Dataset):
    """A dataset as users write them: only the two methods."""

    def __init__(self, count=7):
        self.count = count

    def __getitem__(self, index):
        if index >= self.count:
            raise IndexError(index)
        return index * index

    def __len__(self):
        return self.count


class Stream(IterableDataset):
    def __init__(self, count, reported=None):
        self.count, self.reported = count, count if reported is None else reported

    def __iter__(self):
        return iter(range(self.count))

    def __len__(self):
        return self.reported
