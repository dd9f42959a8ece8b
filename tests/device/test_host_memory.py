"""Memory of large tensors that is used again: never while anybody can still reach it, and little more than was once
needed.
"""

from __future__ import annotations

import gc
import os
import threading
import types
import weakref

import numpy as np
import pytest

import numod
from numod.device import cpu, host_memory
from numod.device.host_memory import MIN_POOLED_BYTES, Pool, rounded

pytestmark = pytest.mark.skipif(host_memory.pool is None, reason="no private mappings on this system")
FLOAT, COUNT = np.dtype(np.float32), MIN_POOLED_BYTES // 4


def address(array: np.ndarray) -> int:
    return array.ctypes.data


def test_memory_of_a_dead_buffer_is_used_again() -> None:
    pool = Pool(1 << 30)
    first = pool.empty(COUNT, FLOAT)
    first_address = address(first)
    del first
    assert pool.idle == rounded(MIN_POOLED_BYTES) and pool.used == 0
    assert address(pool.empty(COUNT - 5, FLOAT)) == first_address  # another size of as many pages


def test_freeing_a_buffer_runs_no_python_function() -> None:
    """Python would call a signal's handler there, and drop its exception: Ctrl-C during a long kernel was lost."""
    pool = Pool(1 << 30)
    buffer = pool.empty(COUNT, FLOAT)
    (lease,) = weakref.getweakrefs(buffer)
    assert isinstance(lease.__callback__, types.BuiltinMethodType)


def test_places_begin_where_huge_pages_do() -> None:
    assert address(Pool(1 << 30).empty(COUNT, FLOAT)) % (1 << 21) == 0


def test_a_view_keeps_the_memory() -> None:
    pool = Pool(1 << 30)
    buffer = pool.empty(COUNT, FLOAT)
    buffer.fill(1)
    view = buffer[5:].reshape(-1)[::3].view(np.int32)[1:]
    del buffer
    other = pool.empty(COUNT, FLOAT)
    other.fill(2)
    assert (view.view(np.float32) == 1).all() and pool.used == 2 * rounded(MIN_POOLED_BYTES)
    del view
    assert pool.idle == rounded(MIN_POOLED_BYTES)


@pytest.mark.parametrize(
    "take",
    [
        lambda t: t.numpy()[3:],
        lambda t: np.from_dlpack(t)[3:],
        lambda t: memoryview(t.numpy())[3:],
        lambda t: t.view(-1, 2)[2:].detach(),
    ],
)
def test_exported_views_keep_the_memory(take) -> None:
    tensor = numod.full((COUNT,), 3.0) * 1.0
    array = take(tensor)
    del tensor
    for _ in range(3):
        numod.full((COUNT,), 4.0) * 1.0
    assert (np.asarray(array) == 3).all()


def test_memory_of_results_and_of_copied_data_is_used_again() -> None:
    gc.collect()  # else memory of other tests may be freed, and used, in between
    x = numod.ones(COUNT)
    result_address = (x + 1).data_ptr()
    assert (x * 3).data_ptr() == result_address
    assert numod.tensor(x.numpy()).data_ptr() == result_address


def test_places_are_apart_and_little_more_is_touched_than_was_once_in_use() -> None:
    pool, generator, arrays, peak = Pool(1 << 30), np.random.default_rng(0), [], 0
    for _ in range(300):
        arrays.append(pool.empty(int(generator.integers(COUNT, 8 * COUNT)), FLOAT))
        peak = max(peak, pool.used)
        while len(arrays) > generator.integers(1, 12):
            arrays.pop(int(generator.integers(len(arrays))))
        places = sorted((address(array), address(array) + array.nbytes) for array in arrays)
        assert all(end <= start for (_, end), (start, _) in zip(places, places[1:]))
        assert pool.used == sum(rounded(array.nbytes) for array in arrays) and pool.used + pool.idle <= 1.5 * peak
    arrays.clear()
    assert pool.used == 0
    pool.release()
    assert pool.idle == 0


def test_free_neighbours_become_one_place() -> None:
    pool = Pool(1 << 30)
    first, second, third, last = (pool.empty(COUNT, FLOAT) for _ in range(4))
    first_address = address(first)
    del first, third, second
    assert address(pool.empty(3 * COUNT, FLOAT)) == first_address and address(last) == first_address + 3 * rounded(
        MIN_POOLED_BYTES
    )


