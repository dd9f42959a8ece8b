"""A pool of memory for large CPU tensors, since mapping and clearing fresh pages takes longer than most kernels.

A training step that reuses the memory of the previous step runs several times as fast as one that maps new pages. A
weak reference signals that a buffer is freed. Other users of its memory (NumPy views, DLPack, PyTorch tensors) hold a
reference to the buffer: it is not a view itself, so NumPy's views have it as their base.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import weakref
from bisect import bisect
from collections import deque
from contextlib import suppress

import numpy as np

from ..errors import OutOfMemoryError
from . import room

MIN_POOLED_BYTES = 1 << 19  # bytes from which memory is pooled; the C library's allocator reuses smaller buffers
_HUGE_PAGE_BYTES = 1 << 21  # size and alignment of a huge page in bytes
# bytes from which a buffer is checked against the control group's limit; a process that exceeds it is killed
_MIN_CHECKED_BYTES = 1 << 24


class _Arena(mmap.mmap):
    """Private pages, which fork copies. `Tensor.is_shared` distinguishes them from shared memory by this type."""

    has_holes = False

    def cut(self, start: int, size: int) -> None:
        """Unmap a part.

        The object is then kept alive for ever: unmapping the whole would also unmap other mappings in the hole.
        """
        if not self.has_holes:
            self.has_holes = True
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))
        first = np.frombuffer(self, np.uint8, 1).__array_interface__["data"][0]
        ctypes.CDLL(None).munmap(ctypes.c_void_p(first + start), ctypes.c_size_t(size))


class _Lease(weakref.ref):
    """A weak reference to a buffer in use, with its place in the arena and its requested count and dtype."""

    __slots__ = ("start", "size", "count", "dtype")


class Pool:
    """Buffers in one arena, a range of addresses whose pages are mapped at first use and stay mapped for later buffers.

    A buffer gets the lowest free place with room, and free neighbours are merged, so that little more memory stays
    mapped than was in use at a time. A buffer with the same count and dtype as the last freed one gets its place
    without a search, which would take a tenth of the time of a sum of a million floats. Buffers that do not fit into
    `reach` bytes are allocated by NumPy.
    """

    def __init__(self, most: int) -> None:
        self.most, self.reach, self._used = most, most, 0
        self._arena: _Arena | None = None
        # (start, end) of free places, in order; the last one goes on to the end of the arena
        self._free: list[tuple[int, int]] = []
        # keeps the weak references themselves alive until their places are taken back
        self._leases: dict[int, _Lease] = {}
        # freed buffers: the last is reused, or all are taken back by the next holder of the lock
        self._left: deque[_Lease] = deque()
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock: in a forked child it may be held by a thread of the parent."""
        self._lock = threading.Lock()

    @property
    def used(self) -> int:
        """Bytes of buffers in use."""
        with self._lock:
            self._take_back()
            return self._used

    @property
    def idle(self) -> int:
        """Free bytes that are still mapped."""
        return self._touched - self.used

    _begin = 0  # where places are counted from
    _touched = 0  # the end of the highest place that was used

    def empty(self, count: int, dtype: np.dtype) -> np.ndarray:
        """A flat uninitialised buffer. Raises OutOfMemoryError if there is no room."""
        try:
            last = self._left.pop()
        except IndexError:  # no buffer was freed, or another thread took it
            pass
        else:
            if last.count == count and last.dtype is dtype:
                self._leases.pop(id(last), None)
                return self._lend(last.start, last.size, count, dtype)
            self._left.append(last)
        size = rounded(count * dtype.itemsize)
        if self._lock.locked():  # by another thread, or by this one, interrupted by a signal handler
            return by_numpy(count, dtype)
        # `with` cannot leave the lock held, unlike `acquire(blocking=False)`, if Ctrl-C arrives before its `try`
        with self._lock:
            self._take_back()
            start = self._find(size)
            self._used += size if start is not None else 0
        return by_numpy(count, dtype) if start is None else self._lend(start, size, count, dtype)

    def _lend(self, start: int, size: int, count: int, dtype: np.dtype) -> np.ndarray:
        buffer = np.frombuffer(self._arena, dtype, count, self._begin + start)
        # called when the buffer is freed, by any thread, at any time. It is a function in C: at the start of a Python
        # function a signal's handler may run, and what it raises there, such as KeyboardInterrupt, would be dropped
        lease = _Lease(buffer, self._left.append)
        lease.start, lease.size, lease.count, lease.dtype = start, size, count, dtype
        self._leases[id(lease)] = lease
        return buffer

    def _take_back(self) -> None:
        while True:
            try:
                lease = self._left.popleft()
            except IndexError:  # none is left, or another thread took it
                return
            self._leases.pop(id(lease), None)  # it is missing if `_lend` raised MemoryError
            start, end = lease.start, lease.start + lease.size
            k = bisect(self._free, (start, end))
            if k < len(self._free) and self._free[k][0] == end:
                end = self._free.pop(k)[1]
            if k and self._free[k - 1][1] == start:
                k -= 1
                start = self._free.pop(k)[0]
            self._free.insert(k, (start, end))
            self._used -= lease.size

    def _find(self, size: int) -> int | None:
        """The lowest free place with room."""
        if self._arena is None and size <= self.most:
            self._open()
        for k, (start, end) in enumerate(self._free):
            if end - start >= size:
                self._free[k : k + 1] = [(start + size, end)] if end - start > size else []
                self._touched = max(self._touched, start + size)
                return start
        return None

    def _open(self) -> None:
        """Reserve addresses; if they are limited, at most a quarter of the limit and half of the rest."""
        limit, available = room.address_limit(), room.addresses_left()
        if available is not None:
            self.reach = min(self.most, limit // 4, available // 2) // mmap.PAGESIZE * mmap.PAGESIZE
        try:
            self._arena = _Arena(
                -1,
                self.reach + _HUGE_PAGE_BYTES,
                flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0),
            )
        except (OSError, OverflowError):  # no room
            self.reach = 0
            return
        self._free = [(0, self.reach)]
        self._begin = -np.frombuffer(self._arena, np.uint8, 1).__array_interface__["data"][0] % _HUGE_PAGE_BYTES
        if hasattr(mmap, "MADV_HUGEPAGE"):
            with suppress(OSError):  # a system without such pages
                self._arena.madvise(mmap.MADV_HUGEPAGE)

    def release(self) -> None:
        """Return the pages of free places to the system."""
        with self._lock:
            self._take_back()
            for start, end in self._free:
                if start < self._touched and hasattr(mmap, "MADV_DONTNEED"):
                    self._arena.madvise(mmap.MADV_DONTNEED, self._begin + start, min(end, self._touched) - start)
            if self._free and self._free[-1][1] == self.reach:
                self._touched = self._free[-1][0]

    def give_back(self) -> None:
        """Return the pages of free places and, if addresses are limited, the addresses."""
        if self._lock.locked():  # perhaps by this thread, interrupted by a signal handler
            return
        self.release()
        if room.address_limit() is not None:
            with self._lock:
                self._unmap()

    def _unmap(self) -> None:
        """Unmap the free places; if no buffer is in use, the whole arena."""
        if self._used or self._arena is None or self._arena.has_holes:
            for start, end in self._free:
                self._arena.cut(self._begin + start, end - start)
            self._free = []
        if self._used == 0:
            # an arena without holes is unmapped with its last reference
            self._arena, self._free, self._touched = None, [], 0


