"""The DataLoader with worker processes: order, seeds, errors, deaths and endings.

Nothing here waits for a fixed time.
"""

from __future__ import annotations

import gc
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest
from selection import diagonals

import numod
from numod.utils.data import (
    DataLoader,
    Dataset,
    DistributedSampler,
    IterableDataset,
    StackDataset,
    TensorDataset,
    get_worker_info,
    transport,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")  # machines with one core
FORKS = [name for name in ("fork", "spawn") if name in multiprocessing.get_all_start_methods()]
Point = namedtuple("Point", "x y")


@pytest.fixture(autouse=True)
def frozen():
    """Collections do not go through what other tests and Numba made, here and in forked workers, which would copy it."""
    gc.freeze()


class Samples(Dataset):
    """Sample i in every kind of value that collates."""

    def __init__(self, count=10, size=3):
        self.count, self.size = count, size

    def __getitem__(self, index):
        return {
            "tensor": numod.full((self.size,), float(index)),
            "array": np.full(self.size, index, np.int16),
            "number": index,
            "point": Point(index, "a"),
        }

    def __len__(self):
        return self.count


class Squares(Dataset):
    def __getitem__(self, index):
        return index * index

    def __len__(self):
        return 10


class Stream(IterableDataset):
    """0, 1, 2, …: each worker its share, or (whole=True) all of it."""

    def __init__(self, count, whole=False):
        self.count, self.whole = count, whole

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.count)) if self.whole else iter(range(info.id, self.count, info.num_workers))

    def __len__(self):
        return self.count


class Failing(Dataset):
    """Sample 3 calls `act`."""

    def __init__(self, act):
        self.act = act

    def __getitem__(self, index):
        if index == 3:
            self.act()
        return index

    def __len__(self):
        return 8


class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one, two)


def throw(error):
    raise error


def kill_self():
    os.kill(os.getpid(), signal.SIGKILL)


def drawn(index):
    return (
        int(numod.randint(0, 1 << 40, ())),
        random.getrandbits(40),
        int(np.random.randint(1 << 40)),
        get_worker_info().seed,
    )


class Drawing(Dataset):
    def __getitem__(self, index):
        return drawn(index)

    def __len__(self):
        return 4


def plain(batch):
    return batch


def note_start(worker_id):
    os.environ["NUMOD_TEST_STARTED"] = f"{os.environ.get('NUMOD_TEST_STARTED', '')}{worker_id}"


class Started(Dataset):
    def __getitem__(self, index):
        return os.environ["NUMOD_TEST_STARTED"], get_worker_info().id, get_worker_info().num_workers

    def __len__(self):
        return 2


CHILDREN_BEFORE = set()


@pytest.fixture(autouse=True)
def children_before():
    """Processes of other tests may live on: a frozen object is never collected."""
    CHILDREN_BEFORE.update(multiprocessing.active_children())


def no_children_left():
    gc.collect()  # a caught exception keeps the frames it went through, and so a loader's pass, in a cycle
    return CHILDREN_BEFORE.issuperset(multiprocessing.active_children())


# samples of 40,000 elements go through shared memory, small ones through the pipe
@pytest.mark.parametrize("method, size", diagonals(FORKS, [3, 40_000], 2, others=pytest.mark.fuzz))
def test_batches_equal_those_without_workers(method, size):
    alone = list(DataLoader(Samples(size=size), batch_size=4))
    result = list(DataLoader(Samples(size=size), batch_size=4, num_workers=2, multiprocessing_context=method))
    assert [batch["number"].tolist() for batch in result] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    for one, other in zip(alone, result, strict=True):
        assert one.keys() == other.keys() and type(other["point"]) is Point and one["point"].y == other["point"].y
        for name in ("tensor", "array", "number"):
            assert one[name].dtype is other[name].dtype and one[name].equal(other[name])
        other["tensor"] += 1  # memory that can be written to
    assert no_children_left()