def test_pages_that_are_given_back_are_cleared() -> None:
    pool = Pool(1 << 30)
    low, high = pool.empty(COUNT, FLOAT), pool.empty(COUNT, FLOAT)
    low.fill(1)
    high.fill(2)
    del low
    pool.release()
    assert (pool.empty(COUNT, FLOAT) == 0).all() and (high == 2).all()


def test_arrays_beyond_the_limit_are_numpys() -> None:
    pool = Pool(3 * rounded(MIN_POOLED_BYTES))
    arrays = [pool.empty(COUNT, FLOAT) for _ in range(8)]
    for k, array in enumerate(arrays):
        array.fill(k)
    assert pool.used == 3 * rounded(MIN_POOLED_BYTES) and [array[-1] for array in arrays] == list(range(8))
    arrays.clear()
    assert pool.used == 0 and pool.idle == 3 * rounded(MIN_POOLED_BYTES)


def test_memory_can_be_given_back() -> None:
    del (numod.ones(COUNT) + 1)._storage
    numod.cpu.empty_cache()
    assert host_memory.pool.idle == 0


def test_no_room_is_a_memory_error_and_costs_nothing() -> None:
    pool = Pool(1 << 30)
    with pytest.raises(MemoryError):
        pool.empty(1 << 60, np.dtype(np.uint8))
    assert pool.used == 0 and pool.empty(COUNT, FLOAT).size == COUNT


def test_a_system_without_huge_pages_keeps_memory_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(host_memory._Arena):
        def madvise(self, *_: int) -> None:
            raise OSError(22, "Invalid argument")

    monkeypatch.setattr(host_memory, "_Arena", Refusing)
    pool = Pool(1 << 30)
    del (arrays := [pool.empty(8 * COUNT, FLOAT)])[:]
    assert not arrays and pool.idle == rounded(8 * MIN_POOLED_BYTES)


def test_without_addresses_memory_is_of_numpy() -> None:
    pool = Pool(1 << 60)
    assert pool.empty(COUNT, FLOAT).size == COUNT and pool.used == pool.reach == 0
    pool.release()


def test_a_call_in_the_midst_of_another_gets_memory_of_its_own() -> None:
    pool = Pool(1 << 30)
    buffer = pool.empty(COUNT, FLOAT)
    with pool._lock:
        other = pool.empty(COUNT, FLOAT)  # not the pool's
        buffer_address = address(buffer)
        del buffer  # left behind for the next who holds the lock, or who wants the same
        assert other.size == COUNT and address(pool.empty(COUNT, FLOAT)) == buffer_address
    assert pool.used == 0


def test_most_recently_freed_block_is_reused_first() -> None:
    pool = Pool(1 << 30)
    low, middle, high = (pool.empty(COUNT, FLOAT) for _ in range(3))
    places = address(low), address(high)
    del low, high
    with pool._lock:  # without looking for a place
        assert address(pool.empty(COUNT, FLOAT)) == places[1]
    assert address(pool.empty(COUNT, np.dtype(np.int32))) == places[0]
    assert pool.used == middle.nbytes


def test_threads_never_share_a_block() -> None:
    pool, wrong = Pool(1 << 30), []

    def work(mark: int) -> None:
        for _ in range(200):
            one, two = pool.empty(COUNT, FLOAT), pool.empty(COUNT, FLOAT)
            one[::4096], two[::4096] = mark, -mark
            if not ((one[::4096] == mark).all() and (two[::4096] == -mark).all()):
                wrong.append(mark)

    threads = [threading.Thread(target=work, args=(k + 1,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pool.release()
    assert not wrong and pool.used == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_writes_to_a_copy() -> None:
    tensor = numod.ones(COUNT) * 1.0
    child = os.fork()
    if child == 0:
        tensor.zero_()
        os._exit(0 if (numod.ones(COUNT) * 2.0).sum().item() == 2.0 * COUNT else 1)
    assert os.waitpid(child, 0)[1] == 0 and tensor.sum().item() == COUNT
    assert not tensor.is_shared() and tensor.share_memory_().is_shared()


def test_small_scratch_memory_is_found_after_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    failures, empty = iter([MemoryError("none left")]), np.empty

    def failing_once(*size: object) -> np.ndarray:
        for failure in failures:
            raise failure
        return empty(*size)

    monkeypatch.setattr(np, "empty", failing_once)
    first, second = cpu.scratch(((5, FLOAT), (7, np.dtype(np.int8))))
    assert first.size == 5 and first.dtype == FLOAT and second.size == 7