def by_numpy(count: int, dtype: np.dtype) -> np.ndarray:
    """A flat uninitialised buffer outside the pool.

    If there is no room, releases caches and tries again, then raises OutOfMemoryError.
    """
    with suppress(MemoryError, OverflowError, ValueError):
        return _checked(count, dtype)
    room.release()
    try:
        return _checked(count, dtype)
    except (MemoryError, OverflowError, ValueError) as error:
        raise OutOfMemoryError(
            f"can't allocate memory: you tried to allocate {count * dtype.itemsize} bytes. {error}. "
            "Free tensors, use smaller ones, or raise the limit on memory (ulimit -v, a container's)"
        ) from None


def _checked(count: int, dtype: np.dtype) -> np.ndarray:
    size = count * dtype.itemsize
    available = room.group_left() if size >= _MIN_CHECKED_BYTES else None
    if available is not None and available < size:
        raise MemoryError(f"The control group (container) has {available} bytes left of its limit")
    return np.empty(count, dtype)


def rounded(size: int) -> int:
    """`size` rounded up to whole pages."""
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


def _reach() -> int:
    """A quarter of the memory of the machine, or of this process's control group."""
    memory = os.sysconf("SC_PHYS_PAGES") * mmap.PAGESIZE
    return rounded(min(memory, room.group_limit() or memory) // 4)


pool = Pool(_reach()) if hasattr(mmap, "MAP_PRIVATE") and hasattr(mmap, "MAP_ANONYMOUS") else None  # None on Windows
if pool is not None:
    room.on_shortage(pool.give_back)
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=pool.renew_lock)


def allocator(size: int) -> object:
    """The allocator for buffers of `size` bytes; it is called with a count and a dtype.

    If it raises MemoryError, `empty` may still find room.
    """
    return np.empty if size < MIN_POOLED_BYTES or pool is None else pool.empty


def empty(count: int, storage_dtype: np.dtype) -> np.ndarray:
    """A flat uninitialised buffer.

    Raises OutOfMemoryError if there is no room even after all caches were released.
    """
    try:
        return allocator(count * storage_dtype.itemsize)(count, storage_dtype)
    except OutOfMemoryError:
        raise
    except MemoryError:
        return by_numpy(count, storage_dtype)


def release() -> None:
    """Return pooled memory to the system."""
    if pool is not None:
        pool.release()
