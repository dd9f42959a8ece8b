"""Source: random access to the bytes of a file, file object or memory-mapped file, with bounds checks."""

from __future__ import annotations

import contextlib
import io
import mmap
import os
import stat
from collections.abc import Callable, Iterator
from typing import BinaryIO

import numpy as np

from .refusal import refuse


_READ_BYTES = 1 << 24  # maximum number of bytes per read


class Source:
    """A readable file: its `name` for messages, `start` (its position when it was passed) and `end`.

    Positions are absolute.
    """

    def __init__(self, file: BinaryIO, name: object, mapped: bool = False) -> None:
        self.file, self.name, self.mapped = file, name, mapped
        self.start = file.tell()
        file.seek(0, io.SEEK_END)  # its result is not used, since some objects do not return the position
        self.end = file.tell()
        file.seek(self.start)
        self._mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) if mapped and self.end else None

    def bytes_at(self, position: int, count: int) -> np.ndarray:
        """`count` writeable bytes, allocated only if the file has that many. Writes do not change the file."""
        if not 0 <= position <= position + count <= self.end:
            refuse(
                self.name,
                f"it ends at byte {self.end}, but {count} bytes are needed at byte {position}; the file is cut short",
            )
        if self._mapping is not None:
            return np.frombuffer(self._mapping, np.uint8, count, position)
        self.file.seek(position)
        array = np.empty(count, np.uint8)
        if self._fill(array.data) != count:
            refuse(self.name, "the file ended before its data did; was it changed while it was read?")
        return array

    def leave_at(self, position: int) -> None:
        """Move a file object behind the data that was read, so that the next `load` continues there."""
        self.file.seek(position)

    def _fill(self, target: memoryview) -> int:
        """Read into `target`, in several pieces if necessary. Returns the number of bytes read."""
        filled, read = 0, self._reader()
        while filled < len(target):
            count = read(target[filled : filled + _READ_BYTES])
            if not count:
                break
            filled += count
        return filled

    def _reader(self) -> Callable[[memoryview], int | None]:
        """The file's `readinto`, or an equivalent that uses `read`."""

        def read(target: memoryview) -> int:
            piece = self.file.read(len(target))
            target[: len(piece)] = piece
            return len(piece)

        return getattr(self.file, "readinto", read)


class Front:
    """A readable file that consists of another file's first `size` bytes."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self.file, self.size = file, size
        self.tell = file.tell

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move by `offset` from the beginning, the position or the end (`whence` 0, 1, 2). Returns the new position."""
        return self.file.seek(
            self.size + offset if whence == io.SEEK_END else offset,
            io.SEEK_CUR if whence == io.SEEK_CUR else io.SEEK_SET,
        )

    def read(self, count: int = -1) -> bytes:
        """At most `count` bytes."""
        left = max(self.size - self.tell(), 0)
        return self.file.read(left if count is None or count < 0 else min(count, left))


@contextlib.contextmanager
def opened(f: object, mapped: bool = False) -> Iterator[Source]:
    """The Source of a path or a readable, seekable file object.

    Raises RuntimeError for a pipe or device, which may have no end.
    """
    if hasattr(f, "read"):
        _check_seekable(f)
        if mapped:
            raise ValueError("load: mmap needs the path of a file, got a file object")
        yield Source(f, getattr(f, "name", f"<{type(f).__name__}>"))
        return
    path = checked_path("load", f)
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # for a folder, `open` raises IsADirectoryError
        refuse(path, "it is not a regular file")
    with open(path, "rb") as file:
        yield Source(file, path, mapped)


def _check_seekable(file: object) -> None:
    """Raise if the file cannot seek, with the error of `seek` or `tell` and advice."""
    try:
        file.seek(file.tell())
    except (io.UnsupportedOperation, AttributeError) as error:
        advice = (
            "You can only load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        )
        raise type(error)(f"{error}. {advice}") from error


def checked_path(caller: str, path: object) -> str:
    """The path as a string. Raises TypeError for other objects."""
    try:
        return os.fsdecode(path)
    except TypeError:
        raise TypeError(
            f"{caller}: expected a path (str or os.PathLike) or a binary file object, got {type(path).__name__}"
        ) from None
