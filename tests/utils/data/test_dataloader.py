"""DataLoader in one process: batches, order and errors; workers are in `test_worker`."""

from __future__ import annotations


import numpy as np
import pytest
from small_datasets import seeded, rows, labels, Squares, Stream

import numod
from numod.utils import data
from numod.utils.data import (
    DataLoader,
    Subset,
    TensorDataset,
)


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