@pytest.mark.parametrize(
    "options",
    [
        {"batch_size": 3, "drop_last": True},
        {"batch_size": None},
        {"sampler": [4, 2, 0, 9, 9]},
        {"batch_sampler": [[1, 2], [], [5]]},
        {"batch_size": 4, "collate_fn": sum, "prefetch_factor": 1},
        {"batch_size": 1, "prefetch_factor": 50},
        {"batch_size": 20},
    ],
)
def test_options_mean_the_same_with_workers(options):
    if options.get("batch_sampler"):
        options = options | {"collate_fn": plain}
    alone = {name: value for name, value in options.items() if name != "prefetch_factor"}
    expected = [tensor.tolist() if hasattr(tensor, "tolist") else tensor for tensor in DataLoader(Squares(), **alone)]
    loader = DataLoader(Squares(), num_workers=2, **options)
    assert [tensor.tolist() if hasattr(tensor, "tolist") else tensor for tensor in loader] == expected
    assert len(iter(loader)) == len(expected)


def test_shuffled_order_follows_the_seed():
    orders = []
    for seed in (1, 1, 2):
        loader = DataLoader(
            Squares(),
            shuffle=True,
            num_workers=2,
            generator=numod.Generator().manual_seed(seed),
            persistent_workers=True,
        )
        orders.append([[batch.item() for batch in loader] for _ in range(2)])
    assert orders[0] == orders[1] != orders[2]
    assert orders[0][0] != orders[0][1] and sorted(orders[0][0]) == sorted(orders[0][1]) == [
        index * index for index in range(10)
    ]


def test_out_of_order_gives_the_same_batches():
    results = [batch.item() for batch in DataLoader(Squares(), num_workers=2, in_order=False)]
    assert sorted(results) == [index * index for index in range(10)]


def test_each_worker_has_seeds_of_its_own():
    def draw():
        numod.manual_seed(5)
        return list(DataLoader(Drawing(), batch_size=None, num_workers=2))

    first = draw()
    assert first == draw() and first[1][3] == first[0][3] + 1
    assert all(len({batch[k] for batch in first}) == 4 for k in range(3))
    assert list(DataLoader(Drawing(), batch_size=None, num_workers=2)) != first


@pytest.mark.parametrize("method", FORKS)
def test_workers_know_who_they_are(method):
    loader = DataLoader(
        Started(), batch_size=None, num_workers=2, worker_init_fn=note_start, multiprocessing_context=method
    )
    assert list(loader) == [["0", 0, 2], ["1", 1, 2]]
    assert get_worker_info() is None and "NUMOD_TEST_STARTED" not in os.environ


def test_streams():
    def read(count, **options):
        return [
            tensor if isinstance(tensor, int) else tensor.tolist()
            for tensor in DataLoader(Stream(count), num_workers=2, **options)
        ]

    assert read(11, batch_size=2) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    assert read(11, batch_size=2, drop_last=True) == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10]]
    assert read(3, batch_size=None) == [0, 1, 2]
    assert read(0, batch_size=2) == []
    persistent = DataLoader(Stream(5), batch_size=None, num_workers=2, persistent_workers=True)
    assert list(persistent) == list(persistent) == [0, 1, 2, 3, 4]


def test_a_stream_that_every_worker_reads_whole_warns():
    loader = DataLoader(Stream(1, whole=True), batch_size=None, num_workers=2)
    assert [batch for batch in loader] == [0, 0]  # list() would ask for the length
    assert len(loader) == 1
    with pytest.warns(
        UserWarning,
        match="reported to be 1 .* 2 samples have been fetched. For multiprocessing .*every worker reads all of it",
    ):
        list(loader)


@pytest.mark.parametrize(
    ("act", "kind", "text"),
    [
        (lambda: throw(ValueError("three")), ValueError, "ValueError: three"),
        (lambda: throw(KeyError("three")), KeyError, "KeyError: 'three'"),
        (lambda: throw(Odd(1, 2)), RuntimeError, r"Odd: \(1, 2\)"),
        (lambda: throw(type("Local", (Exception,), {})("three")), RuntimeError, "Local: three"),
    ],
)
def test_errors_come_with_their_traceback(act, kind, text):
    batches = iter(DataLoader(Failing(act), num_workers=2))
    seen = [next(batches).item() for _ in range(3)]
    with pytest.raises(
        kind,
        match=r"(?s)^Caught \w+ in DataLoader worker process 1\.\nOriginal Traceback \(most recent.*, in "
        rf"throw\n.*{text}",
    ) as caught:
        next(batches)
    assert type(caught.value) is kind
    assert seen + [batch.item() for batch in batches] == [0, 1, 2, 4, 5, 6, 7]


