"""Storage: the flat buffer that a tensor and its views share, and the count of writes to it.

Shape and dtype are in `layout`.
"""

from __future__ import annotations

from ctypes import addressof, c_char
from itertools import count
from sys import getrefcount


class Storage:
    """`data` is a one-dimensional buffer of the back end (a NumPy array on the CPU); `version` grows with every
    in-place write. `stamp`, where it is set, numbers the last write through a tensor's `.data`.
    """

    __slots__ = ("data", "version", "stamp", "__weakref__")
    foreign = False  # whether the memory came from another library, so that another storage may overlap it
    lent = False  # whether other objects may refer to the memory, and write to it without counting
    watched = False  # whether values derived from the memory are cached, so that lending it has to be counted

    def __init__(self, data: object) -> None:
        self.data = data
        self.version = 0

    def nbytes(self) -> int:
        """The size in bytes."""
        return self.data.size * self.data.dtype.itemsize

    size = __len__ = nbytes

    def data_ptr(self) -> int:
        """Address of the first byte."""
        return address(self.data)


def address(data: object) -> int:
    """The address of a buffer of any back end."""
    try:
        return addressof(c_char.from_buffer(data))  # an eighth of the time of the interface below
    except (TypeError, ValueError, BufferError):  # a device's memory, a read-only array, an empty one
        return (
            data.__array_interface__["data"][0]
            if hasattr(data, "__array_interface__")
            else data.__cuda_array_interface__["data"][0]
        )


def share_memory(x: object, y: object) -> bool:
    """Whether two buffers of one back end overlap."""
    start, other = address(x), address(y)
    return start < other + y.size * y.dtype.itemsize and other < start + x.size * x.dtype.itemsize


class UncountedWrites:
    """Writes to storages that their versions do not count: values derived from the memory become stale."""

    __slots__ = ()
    # the number of the last such write, to any storage: as long as it stays the same, no `stamp` of a storage has to
    # be read to find stale values
    last = 0
    _numbers = count(1)  # each number is taken once, also by threads at the same time

    @staticmethod
    def note(storage: Storage) -> None:
        """Note a write to a storage."""
        storage.stamp = number = next(UncountedWrites._numbers)
        UncountedWrites.last = number


class WatchedStorage(Storage):
    """Memory from which cached values were derived."""

    __slots__ = ()
    watched = True


class LentStorage(Storage):
    """Memory over which a NumPy array was made."""

    __slots__ = ()
    lent = True


class ForeignStorage(Storage):
    """Memory from another library, or that other processes share; another storage may overlap it."""

    __slots__ = ()
    foreign = lent = True


class SharedStorage(Storage):
    """Another storage's memory as another dtype, with the same version counter."""

    __slots__ = ("owner",)
    foreign = lent = True

    def __init__(self, data: object, owner: Storage) -> None:
        self.data, self.owner = data, owner

    @property
    def version(self) -> int:  # type: ignore[override]
        """The number of writes to the memory, through any dtype."""
        return self.owner.version

    @version.setter
    def version(self, count: int) -> None:
        self.owner.version = count

    @property
    def stamp(self) -> int:  # type: ignore[override]
        """The number of the last write through `.data`, as any dtype."""
        return self.owner.stamp

    @stamp.setter
    def stamp(self, number: int) -> None:
        self.owner.stamp = number


def read_as(memory: Storage, dtype: object) -> SharedStorage:
    """A storage's memory as elements of another NumPy dtype; an incomplete last element is left out."""
    data, itemsize = memory.data, memory.data.dtype.itemsize
    share(memory)  # the new storage overlaps it
    return SharedStorage(
        data[: data.size * itemsize // dtype.itemsize * dtype.itemsize // itemsize].view(dtype),
        getattr(memory, "owner", memory),
    )


_CHANGEABLE = Storage, WatchedStorage, LentStorage  # classes of one layout, which are states of a storage


def share(memory: Storage) -> None:
    """Note that others may write to a storage's memory from now on."""
    lend(memory, ForeignStorage)


def lend(memory: Storage, state: type[Storage] = LentStorage) -> None:
    """Note that an object which refers to a storage's memory was made, through which it may be written to."""
    kind = type(memory)
    if kind in _CHANGEABLE and kind is not state:
        memory.__class__ = state
        if kind is WatchedStorage:  # from now on its memory has to be compared
            UncountedWrites.note(memory)


def watch(memory: Storage) -> None:
    """Note that cached values are derived from a storage's memory."""
    if type(memory) is Storage:
        memory.__class__ = WatchedStorage


def is_returned(memory: Storage) -> bool:
    """Whether no other object, such as a NumPy array, refers any longer to the lent memory of a storage on the CPU.

    Memory that NumPy does not own was lent by another library or a process, which does not say when it returns it.
    """
    return _has_plain_array(memory) and is_unshared(memory)


def _has_plain_array(memory: Storage) -> bool:
    if type(memory) is not ForeignStorage:
        return type(memory) is LentStorage
    root = memory.data.base
    return (root.base if type(root) is type(memory.data) else root) is None


def is_unshared(memory: Storage) -> bool:
    """Whether no other object refers to the memory of a storage on the CPU."""
    data = memory.data
    root = data.base
    is_array = type(root) is type(data)
    # the storage or `data`, the variable here, the argument
    return getrefcount(data) == 3 and not (is_array and getrefcount(root) > 3)
