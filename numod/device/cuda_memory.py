"""Memory of the CUDA device: blocks are cached and reused, since the driver allocates slowly and freeing waits for all
kernels.

A block freed on a stream is reused on that stream only, where earlier work runs before later work. Another stream that
reads a block declares so with `record_stream`; the block then waits for it. Sizes are rounded up, to 512 bytes or an
eighth of their power of two.
"""

from __future__ import annotations

import ctypes
import os
import threading
import weakref
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ..errors import OutOfMemoryError
from . import cuda_driver

_ALIGNMENT = 512  # bytes; also the alignment of vector loads


def rounded(size: int) -> int:
    """The size of the block that holds `size` bytes."""
    grain = max(_ALIGNMENT, 1 << max(size.bit_length() - 4, 0))
    return max(-(-size // grain), 1) * grain


class Block:
    """A block of device memory: its address, the list of free blocks that it returns to, its stream, and other streams
    that read it.
    """

    __slots__ = ("memory", "size", "address", "free_list", "stream", "readers")

    def __init__(self, memory: object, size: int, address: int, free_list: list[Block], stream: object) -> None:
        self.memory = memory
        self.size = size
        self.address = address
        self.free_list = free_list
        self.stream = stream
        self.readers = []


class Pool:
    """Allocates flat arrays from a source's memory and reuses their blocks after they are freed."""

    def __init__(self, source: Driver | Simulated) -> None:
        self.source = source
        self.limit: int | None = None  # bytes that may be reserved; None leaves it to the driver
        # bytes, and counts
        self.numbers = dict.fromkeys(
            ("allocated", "allocated peak", "reserved", "reserved peak", "taken", "retries", "failures"), 0
        )
        self._free: dict[int, dict[object, list[Block]]] = defaultdict(lambda: defaultdict(list))  # by size and stream
        self._waiting: list[tuple[Block, list]] = []  # freed, but waiting for events of other streams
        self._blocks: dict[int, Block] = {}  # in use, by address
        self._unlock()
        if hasattr(os, "register_at_fork"):  # another thread of the parent may have held the lock
            os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.RLock()  # a finalizer may run anywhere, also within these methods

    def take(self, count: int, dtype: np.dtype, stream: object) -> object:
        """A flat uninitialised array. Raises OutOfMemoryError, with the sizes, if the device has no room."""
        dtype = np.dtype(dtype)
        return self._take(rounded(count * dtype.itemsize), count, dtype, stream)

    def taker(self, size: int, current: object) -> Callable:
        """A fast `take` of arrays of `size` bytes on the stream of `current`, for the results of operations."""
        size, take = rounded(size), self._take
        return lambda count, dtype: take(size, count, dtype, current.stream)

    def _take(self, size: int, count: int, dtype: np.dtype, stream: object) -> object:
        # without the lock, which would double the time: operations on lists and dicts are atomic
        try:
            block = self._free[size][stream].pop()
        except IndexError:
            block = self._find_or_reserve(size, stream)
        numbers, self._blocks[block.address] = self.numbers, block
        numbers["taken"] += 1
        now = numbers["allocated"] = numbers["allocated"] + size
        if now > numbers["allocated peak"]:
            numbers["allocated peak"] = now
        return self.source.array(block, count, dtype, self)

    def record_stream(self, address: int, stream: object) -> None:
        """Record that a stream reads the block that begins at `address`."""
        block = self._blocks.get(address)
        if block is not None and block.stream is not stream and stream not in block.readers:
            block.readers.append(stream)

    def empty_cache(self) -> None:
        """Return all free blocks to the driver."""
        with self._lock:
            if self._waiting:
                self._settle()
            for free in [stream for streams in list(self._free.values()) for stream in list(streams.values())]:
                with suppress(IndexError):
                    while True:
                        self.numbers["reserved"] -= free.pop().size

    def reset_peaks(self) -> None:
        """Reset the peaks to the current use."""
        for name in ("allocated", "reserved"):
            self.numbers[f"{name} peak"] = self.numbers[name]

    def _find_or_reserve(self, size: int, stream: object) -> Block:
        """A block that was waiting for other streams, or a new one."""
        with self._lock:
            self._settle()
            free = self._free[size][stream]
            try:
                return free.pop()
            except IndexError:
                return self._reserve(size, free, stream)

    def _reserve(self, size: int, free_list: list[Block], stream: object) -> Block:
        """A new block from the driver. Raises OutOfMemoryError if the cache was emptied in vain."""
        memory = self._allocate(size)
        if memory is None:  # freeing blocks of other sizes and streams may make room
            self.numbers["retries"] += 1
            self.source.synchronize()
            self.empty_cache()
            memory = self._allocate(size)
        if memory is None:
            self.numbers["failures"] += 1
            free, total = self.source.information()
            raise OutOfMemoryError(
                f"CUDA out of memory. Tried to allocate {_size_text(size)}. GPU 0 has a total capacity of "
                f"{_size_text(total)} of which {_size_text(free)} is free"
                f"{'' if self.limit is None else f'; this process may reserve {_size_text(self.limit)}'}. "
                f"Of the memory in use here {_size_text(self.numbers['allocated'])} "
                "is held by tensors; free some, or work on smaller batches"
            )
        self.numbers["reserved"] += size
        self.numbers["reserved peak"] = max(self.numbers["reserved peak"], self.numbers["reserved"])
        return Block(memory, size, self.source.address(memory), free_list, stream)

    def _allocate(self, size: int) -> object | None:
        # the driver takes 64 bits of the size
        if size >> 63 or self.limit is not None and self.numbers["reserved"] + size > self.limit:
            return None
        return self.source.allocate(size)

    def give_back(self, block: Block) -> None:
        """Return a block that is no longer referenced to the free blocks."""
        del self._blocks[block.address]
        self.numbers["allocated"] -= block.size
        if block.readers:
            readers, block.readers = block.readers, []
            if events := self._events_of(readers):
                self._waiting.append((block, events))
                return
        block.free_list.append(block)

    def _events_of(self, readers: list) -> list:
        """Events after the readers' work so far.

        None in a forked child or after a failed kernel: finalizers must not raise, and nothing runs any more.
        """
        try:
            return [self.source.event(stream) for stream in readers]
        except RuntimeError:
            return []

    def _settle(self) -> None:
        """Free the blocks whose readers are done."""
        for entry in [waiting for waiting in list(self._waiting) if all(map(self.source.passed, waiting[1]))]:
            self._waiting.remove(entry)
            entry[0].free_list.append(entry[0])


def _size_text(size: float) -> str:
    """A size for error messages."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB")):
        if size >= unit:
            return f"{size / unit:.2f} {name}"
    return f"{size / 1024:.2f} KiB"


class Driver:
    """Memory from the CUDA driver."""

    def __init__(self, driver: cuda_driver.Driver) -> None:
        self.driver = driver

    def allocate(self, size: int) -> Memory | None:
        """Memory, or None if there is no room."""
        self.driver.activate()
        try:
            return Memory(self.driver, self.driver.read(ctypes.c_uint64, "cuMemAlloc_v2", size))
        except cuda_driver.DriverError as error:
            if error.number == cuda_driver.OUT_OF_MEMORY:
                return None
            raise

    def address(self, memory: Memory) -> int:
        """The address of memory."""
        return memory.address

    def array(self, block: Block, count: int, dtype: np.dtype, pool: Pool) -> cuda_driver.Buffer:
        """A flat array over a block; the block returns to the pool when the array and its slices are gone."""
        return _Lent(block, count, dtype, pool, self.driver)

    def adopt(self, address: int, count: int, dtype: np.dtype, owner: object) -> cuda_driver.Buffer:
        """A flat array over memory with another owner."""
        return cuda_driver.Buffer(address, count, dtype, owner, self.driver)

    def information(self) -> tuple[int, int]:
        """(free, total) bytes."""
        self.driver.activate()
        total = ctypes.c_size_t()
        return self.driver.read(ctypes.c_size_t, "cuMemGetInfo_v2", ctypes.byref(total)), total.value

    def synchronize(self) -> None:
        """Wait for all kernels."""
        self.driver.activate()
        self.driver.call("cuCtxSynchronize")

    def event(self, stream: cuda_driver.Stream | None) -> cuda_driver.Event:
        """An event after a stream's work so far."""
        event = cuda_driver.Event(self.driver)
        event.record(stream)
        return event

    def passed(self, event: cuda_driver.Event) -> bool:
        """Whether an event has completed."""
        return event.query()


class Memory:
    """A piece of the driver's memory, freed with the last reference."""

    __slots__ = ("driver", "address")

    def __init__(self, driver: cuda_driver.Driver, address: int) -> None:
        self.driver, self.address = driver, address

    def __del__(self) -> None:
        self.driver.release("cuMemFree_v2", self.address)


class _Lent(cuda_driver.Buffer):
    """An array over a block, which it returns to the pool when it is deleted. Its slices reference it."""

    __slots__ = ("pool", "block")

    def __init__(self, block: Block, count: int, dtype: np.dtype, pool: Pool, driver: cuda_driver.Driver) -> None:
        self.address = block.address
        self.size = count
        self.dtype = dtype
        self.owner = None
        self.driver = driver
        self.pool = pool
        self.block = block

    def __del__(self) -> None:
        self.pool.give_back(self.block)


class Simulated:
    """Host memory in place of device memory, for Numba's simulator."""

    def allocate(self, size: int) -> object:
        """Memory."""
        return bytearray(size)

    def address(self, memory: object) -> int:
        """The address of memory."""
        return ctypes.addressof(ctypes.c_char.from_buffer(memory))

    def array(self, block: Block, count: int, dtype: np.dtype, pool: Pool) -> object:
        """A flat array over a block; the block returns to the pool when the array and its slices are gone."""
        memory = (ctypes.c_uint8 * len(block.memory)).from_buffer(block.memory)
        weakref.finalize(memory, pool.give_back, block).atexit = False
        return self._over(memory, count, dtype)

    def adopt(self, address: int, count: int, dtype: np.dtype, owner: object) -> object:
        """A flat array over memory with another owner."""
        memory = (ctypes.c_uint8 * (count * dtype.itemsize)).from_address(address)
        memory.owner = owner
        return self._over(memory, count, dtype)

    def _over(self, memory: object, count: int, dtype: np.dtype) -> object:
        from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray

        return FakeCUDAArray(np.frombuffer(memory, dtype, count))

    def information(self) -> tuple[int, int]:
        """(free, total) bytes of the host."""
        page = os.sysconf("SC_PAGE_SIZE")
        return os.sysconf("SC_AVPHYS_PAGES") * page, os.sysconf("SC_PHYS_PAGES") * page

    def synchronize(self) -> None:
        """Kernels have run when their launch returns."""

    def event(self, stream: object) -> object:
        """An event that completes at once."""

    def passed(self, event: object) -> bool:
        """Always true."""
        return True


def make(driver: cuda_driver.Driver | None) -> Pool:
    """The pool of the driver's memory, or of the simulator's if there is no driver."""
    return Pool(Simulated() if driver is None else Driver(driver))
