"""Datasets, samplers, collate and the DataLoader:

PyTorch's meanings, and the fast way to a batch equal to the slow one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, UserDict, namedtuple

import numpy as np
import pytest

import numod
from numod.utils import data
from numod.utils.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)

Point = namedtuple("Point", "x y")


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


# Datasets


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


# Samplers


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


# Collate


def test_collate_numbers_and_text():
    ints, floats, flags = default_collate([1, 2]), default_collate([1.5, 2.0]), default_collate([True, False])
    assert [(tensor.dtype, tensor.tolist()) for tensor in (ints, floats, flags)] == [
        (numod.int64, [1, 2]),
        (numod.float64, [1.5, 2.0]),
        (numod.bool, [True, False]),
    ]
    assert default_collate(["a", "b"]) == ["a", "b"]
    assert default_collate([b"a"]) == [b"a"]


def test_collate_tensors_and_arrays():
    stacked = default_collate([numod.ones(2, 3), numod.zeros(2, 3)])
    assert (stacked.shape, stacked.dtype) == ((2, 2, 3), numod.float32)
    stacked = default_collate([np.arange(3, dtype=np.int16), np.ones(3, np.int16)])
    assert (stacked.tolist(), stacked.dtype) == ([[0, 1, 2], [1, 1, 1]], numod.int16)
    numbers = default_collate([np.float32(1), np.float32(2)])
    assert (numbers.tolist(), numbers.dtype) == ([1.0, 2.0], numod.float32)


def test_collate_keeps_structure():
    batch = [{"p": Point(1, 2.0), "l": [1, "a"], "t": (3,)}, {"p": Point(5, 6.0), "l": [2, "b"], "t": (4,)}]
    joined = default_collate(batch)
    assert type(joined["p"]) is Point
    assert (joined["p"].x.tolist(), joined["p"].y.tolist()) == ([1, 5], [2.0, 6.0])
    assert (joined["l"][0].tolist(), tuple(joined["l"][1])) == ([1, 2], ("a", "b"))
    assert (type(joined["t"]), joined["t"][0].tolist()) == (list, [3, 4])
    assert batch[0]["l"] == [1, "a"]


def test_collate_keeps_mapping_types():
    for kind in (OrderedDict, UserDict):
        joined = default_collate([kind(a=1), kind(a=2)])
        assert type(joined) is kind
        assert joined["a"].tolist() == [1, 2]


def test_collate_errors():
    with pytest.raises(TypeError, match="default_collate: batch must contain tensors.*set"):
        default_collate([{1}, {2}])
    with pytest.raises(TypeError, match="default_collate"):
        default_collate([np.array(["a"]), np.array(["b"])])
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([[1, 2], [1]])
    with pytest.raises(RuntimeError, match=r"got \[2\] at entry 0 and \[3\] at entry 1; crop .* collate_fn"):
        default_collate([numod.ones(2), numod.ones(3)])


def test_collate_functions_can_be_added(monkeypatch):
    from numod.utils.data.collate import default_collate_fn_map

    monkeypatch.setitem(default_collate_fn_map, complex, lambda batch, *, collate_fn_map: sum(batch))
    assert default_collate([(1j, 1), (2j, 2)])[0] == 3j
    monkeypatch.setitem(default_collate_fn_map, numod.Tensor, lambda batch, *, collate_fn_map: "mine")
    assert next(iter(DataLoader(rows(), batch_size=2))) == ["mine", "mine"]


def test_convert():
    array, point = np.arange(2), Point(np.ones(1), "a")
    assert default_convert(array).tolist() == [0, 1]
    assert default_convert(point).x.tolist() == [1.0]
    assert default_convert({"a": (array, 1)})["a"][0].tolist() == [0, 1]
    assert [default_convert(value) for value in (1, "a", None, np.array(["x"]).tolist())] == [1, "a", None, ["x"]]
    tensor = numod.ones(1)
    assert default_convert(tensor) is tensor


# DataLoader


def test_batches_in_order():
    loader = DataLoader(rows(), batch_size=4)
    batches = list(loader)
    assert labels(batches) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert batches[2][0].tolist() == [[16, 17], [18, 19]]
    assert isinstance(batches[0], list)
    assert len(loader) == len(iter(loader)) == 3
    assert labels(loader) == labels(loader)
    assert (
        len(DataLoader(rows(), batch_size=4, drop_last=True))
        == len(list(DataLoader(rows(), batch_size=4, drop_last=True)))
        == 2
    )


def test_one_sample_per_batch_is_the_default():
    assert labels(DataLoader(rows(3))) == [[0], [1], [2]]


def test_shuffle_follows_the_generator():
    passes = [labels(DataLoader(rows(50), batch_size=8, shuffle=True, generator=seeded(5))) for _ in range(2)]
    assert passes[0] == passes[1]
    assert sorted(index for batch in passes[0] for index in batch) == list(range(50))
    loader = DataLoader(rows(50), batch_size=8, shuffle=True)
    numod.manual_seed(0)
    first, second = labels(loader), labels(loader)
    numod.manual_seed(0)
    assert first == labels(loader) != second


def test_rows_stay_together_when_shuffled():
    for features, label in DataLoader(rows(20), batch_size=6, shuffle=True):
        assert features[:, 0].tolist() == [2 * number for number in label.tolist()]


def test_samplers_and_collate_functions_of_ones_own():
    assert labels(DataLoader(rows(), batch_size=2, sampler=[3, 1, 4])) == [[3, 1], [4]]
    loader = DataLoader(rows(), batch_sampler=[[1], [2, 0]])
    assert labels(loader) == [[1], [2, 0]]
    assert (loader.batch_size, len(loader)) == (None, 2)
    seen = list(DataLoader(rows(), batch_size=3, sampler=[0, 1, 2], collate_fn=lambda samples: samples))
    assert isinstance(seen[0], list)
    assert [type(sample) for sample in seen[0]] == [tuple] * 3
    assert [sample[1].item() for sample in seen[0]] == [0, 1, 2]


def test_indices_that_are_no_ints():
    tensors = DataLoader(rows(), batch_sampler=[numod.tensor([3, 1])])
    assert labels(tensors) == [[3, 1]]
    keyed = DataLoader({"a": 1, "b": 2}, sampler=["b", "a"], batch_size=2)
    assert next(iter(keyed)).tolist() == [2, 1]


def test_indices_are_checked():
    assert labels(DataLoader(rows(), batch_sampler=[[-1, 0, -10]])) == [[9, 0, 0]]
    assert [tensor.shape for tensor in next(iter(DataLoader(rows(), batch_sampler=[[]])))] == [(0, 2), (0,)]
    for bad in (10, -11):
        with pytest.raises(IndexError):
            next(iter(DataLoader(rows(), batch_sampler=[[0, bad]])))


def test_any_sequence_is_a_dataset():
    assert [batch.tolist() for batch in DataLoader([1, 2, 3], batch_size=2)] == [[1, 2], [3]]
    assert [batch.tolist() for batch in DataLoader(Squares(4), batch_size=3)] == [[0, 1, 4], [9]]


def test_no_batching():
    assert list(DataLoader(Squares(3), batch_size=None)) == [0, 1, 4]
    loader = DataLoader([np.ones(2), np.zeros(2)], batch_size=None)
    assert not loader._auto_collation and DataLoader(Squares(3))._auto_collation
    assert [tensor.tolist() for tensor in loader] == [[1, 1], [0, 0]]
    assert len(loader) == 2


def test_getitems_is_used():
    class Batched(Squares):
        def __getitem__(self, index):
            raise AssertionError("one at a time")

        def __getitems__(self, indices):
            return [-index for index in indices]

    assert [batch.tolist() for batch in DataLoader(Batched(), batch_size=4)] == [[0, -1, -2, -3], [-4, -5, -6]]
    assert [batch.tolist() for batch in DataLoader(Subset(Batched(), [6, 2]), batch_size=4)] == [[-6, -2]]


def test_a_batch_of_tensors_costs_one_index_call():
    class Counted(TensorDataset):
        calls = 0

        def __getbatch__(self, indices):
            Counted.calls += 1
            return super().__getbatch__(indices)

    assert labels(DataLoader(Subset(Counted(*rows().tensors), range(1, 10)), batch_size=4)) == [
        [1, 2, 3, 4],
        [5, 6, 7, 8],
        [9],
    ]
    assert Counted.calls == 3


@pytest.mark.parametrize("wrap", [lambda dataset: dataset, lambda dataset: Subset(dataset, range(10))])
def test_own_methods_of_subclasses_are_never_passed_by(wrap):
    class OwnItem(TensorDataset):
        def __getitem__(self, index):
            return -super().__getitem__(index)[1]

    class OwnItems(TensorDataset):
        def __getitems__(self, indices):
            return [-label for _, label in super().__getitems__(indices)]

    for kind in (OwnItem, OwnItems):
        dataset = wrap(kind(*rows().tensors))
        assert [batch.tolist() for batch in DataLoader(dataset, batch_size=6)] == [
            [0, -1, -2, -3, -4, -5],
            [-6, -7, -8, -9],
        ]


def test_own_methods_of_subsets_and_wrappers_are_never_passed_by():
    class OwnSubset(Subset):
        def __getitem__(self, index):
            return -super().__getitem__(index)[1]

    class Wrapper:
        def __init__(self, dataset):
            self.dataset = dataset

        def __getattr__(self, name):
            return getattr(self.dataset, name)

        def __len__(self):
            return len(self.dataset)

        def __getitem__(self, index):
            return -self.dataset[index][1]

    for dataset in (OwnSubset(rows(3), [0, 1, 2]), Wrapper(rows(3))):
        assert [batch.tolist() for batch in DataLoader(dataset, batch_size=3)] == [[0, -1, -2]]


def test_streams():
    assert [batch.tolist() for batch in DataLoader(Stream(5), batch_size=2)] == [[0, 1], [2, 3], [4]]
    assert [batch.tolist() for batch in DataLoader(Stream(5), batch_size=2, drop_last=True)] == [[0, 1], [2, 3]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    assert list(DataLoader(Stream(0), batch_size=2)) == []
    lengths = [
        len(DataLoader(Stream(5), batch_size=size, drop_last=drop))
        for size, drop in ((2, False), (2, True), (None, False))
    ]
    assert lengths == [3, 2, 5]


def test_streams_have_no_order_to_choose():
    for option in ({"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}):
        with pytest.raises(ValueError, match="IterableDataset: expected unspecified"):
            DataLoader(Stream(3), **option)
    assert list(DataLoader(Stream(2), batch_size=None, shuffle=False)) == [0, 1]


def test_a_stream_longer_than_it_said_warns():
    loader = DataLoader(Stream(4, reported=3), batch_size=None)
    # list() would ask for the length: no warning before anybody relied on the length
    assert [number for number in loader] == [0, 1, 2, 3]
    assert len(loader) == 3
    with pytest.warns(UserWarning, match="was reported to be 3 .* 4 samples"):
        list(loader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": -1}, "non-negative"),
        ({"timeout": -1}, "timeout"),
        ({"prefetch_factor": 2}, "prefetch_factor"),
        ({"persistent_workers": True}, "persistent_workers"),
        ({"multiprocessing_context": "fork"}, "multiprocessing_context"),
        ({"sampler": [0], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[0]], "batch_size": 2}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[0]], "shuffle": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[0]], "sampler": [0]}, "batch_sampler option is mutually exclusive"),
        ({"batch_sampler": [[0]], "drop_last": True}, "batch_sampler option is mutually exclusive"),
        ({"batch_size": None, "drop_last": True}, "disables auto-batching"),
        ({"batch_size": 0}, "batch_size should be a positive integer"),
    ],
)
def test_contradictions(options, message):
    with pytest.raises(ValueError, match=message):
        DataLoader(rows(), **options)


def test_options_are_fixed_once_made():
    loader = DataLoader(rows(), batch_size=4, worker_init_fn=print, in_order=False)
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, None)
    loader.collate_fn = len
    assert list(loader) == [4, 4, 2]


def test_two_passes_at_once_do_not_disturb_each_other():
    loader = DataLoader(rows(), batch_size=4)
    assert [(first[1].tolist(), second[1].tolist()) for first, second in zip(loader, loader, strict=True)] == [
        (label, label) for label in labels(loader)
    ]


def test_importing_numod_is_enough():
    assert numod.utils.data is data


def test_there_are_no_workers():
    assert data.get_worker_info() is None


def test_gradients_flow_through_a_batch():
    weight = numod.ones(6, requires_grad=True)
    (batch,) = next(iter(DataLoader(TensorDataset(weight), batch_size=3, sampler=[1, 1, 4])))
    batch.sum().backward()
    assert weight.grad.tolist() == [0, 2, 0, 0, 1, 0]


@pytest.mark.skipif(numod.cuda.is_available(), reason="batches are pinned")
def test_pinned_memory_without_an_accelerator():
    with pytest.warns(UserWarning, match="pin_memory' argument is set as true but no accelerator"):
        assert len(list(DataLoader([1, 2], pin_memory=True))) == 2
