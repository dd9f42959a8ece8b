"""Samplers: order, seeds, errors."""

from __future__ import annotations

from collections import Counter

import pytest
from small_datasets import seeded, Squares

import numod
from numod.utils.data import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def test_sequential_sampler():
    sampler = SequentialSampler(Squares(3))
    assert (list(sampler), len(sampler)) == ([0, 1, 2], 3)


def test_random_sampler_gives_each_index_once():
    sampler = RandomSampler(Squares(100), generator=seeded())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second
    assert first == list(RandomSampler(Squares(100), generator=seeded()))
    assert len(sampler) == 100


@pytest.mark.parametrize("count", [1, 10, 25, 30])
def test_random_sampler_with_a_number_of_samples(count):
    drawn = list(RandomSampler(Squares(10), num_samples=count, generator=seeded()))
    assert len(drawn) == count
    assert max(Counter(drawn).values()) == -(-count // 10)
    for start in range(0, count - 9, 10):
        assert sorted(drawn[start : start + 10]) == list(range(10))


def test_random_sampler_with_replacement():
    drawn = list(RandomSampler(Squares(5), replacement=True, num_samples=3000, generator=seeded()))
    assert len(drawn) == 3000
    assert all(480 < amount < 720 for amount in Counter(drawn).values())
    assert set(drawn) == set(range(5))


def test_random_sampler_is_not_disturbed_by_draws_in_between():
    orders = []
    for disturb in (False, True):
        numod.manual_seed(1)
        order = []
        for index in RandomSampler(Squares(4), num_samples=12):
            order.append(index)
            if disturb:
                numod.rand(3)
        orders.append(order)
    assert orders[0] == orders[1]


def test_random_sampler_follows_a_growing_dataset():
    dataset = [1, 2]
    sampler = RandomSampler(dataset)
    dataset += [3, 4]
    assert sorted(sampler) == [0, 1, 2, 3]


def test_samplers_check_their_arguments():
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        RandomSampler(Squares(), replacement=1)
    for bad in (0, -1, 2.0):
        with pytest.raises(ValueError, match="num_samples should be a positive integer"):
            RandomSampler(Squares(), num_samples=bad)
        with pytest.raises(ValueError, match="num_samples should be a positive integer"):
            WeightedRandomSampler([1.0], bad)
    for bad in (0, -1, 2.0, True):
        with pytest.raises(ValueError, match="batch_size should be a positive integer"):
            BatchSampler(range(3), bad, False)
    with pytest.raises(ValueError, match="num_samples"):
        RandomSampler([])
    with pytest.raises(ValueError, match="drop_last should be a boolean"):
        BatchSampler(range(3), 2, 1)
    with pytest.raises(ValueError, match="replacement should be a boolean"):
        WeightedRandomSampler([1.0], 1, replacement=1)
    with pytest.raises(ValueError, match=r"weights should be a 1d sequence.*\(2, 1\)"):
        WeightedRandomSampler([[1.0], [2.0]], 1)


def test_subset_random_sampler():
    sampler = SubsetRandomSampler([5, 8, 13], generator=seeded())
    assert sorted(sampler) == [5, 8, 13]
    assert len(sampler) == 3


def test_weighted_sampler_with_replacement():
    weights = [0.0, 1.0, 3.0, 0.0, 4.0, 0.0]
    drawn = Counter(WeightedRandomSampler(weights, 8000, generator=seeded()))
    assert set(drawn) == {1, 2, 4}
    for index, share in ((1, 1000), (2, 3000), (4, 4000)):
        assert abs(drawn[index] - share) < 200


def test_weighted_sampler_without_replacement():
    weights = [0.0, 1e-30, 3.0, 1e300, 1.0]
    first = Counter()
    for seed in range(200):
        drawn = list(WeightedRandomSampler(weights, 4, replacement=False, generator=seeded(seed)))
        assert sorted(drawn) == [1, 2, 3, 4]
        assert drawn[0] == 3
        assert drawn[3] == 1
        first[drawn[1]] += 1
    assert 120 < first[2] < 180  # three to one


@pytest.mark.parametrize(
    ("weights", "count", "message"),
    [
        ([1.0, -1.0], 1, "element < 0"),
        ([1.0, float("nan")], 1, "nan"),
        ([1.0, float("inf")], 1, "inf"),
        ([0.0, 0.0], 1, "sum of probabilities <= 0"),
        ([1.0, 0.0], 2, "cannot sample 2 indices without replacement from 1 positive"),
    ],
)
def test_weighted_sampler_checks_weights(weights, count, message):
    with pytest.raises(RuntimeError, match=message):
        list(WeightedRandomSampler(weights, count, replacement=False))


@pytest.mark.parametrize(
    ("size", "drop", "expected"),
    [(7, False, [3, 3, 1]), (7, True, [3, 3]), (6, False, [3, 3]), (6, True, [3, 3]), (2, True, [])],
)
def test_batch_sampler(size, drop, expected):
    sampler = BatchSampler(SequentialSampler(range(size)), 3, drop)
    batches = list(sampler)
    assert [len(batch) for batch in batches] == expected
    assert [index for batch in batches for index in batch] == list(range(sum(expected)))
    assert len(sampler) == len(expected)
