"""The pool of device memory, over a source that only counts: no GPU and no simulator is needed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import numod
from numod.device.cuda_memory import Pool, rounded

KIB = 1024


class Source:
    """A driver with `total` bytes, whose streams are as far as `done` says."""

    def __init__(self, total: int = 100 * KIB) -> None:
        self.total, self.reserved, self.synchronized, self.done = total, 0, 0, set()
        self.finishers: list = []

    def allocate(self, size: int) -> object | None:
        if self.reserved + size > self.total:
            return None
        self.reserved += size
        return Memory(self, size)

    def address(self, memory: Memory) -> int:
        return id(memory)

    def array(self, block: object, count: int, dtype: np.dtype, pool: Pool) -> Array:
        return Array(block, pool)

    def information(self) -> tuple[int, int]:
        return self.total - self.reserved, self.total

    def synchronize(self) -> None:
        self.synchronized += 1

    def event(self, stream: object) -> object:
        return stream

    def passed(self, event: object) -> bool:
        return event in self.done


class Memory:
    def __init__(self, source: Source, size: int) -> None:
        self.source, self.size = source, size

    def __del__(self) -> None:
        self.source.reserved -= self.size


class Array:
    def __init__(self, block: object, pool: Pool) -> None:
        self.block, self.pool = block, pool

    @property
    def memory(self) -> Memory:
        return self.block.memory

    def free(self) -> None:
        block, self.block = self.block, None
        self.pool.give_back(block)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 4097, 100_000, 1 << 20, (1 << 20) + 1, 3 << 30])
def test_blocks_hold_what_was_asked_for_and_waste_an_eighth(size):
    block = rounded(size)
    assert block >= max(size, 1) and block % 512 == 0 and block <= max(512, size + 511, size * 9 / 8)


def test_a_freed_block_is_given_again():
    pool = Pool(Source())
    first = pool.take(100, np.float32, None)
    memory = first.memory
    first.free()
    assert pool.take(120, np.float32, None).memory is memory
    assert pool.numbers["reserved"] == pool.numbers["allocated"] == 512


def test_another_stream_does_not_get_it():
    pool = Pool(Source())
    first = pool.take(100, np.float32, None)
    memory = first.memory
    first.free()
    assert pool.take(100, np.float32, "side").memory is not memory


def test_a_block_waits_for_the_streams_that_read_it():
    source = Source()
    pool = Pool(source)
    first = pool.take(100, np.float32, None)
    memory = first.memory
    pool.record_stream(id(memory), "side")
    first.free()
    assert pool.take(100, np.float32, None).memory is not memory
    source.done.add("side")
    assert pool.take(100, np.float32, None).memory is memory


def test_free_blocks_are_released_when_memory_runs_out():
    source = Source(total=10 * KIB)
    pool = Pool(source)
    pool.take(8 * KIB, np.uint8, None).free()
    separate = pool.take(4 * KIB, np.uint8, None)  # does not fit beside the free block
    assert source.reserved == 4 * KIB and source.synchronized == 1 and pool.numbers["retries"] == 1
    with pytest.raises(
        numod.OutOfMemoryError,
        match=r"Tried to allocate 8\.00 KiB.*total capacity of 10\.00 KiB of which 6\.00 KiB is free.*4\.00 KiB is "
        r"held",
    ):
        pool.take(8 * KIB, np.uint8, None)
    assert issubclass(numod.OutOfMemoryError, RuntimeError) and pool.numbers["failures"] == 1
    separate.free()
    pool.take(8 * KIB, np.uint8, None)


def test_threads_share_a_pool():
    pool = Pool(Source(total=1 << 24))
    take = pool.taker(100, SimpleNamespace(stream=None))

    def work() -> None:
        for _ in range(500):
            buffers = [take(100, np.uint8) for _ in range(5)]
            assert len({id(buffer.block) for buffer in buffers}) == 5
            for buffer in buffers:
                buffer.free()
            pool.empty_cache()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work) for _ in range(8)]:
            done.result()
    assert (
        pool.numbers["taken"] == 20_000 and pool.numbers["allocated"] == 0 < pool.numbers["allocated peak"] <= 40 * 512
    )
    assert pool.numbers["reserved"] == pool.source.reserved == 0


def test_a_limit_of_ones_own():
    pool = Pool(Source())
    pool.limit = 2 * KIB
    buffer = pool.take(2 * KIB, np.uint8, None)
    with pytest.raises(numod.OutOfMemoryError, match=r"may reserve 2\.00 KiB"):
        pool.take(1, np.uint8, None)
    buffer.free()
    pool.take(2 * KIB, np.uint8, None)


def test_peaks_and_the_empty_cache():
    source = Source()
    pool = Pool(source)
    arrays = [pool.take(KIB, np.uint8, None) for _ in range(4)]
    for array in arrays[1:]:
        array.free()
    assert (pool.numbers["allocated"], pool.numbers["allocated peak"], pool.numbers["reserved"]) == (
        KIB,
        4 * KIB,
        4 * KIB,
    )
    pool.empty_cache()
    pool.reset_peaks()
    assert (
        pool.numbers["reserved"]
        == pool.numbers["reserved peak"]
        == pool.numbers["allocated peak"]
        == KIB
        == source.reserved
    )
