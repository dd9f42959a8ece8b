"""The data utilities beside PyTorch's: batches of workers in the same order, the same arguments refused with the same
exceptions.
"""

from __future__ import annotations

import inspect
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

import numod
from numod.utils import data as ours

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore:This DataLoader will create")]
torch = pytest.importorskip("torch")
theirs = torch.utils.data
LIBRARIES = {"numod": (numod, ours), "torch": (torch, theirs)}
Point = namedtuple("Point", "x y")


def plain(value):
    """Tensors as (dtype, values), inside any structure, with the types of the structure."""
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return str(value.dtype).split(".")[-1], value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(entry) for key, entry in value.items()}
    return (type(value).__name__, [plain(entry) for entry in value]) if isinstance(value, (list, tuple)) else value


def outcome(name, call):
    """What `call` gives, or the type of its error."""
    try:
        return plain(call(*LIBRARIES[name]))
    except Exception as error:
        return type(error).__name__


def streams(data):
    class Uneven(data.IterableDataset):
        def __iter__(self):
            info = data.get_worker_info()
            return iter(range(100 * info.id, 100 * info.id + 3 + 4 * info.id))

    return Uneven()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 2},
        {"batch_size": 2, "drop_last": True},
        {"batch_size": None},
        {"batch_size": 3, "prefetch_factor": 1},
    ],
)
def test_uneven_streams_come_in_the_same_order(options):
    """Up to where one stream has ended: from there on PyTorch's order depends on which message came first."""
    results = {}
    for name, (_, data) in LIBRARIES.items():
        batches = [plain(batch) for batch in data.DataLoader(streams(data), num_workers=2, **options)]
        results[name] = batches[:2], sorted(map(str, batches))
    assert results["numod"] == results["torch"]


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [1.5, 2.0],
        [True, False],
        ["a", "b"],
        [b"a"],
        [np.float32(1), np.float32(2)],
        [np.arange(3), np.arange(3)],
        [np.array(1.0), np.array(2.0)],
        [{"a": 1, "b": [2.0]}, {"a": 3, "b": [4.0]}],
        [(1, "x"), (2, "y")],
        [Point(1, 2.0), Point(3, 4.0)],
        [OrderedDict(a=1), OrderedDict(a=2)],
        [[1, 2], [3]],
        [np.array("text")],
        [object()],
        [None],
        [{"a": 1}, {"b": 1}],
        [np.arange(2), np.arange(3)],
        [1, "a"],
        [1j],
        [set()],
        [(), ()],
        [[], []],
    ],
)
def test_collate_and_convert(batch):
    results = [
        [
            outcome(name, lambda _, data: data.default_collate(batch)),
            outcome(name, lambda _, data: data.default_convert(batch)),
        ]
        for name in LIBRARIES
    ]
    assert results[0] == results[1]


CALLS = [
    lambda _, d: d.DataLoader([1], num_workers=-1),
    lambda _, d: d.DataLoader([1], timeout=-1),
    lambda _, d: d.DataLoader([1], prefetch_factor=2),
    lambda _, d: d.DataLoader([1], persistent_workers=True),
    lambda _, d: d.DataLoader([1], multiprocessing_context="fork"),
    lambda _, d: d.DataLoader([1], num_workers=1, multiprocessing_context="none"),
    lambda _, d: d.DataLoader([1], num_workers=1, multiprocessing_context=3),
    lambda _, d: d.DataLoader([1], num_workers=1, prefetch_factor=-1),
    lambda _, d: d.DataLoader([], shuffle=True),
    lambda _, d: d.DataLoader([], num_workers=0).batch_size,
    lambda _, d: list(d.DataLoader([])),
    lambda _, d: list(d.StackDataset([1, 2], [3, 4])),
    lambda _, d: d.StackDataset(),
    lambda _, d: d.StackDataset([1], [2, 3]),
    lambda _, d: d.StackDataset([1], a=[2]),
    lambda _, d: d.StackDataset(a=[1, 2], b="xy")[1],
    lambda _, d: d.StackDataset(a=[1, 2], b="xy").__getitems__([1, 0]),
    lambda _, d: list(d.DistributedSampler(range(10), 3, 1, shuffle=False)),
    lambda _, d: list(d.DistributedSampler(range(10), 3, 1, shuffle=False, drop_last=True)),
    lambda _, d: len(d.DistributedSampler(range(10), 4, 3)),
    lambda _, d: d.DistributedSampler(range(3), 3, 3),
    lambda _, d: list(d.DistributedSampler([7], 3, 2)),
    lambda _, d: list(d.BatchSampler(range(5), 2, False)),
    lambda _, d: d.BatchSampler(range(5), 0, False),
    lambda _, d: d.RandomSampler([]),
    lambda _, d: d.WeightedRandomSampler([1.0], 0),
    lambda _, d: [len(subset) for subset in d.random_split(range(10), [0.35, 0.35, 0.3])],
    lambda _, d: d.random_split(range(10), [3, 3]),
    lambda _, d: d.ConcatDataset([]),
    lambda t, d: d.TensorDataset(t.zeros(2), t.zeros(3)),
    lambda t, d: d.DataLoader(d.TensorDataset(t.zeros(4)), num_workers=1).prefetch_factor,
    lambda t, d: len(iter(d.DataLoader([1, 2, 3], batch_size=2, num_workers=1))),
    lambda t, d: next(iter(d.DataLoader([1, 2, 3], batch_size=2, num_workers=2, persistent_workers=True))),
    lambda t, d: list(d.DataLoader({"a": 1}, sampler=["a", "b"], num_workers=1)),
    lambda t, d: list(d.DataLoader([1, "a"], batch_size=2, num_workers=1)),
]


@pytest.mark.parametrize("call", CALLS)
def test_the_same_results_and_exceptions(call):
    assert outcome("numod", call) == outcome("torch", call)


@pytest.mark.parametrize("name", [name for name in ours.__all__ if name != "distributed"])
def test_signatures(name):
    one, other = (inspect.signature(getattr(data, name)) for data in (ours, theirs))
    assert list(one.parameters) == list(other.parameters)
    for parameter, twin in zip(one.parameters.values(), other.parameters.values()):
        assert parameter.kind == twin.kind
        # None there too means the default one
        assert parameter.default == twin.default or parameter.name == "generator"


def test_errors_of_workers_read_alike():
    class Failing(ours.Dataset):
        def __len__(self):
            return 1

        def __getitem__(self, index):
            raise ValueError("broken")

    texts = []
    for _, data in LIBRARIES.values():
        with pytest.raises(ValueError) as caught:
            list(data.DataLoader(Failing(), num_workers=1))
        lines = str(caught.value).splitlines()
        texts.append((lines[:2], lines[-1]))
    assert texts[0] == texts[1]
