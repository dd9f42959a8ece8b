"""A pool of memory for large CPU tensors: mapping and clearing fresh pages takes longer than most kernels.

A training step that reuses the memory of the previous step runs several times as fast as one whose activations are mapped anew. A weak reference signals
when a buffer is freed. Other users of its memory (NumPy views, DLPack, PyTorch tensors) hold a reference to the buffer: since it is not itself a view,
NumPy's views have it as their base.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref
from collections import OrderedDict, deque
from contextlib import suppress

import numpy as np

from ..errors import OutOfMemoryError

LARGE = 1 << 19  # bytes from which memory is pooled; smaller buffers are reused by the C library's allocator
_HUGE = 1 << 22  # bytes from which huge pages (2 MiB) are requested, as NumPy does


class _Block(mmap.mmap):
    """Private pages, which a forked child gets a copy of. `Tensor.is_shared` distinguishes them from shared memory by this type."""


class _Lease(weakref.ref):
    """A weak reference to a buffer in use, with the block to take back."""

    __slots__ = ("size", "block")


class Pool:
    """Free blocks. Together with those in use they never exceed the peak of what was in use, and at most `limit` bytes are free."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used, self.peak, self.idle = limit, 0, 0, 0
        self._leases: dict[int, _Lease] = {}  # keeps the weak references themselves alive
        self._left: deque[_Lease] = deque()  # of freed buffers, to be taken back by the next holder of the lock
        self._blocks: OrderedDict[int, tuple[int, _Block]] = OrderedDict()  # free ones, least recently used first
        self._numbers: dict[int, deque[int]] = {}  # of the free blocks of each size
        self._count = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock: in a forked child it may be held by a thread of the parent."""
        self._lock = threading.Lock()

    def empty(self, count: int, dtype: np.dtype) -> np.ndarray:
        """A flat uninitialised buffer. Raises OutOfMemoryError where there is no room."""
        size = rounded(count * dtype.itemsize)
        if not self._lock.acquire(blocking=False):  # held by another thread, or by this one, interrupted by a signal handler
            return _by_numpy(count, dtype)
        try:
            self._take_back()
            block = self._find(size) or self._map(size)
            self.used += size
            self.peak = max(self.peak, self.used)
        except (OSError, OverflowError):  # no room
            self._shrink(0)
            return _by_numpy(count, dtype)
        finally:
            self._lock.release()
        return self._lend(block, size, count, dtype)

    def _lend(self, block: _Block, size: int, count: int, dtype: np.dtype) -> np.ndarray:
        buffer = np.frombuffer(block, dtype, count)
        lease = _Lease(buffer, self._return)
        lease.size, lease.block = size, block
        self._leases[id(lease)] = lease
        return buffer

    def _return(self, lease: _Lease) -> None:
        """Called when a buffer is freed, by any thread, at any time."""
        del self._leases[id(lease)]
        self._left.append(lease)
        if self._lock.acquire(blocking=False):
            try:
                self._take_back()
            finally:
                self._lock.release()

    def _take_back(self) -> None:
        while self._left:
            lease = self._left.popleft()
            self._count += 1
            self._blocks[self._count] = lease.size, lease.block
            self._numbers.setdefault(lease.size, deque()).append(self._count)
            self.used -= lease.size
            self.idle += lease.size
        self._shrink(self.limit)

    def _find(self, size: int) -> _Block | None:
        """The most recently used free block of this size, which may still be in the caches."""
        numbers = self._numbers.get(size)
        if not numbers:
            return None
        self.idle -= size
        return self._blocks.pop(numbers.pop())[1]

    def _map(self, size: int) -> _Block:
        """Fresh memory; free blocks are released so that the total does not exceed the peak in use."""
        self._shrink(max(self.peak - self.used - size, 0))
        block = _Block(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without such pages
                block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def _shrink(self, limit: int) -> None:
        """Return free blocks to the system, the least recently used first, until at most `limit` bytes are free."""
        while self.idle > limit:
            number, (size, _) = self._blocks.popitem(last=False)
            self._numbers[size].remove(number)
            self.idle -= size

    def release(self) -> None:
        """Return all free blocks to the system."""
        with self._lock:
            self._take_back()
            self._shrink(0)


def _by_numpy(count: int, dtype: np.dtype) -> np.ndarray:
    try:
        return np.empty(count, dtype)
    except (MemoryError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(f"can't allocate memory: you tried to allocate {count * dtype.itemsize} bytes. {error}") from None


def rounded(size: int) -> int:
    """`size` rounded up to a block size (eight per power of two), so that buffers of similar sizes can share blocks."""
    step = max(1 << max(size.bit_length() - 4, 0), mmap.PAGESIZE)
    return -(-size // step) * step


def _memory_of_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE


pool = Pool(_memory_of_machine() // 8) if hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS") else None  # None on Windows
if pool is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.renew_lock)


def allocator(size: int) -> object:
    """The allocator for buffers of `size` bytes; it is called with a count and a dtype."""
    return np.empty if size < LARGE or pool is None else pool.empty


def empty(count: int, dtype: np.dtype) -> np.ndarray:
    """A flat uninitialised buffer."""
    return allocator(count * dtype.itemsize)(count, dtype)


def release() -> None:
    """Return pooled memory to the system."""
    if pool is not None:
        pool.release()
