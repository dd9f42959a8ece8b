"""Storage: the flat buffer that a tensor and its views share, and the count of writes to it.

Shape and dtype are in `layout`.
"""

from __future__ import annotations

from ctypes import addressof, c_char


class Storage:
    """`data` is a one-dimensional buffer of the back end (a NumPy array on the CPU); `version` grows with every
    in-place write.
    """

    __slots__ = ("data", "version", "__weakref__")
    foreign = False  # whether the memory came from another library, so that another storage may overlap it

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


class ForeignStorage(Storage):
    """Memory from another library; another storage may overlap it."""

    __slots__ = ()
    foreign = True


class SharedStorage(Storage):
    """Another storage's memory as another dtype, with the same version counter."""

    __slots__ = ("owner",)
    foreign = True

    def __init__(self, data: object, owner: Storage) -> None:
        self.data, self.owner = data, owner

    @property
    def version(self) -> int:  # type: ignore[override]
        """The number of writes to the memory, through any dtype."""
        return self.owner.version

    @version.setter
    def version(self, count: int) -> None:
        self.owner.version = count


def read_as(memory: Storage, dtype: object) -> SharedStorage:
    """A storage's memory as elements of another NumPy dtype; an incomplete last element is left out."""
    data, itemsize = memory.data, memory.data.dtype.itemsize
    if type(memory) is Storage:
        memory.__class__ = ForeignStorage  # the new storage overlaps it
    return SharedStorage(
        data[: data.size * itemsize // dtype.itemsize * dtype.itemsize // itemsize].view(dtype),
        getattr(memory, "owner", memory),
    )