def test_other_errors_in_workers_are_shown():
    with pytest.raises(ZeroDivisionError, match="Caught ZeroDivisionError in DataLoader worker process 0"):
        next(iter(DataLoader(Squares(), num_workers=1, worker_init_fn=lambda number: 1 // number)))
    with pytest.raises((AttributeError, RuntimeError), match="(?s)in DataLoader worker process 0.*pickle"):
        next(iter(DataLoader(Squares(), num_workers=1, collate_fn=lambda batch: lambda: batch)))


def test_a_worker_that_dies_is_a_clear_error():
    for act, text in ((kill_self, "killed by signal: Killed"), (lambda: os._exit(3), "exit code 3")):
        batches = iter(DataLoader(Failing(act), num_workers=2))
        with pytest.raises(RuntimeError, match=rf"DataLoader worker \(pid\(s\) \d+\) exited unexpectedly: {text}"):
            list(batches)
        assert list(batches) == [] and no_children_left()
    loader = DataLoader(Squares(), num_workers=1, persistent_workers=True)
    first = [batch.item() for batch in loader]
    loader._workers.processes[0].kill()
    loader._workers.processes[0].join()
    with pytest.raises(RuntimeError, match="exited unexpectedly"):
        list(loader)
    assert [batch.item() for batch in loader] == first


def test_timeout():
    """A pass goes on after it timed out, also where a worker is slow to start."""
    release = multiprocessing.Event()
    batches = iter(DataLoader(Failing(release.wait), num_workers=1, timeout=0.3))

    def patient():
        while True:
            try:
                return next(batches).item()
            except RuntimeError as error:
                assert "timed out" in str(error)

    assert [patient() for _ in range(3)] == [0, 1, 2]
    with pytest.raises(RuntimeError, match="DataLoader timed out after 0.3 seconds"):
        next(batches)
    release.set()
    assert [patient() for _ in range(5)] == [3, 4, 5, 6, 7]
    with pytest.raises(StopIteration):
        next(batches)


def test_leaving_a_loop_early_ends_the_workers():
    for _ in DataLoader(Squares(), num_workers=2):
        break
    assert no_children_left()
    loader = DataLoader(Squares(), num_workers=2, persistent_workers=True)
    abandoned = iter(loader)
    next(abandoned)
    pids = {process.pid for process in loader._workers.processes}
    assert [batch.item() for batch in loader] == [index * index for index in range(10)]
    assert {process.pid for process in loader._workers.processes} == pids
    with pytest.raises(RuntimeError, match="newer pass"):
        next(abandoned)
    del loader, abandoned
    assert no_children_left()


def test_a_pass_holds_its_processes_as_in_pytorch():
    batches = iter(DataLoader(Squares(), num_workers=2))
    processes = batches._workers
    next(batches)
    del batches
    assert len(processes) == 2 and not any(process.is_alive() for process in processes)


def test_kernels_and_threads_before_and_in_workers():
    """Parallel kernels have run here, another thread is alive, and workers run kernels too."""
    large = numod.ones(1 << 18)
    assert (large * 2).sum().item() == 1 << 19
    release = threading.Event()
    thread = threading.Thread(target=release.wait)
    thread.start()
    try:
        loader = DataLoader([1.0, 2.0], num_workers=2, collate_fn=lambda batch: (large * batch[0]).sum())
        assert [batch.item() for batch in loader] == [1 << 18, 1 << 19]
    finally:
        release.set()
        thread.join()


def test_many_batches_can_be_kept():
    """More than a process may have files open."""
    batches = list(DataLoader(Samples(count=400, size=10_000), num_workers=2, prefetch_factor=4))
    assert len(transport._maps) <= transport._MAPPED
    assert [batch["tensor"][0, -1].item() for batch in batches] == list(range(400))


def test_messages_keep_subclasses_flags_and_views():
    sent = {
        "parameter": numod.nn.Parameter(numod.ones(2)),
        "view": numod.arange(6).reshape(2, 3).mT,
        "empty": numod.empty(0, 2),
        "half": numod.ones(2).bfloat16(),
        "flag": numod.tensor(True),
    }
    result = transport.unpack([memoryview(bytearray(part)) for part in transport.pack(sent)])
    assert type(result["parameter"]) is numod.nn.Parameter and result["parameter"].requires_grad
    for name, value in sent.items():
        assert (
            result[name].tolist() == value.tolist()
            and result[name].dtype is value.dtype
            and result[name].shape == value.shape
        )


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"num_workers": 1, "multiprocessing_context": "thread"}, ValueError, "should specify a valid start method in"),
        ({"num_workers": 1, "multiprocessing_context": 3}, TypeError, "should be a valid context object or a string"),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError, "prefetch_factor option should be positive"),
        ({"num_workers": 1, "timeout": -1}, ValueError, "timeout option should be non-negative"),
    ],
)
def test_arguments_are_checked(options, kind, message):
    with pytest.raises(kind, match=message):
        DataLoader(Squares(), **options)


