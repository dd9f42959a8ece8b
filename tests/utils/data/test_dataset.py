"""Datasets: PyTorch's meanings, and fast batch access equal to access by item."""

from __future__ import annotations


import pytest
from small_datasets import seeded, rows, Squares, Stream

import numod
from numod.utils.data import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    Sampler,
    Subset,
    TensorDataset,
    random_split,
)


def test_the_base_classes_ask_for_their_methods():
    with pytest.raises(NotImplementedError, match="__getitem__"):
        Dataset()[0]
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(IterableDataset())
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(Sampler())
    for dataset_ in (Dataset(), IterableDataset(), Sampler()):
        assert not hasattr(dataset_, "__len__")
    assert Dataset[int]


def test_tensor_dataset():
    dataset = rows()
    assert len(dataset) == 10
    features, label = dataset[3]
    assert (features.tolist(), label.item()) == ([6, 7], 3)
    assert [tensor.tolist() for tensor in dataset[2:4]] == [[[4, 5], [6, 7]], [2, 3]]
    assert [tensor.item() for tensor in dataset[-1][1:]] == [9]
    assert [[tensor.tolist() for tensor in sample] for sample in dataset.__getitems__([1, 0])] == [
        [[2, 3], 1],
        [[0, 1], 0],
    ]
    with pytest.raises(IndexError):
        dataset[10]


def test_tensor_dataset_checks_sizes():
    with pytest.raises(AssertionError, match=r"Size mismatch between tensors.*\[3, 2\]"):
        TensorDataset(numod.zeros(3), numod.zeros(2, 3))
    with pytest.raises(IndexError, match="at least one tensor"):
        TensorDataset()


def test_concat_dataset():
    joined = Squares(3) + Squares(2) + ConcatDataset([Squares(4)])
    assert len(joined) == 9
    assert [joined[index] for index in range(9)] == list(joined) == [0, 1, 4, 0, 1, 0, 1, 4, 9]
    assert (joined[-1], joined[-9]) == (9, 0)
    assert ConcatDataset([Squares(3), Squares(2)]).cumulative_sizes == [3, 5]
    with pytest.raises(ValueError, match="should not exceed dataset length"):
        joined[-10]
    with pytest.raises(IndexError):
        joined[9]


def test_concat_dataset_refuses_nothing_and_streams():
    with pytest.raises(AssertionError, match="empty"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Squares(), Stream(2)])


def test_chain_dataset():
    chain = Stream(2) + Stream(3)
    assert isinstance(chain, ChainDataset)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([Squares()]))


def test_subset():
    subset = Subset(rows(), [4, 2, 9])
    assert len(subset) == 3
    assert subset[1][1].item() == 2
    assert [sample[1].item() for sample in subset.__getitems__([2, 0])] == [9, 4]
    assert [sample[1].item() for sample in Subset(subset, [2, 1]).__getitems__([0, 1])] == [9, 2]
    assert Subset(Squares(), [3, 1]).__getitems__([0, 1]) == [9, 1]
    assert subset[[0, 2]][1].tolist() == [4, 9]


@pytest.mark.parametrize(
    ("size", "lengths", "expected"),
    [
        (10, [3, 7], [3, 7]),
        (10, [0.5, 0.5], [5, 5]),
        (10, [0.33, 0.33, 0.34], [4, 3, 3]),
        (7, [0.1, 0.2, 0.7], [1, 2, 4]),
        (5, [5], [5]),
    ],
)
def test_random_split(size, lengths, expected):
    parts = random_split(Squares(size), lengths, generator=seeded())
    assert [len(part) for part in parts] == expected
    assert sorted(index for part in parts for index in part.indices) == list(range(size))
    again = random_split(Squares(size), lengths, generator=seeded())
    assert [part.indices for part in parts] == [part.indices for part in again]


def test_random_split_uses_the_default_generator():
    splits = []
    for seed in (3, 3, 4):
        numod.manual_seed(seed)
        splits.append(random_split(Squares(50), [25, 25])[0].indices)
    assert splits[0] == splits[1] != splits[2]


def test_random_split_checks_lengths():
    with pytest.raises(ValueError, match=r"Sum of input lengths.*\[3, 3\] sums to 6, the dataset has 7"):
        random_split(Squares(), [3, 3])
    with pytest.raises(ValueError, match="Fraction at index 0"):
        random_split(Squares(), [1.5, -0.5])
    with pytest.warns(UserWarning, match="split at index 1 is 0"):
        random_split(Squares(1), [0.5, 0.5])
