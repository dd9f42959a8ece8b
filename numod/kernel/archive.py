"""Archives of compiled kernels (.tar.gz), written and read by `python -m numod cache`.

Python's `tarfile` follows any header of an archive: it reads extended headers of gigabytes into memory, and endless
sparse maps. This reader accepts plain files, and the extended headers that `tarfile` writes for a long name or a time
with fractions, and refuses everything else. An archive can make it decompress _MAX_BYTES bytes, keep one entry in
memory (at most `entry.MAX_ENTRY_BYTES` bytes), and remember _MAX_MEMBERS names.
"""

from __future__ import annotations

import gzip
import io
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from .entry import MAX_ENTRY_BYTES, SUFFIX

_BLOCK = 512
_MAX_MEMBERS, _MAX_BYTES = 100_000, 4 << 30
_EXTENDED_HEADER_BYTES = 1 << 16
_NAME = re.compile(rf"[A-Za-z0-9_][A-Za-z0-9_.+-]{{0,240}}{re.escape(SUFFIX)}")
# keys that an extended header may have: no size, link, owner or sparse map
_IGNORED_FIELDS = re.compile("path|[acm]time|comment")


def write(path: str, members: Iterable[tuple[str, bytes]]) -> int:
    """Write (name, content) pairs into a new archive; returns their number."""
    count = 0
    with tarfile.open(path, "w:gz", format=tarfile.USTAR_FORMAT) as target:
        for name, data in members:
            header = tarfile.TarInfo(name)
            header.size = len(data)
            target.addfile(header, io.BytesIO(data))
            count += 1
    return count


def read(path: str) -> Iterator[tuple[str, bytes]]:
    """The members of an archive, (name, content), one at a time.

    A name is a file name that ends in `.kernel`; each occurs once.

    Raises ValueError for a file that is no such archive, FileNotFoundError and other errors of opening it.
    """
    with open(path, "rb") as file, gzip.GzipFile(fileobj=file) as stream:
        try:
            yield from _members(stream)
        except (EOFError, OSError, zlib.error, ValueError) as error:
            raise ValueError(f"{path} is not an archive of kernels: {error}") from None


def _members(stream: BinaryIO) -> Iterator[tuple[str, bytes]]:
    """The (name, content) of each file in a tar archive. Raises ValueError for anything but a kernel's file."""
    names: set[str] = set()
    headers, total, long_name = 0, 0, ""
    while any(block := _exactly(stream, _BLOCK)):
        name, size, kind = _header(block)
        headers, total = headers + 1, total + size
        if len(names) == _MAX_MEMBERS or headers > 2 * _MAX_MEMBERS or total > _MAX_BYTES:
            raise ValueError(f"it holds more than {_MAX_MEMBERS} files or {_MAX_BYTES >> 30} GB, up to {name!a}")
        if kind == b"x":
            long_name = _path(_content(stream, name, size, _EXTENDED_HEADER_BYTES)) or long_name
            continue
        name, long_name = long_name or name, ""
        if kind not in (b"0", b"\0"):
            raise ValueError(f"{name!a} is a link, a folder or a device")
        if not _NAME.fullmatch(name):
            raise ValueError(f"{name!a} is not a kernel's file")
        if name in names:
            raise ValueError(f"it holds {name!a} twice")
        names.add(name)
        yield name, _content(stream, name, size, MAX_ENTRY_BYTES)


def _header(block: bytes) -> tuple[str, int, bytes]:
    """Name, size and type of the file that a header describes."""
    name, size, checksum = block[:100].rstrip(b"\0"), block[124:136].strip(b" \0"), block[148:156].strip(b" \0")
    expected = sum(block) - sum(block[148:156]) + 8 * ord(" ")
    if not (
        re.fullmatch(b"[0-7]{1,11}", size)
        and re.fullmatch(b"[0-7]{1,7}", checksum)
        and int(checksum, 8) == expected
        and block[257:262] == b"ustar"
    ):
        raise ValueError("a header is damaged, or not of the tar format")
    if any(block[345:500]):
        raise ValueError(f"{_text(name)!a} is in a folder")
    return _text(name), int(size, 8), block[156:157]


def _path(text: bytes) -> str:
    """The name in an extended header, or "". A header consists of lines `length key=value`."""
    path = ""
    while text:
        length, space, _ = text.partition(b" ")
        if not (space and re.fullmatch(b"[1-9][0-9]{0,5}", length) and len(length) + 2 < int(length) <= len(text)):
            raise ValueError("an extended header is damaged")
        line, text = text[len(length) + 1 : int(length)], text[int(length) :]
        key, equals, value = _text(line).partition("=")
        if not (equals and value.endswith("\n") and _IGNORED_FIELDS.fullmatch(key)):
            raise ValueError(f"an extended header has {key[:80]!a}, which no plain file needs")
        path = value[:-1] if key == "path" else path
    return path


def _content(stream: BinaryIO, name: str, size: int, limit: int) -> bytes:
    """The next `size` bytes; padding up to the end of the block is skipped."""
    if size > limit:
        raise ValueError(f"{name!a} has {size} bytes; at most {limit} are read")
    data = _exactly(stream, size)
    _exactly(stream, -size % _BLOCK)
    return data


def _exactly(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) != count:
        raise EOFError("it ends too early")
    return data


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