def test_too_many_workers_warn():
    with pytest.warns(UserWarning, match="This DataLoader will create 5000 worker processes in total"):
        loader = DataLoader(Squares(), num_workers=5000)
    assert (loader.prefetch_factor, loader.multiprocessing_context) == (2, None)


CONTROL_C = """
import os, sys
from numod.utils.data import DataLoader, Dataset
class Waiting(Dataset):
    def __getitem__(self, index):
        if index > 1:
            os.write(1, f"{os.getpid()}\\n".encode())  # in one piece: print writes the end of the line apart
            import threading; threading.Event().wait()
        return index
    def __len__(self):
        return 8
if __name__ == "__main__":
    for batch in DataLoader(Waiting(), num_workers=2, multiprocessing_context=sys.argv[1]):
        pass
"""


@pytest.mark.parametrize("method", FORKS)
@pytest.mark.parametrize("to", ["main process", "all", "kill"])
def test_control_c_leaves_no_process_behind(tmp_path, method, to):
    script = tmp_path / "script.py"
    script.write_text(CONTROL_C)
    environment = {**os.environ, "PYTHONPATH": str(Path(numod.__file__).parents[1])}
    arguments = [sys.executable, script, method]
    with subprocess.Popen(
        arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, env=environment
    ) as process:
        try:
            workers = [int(process.stdout.readline()) for _ in range(2)]
            if to == "all":
                os.killpg(process.pid, signal.SIGINT)
            else:
                process.send_signal(signal.SIGKILL if to == "kill" else signal.SIGINT)
            # ends only when nobody holds the pipes any more, the workers included
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode in (-signal.SIGINT, -signal.SIGKILL, 1, 130)
    assert output == "" and (to == "kill" or "KeyboardInterrupt" in errors) and "leaked" not in errors
    assert len(set(workers)) == 2


def test_stack_dataset():
    pairs = StackDataset(Squares(), range(10))
    stacked = StackDataset(square=Squares(), index=TensorDataset(numod.arange(10)))
    assert (len(pairs), pairs[3], pairs.__getitems__([1, 2])) == (10, (9, 3), [(1, 1), (4, 2)])
    assert stacked[2]["square"] == 4 and [
        tensor.tolist() for tensor in next(iter(DataLoader(stacked, batch_size=2)))["index"]
    ] == [[0, 1]]
    for arguments, keywords, message in (
        ((), {}, "At least one"),
        (("ab",), {"c": "de"}, "both types"),
        (("ab", "c"), {}, "Size mismatch"),
    ):
        with pytest.raises(ValueError, match=message):
            StackDataset(*arguments, **keywords)


@pytest.mark.parametrize(
    ("shuffle", "drop_last", "total"), [(False, False, 12), (True, False, 12), (True, True, 9), (False, True, 9)]
)
def test_distributed_sampler(shuffle, drop_last, total):
    shares = [DistributedSampler(range(10), 3, rank, shuffle=shuffle, drop_last=drop_last, seed=4) for rank in range(3)]
    results = [list(share) for share in shares]
    assert {len(share) for share in results} == {len(shares[0])} == {total // 3}
    assert set(range(10)) >= set(sum(results, [])) and len(set(sum(results, []))) == min(total, 10)
    if not shuffle:
        assert results[1][:3] == [1, 4, 7]
    shares[0].set_epoch(1)
    assert (list(shares[0]) != results[0]) is shuffle
    assert list(DistributedSampler([0], 3, 2)) == [0]
    with pytest.raises(ValueError, match="Invalid rank 3"):
        DistributedSampler(range(3), 3, 3)
    with pytest.raises(ValueError, match="process group has not been initialized"):
        DistributedSampler(range(3))
