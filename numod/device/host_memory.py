"""Memory of large CPU tensors, kept for later ones: the system has to find and clear fresh pages, which takes longer than most kernels.

A training step that finds the memory of the step before runs several times as fast as one whose activations are mapped anew. A weak reference tells when
a buffer is gone. Whoever else uses its memory (NumPy's views, DLPack, PyTorch's tensors) holds the buffer: it is no view of another array, so NumPy's views do
not look past it.
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

LARGE = 1 << 19  # bytes from which a buffer's memory is kept. What is smaller the C library gives out again by itself
_HUGE = 1 << 22  # bytes from which pages of 2 MiB are asked for, as NumPy does


class _Block(mmap.mmap):
    """Pages of this process alone: a forked child gets a copy. `Tensor.is_shared` tells them from shared memory by this type."""


class _Lease(weakref.ref):
    """A buffer that is in use, and the memory to take back."""

    __slots__ = ("size", "block")


class Pool:
    """Blocks that buffers have left. With those in use they never take more than buffers once took at the same time, and at most `limit` bytes lie idle."""

    def __init__(self, limit: int) -> None:
        self.limit, self.used, self.peak, self.idle = limit, 0, 0, 0
        self._leases: dict[int, _Lease] = {}  # a weak reference tells nothing once it is gone itself
        self._left: deque[_Lease] = deque()  # of buffers that are gone, to be taken back by whoever holds the lock
        self._blocks: OrderedDict[int, tuple[int, _Block]] = OrderedDict()  # idle ones, those left longest first
        self._numbers: dict[int, deque[int]] = {}  # of the idle blocks of each size
        self._count = 0
        self.renew_lock()

    def renew_lock(self) -> None:
        """A new lock: in a forked child another thread's would be held for ever."""
        self._lock = threading.Lock()

    def empty(self, count: int, dtype: np.dtype) -> np.ndarray:
        """A flat uninitialised buffer. Raises OutOfMemoryError where there is no room."""
        size = rounded(count * dtype.itemsize)
        if not self._lock.acquire(blocking=False):  # another thread's turn, or a signal handler's call in the midst of ours
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
        """Called when a buffer is gone: by any thread, at any time."""
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
        """The idle block of this size that was left last: the caches may know it."""
        numbers = self._numbers.get(size)
        if not numbers:
            return None
        self.idle -= size
        return self._blocks.pop(numbers.pop())[1]

    def _map(self, size: int) -> _Block:
        """Fresh memory, in the stead of idle blocks: all together take no more than what was once in use."""
        self._shrink(max(self.peak - self.used - size, 0))
        block = _Block(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        if size >= _HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without such pages
                block.madvise(mmap.MADV_HUGEPAGE)
        return block

    def _shrink(self, limit: int) -> None:
        """Give idle blocks back to the system, those left longest first, until `limit` bytes are idle."""
        while self.idle > limit:
            number, (size, _) = self._blocks.popitem(last=False)
            self._numbers[size].remove(number)
            self.idle -= size

    def release(self) -> None:
        """Give all idle blocks back to the system."""
        with self._lock:
            self._take_back()
            self._shrink(0)


def _by_numpy(count: int, dtype: np.dtype) -> np.ndarray:
    try:
        return np.empty(count, dtype)
    except (MemoryError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(f"can't allocate memory: you tried to allocate {count * dtype.itemsize} bytes. {error}") from None


def rounded(size: int) -> int:
    """The size of the block for `size` bytes: one of eight in each power of two, so that blocks suit buffers of about the same size."""
    step = max(1 << max(size.bit_length() - 4, 0), mmap.PAGESIZE)
    return -(-size // step) * step


def _memory_of_machine() -> int:
    return os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE


pool = Pool(_memory_of_machine() // 8) if hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS") else None  # None on Windows
if pool is not None and hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pool.renew_lock)


def allocator(size: int) -> object:
    """What makes buffers of `size` bytes, called with a count and a dtype."""
    return np.empty if size < LARGE or pool is None else pool.empty


def empty(count: int, dtype: np.dtype) -> np.ndarray:
    """A flat uninitialised buffer."""
    return allocator(count * dtype.itemsize)(count, dtype)


def release() -> None:
    """Give memory that is kept for later tensors back to the system."""
    if pool is not None:
        pool.release()
